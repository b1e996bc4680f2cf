"""Host code in what NVRTC is given gets one sentence; device-only files are let through."""

from __future__ import annotations

import pytest

from tilewright.build import Source, build
from tilewright.errors import CompileError
from tilewright.host_code import explain

pytestmark = pytest.mark.usefixtures("compiler")

KERNEL = '#include <cstdio>\nextern "C" __global__ void gemm(float* x) { *x = 1; }\n'


def refused(text: str) -> str:
    with pytest.raises(CompileError) as caught:
        build(Source("k.cu", text), "sm_80", cache=None)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"#include <iostream>\n{KERNEL}int main() {{}}\n", "k.cu(1): `#include <iostream>` is a"),
        (f"{KERNEL}#include <vector>\n", "k.cu(3): `#include <vector>`"),
        (f"#include <cublas_v2.h>\n{KERNEL}", "k.cu(1): `#include <cublas_v2.h>`"),
        (f"{KERNEL}\nint main(int argc, char** argv) {{\n}}\n", "k.cu(4): `int main(int"),
        (f"{KERNEL}void run(float* x) {{\n  gemm<<<1, 32>>>(x);\n}}\n", "k.cu(3): `void run("),
        (f"{KERNEL}void run() {{ cudaDeviceSynchronize(); }}\n", "k.cu(3): `void run()"),
        (f"{KERNEL}static std::vector<float> all;\n", "k.cu(3): `static std::vector<float> all;`"),
        (f"{KERNEL}__host__ int f() {{ return 1; }}\n", "k.cu(3): `__host__ int f()"),
        (f"int f(int x) {{ return x; }}\n{KERNEL}int main() {{ std::cout << 3; }}\n", "k.cu(4): "),
        (f"struct T {{ T() {{ cudaEventCreate(&e); }} cudaEvent_t e; }};\n{KERNEL}", "k.cu(1): "),
    ],
)  # fmt: skip
def test_the_first_line_of_host_code_is_named(text: str, shown: str) -> None:
    message = refused(text)
    assert message.startswith(shown)
    assert "put the host part between #ifndef __CUDACC_RTC__ and #endif" in message
    assert "nvcc -ptx" in message


def test_a_host_part_behind_the_guard_is_fine() -> None:
    host = "#include <iostream>\nint main() { gemm<<<1, 1>>>(nullptr); std::cout << 1; }\n"
    text = f"{KERNEL}#ifndef __CUDACC_RTC__\n{host}#endif\n"
    assert list(build(Source("k.cu", text), "sm_80", cache=None).resources) == ["gemm"]


@pytest.mark.parametrize(
    "text",
    [
        f'// main() <<<\n{KERNEL}/* cudaMalloc( */ __device__ const char* s = "std::vector<<<";\n',
        f"constexpr int ceil_div(int a, int b) {{ return (a + b - 1) / b; }}\n{KERNEL}"
        "__device__ int tiles[ceil_div(7, 2)];\n",
        f"struct S {{ int a; S(int x) : a(x) {{}} int get() const {{ return a; }} }};\n{KERNEL}",
        f"template <class T> T twice(T x) {{ return x + x; }}\n{KERNEL}",
        f"#define CHECK(x) do {{ if (x) exit(1); }} while (0)\n{KERNEL}",
        f"{KERNEL}__device__ int f(cudaStream_t s, cudaError_t e) {{ return e == cudaSuccess; }}\n",
        f"const float SCALE = 2.5f;\nstatic const int N = 4;\n{KERNEL}",
    ],
)
def test_device_only_files_are_let_through(text: str) -> None:
    assert "gemm" in build(Source("k.cu", text), "sm_80", cache=None).resources


def test_a_mistake_of_device_code_stays_what_it_is() -> None:
    message = refused(f"// int main()\n{KERNEL}__device__ int f() {{ return nothere; }}\n")
    assert message == 'k.cu(4): error: identifier "nothere" is undefined'
    text = f"int f(int x) {{ return x; }}\n{KERNEL}__device__ int g() {{ return nothere; }}\n"
    assert refused(text) == 'k.cu(4): error: identifier "nothere" is undefined'


def test_a_variable_of_the_host() -> None:
    message = refused(f"int counter = 3;\n{KERNEL}")
    assert message.startswith("k.cu(1): `int counter = 3;` is a variable of the host; write __dev")


def test_a_long_or_strange_line_is_cut() -> None:
    message = refused(f"{KERNEL}int main() {{ /* \x1b[31m {'x' * 500} */ }}\n")
    assert message.startswith("k.cu(3): `int main() { /* [31m xxx")
    assert "…` is host code" in message


@pytest.mark.parametrize("log", ["", "nothing", "k.cu(999): error: x", "k.cu(0): error: main("])
def test_logs_that_say_little(log: str) -> None:
    assert explain("k.cu", "int main() {}", log) is None

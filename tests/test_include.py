"""CUDA's own headers without an option, and the stand-ins for those that NVRTC lacks."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright import include
from tilewright.build import Source, build, key
from tilewright.errors import CompileError, InputError
from tilewright.include import Closure, cuda_headers, missing, stand_ins

needs_nvrtc = pytest.mark.usefixtures("compiler")

NAMES = (
    *("cstdint", "stdint.h", "cstdio", "stdio.h", "cassert", "assert.h", "float.h", "cfloat"),
    *("climits", "limits.h", "type_traits", "cmath", "math.h", "cstddef", "stddef.h", "utility"),
    *("limits", "algorithm", "cuda.h", "cuda_runtime.h", "device_launch_parameters.h"),
    *("cstdlib", "stdlib.h", "cstring", "string.h"),
)
KERNEL = 'extern "C" __global__ void k(float* x) { *x = 1; }\n'


def source(includes: str, text: str = KERNEL, folders: tuple[str, ...] = ()) -> Source:
    lines = "".join(f"#include <{name}>\n" for name in includes.split())
    return Source("k.cu", lines + text, include_path=folders)


@pytest.fixture
def no_cuda_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(include, "cuda_headers", lambda: ())


def has(name: str) -> bool:
    return any((Path(folder) / name).is_file() for folder in cuda_headers())


# --- stand-ins ----------------------------------------------------------------------------


def test_the_stand_ins_include_each_other_alone() -> None:
    assert set(stand_ins()) == set(NAMES)
    for name, text in stand_ins().items():
        assert text.startswith("#pragma once\n"), name
        for included in re.findall(r"^#include <(.*)>", text, re.MULTILINE):
            assert included in stand_ins(), f"{name} includes {included}"


@needs_nvrtc
@pytest.mark.usefixtures("no_cuda_headers")
def test_offsetof_is_a_constant() -> None:
    """NVRTC before 13.5 has no __builtin_offsetof."""
    text = "struct S { char a; double b; };\nstatic_assert(offsetof(S, b) == 8);\n" + KERNEL
    assert build(source("cstddef", text), "sm_80").cubin
    with pytest.raises(CompileError, match="static assertion failed"):
        build(source("cstddef", text.replace("8", "1")), "sm_80")


@needs_nvrtc
@pytest.mark.usefixtures("no_cuda_headers")
@pytest.mark.parametrize("name", NAMES)
def test_each_stand_in_compiles_alone(name: str) -> None:
    assert build(source(name), "sm_80").cubin


USES = """
enum E : short { A };
struct Empty {};
static_assert(std::is_same_v<std::decay_t<const int (&)[3]>, const int*>);
static_assert(std::is_same_v<std::remove_cvref_t<const int&>, int>);
static_assert(std::is_unsigned_v<uint8_t> && std::is_signed_v<float> && !std::is_signed_v<Empty>);
static_assert(std::is_pointer_v<int* const> && std::is_empty_v<Empty> && std::is_enum_v<E>);
static_assert(std::is_same_v<std::underlying_type_t<E>, short>);
static_assert(std::is_convertible_v<int, float> && !std::is_convertible_v<Empty, float>);
static_assert(std::is_same_v<std::make_unsigned_t<long long>, uint64_t>);
static_assert(std::is_same_v<std::common_type_t<int, float, double>, double>);
static_assert(std::is_same_v<std::conditional_t<true, int, float>, int>);
static_assert(std::conjunction_v<std::true_type, std::negation<std::false_type>>);
static_assert(std::numeric_limits<int>::max() == INT_MAX);
static_assert(std::numeric_limits<int>::min() == INT_MIN && INT_MIN == -2147483647 - 1);
static_assert(std::numeric_limits<uint64_t>::max() == ULLONG_MAX && ULLONG_MAX == ~0ull);
static_assert(std::numeric_limits<int8_t>::lowest() == -128 && UINT8_MAX == 255);
static_assert(std::numeric_limits<float>::max() == FLT_MAX && FLT_MAX == 3.402823466e+38f);
static_assert(std::numeric_limits<double>::epsilon() == DBL_EPSILON && DBL_MAX > 1.79e308);
static_assert(std::numeric_limits<float>::infinity() > FLT_MAX && INFINITY > FLT_MAX);
static_assert(std::numeric_limits<float>::quiet_NaN() != std::numeric_limits<float>::quiet_NaN());
static_assert(std::numeric_limits<int>::digits10 == 9 && std::numeric_limits<int>::digits == 31);
static_assert(std::is_same_v<std::make_index_sequence<3>, std::index_sequence<0, 1, 2>>);
static_assert(std::max(3, 4) == 4 && std::min(3u, 4u) == 3);
static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 64);
static_assert(sizeof(int64_t) == 8 && sizeof(std::intptr_t) == 8 && SIZE_MAX == ULLONG_MAX);
static_assert(sizeof(int16_t) == 2 && sizeof(std::uint32_t) == 4 && CHAR_BIT == 8);
static_assert(LONG_MAX == (sizeof(long) == 8 ? LLONG_MAX : INT_MAX));

template <class T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
__device__ T root(T x) {
  return std::sqrt(std::abs(x));
}
template <size_t... is>
__device__ int sum(std::index_sequence<is...>) {
  return (int(is) + ... + 0);
}
struct Moved {
  int value;
  __device__ Moved(int v) : value(v) {}
  __device__ Moved(Moved&& from) : value(std::exchange(from.value, 0)) {}
};
__global__ void uses(float* x, std::uint32_t* u, std::size_t n) {
  assert(n == 2);
  x[0] = root(-16.f);
  x[1] = std::fmax(float(M_PI), 2.f) * std::numeric_limits<float>::epsilon();
  x[2] = std::isnan(NAN) + std::isinf(HUGE_VALF) * 2;
  std::swap(u[0], u[1]);
  Moved a(5), b(std::move(a));
  auto pair = std::make_pair(a.value, b.value);
  u[2] = pair.first * 10 + pair.second + sum(std::make_index_sequence<5>{});
  std::memcpy(u + 3, u, sizeof(std::uint32_t));
}
"""


def run_uses() -> None:
    x, u = np.zeros(3, np.float32), np.array([7, 9, 0, 0], np.uint32)
    text = source(" ".join(NAMES), USES).text
    report = tilewright.emulate(text, "uses", (1,), (1,), [x, u, 2], defines={"NDEBUG": 1})
    assert report.completed
    pi = np.float32(np.pi) * np.finfo(np.float32).eps
    assert x.tolist() == [4.0, pi, 3.0]
    assert u.tolist() == [9, 7, 15, 9]


@needs_nvrtc
@pytest.mark.usefixtures("no_cuda_headers")
def test_stand_ins_in_use_without_cudas_headers() -> None:
    run_uses()


@needs_nvrtc
def test_stand_ins_in_use_beside_cudas_headers() -> None:
    run_uses()


@needs_nvrtc
def test_printf_is_there() -> None:
    text = source("cstdio", 'extern "C" __global__ void k() { std::printf("%d", 1); printf("2"); }')
    assert "vprintf" in build(text, "sm_80").ptx


@needs_nvrtc
@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", ["cuda_fp16.h", "cuda_fp8.h", "cuda/ptx", "cuda/std/limits"])
def test_stand_ins_and_cudas_own_in_both_orders(name: str, order: int) -> None:
    if not has(name):
        pytest.skip(f"{name} is not installed")
    assert build(source(" ".join([name, *NAMES][::order])), "sm_90").cubin


@needs_nvrtc
def test_a_users_file_goes_before_a_stand_in(tmp_path: Path) -> None:
    (tmp_path / "cstdint").write_text("typedef int mine;\n")
    (tmp_path / "cuda.h").write_text("typedef mine theirs;\n")
    text = 'extern "C" __global__ void k(theirs* x) { *x = 1; }\n'
    assert build(source("cstdint cuda.h", text, (str(tmp_path),)), "sm_80").cubin
    with pytest.raises(CompileError, match=r"k\.cu\(3\)"):
        build(source("cstdint cuda.h", text), "sm_80")


def test_a_stand_in_counts_for_the_key_of_who_includes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with_it, without = source("cassert"), source("")
    before = key(with_it, "sm_80", "c"), key(without, "sm_80", "c")
    edited = dict(stand_ins()) | {"assert.h": stand_ins()["assert.h"] + "\n"}
    monkeypatch.setattr(include, "stand_ins", lambda: edited)
    after = key(with_it, "sm_80", "c"), key(without, "sm_80", "c")
    assert after[0] != before[0], "it is reached through <cassert>"
    assert after[1] == before[1]


def test_only_what_is_included_is_handed_to_the_compiler() -> None:
    assert set(Closure(source("cstdint")).stand_ins) == {"cstdint", "stdint.h", "limits.h"}
    assert Closure(source("")).stand_ins == {}


# --- CUDA's own ---------------------------------------------------------------------------

OWN = {
    "cuda_fp16.h": "__half",
    "cuda_bf16.h": "__nv_bfloat16",
    "cuda_fp8.h": "__nv_fp8_e4m3",
    "cuda/std/cstdint": "cuda::std::uint8_t",
    "mma.h": "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float>",
}


@needs_nvrtc
@pytest.mark.parametrize("name", OWN)
def test_cudas_own_headers_need_no_option(name: str) -> None:
    if not has("crt/mma.h" if name == "mma.h" else name):
        with pytest.raises(CompileError, match=r"is not installed: pip install \S*nvidia-cuda-"):
            build(source(name), "sm_90")
        return
    made = build(source(name, f'extern "C" __global__ void k({OWN[name]}* x) {{}}\n'), "sm_90")
    assert not any(Path(f).is_absolute() for f in re.findall(r'\.file\s+\d+\s+"(.*?)"', made.ptx))


@needs_nvrtc
def test_cooperative_groups() -> None:
    if not (has("cooperative_groups.h") and has("cuda/std/version")):
        pytest.skip("nvidia-cuda-cccl is not installed")
    text = """
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(int* x) {
      auto block = cg::this_thread_block();
      block.sync();
      x[block.thread_rank()] = cg::tiled_partition<32>(block).thread_rank();
    }
    """
    assert build(source("cooperative_groups.h", text), "sm_80").cubin


@needs_nvrtc
def test_emulate_and_half() -> None:
    if not has("cuda_fp16.h"):
        pytest.skip("the CUDA header wheels are not installed")
    x = np.full(4, 9, np.float16)
    text = source(
        "cuda_fp16.h",
        "__global__ void k(__half* x) { x[threadIdx.x] = __float2half(threadIdx.x); }\n",
    )
    assert tilewright.emulate(text.text, "k", (1,), (4,), [x]).completed
    assert x.tolist() == [0, 1, 2, 3]


def _pretend(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
    monkeypatch.setattr(include, "cuda_headers", lambda: tuple(map(str, folders)))


def test_cudas_own_headers_count_by_contents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder / "crt").mkdir(parents=True)
        (tmp_path / folder / "mma.h").write_text("#include <crt/mma.h>\n")
        (tmp_path / folder / "crt" / "mma.h").write_text('#include "mma.hpp"\n')
        (tmp_path / folder / "crt" / "mma.hpp").write_text("int x;\n")
    _pretend(monkeypatch, tmp_path / "a")
    before = key(source("mma.h"), "sm_80", "c")
    assert [folder.name for folder in Closure(source("mma.h")).folders] == ["a", "crt"]
    _pretend(monkeypatch, tmp_path / "b")
    assert key(source("mma.h"), "sm_80", "c") == before, "where they lie must not matter"
    (tmp_path / "b" / "crt" / "mma.hpp").write_text("int x, y;\n")
    assert key(source("mma.h"), "sm_80", "c") != before, "another version"


def test_the_users_own_folder_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("mine", "cuda"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cuda_fp16.h").write_text(f"// {folder}\n")
    _pretend(monkeypatch, tmp_path / "cuda")
    alone = Closure(source("cuda_fp16.h", folders=(str(tmp_path / "mine"),)))
    _pretend(monkeypatch)
    assert Closure(source("cuda_fp16.h", folders=(str(tmp_path / "mine"),))).digests == (
        alone.digests
    )


@pytest.mark.parametrize("error", [ImportError("no"), RuntimeError("x"), AttributeError("x")])
def test_without_a_pathfinder_there_are_none(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(_: str) -> Any:
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    assert cuda_headers.__wrapped__() == ()


@pytest.mark.parametrize(
    ("header", "compiler", "words"),
    [
        ("cuda_fp16.h", "NVRTC 13.5.37", 'pip install "nvidia-cuda-runtime==13.*"'),
        ("mma.h", "NVRTC 13.0.88", 'pip install "nvidia-cuda-crt==13.*"'),
        ("crt/mma.h", "NVRTC 12.9.86", "pip install nvidia-cuda-nvcc-cu12"),
        ("cuda/barrier", "NVRTC 13.5.37", 'pip install "nvidia-cuda-cccl==13.*"'),
        ("nv/target", "NVRTC 12.4.127", "pip install nvidia-cuda-cccl-cu12"),
        ("cooperative_groups.h", "NVRTC 12.4.127", "pip install nvidia-cuda-runtime-cu12"),
        ("curand_kernel.h", "NVRTC 13.5.37", "pip install nvidia-curand"),
        ("curand_kernel.h", "NVRTC 12.9.86", "pip install nvidia-curand-cu12"),
        ("mine.h", "NVRTC 13.5.37", "give the folder of mine.h in include_path"),
    ],
)
def test_what_to_install(header: str, compiler: str, words: str) -> None:
    assert words in missing(header, compiler)


@needs_nvrtc
@pytest.mark.usefixtures("no_cuda_headers")
@pytest.mark.parametrize("name", ["cuda_fp16.h", "mma.h", "cuda/barrier", "cooperative_groups.h"])
def test_a_missing_header_says_what_to_install(name: str) -> None:
    with pytest.raises(CompileError, match=rf"k\.cu\(1\): .*own {name} is not.*: pip install "):
        build(source(name), "sm_80", cache=None)


# --- hostile names ------------------------------------------------------------------------


@needs_nvrtc
@pytest.mark.parametrize("name", ["/dev/zero", "/etc", "a/" * 5000, ".", "..", "k.cu", "\x1b[31m"])
def test_strange_names_get_one_sentence(name: str) -> None:
    with pytest.raises(CompileError) as caught:
        build(Source("k.cu", f'#include "{name}"\n{KERNEL}'), "sm_80", cache=None)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 800


def test_a_file_that_fills_the_memory_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.h").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(InputError, match=r"includes '.*huge\.h', of 1000000000000 bytes"):
        key(source("huge.h", folders=(str(tmp_path),)), "sm_80", "c")

"""Names whose header is not included: the hint names the header, and it is the right one."""

from __future__ import annotations

import pytest

from tilewright.build import Source, build
from tilewright.errors import CompileError
from tilewright.missing_name import hint

KERNEL = 'extern "C" __global__ void k(float* o) {{ {body} }}\n'


@pytest.mark.parametrize(
    ("body", "header"),
    [
        ("o[0] = INFINITY;", "math.h"),
        ("o[0] = M_PI;", "math.h"),
        ("o[0] = FLT_MAX;", "float.h"),
        ("o[0] = INT_MAX;", "limits.h"),
        ("uint32_t n = 3; o[0] = n;", "stdint.h"),
        ("o[0] = (uint8_t)3;", "stdint.h"),
        ("o[0] = UINT32_MAX;", "stdint.h"),
        ("std::uint32_t n = 3; o[0] = n;", "cstdint"),
        ("o[0] = std::max(1, 2);", "algorithm"),
        ("o[0] = std::numeric_limits<float>::max();", "limits"),
        ("o[0] = std::sqrt(2.f);", "cmath"),
        ("o[0] = std::is_same<int, float>::value;", "type_traits"),
    ],
)
def test_the_header_that_a_name_is_in(compiler: str, body: str, header: str) -> None:
    text = KERNEL.format(body=body)
    way_out = f"#include <{header}>"
    with pytest.raises(CompileError) as error:
        build(Source("k.cu", text), "sm_80", cache=None)
    assert str(error.value).startswith("k.cu(1): error: ")
    assert str(error.value).endswith(f"NVRTC does not; write {way_out}")
    assert build(Source("k.cu", f"{way_out}\n{text}"), "sm_80", cache=None).ptx


@pytest.mark.parametrize(
    ("name", "header"),
    [("half", "cuda_fp16.h"), ("__half2", "cuda_fp16.h"), ("nv_bfloat16", "cuda_bf16.h"),
     ("__nv_fp8_e4m3", "cuda_fp8.h"), ("CUDART_INF_F", "math_constants.h")],
)  # fmt: skip
def test_names_of_cuda(name: str, header: str) -> None:
    said = hint(f'k.cu(1): error: identifier "{name}" is undefined')
    assert said is not None
    assert said.endswith(f"write #include <{header}>")


def test_other_errors_have_no_hint() -> None:
    assert hint('k.cu(1): error: identifier "nothere" is undefined') is None
    assert hint('k.cu(1): error: namespace "std" has no member "nothere"') is None
    assert hint("k.cu(1): error: expected a ;") is None
    assert "write unsigned int" in str(hint('identifier "uint" is undefined'))

"""Labels and types that do not fit what the kernel declares."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright.cli.emulate_args import parse_argument
from tilewright.emulator.ir import Kernel, Parameter
from tilewright.kernel_signature import Formal, formals_of, misfits, slips

CUDA = """
// __global__ void gemm(int wrong, int names, int here);
template <typename T, int N>
__global__ void __launch_bounds__(128, 2)
gemm(const T* __restrict__ a, T (&out)[N], int n = 3, Pair<int, float> p);
__global__ void fill(const float4* x, float y[], unsigned const n) { }
__global__ void fill(const float4*, float*, unsigned);
__global__ void twice(int a) { }
__global__ void twice(float b) { }
"""


def kernel(symbol: str, count: int, name: str = "{symbol}_param_{at}") -> Kernel:
    params = [Parameter(name.format(symbol=symbol, at=at), "u64", 8 * at, 8) for at in range(count)]
    return Kernel(symbol, params=params)


def test_from_the_text() -> None:
    assert formals_of(kernel("fill", 3), CUDA, True) == [
        Formal("x", "const float4*"),
        Formal("y", "float*"),
        Formal("n", "unsigned const"),
    ]
    named = [formal.name for formal in formals_of(kernel("gemm", 4), CUDA, True)]
    assert named == [None] * 4  # a reference to an array is beyond it, so nothing is said
    assert formals_of(kernel("twice", 1), CUDA, True) == [Formal(None, None)]
    assert formals_of(kernel("absent", 2), CUDA, True) == [Formal(None, None)] * 2


def test_types_of_a_symbol_go_before_the_text() -> None:
    text = "template <class T> __global__ void copy(const T* src, T* dst) {}"
    found = formals_of(kernel("_Z4copyI6__halfEvPKT_PS1_", 2), text, True)
    assert found == [Formal("src", "__half const*"), Formal("dst", "__half*")]


def test_ptx_has_its_own_names() -> None:
    assert formals_of(kernel("k", 1), "", False) == [Formal(None, None)]
    assert formals_of(kernel("k", 1, "rows"), "", False) == [Formal("rows", None)]


@pytest.mark.parametrize(
    ("words", "formals", "said"),
    [
        (["in=zeros:4", "out=zeros:4"], ["out", "in"], "in is for out, out is for in"),
        (["x=zeros:4"], ["weights"], "x is for weights"),
        (["w=zeros:4", "A_=zeros:4", "number=3"], ["weights", "a", "n"], ""),
        (["x=zeros:4"], [None], ""),
    ],
)
def test_labels(words: list[str], formals: list[str | None], said: str) -> None:
    labels = [parse_argument(word).label for word in words]
    assert ", ".join(slips(labels, [Formal(name, None) for name in formals])) == said


@pytest.mark.parametrize(
    ("word", "declared", "fits"),
    [
        ("a=zeros:4", "float const*", True),
        ("a=zeros:4", "const float4* __restrict__", True),
        ("a=zeros:4", "__half*", False),
        ("a=zeros:4:f16", "const half*", True),
        ("a=zeros:4:bf16", "__half*", False),
        ("a=zeros:4:bf16", "__nv_bfloat162*", True),
        ("a=zeros:4:bf16", "unsigned short*", True),
        ("a=zeros:4:u32", "int*", True),
        ("a=zeros:4:f32", "int*", False),
        ("a=zeros:4:i64", "int*", False),
        ("a=zeros:4:i64", "void*", True),
        ("a=zeros:4:i64", "unsigned char*", True),
        ("a=zeros:4:i64", "float**", True),
        ("a=3", "float*", True),
        ("a=null", "float*", True),
    ],
)
def test_types(word: str, declared: str, fits: bool) -> None:
    said = misfits([parse_argument(word).dtype], ["a"], [Formal("a", declared)])
    assert (said == []) is fits
    assert fits or f", and the kernel reads it as {declared}; make it " in said[0]


@pytest.mark.usefixtures("compiler")
def test_an_array_of_another_type_is_a_remark_of_the_report() -> None:
    source = """extern "C" __global__ void scale(const float* x, float* y, int n) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) y[i] = 2 * x[i];
    }"""
    x = np.random.default_rng(1).random(64)
    report = tilewright.emulate(source, "scale", (1,), (64,), [x, np.zeros(64), 64])
    said = "argument 1 (scale_param_0) holds float64, and the kernel reads it as const float*;"
    assert report.remarks[0].startswith(said)
    assert len(report.remarks) == 2
    assert "holds float64" in str(report)
    x = x.astype("f4")
    assert tilewright.emulate(source, "scale", (1,), (64,), [x, 2 * x, 64]).remarks == []

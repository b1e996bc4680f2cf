"""Kernels in Triton that copy by TMA, and the PTX that Triton 3.8.0 makes of them for sm_90.

`pip install triton && python record_tma.py` writes the .ptx files anew; neither needs a GPU.
A descriptor of the host is a tensor map; one that the kernel makes goes through scratch memory.
"""

# mypy: ignore-errors
# ruff: noqa: N803

from __future__ import annotations

import triton
import triton.language as tl
from record import F16, save


@triton.jit
def tma_host(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """C = A · B, all of them tensor maps of the host."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, k, BK):
        acc = tl.dot(a.load([row, first]), b.load([first, column]), acc)
    c.store([row, column], acc.to(c.dtype))


@triton.jit
def tma_device(
    a, b, c, m, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr,
    SPECIALISED: tl.constexpr,
):  # fmt: skip
    """C = A · Bᵀ, tile after tile, by tensor maps that each program makes."""
    rows = tl.make_tensor_descriptor(a, [m, k], [k, 1], [BM, BK])
    columns = tl.make_tensor_descriptor(b, [n, k], [k, 1], [BN, BK])
    out = tl.make_tensor_descriptor(c, [m, n], [n, 1], [BM, BN])
    across = tl.cdiv(n, BN)
    for tile in tl.range(
        tl.program_id(0), tl.cdiv(m, BM) * across, PROGRAMS, warp_specialize=SPECIALISED
    ):
        row, column = tile // across * BM, tile % across * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for first in range(0, k, BK):
            acc = tl.dot(rows.load([row, first]), columns.load([column, first]).T, acc)
        out.store([row, column], acc.to(c.dtype.element_ty))


@triton.jit
def tma_reduce(x, out, BM: tl.constexpr):
    """Every program adds its rows to the same ones."""
    out.atomic_add([0, 0], x.load([tl.program_id(0) * BM, 0]))


@triton.jit
def tma_attention(q, k, v, out, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    row = tl.program_id(0) * BM
    query = q.load([row, 0])
    high = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for first in tl.range(0, length, BN):
        scores = tl.dot(query, k.load([first, 0]).T) * scale
        inside = first + tl.arange(0, BN)[None, :] < length
        scores = tl.where(inside, scores, -float("inf"))
        top = tl.maximum(high, tl.max(scores, 1))
        p = tl.exp2(scores - top[:, None])
        fade = tl.exp2(high - top)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v.load([first, 0]), acc * fade[:, None])
        high = top
    out.store([row, 0], (acc / total[:, None]).to(out.dtype))


def tiles(kind, *boxes):
    return [f"tensordesc<{kind}[{rows}, {columns}]>" for rows, columns in boxes]


I32, F8 = "i32", "*fp8e4nv"
SQUARE = {"BM": 64, "BN": 64, "BK": 64}
KERNELS = {  # file: function, types by parameter, constants, stages
    "tma_host": (tma_host, [*tiles("fp16", *[(64, 64)] * 3), I32], SQUARE, 3),
    "tma_device": (
        tma_device,
        [F16, F16, F16, I32, I32, I32],
        SQUARE | {"PROGRAMS": 2, "SPECIALISED": False},
        3,
    ),
    "tma_specialised": (
        tma_device,
        [F16, F16, F16, I32, I32, I32],
        SQUARE | {"BM": 128, "BN": 128, "PROGRAMS": 2, "SPECIALISED": True},
        3,
    ),
    "tma_fp8": (
        tma_device,
        [F8, F8, F16, I32, I32, I32],
        SQUARE | {"BK": 128, "PROGRAMS": 4, "SPECIALISED": False},
        4,
    ),
    "tma_reduce": (tma_reduce, tiles("fp32", (32, 32), (32, 32)), {"BM": 32}, 2),
    "tma_attention": (
        tma_attention,
        [*tiles("fp16", *[(64, 64)] * 4), I32, "fp32"],
        {"BM": 64, "BN": 64, "D": 64},
        3,
    ),
}


if __name__ == "__main__":
    for name, (function, types, constants, stages) in KERNELS.items():
        save(name, function, 90, types, constants, stages, ("n", "k"))

"""Kernels in Triton, and the PTX that Triton 3.9.0 (wgmma: 3.8.0) makes of them, beside this file.

`pip install triton && python record.py` writes the .ptx files anew; neither needs a GPU.
"""

# mypy: ignore-errors
# ruff: noqa: N803

from __future__ import annotations

from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def softmax(out, x, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * stride + offsets, mask=inside, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + offsets, values / tl.sum(values, axis=0), mask=inside)


@triton.jit
def layer_norm(out, x, gain, bias, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(inside, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    scale = tl.load(gain + offsets, mask=inside)
    shift = tl.load(bias + offsets, mask=inside)
    tl.store(
        out + row * columns + offsets,
        centred * tl.rsqrt(variance + eps) * scale + shift,
        mask=inside,
    )


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    across = tl.cdiv(n, BN)
    rows = pid // across * BM + tl.arange(0, BM)
    columns = pid % across * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for first in range(0, k, BK):
        left = tl.load(
            a + rows[:, None] * k + (first + depth)[None, :],
            mask=(rows[:, None] < m) & ((first + depth)[None, :] < k),
            other=0.0,
        )
        right = tl.load(
            b + (first + depth)[:, None] * n + columns[None, :],
            mask=((first + depth)[:, None] < k) & (columns[None, :] < n),
            other=0.0,
        )
        acc = tl.dot(left, right, acc)
    tl.store(
        c + rows[:, None] * n + columns[None, :],
        acc.to(c.dtype.element_ty),
        mask=(rows[:, None] < m) & (columns[None, :] < n),
    )


@triton.jit
def histogram(out, x, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + offsets, mask=offsets < count, other=0)
    tl.atomic_add(out + values, 1, mask=offsets < count)


@triton.jit
def cumsum(out, x, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0)
    tl.store(out + row * columns + offsets, tl.cumsum(values, axis=0), mask=offsets < columns)


@triton.jit
def attention(out, q, k, v, length, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < length, other=0.0)
    high = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for first in range(0, length, BN):
        columns = first + tl.arange(0, BN)
        key = tl.load(
            k + columns[None, :] * D + d[:, None], mask=columns[None, :] < length, other=0.0
        )
        scores = tl.dot(query, key) * scale
        scores = tl.where(columns[None, :] < length, scores, -float("inf"))
        top = tl.maximum(high, tl.max(scores, 1))
        p = tl.exp(scores - top[:, None])
        fade = tl.exp(high - top)
        total = total * fade + tl.sum(p, 1)
        value = tl.load(
            v + columns[:, None] * D + d[None, :], mask=columns[:, None] < length, other=0.0
        )
        acc = acc * fade[:, None] + tl.dot(p.to(value.dtype), value)
        high = top
    tl.store(
        out + rows[:, None] * D + d[None, :], acc / total[:, None], mask=rows[:, None] < length
    )


F32, F16, BF16, I32 = "*fp32", "*fp16", "*bf16", "i32"
TILE = {"BM": 64, "BN": 64, "BK": 32}
KERNELS = {  # file: function, compute capability, types by parameter, constants, stages
    "softmax": (softmax, 80, [F32, F32, I32, I32], {"BLOCK": 256}, 3),
    "layer_norm": (layer_norm, 90, [BF16, BF16, F32, F32, I32, "fp32"], {"BLOCK": 512}, 3),
    "matmul_f16": (matmul, 80, [F16, F16, F16, I32, I32, I32], TILE, 3),
    "matmul_tf32": (matmul, 89, [F32, F32, F32, I32, I32, I32], TILE | {"BN": 32}, 2),
    "histogram": (histogram, 70, ["*i32", "*i32", I32], {"BLOCK": 256}, 3),
    "cumsum": (cumsum, 80, [F32, F32, I32], {"BLOCK": 256}, 3),
    "attention": (
        attention,
        80,
        [F32, F16, F16, F16, I32, "fp32"],
        {"BM": 64, "BN": 32, "D": 64},
        3,
    ),
    "matmul_wgmma": (matmul, 90, [F16, F16, F16, I32, I32, I32], TILE | {"BK": 64}, 3),
    "attention_wgmma": (
        attention,
        90,
        [F32, F16, F16, F16, I32, "fp32"],
        {"BM": 64, "BN": 64, "D": 64},
        2,
    ),
}
ALIGNED = ("n", "k", "length")  # multiples of 16, as Triton finds them out at the launch


def save(name, function, cc, types, constants, stages, aligned) -> None:
    """Writes the PTX of one kernel; parameters `aligned` are multiples of 16."""
    signature = dict(zip(function.arg_names, types, strict=False)) | dict.fromkeys(
        constants, "constexpr"
    )
    attrs = {
        (i,): [["tt.divisibility", 16]]
        for i, (parameter, kind) in enumerate(signature.items())
        if kind[0] == "*" or parameter in aligned
    }
    source = ASTSource(function, signature, constants, attrs)
    built = triton.compile(source, GPUTarget("cuda", cc, 32), {"num_stages": stages})
    here, packages = Path(__file__).parent, Path(triton.__file__).parents[1]
    text = built.asm["ptx"].replace(f"{packages}/", "")
    text = text.replace(f"{here}/", "").replace(str(here), ".")
    (here / f"{name}.ptx").write_text(text, encoding="utf-8")
    it = built.metadata
    print(
        f"{name}.ptx: {it.num_warps} warps, {it.shared} bytes of dynamic shared memory, "
        f"{it.global_scratch_size} of scratch memory a program"
    )


def main() -> None:
    for name, (function, cc, types, constants, stages) in KERNELS.items():
        save(name, function, cc, types, constants, stages, () if name == "layer_norm" else ALIGNED)


if __name__ == "__main__":
    main()

# triton_basic: one program a tile of C, and the masks and strides that make it right everywhere.
#
# Idea      a program is a block without threads: it names the tile that it loads, and the compiler
#           chooses who loads what, stages A and B in shared memory, keeps acc in registers and
#           turns tl.dot into mma, wgmma or FMAs. Beyond the edges of A and B a load gives zeros,
#           beyond C's nothing is stored; offsets are 64 bits wide before a stride multiplies them.
# Expect    what hgemm_k_stages does by hand: swizzled tiles, two of them on their way. Programs go
#           along the rows of C, as hgemm_raster's blocks do, and read more of B than they need to.
# Found     Not timed yet. In Triton's interpreter right for every edge, stride and type tried.
# Next      triton_autotune makes numbers of these choices, and takes the fastest.
from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3}


@triton.jit
def matmul(
    A, B, C, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    pid_m = tile // tl.cdiv(N, BLOCK_N)
    pid_n = tile % tl.cdiv(N, BLOCK_N)

    m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = A + m[:, None] * stride_am
    columns = B + n[None, :] * stride_bn
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = (k0 + tl.arange(0, BLOCK_K)).to(tl.int64)
        a = tl.load(rows + k[None, :] * stride_ak, (m < M)[:, None] & (k < K)[None, :], 0.0)
        b = tl.load(columns + k[:, None] * stride_bk, (k < K)[:, None] & (n < N)[None, :], 0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")  # fp32 stays fp32: no TF32

    at = C + m[:, None] * stride_cm + n[None, :] * stride_cn
    tl.store(at, acc.to(C.dtype.element_ty), (m < M)[:, None] & (n < N)[None, :])


def gemm(a: Any, b: Any, c: Any) -> None:
    """C[m, n] = A[m, k] · B[k, n] of torch tensors, with fp32 sums."""
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, TILE["BLOCK_M"]) * triton.cdiv(n, TILE["BLOCK_N"]),)
    matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), **TILE)

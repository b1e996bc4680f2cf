# triton_autotune: tile, warps and stages are parameters, and the fastest is found by timing them.
#
# Idea      what triton_basic fixes is a list: at the first call of a shape each of its entries is
#           compiled and timed, and the best is kept. So is the order of the programs: GROUP_M rows
#           of tiles are worked off column by column, so that those that run at a time share A's
#           rows and B's columns in the L2 cache. A group of 1 is triton_basic's order.
# Expect    128x256 tiles of 64 along K for large products in 16 bits, whose 48 KiB a stage leave
#           room for four stages on an H200; fp32, which has no tensor core, takes smaller ones.
#           Small and narrow shapes take small tiles, so that every multiprocessor has one.
# Found     Not timed yet. In Triton's interpreter, which takes the first entry, right everywhere.
# Next      triton_persistent starts no more programs than there are multiprocessors.
from __future__ import annotations

import os
from typing import Any

import triton
import triton.language as tl

# BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, warps, stages; those of 32 along K are for fp32.
CHOICES = [
    (128, 256, 64, 8, 8, 3), (128, 256, 64, 8, 8, 4), (256, 128, 64, 8, 8, 3),
    (128, 128, 64, 8, 4, 4), (128, 128, 64, 1, 8, 3), (64, 256, 64, 8, 4, 4),
    (128, 64, 64, 8, 4, 4), (64, 128, 64, 8, 4, 5), (64, 64, 64, 8, 4, 5),
    (128, 128, 32, 8, 8, 3), (128, 64, 32, 8, 4, 3), (64, 128, 32, 8, 4, 3), (64, 64, 32, 8, 4, 4),
]  # fmt: skip
NAMES = ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")
CONFIGS = [
    triton.Config(dict(zip(NAMES, choice, strict=False)), num_warps=choice[4], num_stages=choice[5])
    for choice in CHOICES
]
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # nothing to time there


def for_type(configs: Any, arguments: Any, **_: Any) -> Any:
    wide = arguments["A"].element_size() == 4
    return [config for config in configs if (config.kwargs["BLOCK_K"] == 32) == wide]


@triton.autotune(
    CONFIGS[:1] if INTERPRETED else CONFIGS,
    key=["M", "N", "K", "stride_ak", "stride_bk"],
    prune_configs_by={"early_config_prune": for_type},
)
@triton.jit
def matmul(
    A, B, C, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    group = GROUP_M * tl.cdiv(N, BLOCK_N)
    first = tile // group * GROUP_M
    height = min(tl.cdiv(M, BLOCK_M) - first, GROUP_M)
    pid_m = first + tile % group % height
    pid_n = tile % group // height

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

    def grid(tile: Any) -> tuple[int]:
        return (triton.cdiv(m, tile["BLOCK_M"]) * triton.cdiv(n, tile["BLOCK_N"]),)

    matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())

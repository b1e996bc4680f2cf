# triton_persistent: as many programs as multiprocessors, each of which works off many tiles.
#
# Idea      one loop over the steps of all tiles of a program, which goes on to the tile a number of
#           programs further: the loads of the next tile are on their way while the last steps of
#           this one are multiplied and C is stored, and nothing starts anew between tiles.
# Expect    what hgemm_best's blocks gain: no gap between tiles, no last wave of a few programs that
#           starts late. The offsets are computed at every step: a loss where tiles are few.
# Found     Not timed yet. The same loop by tl.range(…, flatten=True) carries B's offsets from step
#           to step, and Triton 3.6 no longer loads B ahead; from pid_m and pid_n alone it does. In
#           Triton's interpreter, with 3 programs, right for every edge, stride and type tried.
# Next      hgemm_best does the same by hand, and tilewright explain limiter says what binds it.
from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch
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
    steps, tiles = tl.cdiv(K, BLOCK_K), tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    tile, step = tl.program_id(0) - tl.num_programs(0), steps - 1
    pid_m, pid_n = tile, tile
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, tl.cdiv(tiles - tl.program_id(0), tl.num_programs(0)) * steps):
        step = tl.where(step == steps - 1, 0, step + 1)
        if step == 0:
            tile += tl.num_programs(0)
            group = GROUP_M * tl.cdiv(N, BLOCK_N)
            first = tile // group * GROUP_M
            height = min(tl.cdiv(M, BLOCK_M) - first, GROUP_M)
            pid_m = first + tile % group % height
            pid_n = tile % group // height

        m = pid_m.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
        n = pid_n.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
        rows = A + m[:, None] * stride_am
        columns = B + n[None, :] * stride_bn
        k = (step * BLOCK_K + tl.arange(0, BLOCK_K)).to(tl.int64)
        a = tl.load(rows + k[None, :] * stride_ak, (m < M)[:, None] & (k < K)[None, :], 0.0)
        b = tl.load(columns + k[:, None] * stride_bk, (k < K)[:, None] & (n < N)[None, :], 0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")  # fp32 stays fp32: no TF32

        if step == steps - 1:
            at = C + m[:, None] * stride_cm + n[None, :] * stride_cn
            tl.store(at, acc.to(C.dtype.element_ty), (m < M)[:, None] & (n < N)[None, :])
            acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)


@cache
def programs(device: Any) -> int:
    """The multiprocessors of a GPU; 3 in the interpreter, so that each has several tiles."""
    if device.type == "cpu":
        return 3
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def gemm(a: Any, b: Any, c: Any) -> None:
    """C[m, n] = A[m, k] · B[k, n] of torch tensors, with fp32 sums."""
    (m, k), n = a.shape, b.shape[1]

    def grid(tile: Any) -> tuple[int]:
        tiles = triton.cdiv(m, tile["BLOCK_M"]) * triton.cdiv(n, tile["BLOCK_N"])
        return (min(tiles, programs(a.device)),)

    matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride())

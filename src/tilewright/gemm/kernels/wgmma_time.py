"""What a launch of wgmma.cu is expected to take, to rank configurations by: a model, no promise.

A multiprocessor works off its tiles one after the other. A step takes the longest of what its
Tensor Cores multiply, wgmma reads from shared memory and the block reads through L2; bytes from L2
cost a little beside that, as blocks without a cluster were 3 % slower (ladder/hopper/90). What a
tile's end costs is exposed or not by the kernel's way of storing.
"""

from __future__ import annotations

from tilewright.gemm.kernels.wgmma_step import BK, MMA_M, Product
from tilewright.gemm.request import Request
from tilewright.gpus import Gpu

_CLOCKS_A_US = 1500  # of an H200 at work; alone it runs at up to 1980 MHz, at its power cap at 1300
_LAUNCH_US = 2.0
_TENSOR_RATE = 2048  # products of 16-bit elements a clock and multiprocessor (gpus.py)
_SHARED_RATE = 128  # bytes a clock
_L2_RATE = 62  # bytes a clock and multiprocessor (docs/limiter.md)
_L2_BESIDE = 0.1  # of the time of the bytes from L2, where something else is longer
_STORE_RATE = 32  # bytes a clock and multiprocessor; unmeasured
_MEMORY_SHARE = 0.9  # of the table's rate that a copy reaches: 4.3 of 4.8 TB/s
_FILL_CLOCKS = 1500  # from a block's start to its first products
_DRAIN_CLOCKS = 400  # from a tile's last products to the next one's first
_ROUND_CLOCKS, _PART_CLOCKS = 1.5, 6.0  # of a thread: an element's rounding, and a part's functor


def product_us(product: Product, gpu: Gpu) -> float:
    """Time of the launch alone, in µs, the operands coming from memory."""
    config = product.config
    multiply = product.steps * _step_clocks(product)
    finish, store = _finish_clocks(product), _store_clocks(product)
    if config.turns > 1:  # the other consumer multiplies meanwhile
        tile, last = max(multiply, (multiply + finish + store) / config.turns), finish + store
    elif product.out.dtype.bytes == 2 and product.by_tma:  # stored beside the next tile's products
        tile, last = multiply + finish, store
    else:
        tile, last = multiply + finish + store, 0.0
    clocks = _FILL_CLOCKS + product.waves(gpu.sms) * tile + last
    return _LAUNCH_US + max(clocks / _CLOCKS_A_US, _memory_us(_bytes(product), gpu))


def reduction_us(request: Request, splits: int, gpu: Gpu) -> float:
    """Time of adding up the splits' sums, in µs."""
    sums = request.batch * request.m * request.n * 4
    out = request.batch * request.out.rows * request.out.cols * request.out.dtype.bytes
    return _LAUNCH_US + _memory_us(splits * sums + out, gpu)


def _step_clocks(product: Product) -> float:
    config = product.config
    tensor = config.bm * config.bn * BK / _TENSOR_RATE
    reads = config.bm // MMA_M * (MMA_M + config.bn) * BK * 2 / _SHARED_RATE
    l2 = (config.bm / config.cluster_n + config.bn / config.cluster_m) * BK * 2 / _L2_RATE
    return max(tensor, reads, l2) + _L2_BESIDE * l2


def _finish_clocks(product: Product) -> float:
    """From a tile's last products to its rounded sums; consumers that share it issue together."""
    config = product.config
    sums = config.bm * config.bn / 128  # of the threads that share a scheduler
    each = _ROUND_CLOCKS + _PART_CLOCKS * len(product.epilogue)
    return _DRAIN_CLOCKS + sums * each


def _store_clocks(product: Product) -> float:
    config = product.config
    width = config.bn // (2 if product.gated else 1)
    clocks = config.bm * width * product.out.dtype.bytes / _STORE_RATE
    return clocks if product.by_tma else 2 * clocks


def _bytes(product: Product) -> int:
    """That come from memory and go there, once each."""
    a, b, out = product.a, product.b, product.out
    results = product.batch * product.config.splits
    return (
        a.rows * a.cols * a.dtype.bytes * (product.batch if a.batch_stride else 1)
        + b.rows * b.cols * b.dtype.bytes * (product.batch if b.batch_stride else 1)
        + out.rows * out.cols * out.dtype.bytes * results
    )


def _memory_us(count: int, gpu: Gpu) -> float:
    return count / (_MEMORY_SHARE * gpu.memory_gbps * 1e3)

"""wgmma: 16-bit matrices whose rows or columns TMA reaches, on an H100 or H200."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewright.dtypes import FP32
from tilewright.gemm.kernels.reduce import reduce_steps
from tilewright.gemm.kernels.source import columns
from tilewright.gemm.kernels.wgmma_step import BK, Config, Product, alone, k_major
from tilewright.gemm.kernels.wgmma_time import product_us, reduction_us
from tilewright.gemm.matrix import LARGEST_VECTOR, Matrix
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import WORKSPACE, Address
from tilewright.gpus import Gpu

_LARGEST = 2**31 - 1024  # of an extent: the kernel counts in 32 bits, a tile beyond the edge too
_FEWEST_STEPS = 4  # of a split: fewer do not pay for the sums that it stores
_MOST_SPLITS = 16
_PAIRS = ((1, 1), (2, 1), (1, 2))  # blocks of a cluster along m and n

CONFIGS = tuple(
    Config(bm, bn, consumers, turns, *cluster)
    for bm, bn, consumers, turns, clusters in (
        (128, 256, 2, 1, _PAIRS),
        (256, 128, 2, 1, _PAIRS),
        (128, 192, 2, 1, _PAIRS),
        (128, 128, 2, 1, _PAIRS),
        (128, 128, 2, 2, _PAIRS),
        (64, 256, 2, 2, _PAIRS),
        (64, 256, 1, 1, _PAIRS[:2]),
        (64, 128, 1, 1, _PAIRS[:2]),
        (64, 64, 1, 1, _PAIRS[:1]),
    )
    for cluster in clusters
)


class Wgmma:
    """Family "wgmma": bf16 and fp16, sums in fp32; results in these or fp32, at any strides."""

    name = "wgmma"

    def refusal(self, request: Request, gpu: Gpu) -> str | None:
        """The first reason; every request without one has plans."""
        a, b, out = request.a, request.b, request.out
        if gpu.arch != "sm_90":
            return f"uses wgmma and TMA of an H100 or H200, and this GPU is {gpu.arch}"
        if a.dtype.name not in ("bf16", "fp16") or b.dtype != a.dtype:
            return f"multiplies two bf16 or two fp16 matrices, not {a.dtype.name} by {b.dtype.name}"
        if out.dtype.name not in ("bf16", "fp16", "fp32"):
            return f"stores bf16, fp16 or fp32, not {out.dtype.name}"
        for name, extent in (("m", request.m), ("n", request.n), ("k", request.k)):
            if not 1 <= extent <= _LARGEST:
                return f"takes {name} from 1 to {_LARGEST}, not {extent}"
        a, b = alone(a, request.batch), alone(b, request.batch)
        return _unreachable("a", a) or _unreachable("b", b) or _crooked(request, b)

    def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
        """Every configuration that takes the request and has work for all blocks of a cluster;
        k is split where tiles leave the GPU idle.

        The order in which a sum's products are added is the same in all plans that do not split
        k, whatever m is.
        """
        plans = [_plan(product, gpu) for product in _each(_product(request, CONFIGS[0]))]
        if not request.batch_invariant:
            plans += _split_plans(request, gpu)
        return tuple(plans)


def _each(product: Product) -> Iterator[Product]:
    """The product in every configuration that takes it."""
    majors = k_major(product.a), k_major(product.b.transposed)
    for config in CONFIGS:
        cut = replace(product, config=config)
        if config.takes(*majors, product.gated) and not cut.idle:
            yield cut


def _split_plans(request: Request, gpu: Gpu) -> Iterator[Plan]:
    for whole in _each(_sums(request, CONFIGS[0])):
        for splits in _splits(whole, gpu):
            sums = _sums(request, replace(whole.config, splits=splits))
            yield _split_plan(sums, request, gpu)


def _unreachable(name: str, matrix: Matrix) -> str | None:
    """Why neither the rows nor the columns of an operand can be copied."""
    if matrix.tma_refusal() is None or matrix.transposed.tma_refusal() is None:
        return None
    if not matrix.row_major and not matrix.col_major:
        return f"{name}: neither its rows nor its columns are contiguous"
    if matrix.row_major:
        return f"{name}: {matrix.tma_refusal()}"
    return f"{name}: {matrix.transposed.tma_refusal()}".replace("its rows", "its columns")


def _crooked(request: Request, b: Matrix) -> str | None:
    """A gate's second half of b is copied from its own first column on: along rows, TMA begins
    only at multiples of 16 bytes (on an H200 others end in an illegal instruction)."""
    begin = request.n // 2 * b.dtype.bytes
    if columns(request.epilogue) == 1 or k_major(b.transposed) or begin % LARGEST_VECTOR == 0:
        return None
    return f"b: what the gate gates begins {begin} bytes behind its rows' beginning"


def _product(request: Request, config: Config) -> Product:
    """The whole product in one launch; of a column-major result, its transposed one."""
    batch = request.batch
    a, b = alone(request.a, batch), alone(request.b, batch)
    out = alone(request.out, batch)
    at = Address("a"), Address("b"), Address("out")
    swapped = out.col_major and not out.row_major and columns(request.epilogue) == 1
    if swapped:
        a, b, out = b.transposed, a.transposed, out.transposed
        at = at[1], at[0], at[2]
    return Product(config, a, b, out, batch, request.epilogue, swapped, at)


def _sums(request: Request, config: Config) -> Product:
    """Splits of the product, as fp32 sums in the workspace."""
    batch, m, n = request.batch, request.m, request.n
    return Product(
        config,
        alone(request.a, batch),
        alone(request.b, batch),
        alone(Matrix(FP32, m, n, n, 1, m * n), batch * config.splits),
        batch,
        (),
        False,
        (Address("a"), Address("b"), Address(WORKSPACE)),
    )


def _splits(whole: Product, gpu: Gpu) -> list[int]:
    """Into how many ranges k may be cut, so that more multiprocessors have work; none is empty."""
    idle = max(gpu.sms // whole.config.cluster, 1) // whole.works
    steps = -(-whole.a.cols // BK)
    found = []
    for wanted in {idle, -(-idle // 2), -(-idle // 4)}:
        each = max(-(-steps // max(min(wanted, _MOST_SPLITS), 1)), _FEWEST_STEPS)
        found.append(-(-steps // each))
    return sorted({splits for splits in found if splits > 1})


def _plan(product: Product, gpu: Gpu) -> Plan:
    step = product.step(gpu.sms)
    return Plan("wgmma", str(product.config), (step,), us=product_us(product, gpu))


def _split_plan(sums: Product, request: Request, gpu: Gpu) -> Plan:
    splits = sums.config.splits
    after = reduce_steps(request, splits, Address(WORKSPACE), gpu.arch)
    return Plan(
        "wgmma",
        str(sums.config),
        (sums.step(gpu.sms), *after),
        workspace_bytes=splits * request.batch * request.m * request.n * FP32.bytes,
        us=product_us(sums, gpu) + reduction_us(request, splits, gpu),
    )


FAMILY = Wgmma()

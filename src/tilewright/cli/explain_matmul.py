"""`tilewright explain matmul`: which kernels take a product, in which order, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tilewright.cli.explain_draw import Drawing, heading, line, sentence
from tilewright.cli.explain_options import GpuName
from tilewright.cli.options import JsonTarget, Whole
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.gemm.arrange import Asked, Job
    from tilewright.gemm.form import Form
    from tilewright.gemm.plan import Plan
    from tilewright.gemm.rank import Ranking
    from tilewright.gemm.request import Request
    from tilewright.gpus import Gpu

_FIGURES = 49  # columns of a line ahead of the configuration
_WRITTEN = re.compile(r"(\d{1,10})x(\d{1,10})x(\d{1,10})(?::([nt]{2}))?\Z")


def matmul(
    product: str = "4096x4096x4096:nn",
    *,
    dtype: str = "bf16",
    out_dtype: str | None = None,
    gpu: GpuName = "h200",
    batch: Whole = 1,
    bias: Annotated[bool, Parameter(negative=())] = False,
    activation: str | None = None,
    batch_invariant: Annotated[bool, Parameter(negative=())] = False,
    json: JsonTarget = None,
) -> int:
    """Show the kernels that tilewright.matmul would choose among, best first, and why.

    Example: tilewright explain matmul 4095x4097x4099:nt --activation gelu

    Parameters
    ----------
    product
        MxNxK, and the layouts of A and B: n row-major, t transposed, as in :nt.
    dtype
        Type of A and B: bf16, fp16 or fp32.
    out_dtype
        Type of the result; that of A and B unless given.
    batch
        How many such products, one behind the other.
    bias
        Add a bias along N.
    activation
        relu, gelu, gelu_tanh, silu, sigmoid, tanh, or a gate (swiglu, geglu, geglu_tanh, reglu,
        glu), which makes N/2 columns of N.
    batch_invariant
        Only what gives a row the same bits whatever M is.
    """
    from tilewright.gemm.arrange import arrange
    from tilewright.gemm.rank import rank
    from tilewright.gpus import gpu_named

    check_targets(json)
    chip = gpu_named(gpu)
    asked = _asked(product, dtype, out_dtype, batch, bias, activation, batch_invariant)
    job = arrange(asked)
    if job.request is None or job.zeros:
        raise InputError(f"{product}: every extent must be 1 or more; there is nothing to plan.")
    ranking = rank(job.request, chip)
    rows = [_row(place, plan, job.request) for place, plan in enumerate(ranking.plans, 1)]
    rows += [_refused(name, why) for name, why in ranking.refused]
    emit("explain-matmul", rows, _picture(product, job, chip, ranking), json)
    return 0


def _asked(
    product: str,
    dtype: str,
    out_dtype: str | None,
    batch: int,
    bias: bool,
    activation: str | None,
    batch_invariant: bool,
) -> Asked:
    from dataclasses import replace

    from tilewright.gemm.arrange import Asked
    from tilewright.gemm.arrays import type_taken
    from tilewright.gemm.epilogue import Bias
    from tilewright.gemm.form import packed
    from tilewright.gemm.links import activating, reading

    written = _WRITTEN.match(product)
    if written is None:
        raise InputError(f"product={product!r} must look like 4096x4096x4096:nt.")
    if batch < 1:
        raise InputError(f"batch={batch} must be 1 or more.")
    m, n, k = (int(word) for word in written.groups()[:3])
    layout = written.group(4) or "nn"
    kind = type_taken("dtype", dtype, "name one of them")
    made = type_taken("out_dtype", out_dtype or dtype, "name one of them")
    first = () if batch == 1 else (batch,)

    def lying(name: str, rows: int, cols: int, letter: str) -> Form:
        if letter == "n":
            return packed(name, kind, (*first, rows, cols))
        turned = packed(name, kind, (*first, cols, rows))
        strides = (*turned.strides[:-2], *turned.strides[:-3:-1])
        return replace(turned, shape=(*first, rows, cols), strides=strides)

    chain = [reading(Bias, "bias")] if bias else []
    chain += [activating(activation)] if activation is not None else []
    return Asked(
        lying("a", m, k, layout[0]),
        lying("b", k, n, layout[1]),
        None,
        made,
        tuple(chain),
        (("bias", packed("bias", kind, (n,))),) if bias else (),
        batch_invariant=batch_invariant,
    )


def _row(place: int, plan: Plan, request: Request) -> dict[str, Any]:
    tflops = None if plan.us is None else _flops(request) / plan.us / 1e6
    return {
        "rank": place, "kernel": plan.kernel, "config": plan.config, "us": plan.us,
        "tflops": tflops, "launches": len(plan.steps), "workspace_bytes": plan.workspace_bytes,
        "notes": list(plan.notes), "status": "legal", "reason": None,
    }  # fmt: skip


def _refused(kernel: str, why: str) -> dict[str, Any]:
    return {
        "rank": None, "kernel": kernel, "config": None, "us": None, "tflops": None,
        "launches": None, "workspace_bytes": None, "notes": [], "status": "refused", "reason": why,
    }  # fmt: skip


def _flops(request: Request) -> float:
    return 2.0 * request.batch * request.m * request.n * request.k


def _least_us(request: Request, gpu: Gpu) -> tuple[float, float]:
    """By the datasheet: of the products alone, and of reading a and b and writing the result."""
    rate = gpu.fp32_tflops if request.a.dtype.bytes == 4 else gpu.tensor_tflops
    moved = request.batch * sum(
        each.rows * each.cols * each.dtype.bytes for each in (request.a, request.b, request.out)
    )
    return _flops(request) / rate / 1e6, moved / gpu.memory_gbps / 1e3


def _picture(product: str, job: Job, gpu: Gpu, ranking: Ranking) -> RenderableType:
    request = job.request
    assert request is not None

    def draw(width: int) -> Iterator[Text]:
        kinds = f"{request.a.dtype.name} to {request.out.dtype.name}"
        count = f", {request.batch} of them" if request.batch > 1 else ""
        yield heading(f"{product} {kinds}{count} on {gpu.title}, as the kernels' models expect it")
        yield from sentence(_why(request, gpu, ranking.plans), width, "bold")
        yield line("")
        yield line(("      µs  TFLOP/s  kernel  launches   workspace  configuration", "bold"))
        for plan in ranking.plans:
            us = "–" if plan.us is None else f"{plan.us:.1f}"
            rate = "–" if plan.us is None else f"{_flops(request) / plan.us / 1e6:.1f}"
            figures = f"{us:>8}{rate:>9}  {plan.kernel:<6}{len(plan.steps):>10}"
            words = wrap(plan.config, max(width - _FIGURES, 20))
            yield line(f"{figures}{_size(plan.workspace_bytes):>12}  {words[0]}")
            yield from (line(" " * _FIGURES + more) for more in words[1:])
        yield line("")
        for note in dict.fromkeys(note for plan in ranking.plans for note in plan.notes):
            yield from sentence(f"· {note}", width, "dim")
        for name, why in ranking.refused:
            yield from sentence(f"{name} does not take it: {why}", width, "yellow")

    return Drawing(draw)


def _size(nbytes: int) -> str:
    return f"{nbytes / 2**20:.1f} MiB" if nbytes else "–"


def _why(request: Request, gpu: Gpu, plans: tuple[Plan, ...]) -> str:
    products, memory = _least_us(request, gpu)
    least, best = max(products, memory), plans[0]
    bound = "Its products bound it" if products >= memory else "Its bytes bound it"
    said = (
        f"{bound}: {least:.1f} µs by the datasheet ({products:.1f} for the products, {memory:.1f} "
        "for reading a and b and writing the result, each once)."
    )
    if best.us is None:
        return f"{said} {best.kernel} is first."
    return f"{said} {best.kernel} is expected to take {best.us / least:.2f} times that."

"""`tilewright explain limiter`: what binds each rung on a GPU, and a model of its time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, bar, heading, line, sentence
from tilewright.cli.explain_options import GpuName, K, M, N, check_range
from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit, progress_bar
from tilewright.errors import InputError, TilewrightError, UnsupportedError
from tilewright.model.limiter import RESOURCES
from tilewright.model.rates import MEASURED_ARCH

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.bench.rung_limits import Limited

WORDS = {
    "tensor": "Tensor Cores (mma)",
    "fma": "FMA pipes",
    "shared": "shared-memory wavefronts",
    "issue": "instruction issue",
    "l1": "lines looked up in L1",
    "l2": "L2 bytes",
    "dram": "DRAM bytes",
    "latency": "latency, not hidden",
}


def limiter(
    rung: str | None = None,
    /,
    *,
    m: M = 4096,
    n: N = 4096,
    k: K = 4096,
    dtype: str | None = None,
    layout: str = "nn",
    gpu: GpuName = "h200",
    measured: Path | None = None,
    json: JsonTarget = None,
) -> int:
    """Name what binds a rung on a GPU, from the emulator's counts and the GPU's rates.

    Each resource alone would take the time shown; the largest binds. The time of all together is
    a model: of resident blocks that queue for the pipes; for kernels of FMAs of the machine code
    that all warps of a multiprocessor play through clock by clock; for those of wgmma of pipes
    that run by themselves, at the median clock of its measurements where some are given, since
    these run into the power cap.

    Example: tilewright explain limiter hgemm_bcf

    Parameters
    ----------
    rung
        A rung or a family of the ladder; hgemm if none is named.
    m
        Rows of C.
    n
        Columns of C.
    k
        Columns of A.
    dtype
        Type of A, B and C; the rung's first if none is named.
    layout
        How A and B lie: nn, or nt (B stored [N, K]), which the rungs of hopper take too.
    measured
        A .jsonl file of measurements, or a folder of them, to set the model against.
    """
    from tilewright.bench.record import load
    from tilewright.bench.rung_limits import limited
    from tilewright.dtypes import dtype_of
    from tilewright.gpus import gpu_named
    from tilewright.ladder.rungs import FAMILIES, select_kernels
    from tilewright.problem import Problem

    check_targets(json, reads=() if measured is None else (measured,))
    check_range(m=m, n=n, k=k)
    chip = gpu_named(gpu)
    named = "hgemm" if rung is None else rung
    chosen = select_kernels(named) if named in FAMILIES else select_kernels(None, (named,))
    lines = [] if measured is None else load(measured)
    if measured is not None and not lines:
        raise InputError(f"measured={str(measured)!r} holds no measurements; name a .jsonl file.")
    found: list[Limited] = []
    refused: dict[str, TilewrightError] = {}
    with progress_bar(json) as tell:
        for number, each in enumerate(chosen):
            tell(each.name, number, len(chosen))
            problem = Problem(m, n, k, dtype_of(dtype or each.dtypes[0]), layout)
            try:
                found.append(limited(each, problem, chip, lines))
            except (InputError, UnsupportedError) as error:
                refused[each.name] = error
    if not found:  # the one that was named, or all of a family
        raise next(iter(refused.values()))
    left_out = [f"{name}: {error}" for name, error in refused.items()]
    emit("explain-limiter", [_row(each) for each in found], _picture(found, left_out), json)
    return 0


def _row(found: Limited) -> dict[str, Any]:
    problem, limits, line_ = found.problem, found.limits, found.measured
    return {
        "rung": found.rung.name, "gpu": found.gpu.name, "dtype": problem.dtype.name,
        "layout": problem.layout, "m": problem.m, "n": problem.n, "k": problem.k,
        "blocks": found.run.blocks, "blocks_per_sm": found.run.blocks_per_sm,
        "binding": limits.binding, **{f"{name}_us": us for name, us in limits.us.items()},
        "predicted_us": limits.predicted_us,
        "predicted_tflops": problem.flops / limits.predicted_us / 1e6,
        "measured_us": None if line_ is None else line_.us,
        "taken": None if line_ is None else line_.taken,
        "sm_mhz": limits.mhz, "error": found.error, "model": found.model,
        "rates_measured": found.gpu.arch == MEASURED_ARCH,
    }  # fmt: skip


def _picture(found: list[Limited], left_out: list[str]) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        first = found[0]
        yield heading(f"{first.problem} on {first.gpu.title}")
        most = max(max(each.limits.us.values()) for each in found)
        for each in found:
            yield line("")
            yield from _resources(each, most, width)
        if first.gpu.arch != MEASURED_ARCH:
            yield from sentence(
                f"The rates of shared memory, L2 and its latency were measured on {MEASURED_ARCH}; "
                f"for {first.gpu.arch} they are assumed.",
                width,
                "yellow",
            )
        for words in left_out:
            yield from sentence(words, width, "yellow")

    return Drawing(draw)


def _resources(each: Limited, most: float, width: int) -> Iterator[Text]:
    limits, held = each.limits, each.run.blocks_per_sm
    yield line((each.rung.name, "bold"), f"  {held} block{'s' * (held != 1)} an SM")
    room = max(width - 42, 10)
    for name in RESOURCES:
        us = limits.us[name]
        if us:
            binds = name == limits.binding
            drawn = bar(us, most, room)
            yield line(
                f"  {WORDS[name]:<26}{us:>9,.1f} µs  ",
                (drawn, "bold red" if binds else "blue"),
            )
    said = (
        f"bound by {WORDS[limits.binding]}; all together {limits.predicted_us:,.1f} µs by the "
        f"model of its {each.model}"
    )
    if each.model == "pipes":
        said += f" at {limits.mhz:,.0f} MHz"
    if each.measured is not None:
        said += f", {each.measured.us:,.1f} µs measured ({each.error:+.1%})"
    yield from sentence(f"  {said}", width)

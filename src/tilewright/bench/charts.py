"""What a picture shows, decided from measurement lines and only from them; pure.

`gather` chooses the lines of a kind of picture and makes points of them; bench/plot.py draws.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from tilewright.bench.ladder import ON_GPU
from tilewright.bench.protocol import quantile
from tilewright.bench.report import fullest, newest
from tilewright.bench.roofs import from_lines
from tilewright.bench.suites import Shape
from tilewright.dtypes import DTYPES
from tilewright.errors import InputError
from tilewright.gpus import gpu_reported
from tilewright.model.roofline import peak_tflops
from tilewright.problem import LAYOUTS, Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tilewright.bench.record import Measurement

KINDS = ("ladder", "size", "ratio", "roofline")
_AGAIN = " again"  # ends the name of a rival's second timing, see suite_run.Plan.noise
_ROOF = "roof: "  # begins the name of a line that is no kernel, see roofs.py
_LIBRARY = "roof: library rate"  # a library's best, where it beats the probe's mma.sync


@dataclass(frozen=True)
class Point:
    """What is plotted of one measurement. A line found wrong has no figures.

    `peer` is true of a library's kernel; `intensity` is FLOP per byte of A, B and C, each moved
    once, None for a type of unknown width; `ratio` is the rival's time ÷ this one's, with the p20
    and p80 of the rounds' ratios.
    """

    name: str
    peer: bool
    rival: str | None
    taken: str
    gpu: str
    dtype: str
    layout: str
    m: int
    n: int
    k: int
    aligned: bool
    inputs: str
    seed: int
    correct: bool | None
    us: float | None
    tflops: float | None
    intensity: float | None
    ratio: float | None
    ratio_p20: float | None
    ratio_p80: float | None

    @property
    def shape(self) -> str:
        return f"{self.m}×{self.n}×{self.k} {self.layout}"


@dataclass(frozen=True)
class Ceiling:
    """What binds every kernel of one GPU and type: memory (10⁹ bytes a second) or arithmetic.

    `taken` is when both were measured, None for the datasheet's figures.
    """

    memory_gbps: float
    matrix_tflops: float
    taken: str | None = None

    @property
    def ridge(self) -> float:
        """The intensity, FLOP per byte, where the two roofs meet."""
        return self.matrix_tflops * 1e3 / self.memory_gbps

    @property
    def source(self) -> str:
        """Where both figures are from, in a word."""
        return "measured" if self.taken else "datasheet"

    def __str__(self) -> str:
        return f"{self.memory_gbps:,.0f} GB/s, {self.matrix_tflops:,.0f} TFLOP/s ({self.source})"

    def tflops(self, intensity: float) -> float:
        """The most TFLOP/s at so many FLOP per byte."""
        return min(self.matrix_tflops, intensity * self.memory_gbps / 1e3)


@dataclass(frozen=True)
class Chart:
    """The points of one picture, all of one GPU and type. `left_out` says what else there was.

    `noise` is the rival timed a second time, at shapes of the points; `roofs` are a roofline's.
    `measured` is every kernel in the lines, drawn or not, so that all kinds of picture of the same
    lines give each the same mark.
    """

    kind: str
    points: tuple[Point, ...]
    left_out: tuple[str, ...] = ()
    noise: tuple[Point, ...] = ()
    roofs: Ceiling | None = None
    measured: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every kernel once: our own in the order of their lines, then the peers."""
        ordered = sorted(self.points, key=lambda point: point.peer)
        return tuple(dict.fromkeys(point.name for point in ordered))

    @property
    def rival(self) -> str | None:
        return next((point.rival for point in self.points if point.rival), None)

    @property
    def peers(self) -> frozenset[str]:
        """The names of libraries' kernels."""
        return frozenset(point.name for point in self.points if point.peer)

    def band(self, shape: str) -> tuple[float, float] | None:
        """From where to where the rival's ratio to itself went at a shape, with 1 between.

        Its p20 and p80, and 1 where that lies outside; None where it was not timed twice.
        """
        edges = [
            edge
            for point in self.noise
            if point.shape == shape
            for edge in (point.ratio_p20, point.ratio_p80)
            if edge
        ]
        return (min(1, *edges), max(1, *edges)) if edges else None

    @property
    def title(self) -> str:
        first = self.points[0]
        if self.kind == "ladder":
            return f"Throughput of each rung: {first.shape}, {first.dtype}"
        if self.kind == "size":
            return f"Throughput over size: m = n = k, {first.layout}, {first.dtype}"
        shapes = _count(len({point.shape for point in self.points}), "shape")
        what = "Roofline" if self.kind == "roofline" else f"Speed ÷ {self.rival}"
        return f"{what}: {shapes}, {first.dtype}"

    @property
    def alt(self) -> str:
        """The picture in words, for who cannot see it."""
        shown = [point.name for point in self.points]
        if self.kind == "ladder":
            shown = [f"{point.name} {_figure(point.tflops)}" for point in self.points]
        if self.roofs:
            shown.append(f"roofs {self.roofs}")
        return f"{self.title}, {self.points[0].gpu}: {', '.join(dict.fromkeys(shown))}"

    @property
    def digest(self) -> str:
        """16 hex digits of all that is drawn: kind, points, noise and roofs."""
        drawn = asdict(replace(self, left_out=()))
        text = json.dumps(drawn, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def facts(self) -> str:
        """GPU, dates and inputs, for below the title."""
        dates = _span(sorted({point.taken[:10] for point in self.points}))
        inputs = ", ".join(dict.fromkeys(point.inputs for point in self.points))
        seeds = _span([str(seed) for seed in sorted({point.seed for point in self.points})])
        return f"{self.points[0].gpu} · {dates} · inputs {inputs}, seed {seeds}"


def gather(
    lines: Iterable[Measurement], kind: str, dtype: str = "bf16", gpu: str | None = None
) -> Chart:
    """The chart of a kind from measurement lines. Lines of roofs are no kernels.

    `gpu` is a name or a part of one; without it the GPU measured last. "ladder" is the fullest
    run of 4096×4096×4096 nn, or of any shape where that was not measured; the others take the
    newest line of each kernel and shape. "roofline" adds the roofs of their newest run, or the
    datasheet's.
    Raises: InputError for an unknown kind, for no lines, naming what there is, and for a GPU
    whose roofs are not known.
    """
    if kind not in KINDS:
        raise InputError(f"kind={kind!r} is not known; use {', '.join(KINDS)}.")
    measured = list(lines)
    found = [line for line in measured if is_kernel(line)]
    chosen = _of_gpu([line for line in found if line.dtype == dtype], gpu)
    if not chosen:
        asked = f"{dtype} on {gpu}" if gpu else dtype
        known = sorted({f"{line.dtype} on {line.gpu}" for line in found})
        there_is = _few(known or ["no measurement at all"])
        raise InputError(f"nothing is measured of {asked}; there is {there_is}.")
    makers = {"ladder": _ladder, "size": _size, "ratio": _ratio, "roofline": _roofline}
    every = tuple(sorted({line.name for line in found}))
    chart = replace(makers[kind](chosen), measured=every)
    if not chart.points:
        whats = {"size": "square shapes (m = n = k)", "ratio": "lines with a rival"}
        what = whats.get(kind, "lines")
        shapes = _few(dict.fromkeys(_shape(line) for line in chosen))
        raise InputError(f"there are no {what} that were found correct; there is {shapes}.")
    if kind == "roofline":
        return replace(chart, roofs=_ceiling(chosen[0].machine, dtype, measured))
    return chart if kind == "ladder" else replace(chart, noise=_noise(chart, measured))


def is_kernel(line: Measurement) -> bool:
    """Of a GPU, and neither a roof's or pipe's line nor a rival's second timing."""
    return line.gpu is not None and not (line.is_roof or line.name.endswith(_AGAIN))


def _of_gpu(lines: Sequence[Measurement], gpu: str | None) -> list[Measurement]:
    """Lines of one GPU. Raises: InputError for a part of a name that several have."""
    gpu = gpu or max(((line.taken, line.machine) for line in lines), default=("", ""))[1]
    names = sorted({line.machine for line in lines})
    fits = [gpu] if gpu in names else [name for name in names if gpu.lower() in name.lower()]
    if len(fits) > 1:
        raise InputError(f"gpu={gpu!r} fits {', '.join(fits)}; name one of them.")
    return [line for line in lines if line.machine in fits]


def _ladder(lines: Sequence[Measurement]) -> Chart:
    run = fullest([line for line in lines if _shape(line) == str(Shape(*ON_GPU))] or lines)
    points = [_point(line) for line in run if _shape(line) == _shape(run[0])]
    return Chart("ladder", tuple(sorted(points, key=lambda point: point.peer)))


def _size(lines: Sequence[Measurement]) -> Chart:
    kept, left_out = _comparable([line for line in lines if line.m == line.n == line.k])
    sizes = {layout: {ln.n for ln in kept if ln.layout == layout} for layout in LAYOUTS}
    layout = max(LAYOUTS, key=lambda name: len(sizes[name]))
    left_out += _note(sum(line.layout != layout for line in kept), "of other layouts")
    points = [_point(line) for line in kept if line.layout == layout]
    return Chart("size", tuple(sorted(points, key=lambda point: point.n)), tuple(left_out))


def _ratio(lines: Sequence[Measurement]) -> Chart:
    kept, left_out = _comparable(
        [line for line in lines if line.ratio is not None and line.name != line.rival]
    )
    rival = _commonest(line.rival for line in kept)
    left_out += _note(sum(line.rival != rival for line in kept), f"with another rival than {rival}")
    points = tuple(_point(line) for line in kept if line.rival == rival)
    return Chart("ratio", points, tuple(left_out))


def _roofline(lines: Sequence[Measurement]) -> Chart:
    kept, left_out = _comparable(lines)
    return Chart("roofline", tuple(map(_point, kept)), tuple(left_out))


def _ceiling(gpu: str, dtype: str, lines: Iterable[Measurement]) -> Ceiling:
    """The roofs of one GPU and type: those measured last, else the datasheet's.

    Raises: InputError for an unknown type, a GPU without either, and a run that lacks a roof.
    """
    if dtype not in DTYPES:
        raise InputError(f"dtype={dtype!r} has no roofs; use {', '.join(DTYPES)}.")
    here = [ln for ln in lines if (ln.gpu, ln.dtype) == (gpu, dtype) and ln.name.startswith(_ROOF)]
    if here:
        run = newest(here)
        roofs = from_lines(run)
        size, us = roofs.reads[-1]
        library = [line.tflops for line in run if line.name == _LIBRARY]
        matrix = max(roofs.mma_tflops, *library) if library else roofs.mma_tflops
        return Ceiling(max(roofs.copy_gbps, size / us / 1e3), matrix, run[0].taken)
    if (known := gpu_reported(gpu)) is None:
        raise InputError(
            f"{gpu} has no roofs: it is not in the table of GPUs, and no {dtype} line there begins "
            f'with "{_ROOF}"; add the lines of tilewright.bench.survey.measure_roofs to the .jsonl.'
        )
    return Ceiling(known.memory_gbps, peak_tflops(known, dtype))


def _noise(chart: Chart, lines: Sequence[Measurement]) -> tuple[Point, ...]:
    """The newest second timing of the chart's rival at each of its shapes, on its inputs."""
    first, shapes = chart.points[0], {point.shape for point in chart.points}
    alike = (f"{chart.rival}{_AGAIN}", chart.rival, first.gpu, first.dtype, first.inputs)
    again = [ln for ln in lines if (ln.name, ln.rival, ln.gpu, ln.dtype, ln.inputs) == alike]
    points = [_point(line) for line in _comparable(again)[0]]
    return tuple(point for point in points if point.shape in shapes)


def _comparable(lines: Sequence[Measurement]) -> tuple[list[Measurement], list[str]]:
    """The newest line of each kernel and shape, on the inputs that most have, found correct."""
    inputs = _commonest(line.inputs for line in lines)
    alike = [line for line in lines if line.inputs == inputs]
    last: dict[tuple[str, str], Measurement] = {}
    for line in alike:
        key = (line.name, _shape(line))
        if key not in last or line.taken >= last[key].taken:
            last[key] = line
    kept = [line for line in last.values() if line.correct is not False]
    others = _note(len(lines) - len(alike), f"on other inputs than {inputs}")
    return kept, others + _note(len(last) - len(kept), "found wrong")


def _point(line: Measurement) -> Point:
    same: dict[str, Any] = {field.name: getattr(line, field.name, None) for field in fields(Point)}
    if line.correct is False:
        same |= {"us": None, "tflops": None, "ratio": None}
    elif len(line.us_samples) == len(theirs := line.rival_us_samples or ()):
        rounds = [b / a for a, b in zip(line.us_samples, theirs, strict=True)]
        same |= {"ratio_p20": quantile(rounds, 0.2), "ratio_p80": quantile(rounds, 0.8)}
    same["peer"] = line.source_hash is None
    same["aligned"] = Shape(line.m, line.n, line.k, line.layout).aligned
    if element := DTYPES.get(line.dtype):
        problem = Problem(line.m, line.n, line.k, element)
        same["intensity"] = problem.flops / problem.bytes
    return Point(**same)


def _shape(line: Measurement) -> str:
    return str(Shape(line.m, line.n, line.k, line.layout))


def _commonest(values: Iterable[str | None]) -> str | None:
    return next((value for value, _ in Counter(values).most_common(1)), None)


def _few(words: Iterable[str]) -> str:
    known = list(words)
    return ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")


def _span(ordered: Sequence[str]) -> str:
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"


def _note(number: int, what: str) -> list[str]:
    return [f"{_count(number, 'line')} {what}"] if number else []


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _figure(tflops: float | None) -> str:
    return "wrong result" if tflops is None else f"{tflops:.0f} TFLOP/s"

"""Lines measured on another GPU, checked before they join a record.

A line says enough to be checked without that GPU: its figures must follow from its samples, its
result must be right, its speed possible, and its code the code that is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from math import isclose
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from tilewright.bench import record
from tilewright.bench.rung_code import hash_of
from tilewright.dtypes import dtype_of
from tilewright.errors import InputError
from tilewright.gpus import gpu_reported
from tilewright.ladder.rungs import RUNGS

if TYPE_CHECKING:
    from tilewright.bench.record import Measurement

_RELATIVE = 1e-6  # how far a figure may lie from what its samples give
_MOST_BEYOND_BOOST = 1.3  # a chip clocks higher than the stated boost, but not by more
_ROUNDOFFS = 4  # a result is rounded once; its error lies well below so many unit roundoffs


@dataclass(frozen=True)
class Row:
    """What came of a line: `status` is "ok" or "refused"; a line that is none has no name."""

    line: int
    name: str | None
    gpu: str | None
    status: str
    reason: str | None


@dataclass(frozen=True)
class Import:
    """The checked lines of a file; `measurements` holds all that could be read."""

    rows: tuple[Row, ...]
    measurements: tuple[Measurement, ...]

    @property
    def fine(self) -> bool:
        return all(row.status == "ok" for row in self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]


def check(path: Path, there: Sequence[Measurement] = ()) -> Import:
    """The lines of a .jsonl file, each with all that speaks against it; `there` are present.

    Raises: InputError when the file cannot be read or holds no line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {record.why_unread(error)}.") from None
    rows: list[Row] = []
    present, found, now = set(there), list[record.Measurement](), record.now()
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = record.parse_line(text)
        except InputError as error:
            rows.append(Row(number, None, None, "refused", str(error)))
            continue
        reasons = list(faults(line, now))
        if line in present:
            reasons.append("the same line is already there.")
        present.add(line)
        found.append(line)
        status = "refused" if reasons else "ok"
        rows.append(Row(number, line.name, line.gpu, status, " ".join(reasons) or None))
    if not rows:
        raise InputError(f"{path} holds no line.")
    return Import(tuple(rows), tuple(found))


def faults(line: Measurement, now: str) -> Iterator[str]:
    """What speaks against a line, in sentences; `now` as in `taken`."""
    yield from _figures(line)
    if not line.is_roof:  # a probe has no product to check
        yield from _result(line)
    yield from _speed(line)
    yield from _code(line)
    try:
        datetime.strptime(line.taken, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        yield f"taken={line.taken} is no moment."
    if line.taken > now:
        yield f"taken={line.taken} lies in the future; it is {now}."


def _figures(line: Measurement) -> Iterator[str]:
    """Medians are those of the samples, and the rival's fields are all there or none is."""
    yield from _figure("us", line.us, line.us_samples, "the median of us_samples")
    fields = (line.rival, line.rival_us, line.rival_us_samples, line.ratio)
    if fields == (None, None, None, None):
        return
    if line.rival is None or line.rival_us_samples is None:
        yield "rival, rival_us, rival_us_samples and ratio must be all there or all null."
        return
    ours, theirs = line.us_samples, line.rival_us_samples
    yield from _figure("rival_us", line.rival_us, theirs, "the median of rival_us_samples")
    if len(ours) != len(theirs):
        yield (
            f"us_samples holds {len(ours)} rounds and rival_us_samples {len(theirs)}; "
            "both must be of the same rounds."
        )
        return
    ratios = [rival / own for own, rival in zip(ours, theirs, strict=True)]
    yield from _figure("ratio", line.ratio, ratios, "the median of the rounds' ratios")


def _figure(name: str, value: float | None, samples: Sequence[float], what: str) -> Iterator[str]:
    middle = median(samples)
    if value is None or not isclose(value, middle, rel_tol=_RELATIVE):
        yield f"{name}={value} is not {what}, {middle:.7g}."


def _result(line: Measurement) -> Iterator[str]:
    if line.correct is not True:
        yield "the result is wrong." if line.correct is False else "the result was not checked."
    try:
        dtype = dtype_of(line.dtype)
    except InputError as error:
        yield str(error)
        return
    limit = _ROUNDOFFS * dtype.unit_roundoff
    if line.rel_error is None or not 0 <= line.rel_error < limit:
        yield (
            f"rel_error={line.rel_error} must be at least 0 and below {limit:.3g}, "
            f"{_ROUNDOFFS} roundings of {dtype.name}."
        )


def _speed(line: Measurement) -> Iterator[str]:
    """No kernel does more than the datasheet's Tensor Core rate at the clock it ran at.

    Other GPUs are not known.
    """
    gpu = gpu_reported(line.machine)
    if gpu is None:
        return
    rates = [(line.name, line.tflops)]
    if line.rival is not None and line.rival_us is not None and line.rival_us > 0:
        rates.append((line.rival, line.tflops * line.us / line.rival_us))
    beyond = min(max((line.sm_mhz or 0) / gpu.boost_mhz, 1), _MOST_BEYOND_BOOST)
    for name, tflops in dict(rates).items():
        if tflops > gpu.tensor_tflops * beyond:
            clock = f" at {gpu.boost_mhz * beyond:.0f} MHz" if beyond > 1 else ""
            yield (
                f"{tflops:,.0f} TFLOP/s of {name} are impossible: the datasheet of {gpu.title} "
                f"says {gpu.tensor_tflops * beyond:.0f}{clock}."
            )


@cache
def _hash_here(name: str) -> str | None:
    """Of the rung's code as it is here; None for what is no rung."""
    rung = RUNGS.get(name)
    return hash_of(rung) if rung else None


def _code(line: Measurement) -> Iterator[str]:
    here = _hash_here(line.name)
    if here is not None and line.source_hash != here:
        yield f"of another version of the code: source_hash={line.source_hash}, here {here}."

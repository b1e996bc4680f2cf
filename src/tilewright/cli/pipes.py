"""`tilewright pipes`: what the pipes of this GPU's multiprocessors do, measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit
from tilewright.errors import EngineError, InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table


def pipes(*, record: Path | None = None, json: JsonTarget = None) -> int:
    """Measure rates and latencies of FMAs, shared memory, L1, L2, stores, and on an H100 or H200
    of TMA and wgmma (about 20 s).

    They are what `tilewright explain limiter` reckons with. Needs a GPU.

    Example: tilewright pipes --record measurements/pipes/h200.jsonl

    Parameters
    ----------
    record
        Append the measurements to this .jsonl file.
    """
    from tilewright.bench.pipes import measure_pipes, table
    from tilewright.bench.record import append
    from tilewright.engines.choose import open_engine
    from tilewright.engines.emulator import EmulatorEngine
    from tilewright.engines.probe import gpu_problem

    check_targets(json, record)
    if record is not None and record.suffix != ".jsonl":
        raise InputError(f"record={record} must be a .jsonl file; others are not read.")
    if (why := gpu_problem()) is not None:
        raise EngineError(f"pipes are timed, which only a GPU can do: {why}.")
    engine = open_engine("gpu")
    assert not isinstance(engine, EmulatorEngine)  # the one asked for
    lines = measure_pipes(engine)
    if record is not None:
        append(record, lines)
    rows = table(lines)
    emit("pipes", rows, _render(rows), json)
    return 0


def _render(rows: Sequence[dict[str, Any]]) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    made.add_column("pipe", no_wrap=True)
    for heading in ("clocks each", "a clock", "SM MHz"):
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        clocks, many = row["clocks"], row["per_clock"]
        told = ("–", "–") if clocks is None else (f"{clocks:.3g}", f"{many:.3g}")
        made.add_row(row["name"], *told, str(row["sm_mhz"] or "–"))
    return made

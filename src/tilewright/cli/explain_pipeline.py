"""`tilewright explain pipeline`: what one buffer, two or more make of loads and computations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import COLOURS, Drawing, heading, line, sentence
from tilewright.cli.explain_options import MaybeNumber, Number, check_range
from tilewright.cli.options import JsonTarget, Whole
from tilewright.cli.output import check_targets, emit
from tilewright.model.pipeline import Timeline, timeline

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_MOST_DRAWN = 24  # tiles
_MOST_SPANS = 400  # that the JSON document holds of one timeline
_MOST_STEPS = 7
_MOST_ROWS = 8  # of buffers


def pipeline(
    *,
    stages: Whole = 2,
    load: Number = 4.0,
    compute: Number = 4.0,
    tiles: Whole = 4,
    transfer: MaybeNumber = None,
    tile_bytes: Whole = 8192,
    json: JsonTarget = None,
) -> int:
    """Draw how loads and computations of tiles lie in time, with one buffer and with several.

    Times are in any unit, such as clocks. It is a model of one block.

    Example: tilewright explain pipeline --load 600 --compute 400 --tiles 6

    Parameters
    ----------
    stages
        Buffers of shared memory: 1 single, 2 double, more keep more loads in flight.
    load
        Time from the start of a tile's load until it can be computed.
    compute
        Time of computing a tile.
    tiles
        Tiles along K.
    transfer
        The part of a load in which it has the memory path to itself; the rest is latency, which
        other loads overlap. All of it, if not given.
    tile_bytes
        Bytes of one step's tiles of A and B: 4·BK·(BM + BN) for fp32.
    """
    check_targets(json)
    check_range(1 << 24, tile_bytes=tile_bytes)
    chosen = timeline(stages, load, compute, tiles, transfer)
    others = sorted({1, 2, 3, 4, stages})
    lines = {
        n: chosen if n == stages else timeline(n, load, compute, tiles, transfer) for n in others
    }
    rows = [_row(each, lines[1], tile_bytes) for each in lines.values()]
    rows.sort(key=lambda row: (row["stages"] != stages, row["stages"]))
    emit("explain-pipeline", rows, _picture(lines, stages, load, compute, tile_bytes), json)
    return 0


def _row(line_: Timeline, single: Timeline, tile_bytes: int) -> dict[str, Any]:
    return {
        "stages": line_.stages, "tiles": len(line_.computes), "total": line_.total,
        "computing": line_.computing, "overlap": line_.overlap, "fill": line_.fill,
        "stalls": line_.stalls, "speedup": single.total / line_.total,
        "shared_bytes": line_.stages * tile_bytes, "steps": line_.steps()[:_MOST_SPANS],
        "spans": [asdict(span) for span in line_.spans[:_MOST_SPANS]],
    }  # fmt: skip


def _picture(
    lines: dict[int, Timeline], stages: int, load: float, compute: float, tile_bytes: int
) -> RenderableType:
    shown = [lines[1]] + ([lines[stages]] if stages > 1 else [])

    def draw(width: int) -> Iterator[Text]:
        scale_to = max(_cut(each)[-1].end for each in shown)
        for each in shown:
            name = "Single buffer" if each.stages == 1 else f"{each.stages} buffers"
            yield heading(name)
            yield from _gantt(each, width, scale_to)
            yield from sentence(_steps(each), width, "dim")
            yield line("")
        yield from _table(lines, tile_bytes)
        yield from sentence(_verdict(lines[max(stages, 2)], load, compute), width, "bold")

    return Drawing(draw)


def _cut(timeline_: Timeline) -> list[Any]:
    return list(timeline_.spans[: 2 * _MOST_DRAWN])


def _gantt(each: Timeline, width: int, scale_to: float) -> Iterator[Text]:
    """A row a buffer for loads, one for the computations; each span is named by its tile."""
    room = max(width - 12, 20)
    spans = _cut(each)
    for slot in range(min(each.stages, _MOST_ROWS)):
        loads = [span for span in spans if span.what == "load" and span.slot == slot]
        style = COLOURS[slot % len(COLOURS)]
        yield line(
            (f"  load s[{slot}] "[:12].ljust(12), "dim"),
            (_spans(loads, "░▒", room, scale_to), style),
        )
    if each.stages > _MOST_ROWS:
        yield line((f"  and {each.stages - _MOST_ROWS} more buffers", "dim"))
    computes = [span for span in spans if span.what == "compute"]
    yield line(("  compute".ljust(12), "dim"), (_spans(computes, "█▓", room, scale_to), "green"))
    if len(each.spans) > len(spans):
        yield line((f"  the first {_MOST_DRAWN} of {len(each.computes):,} tiles", "dim"))


def _spans(spans: list[Any], fills: str, room: int, scale_to: float) -> str:
    cells = [" "] * room
    for span in spans:
        start = min(round(span.start / scale_to * room), room - 1)
        end = max(min(round(span.end / scale_to * room), room), start + 1)
        label = str(span.tile) if len(str(span.tile)) < end - start else ""
        cells[start:end] = [*label, *fills[span.tile % 2] * (end - start - len(label))]
    return "".join(cells).rstrip()


def _steps(each: Timeline) -> str:
    steps = each.steps()
    if len(steps) > _MOST_STEPS:
        steps = [*steps[: _MOST_STEPS - 2], "…", steps[-1]]
    return " → ".join(steps)


def _table(lines: dict[int, Timeline], tile_bytes: int) -> Iterator[Text]:
    heads = ("buffers", "total", "speedup", "overlap", "stalls", "shared memory")
    yield line(("".join(f"{head:>{_WIDTHS[at]}}" for at, head in enumerate(heads)), "bold"))
    for each in lines.values():
        cells = (
            f"{each.stages}",
            f"{each.total:,.6g}",
            f"{lines[1].total / each.total:.2f}",
            f"{each.overlap:,.6g}",
            f"{each.stalls:,.6g}",
            f"{each.stages * tile_bytes:,} B",
        )
        yield line("".join(f"{cell:>{_WIDTHS[at]}}" for at, cell in enumerate(cells)))


_WIDTHS = (9, 12, 9, 12, 12, 16)


def _verdict(best: Timeline, load: float, compute: float) -> str:
    if not best.stalls:
        return (
            f"With {best.stages} buffers every load but the first is hidden: the total is one load "
            "and all computations."
        )
    short = best.stalls / max(len(best.computes) - 1, 1)
    why = "the load is longer than the computation" if load > compute else "loads queue up"
    return (
        f"With {best.stages} buffers {why}: the arithmetic still waits {short:,.4g} a tile. More "
        "loads in flight help only as far as they overlap (--transfer)."
    )

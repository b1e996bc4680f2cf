"""`tilewright explain fragment`: which lane holds which element of an mma operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import COLOURS, Drawing, heading, line, sentence
from tilewright.cli.options import JsonTarget, MaybeWhole
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError
from tilewright.model.fragments import WARP, Fragment, Holder, mma_named
from tilewright.model.fragments import fragment as fragment_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


def fragment(
    mma: str,
    operand: str = "C",
    /,
    *,
    lane: MaybeWhole = None,
    json: JsonTarget = None,
) -> int:
    """Draw which lane, and which of its registers, holds which element of an operand.

    Example: tilewright explain fragment mma.m16n8k16.bf16 A

    Parameters
    ----------
    mma
        Shape and type of A and B: mma.m16n8k16.bf16, mma.m16n8k8.tf32, mma.m16n8k32.e4m3.
    operand
        A, B or C; D lies as C does.
    lane
        Show one lane's elements in full.
    """
    check_targets(json)
    if lane is not None and not 0 <= lane < WARP:
        raise InputError(f"lane={lane} must be 0..{WARP - 1}.")
    found = fragment_of(mma_named(mma), operand)
    emit("explain-fragment", [_row(found, lane)], _picture(found, lane), json)
    return 0


def _row(found: Fragment, lane: int | None) -> dict[str, Any]:
    shown = found.holders if lane is None else found.of_lane(lane)
    return {
        "mma": found.mma.name, "operand": found.operand, "rows": found.rows,
        "columns": found.columns, "registers": found.registers,
        "elements_per_register": found.per, "lane": lane,
        "elements": [asdict(holder) for holder in shown],
    }  # fmt: skip


def _picture(found: Fragment, lane: int | None) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        kind = found.mma.sum_type if found.operand == "C" else found.mma.dtype
        yield heading(f"{found.mma.name}: {found.operand}[{found.rows}, {found.columns}] of {kind}")
        many = "1 element" if found.per == 1 else f"{found.per} elements along {found.along}"
        yield line((f"Each place names lane:register; a register holds {many}.", "dim"))
        yield from _columnwise(found, lane) if found.operand == "B" else _rowwise(found, lane)
        yield line("")
        for one in (lane,) if lane is not None else (0, 5):
            yield from sentence(_lane(found, one), width)
        yield from sentence(_rule(found), width, "dim")

    return Drawing(draw)


def _rowwise(found: Fragment, lane: int | None) -> Iterator[Text]:
    heads = range(0, found.columns, found.per)
    yield line(("      " + "".join(f"{_span(at, found.per):>7}" for at in heads), "dim"))
    places = found.places()
    for row in range(found.rows):
        cells = [_cell(found, places[row, column], lane) for column in heads]
        yield line((f"{row:5} ", "dim"), *cells)


def _columnwise(found: Fragment, lane: int | None) -> Iterator[Text]:
    """B: a register's elements lie below each other."""
    yield line(("      " + "".join(f"{column:7}" for column in range(found.columns)), "dim"))
    places = found.places()
    for row in range(0, found.rows, found.per):
        cells = [_cell(found, places[row, column], lane) for column in range(found.columns)]
        yield line((f"{_span(row, found.per):>5} ", "dim"), *cells)


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}–{first + count - 1}"


def _cell(found: Fragment, holder: Holder, lane: int | None) -> tuple[str, str]:
    name = f"{holder.lane}:{found.operand.lower()}{holder.register}"
    mine = holder.lane == lane
    style = COLOURS[holder.register % len(COLOURS)]
    return (f"[{name}]" if mine else f"{name} ").rjust(7), f"bold {style}" if mine else style


def _lane(found: Fragment, lane: int) -> str:
    name = found.operand.lower()
    words = []
    held = found.of_lane(lane)
    for register in range(found.registers):
        parts = [holder for holder in held if holder.register == register]
        places = " ".join(f"({holder.row},{holder.column})" for holder in parts)
        words.append(f"{name}{register} = {places}")
    return f"lane {lane}: {'; '.join(words)}"


def _rule(found: Fragment) -> str:
    per = found.per
    step = f"{per}·t + i" if per > 1 else "t"
    far = 4 * per
    match found.operand:
        case "A" if found.mma.m == 8:
            return "g = lane / 4, t = lane % 4: row g, column t"
        case "A":
            return (
                f"g = lane / 4, t = lane % 4: register r has row g + 8·(r % 2), column {step} "
                f"+ {far}·(r / 2)"
            )
        case "B":
            return f"g = lane / 4, t = lane % 4: register r has row {step} + {far}·r, column g"
    return "g = lane / 4, t = lane % 4: register r has row g + 8·(r / 2), column 2·t + r % 2"

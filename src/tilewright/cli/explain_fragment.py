"""`tilewright explain fragment`: which lane holds which element of an mma operand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import COLOURS, Drawing, heading, line, sentence
from tilewright.cli.options import JsonTarget, MaybeWhole
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError
from tilewright.model.access import access_named
from tilewright.model.fragments import WARP, Fragment, Holder, Ldmatrix, Mma, mma_named
from tilewright.model.fragments import fragment as fragment_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


def fragment(
    instruction: str,
    operand: str | None = None,
    /,
    *,
    lane: MaybeWhole = None,
    json: JsonTarget = None,
) -> int:
    """Draw which lane, and which of its registers, holds which element of an operand.

    Example: tilewright explain fragment mma.m16n8k16.bf16 A

    Parameters
    ----------
    instruction
        Shape and type of A and B: mma.m16n8k16.bf16, mma.m16n8k8.tf32, mma.m16n8k32.e4m3; or
        ldmatrix.x4, ldmatrix.x2.trans and their like.
    operand
        Of an mma A, B or C; C if none is named, and D lies as C does.
    lane
        Show one lane's elements in full.
    """
    check_targets(json)
    if lane is not None and not 0 <= lane < WARP:
        raise InputError(f"lane={lane} must be 0..{WARP - 1}.")
    known = _instruction(instruction, operand)
    letter = "C" if operand is None else operand
    found = known.fragment() if isinstance(known, Ldmatrix) else fragment_of(known, letter)
    emit("explain-fragment", [_row(known, found, lane)], _picture(known, found, lane), json)
    return 0


def _instruction(text: str, operand: str | None) -> Mma | Ldmatrix:
    if "matrix" not in text.lower():
        return mma_named(text)
    access = access_named(text)
    if operand is not None:
        raise InputError(f"{access.name} has no operand {operand!r}; leave it out.")
    return Ldmatrix(access.lanes // 8, access.name.endswith(".trans"))


def _row(known: Mma | Ldmatrix, found: Fragment, lane: int | None) -> dict[str, Any]:
    shown = found.holders if lane is None else found.of_lane(lane)
    return {
        "instruction": known.name,
        "operand": found.letter.upper() if isinstance(known, Mma) else None,
        "rows": found.rows, "columns": found.columns, "registers": found.registers,
        "elements_per_register": found.per, "lane": lane,
        "elements": [asdict(holder) for holder in shown],
    }  # fmt: skip


def _picture(known: Mma | Ldmatrix, found: Fragment, lane: int | None) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        yield heading(f"{known.name}: {_what(known, found)}")
        many = "1 element" if found.per == 1 else f"{found.per} elements {_along(known, found)}"
        yield line((f"Each place names lane:register; a register holds {many}.", "dim"))
        if isinstance(known, Ldmatrix):
            yield line(("Lane n gives the address of row n.", "dim"))
        yield from _columnwise(found, lane) if found.down else _rowwise(found, lane)
        yield line("")
        for one in (lane,) if lane is not None else (0, 5):
            yield from sentence(_lane(found, one), width)
        yield from sentence(f"g = lane / 4, t = lane % 4: {_rule(known, found)}", width, "dim")

    return Drawing(draw)


def _what(known: Mma | Ldmatrix, found: Fragment) -> str:
    if isinstance(known, Ldmatrix):
        matrices = "1 matrix" if known.many == 1 else f"{known.many} matrices"
        return f"{matrices} of 8×8 16-bit elements"
    kind = known.sum_type if found.letter == "c" else known.dtype
    return f"{found.letter.upper()}[{found.rows}, {found.columns}] of {kind}"


def _along(known: Mma | Ldmatrix, found: Fragment) -> str:
    if isinstance(known, Mma):
        return "along k"
    return "below each other" if found.down else "side by side"


def _rowwise(found: Fragment, lane: int | None) -> Iterator[Text]:
    heads = range(0, found.columns, found.per)
    yield line(("      " + "".join(f"{_span(at, found.per):>7}" for at in heads), "dim"))
    places = found.places()
    for row in range(found.rows):
        cells = [_cell(found, places[row, column], lane) for column in heads]
        yield line((f"{row:5} ", "dim"), *cells)


def _columnwise(found: Fragment, lane: int | None) -> Iterator[Text]:
    """Where a register's elements lie below each other."""
    yield line(("      " + "".join(f"{column:7}" for column in range(found.columns)), "dim"))
    places = found.places()
    for row in range(0, found.rows, found.per):
        cells = [_cell(found, places[row, column], lane) for column in range(found.columns)]
        yield line((f"{_span(row, found.per):>5} ", "dim"), *cells)


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}–{first + count - 1}"


def _cell(found: Fragment, holder: Holder, lane: int | None) -> tuple[str, str]:
    name = f"{holder.lane}:{found.letter}{holder.register}"
    mine = holder.lane == lane
    style = COLOURS[holder.register % len(COLOURS)]
    return (f"[{name}]" if mine else f"{name} ").rjust(7), f"bold {style}" if mine else style


def _lane(found: Fragment, lane: int) -> str:
    name = found.letter
    words = []
    held = found.of_lane(lane)
    for register in range(found.registers):
        parts = [holder for holder in held if holder.register == register]
        places = " ".join(f"({holder.row},{holder.column})" for holder in parts)
        words.append(f"{name}{register} = {places}")
    return f"lane {lane}: {'; '.join(words)}"


def _rule(known: Mma | Ldmatrix, found: Fragment) -> str:
    if isinstance(known, Ldmatrix):
        place = "row 2·t + i, column g" if known.trans else "row g, column 2·t + i"
        return f"register j has {place} of matrix j"
    per = found.per
    step, far = f"{per}·t + i" if per > 1 else "t", 4 * per
    match found.letter:
        case "a" if known.m == 8:
            return "row g, column t"
        case "a":
            return f"register r has row g + 8·(r % 2), column {step} + {far}·(r / 2)"
        case "b":
            return f"register r has row {step} + {far}·r, column g"
    return "register r has row g + 8·(r / 2), column 2·t + r % 2"

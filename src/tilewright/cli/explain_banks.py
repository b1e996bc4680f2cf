"""`tilewright explain banks`: which lane meets which bank, and in how many wavefronts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tilewright.cli.explain_draw import Drawing, heading, line, sentence
from tilewright.cli.options import JsonTarget, MaybeWhole
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError
from tilewright.model.access import WORD, Access, access_named, is_exact, wavefronts
from tilewright.model.lanes import (
    SOURCE_PITCH,
    Place,
    addresses,
    check_addresses,
    lane_values,
    padded_pitch,
    places,
    strided,
    swizzle_of,
)

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.model.access import Service, Wavefront
    from tilewright.model.banks import Cost

Text_ = Annotated[str | None, Parameter(allow_leading_hyphen=True)]

_BANKS = 32
_WIDE = 110  # columns with which the lanes get more room
_MOST_SHARED = 2  # words told of in one line
_MOST_PITCH = 1 << 20
_INEXACT = {
    "cp.async.ca": "Both sides conflict here; an H200 took up to half as much again.",
    "cp.async.cg": "Lanes read the same chunks here; an H200 took up to 3 wavefronts more.",
}


def banks(
    *,
    access: str = "ld.4",
    stride: MaybeWhole = None,
    pitch: str | None = None,
    column: Annotated[bool, Parameter(negative=())] = False,
    lanes_per_row: MaybeWhole = None,
    swizzle: Text_ = None,
    chunk: MaybeWhole = None,
    index: Text_ = None,
    address: Text_ = None,
    source: Text_ = None,
    active: Text_ = None,
    json: JsonTarget = None,
) -> int:
    """Draw which lane meets which bank of shared memory, wavefront by wavefront.

    The counts are those of an H200's counters.

    Example: tilewright explain banks --pitch 32 --column

    More: --stride 8; --access ldmatrix.x4 --pitch 64 --swizzle "(row>>1)&3";
    --access ld.16 --index "lane%16*2"; --access cp.async.cg --pitch 64.

    Parameters
    ----------
    access
        ld, st with the bytes of a lane (ld.4, st.16), ldmatrix.x4, stmatrix.x2,
        cp.async.cg.16, cp.async.ca.4; ld.global.4 and st.global.4 count sectors.
    stride
        Lane n at element n * stride; elements are as wide as the access.
    pitch
        From row to row: elements for ld and st, bytes for matrices and cp.async; 64B is bytes.
    column
        Lane n in row n, all in one column.
    lanes_per_row
        Lanes side by side in a row of the pitch, the next ones in the next row.
    swizzle
        An expression of row, chunk and lane that is XORed to the number of the chunk.
    chunk
        Bytes of a chunk; as wide as the access if not given.
    index
        An expression of the lane: its element.
    address
        An expression of the lane: its byte.
    source
        For cp.async, the byte of global memory; rows 8192 bytes apart if not given.
    active
        An expression of the lane: it takes part where this is not 0.
    """
    check_targets(json)
    kind = access_named(access)
    asked = _Asked(kind, stride, pitch, column, lanes_per_row, swizzle, chunk, index, address)
    where, pattern, bytes_ = _shared(asked)
    from_ = _source(kind, source, where, bytes_)
    taking = [True] * kind.lanes
    if active is not None:
        taking = [bool(value) for value in lane_values(active, kind.lanes, "active")]
    check_addresses(kind, bytes_, "address")
    check_addresses(kind, from_, "source")
    shared = [at if on else None for at, on in zip(bytes_, taking, strict=True)]
    global_ = [at if on else None for at, on in zip(from_, taking, strict=True)]
    if kind.is_global:
        shared, global_ = [], shared
    cost, passes = kind.cost(shared, global_), wavefronts(kind, shared, global_)
    exact = is_exact(kind, shared, global_)
    seen = _Seen(kind, pattern, where, asked.pitch_bytes, cost, passes, exact)
    row = _row(seen, shared, global_)
    emit("explain-banks", [row], _picture(seen), json)
    return 0


@dataclass(frozen=True)
class _Asked:
    access: Access
    stride: int | None
    pitch: str | None
    column: bool
    lanes_per_row: int | None
    swizzle: str | None
    chunk: int | None
    index: str | None
    address: str | None

    @property
    def pitch_bytes(self) -> int | None:
        """Raises: InputError for a pitch that is no length."""
        if self.pitch is None:
            return None
        match = re.fullmatch(r"(\d{1,7})([bB]?)", self.pitch, re.ASCII)
        if match is None:
            raise InputError(f"pitch={self.pitch!r} must be a number of elements, or bytes as 64B.")
        in_bytes = bool(match[2]) or self.access.is_matrix or self.access.is_copy
        pitch = int(match[1]) * (1 if in_bytes else self.access.width)
        if not 1 <= pitch <= _MOST_PITCH or pitch % self.access.width:
            raise InputError(
                f"pitch={self.pitch} is {pitch} bytes; it must be a multiple of the "
                f"{self.access.width} bytes that {self.access.name} moves, at most {_MOST_PITCH}."
            )
        return pitch


@dataclass(frozen=True)
class _Seen:
    access: Access
    pattern: str
    places: list[Place]
    pitch: int | None
    cost: Cost
    passes: list[Wavefront]
    exact: bool

    @property
    def degree(self) -> float:
        return self.cost.wavefronts / self.cost.wavefronts_ideal if self.passes else 1.0

    @property
    def banks(self) -> int:
        """Banks that serve at least one lane."""
        served = (one for each in self.passes for one in each)
        return len({bank for one in served for bank in range(one.bank, one.bank + one.banks)})


def _shared(asked: _Asked) -> tuple[list[Place], str, list[int]]:
    """Places in rows, the pattern in words, and each lane's byte address."""
    kind, pitch = asked.access, asked.pitch_bytes
    named = {"stride": asked.stride, "pitch": pitch, "index": asked.index, "address": asked.address}
    given = [name for name, value in named.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"--{given[0]} and --{given[1]} both place the lanes; give one of them.")
    if pitch is None:
        _rows_only(asked)
        if asked.index is not None:
            elements = lane_values(asked.index, kind.lanes, "index")
            return [], f"element {asked.index}", [at * kind.width for at in elements]
        if asked.address is not None:
            return [], f"byte {asked.address}", lane_values(asked.address, kind.lanes, "address")
        stride = 1 if asked.stride is None else asked.stride
        return [], f"stride {stride}", strided(kind, stride)
    where = places(kind, _lanes_per_row(asked, pitch), pitch)
    chunk = kind.width if asked.chunk is None else asked.chunk
    if chunk < kind.width or chunk % kind.width:
        raise InputError(f"chunk={chunk} must be a multiple of the {kind.width} bytes of a lane.")
    xor = None if asked.swizzle is None else swizzle_of(asked.swizzle)
    words = f"rows {pitch} bytes apart" + (f", chunk ^ ({asked.swizzle})" if xor else "")
    return where, words, addresses(where, pitch, chunk, xor)


def _rows_only(asked: _Asked) -> None:
    """Raises: InputError for an option that means something in rows alone."""
    given = {
        "swizzle": asked.swizzle is not None,
        "chunk": asked.chunk is not None,
        "lanes-per-row": asked.lanes_per_row is not None,
        "column": asked.column,
    }
    for option, is_given in given.items():
        if is_given:
            raise InputError(f"--{option} needs rows; give --pitch, the distance of two of them.")


def _lanes_per_row(asked: _Asked, pitch: int) -> int:
    kind = asked.access
    if asked.column and asked.lanes_per_row is not None:
        raise InputError("--column is one lane a row; leave out --lanes-per-row.")
    if kind.is_matrix:
        if asked.lanes_per_row is not None:
            raise InputError(f"--lanes-per-row: each lane of {kind.name} names a row of its own.")
        return 1
    if asked.column:
        return 1
    if asked.lanes_per_row is not None:
        return asked.lanes_per_row
    if kind.is_copy:
        return min(pitch // kind.width, kind.lanes)
    raise InputError(
        "--pitch needs --column (lane n in row n) or --lanes-per-row L (lane n in row n / L)."
    )


def _source(kind: Access, text: str | None, where: list[Place], bytes_: list[int]) -> list[int]:
    """Where each lane of a cp.async reads; unused for others."""
    if text is not None:
        if not kind.is_copy:
            raise InputError(f"--source is for cp.async; {kind.name} has one address a lane.")
        return lane_values(text, kind.lanes, "source")
    if where:
        return [place.row * SOURCE_PITCH + place.column for place in where]
    return strided(kind, 1) if kind.is_copy else bytes_


def _row(seen: _Seen, shared: list[int | None], global_: list[int | None]) -> dict[str, Any]:
    kind, cost = seen.access, seen.cost
    on_shared, on_global = not kind.is_global, kind.is_global or kind.is_copy
    return {
        "access": kind.name, "width": kind.width, "pattern": seen.pattern,
        "wavefronts": cost.wavefronts if on_shared else None,
        "wavefronts_ideal": cost.wavefronts_ideal if on_shared else None,
        "conflicts": cost.wavefronts - cost.wavefronts_ideal if on_shared else None,
        "degree": seen.degree if on_shared else None,
        "banks": seen.banks if on_shared else None,
        "sectors": cost.sectors if on_global else None,
        "sectors_ideal": cost.sectors_ideal if on_global else None,
        "addresses": shared if on_shared else None,
        "global_addresses": global_ if on_global else None,
        "exact": seen.exact,
        "passes": [[asdict(one) for one in each] for each in seen.passes] if on_shared else None,
    }  # fmt: skip


def _picture(seen: _Seen) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        yield heading(f"{seen.access.name}, {seen.pattern}")
        if seen.passes:
            yield from _map(seen.passes, width)
        yield from sentence(_verdict(seen), width, "bold" if seen.degree > 1 else "")
        yield from sentence(_remedy(seen), width) if seen.degree > 1 else ()
        if not seen.exact:
            yield from sentence(_INEXACT[seen.access.family], width, "yellow")

    return Drawing(draw)


def _map(passes: list[Wavefront], width: int) -> Iterator[Text]:
    """Down the wavefronts, across the banks, in each place the lane that is served."""
    cell = 3 if width >= _WIDE else 2
    ruler = [f"{bank:{cell}}" for bank in range(_BANKS)]
    yield line((f"   bank {_by_eights(ruler)}", "dim"))
    for number, services in enumerate(passes):
        cells = ["·".rjust(cell)] * _BANKS
        for one in services:
            name = ("+" if len(one.lanes) > 1 else str(one.lanes[0])).rjust(cell)
            cells[one.bank : one.bank + one.banks] = [name, *["─" * cell] * (one.banks - 1)]
        style = "green" if not number else "yellow"
        yield line((f"{number:7} ", "dim"), (_by_eights(cells), style))
        shared = [one for one in services if len(one.lanes) > 1]
        if 0 < len(shared) <= _MOST_SHARED:
            for told in sentence(_sharing(shared), width - 8):
                yield line((f"        {told.plain}", "dim"))


def _by_eights(cells: list[str]) -> str:
    return "│".join("".join(cells[at : at + 8]) for at in range(0, _BANKS, 8))


def _sharing(shared: list[Service]) -> str:
    words = [f"bank {one.bank}: lanes {_ranges(one.lanes)} share one word" for one in shared]
    return "+ " + "; ".join(words)


def _ranges(numbers: tuple[int, ...]) -> str:
    """0-7, 9, 12-15"""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    shown = ["–".join(map(str, part)) for part in parts]
    return ", ".join(shown if len(shown) < 6 else [*shown[:4], "…", shown[-1]])


def _verdict(seen: _Seen) -> str:
    cost, kind = seen.cost, seen.access
    sectors = f"{cost.sectors} sectors of 32 bytes ({cost.sectors_ideal} ideal)"
    if kind.is_global:
        return sectors
    many = f"{cost.wavefronts} wavefront{'s' * (cost.wavefronts != 1)}"
    used = f"{seen.banks} bank{'s' * (seen.banks != 1)} used"
    ways = f"{seen.degree:g}" if seen.degree.is_integer() else f"{seen.degree:.2f}"
    if kind.is_copy:
        worse = "" if seen.degree <= 1 else f", {ways} times the ideal"
        return f"{many} ({cost.wavefronts_ideal} ideal){worse}; {sectors} of global memory"
    said = f"{ways}-way bank conflict" if seen.degree > 1 else "1-way, no conflict"
    return f"{many} ({cost.wavefronts_ideal} ideal), {used}: {said}"


def _remedy(seen: _Seen) -> str:
    if seen.access.family == "cp.async.cg":
        return (
            "cp.async.cg moves pieces from one 128-byte line to another; rows of 128 bytes on "
            "both sides reach the ideal, swizzled or not."
        )
    if seen.pitch is None or seen.access.is_copy:
        queue = "Lanes of one group that name different words of one bank queue up for it"
        odd = "stride" in seen.pattern and seen.access.width >= WORD  # narrower lanes share words
        return f"{queue}; an odd stride meets every bank." if odd else f"{queue}."
    wider = padded_pitch(seen.access, seen.places, seen.pitch, seen.cost.wavefronts_ideal)
    swizzled = "a swizzle costs no memory: tilewright explain swizzle derives it"
    if wider is None:
        return f"No wider pitch removes it; {swizzled}."
    unit = seen.access.width
    shown = f"{wider} bytes" if seen.access.is_matrix else f"{wider // unit} elements"
    return f"A pitch of {shown} has no conflict; {swizzled}."

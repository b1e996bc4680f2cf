"""`tilewright explain hierarchy`: matrix, block, warp, instruction or thread of a rung."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, heading, line, sentence, size
from tilewright.cli.explain_options import K, M, N, check_range
from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit
from tilewright.model.hierarchy import Level, Shape, levels

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.ladder.rungs import KernelRung

_CONSTANT = re.compile(r"\b(WM|WN|MMA_M|MMA_N|MMA_K)\s*=\s*(\d+)\s*[,;]")


def hierarchy(
    rung: str = "hgemm_bcf_dbf_rw",
    /,
    *,
    m: M = 4096,
    n: N = 4096,
    k: K = 4096,
    dtype: str | None = None,
    json: JsonTarget = None,
) -> int:
    """Show the levels of a rung: what each works on, from which memory, and how many bytes.

    Example: tilewright explain hierarchy hgemm_bcf

    Parameters
    ----------
    rung
        A rung of the ladder (tilewright ladder --list names them).
    m
        Rows of C.
    n
        Columns of C.
    k
        Columns of A.
    dtype
        Type of A, B and C; the rung's first if none is named.
    """
    from tilewright.dtypes import dtype_of
    from tilewright.ladder.rungs import select_kernels
    from tilewright.problem import Problem

    check_targets(json)
    check_range(m=m, n=n, k=k)
    (chosen,) = select_kernels(None, (rung,))
    kind = dtype_of(dtype or chosen.dtypes[0])
    if refusal := chosen.refusal(Problem(m, n, k, kind)):
        from tilewright.errors import InputError

        raise InputError(refusal)
    found = levels((m, n, k), shape_of(chosen), kind.bytes)
    rows = [_row(chosen.name, kind.name, level) for level in found]
    emit("explain-hierarchy", rows, _picture(chosen, kind.name, found), json)
    return 0


def shape_of(rung: KernelRung) -> Shape:
    """The tiles of a rung: a block's and a thread's from the table, a warp's from its source."""
    named = {name: int(value) for name, value in _CONSTANT.findall(rung.text)}
    tile = rung.tile

    def of(*names: str) -> tuple[int, ...] | None:
        return tuple(named[name] for name in names) if set(names) <= named.keys() else None

    warp, mma = of("WM", "WN"), of("MMA_M", "MMA_N", "MMA_K")
    return Shape(
        (tile.bm, tile.bn, tile.bk),
        rung.threads,
        rung.buffers,
        None if warp is None else (warp[0], warp[1]),
        None if mma is None else (mma[0], mma[1], mma[2]),
        None if tile.tm is None or tile.tn is None else (tile.tm, tile.tn),
        rung.pad_m,
    )


def _row(rung: str, dtype: str, level: Level) -> dict[str, Any]:
    return {
        "rung": rung, "dtype": dtype, "level": level.name,
        "within": level.within or None, "count": level.count,
        "m": level.m, "n": level.n, "k": level.k, "reads_from": level.memory,
        "read_bytes": level.read_bytes, "held_bytes": level.held_bytes, "flops": level.flops,
        "intensity": level.intensity,
    }  # fmt: skip


def _picture(rung: KernelRung, dtype: str, found: list[Level]) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        matrix = found[0]
        yield heading(f"{rung.name}, {matrix.m}×{matrix.n}×{matrix.k} {dtype}")
        depths: dict[str, int] = {"": -1}
        for level in found:
            depths[level.name] = depths[level.within] + 1
            yield from _level(level, depths[level.name], width)
        yield line("")
        yield from _boxes(found)

    return Drawing(draw)


def _level(level: Level, depth: int, width: int) -> Iterator[Text]:
    indent = "   " * depth
    arrow = "└─ " if depth else ""
    many = f"{level.count:,} of {level.m}×{level.n} a {level.within}" if depth else "1"
    yield line(
        f"{indent[3:]}{arrow}", (level.name, "bold"), f"  {many}, steps of {level.k} along K"
    )
    held = {
        "matrix": f"C has {size(level.held_bytes)}",
        "block": f"holds {size(level.held_bytes)} of shared memory",
    }.get(level.name, f"holds {size(level.held_bytes)} of sums in registers")
    words = (
        f"reads {size(level.read_bytes)} a step from {level.memory} for {level.flops:,} FLOP: "
        f"{level.intensity:,.4g} FLOP/B; {held}"
    )
    for text in sentence(words, width - 3 * depth - 3):
        yield line(f"{indent}   ", text.plain)


def _boxes(found: list[Level]) -> Iterator[Text]:
    """The block's tile of C, cut into the warps' (or the whole block, where they have none)."""
    named = {level.name: level for level in found}
    if "warp" not in named:
        return
    block, warp = named["block"], named["warp"]
    down, across = block.m // warp.m, block.n // warp.n
    wide = max(8, min(16, 64 // across - 1))
    yield line((f"the {block.m}×{block.n} of a block, by warp", "dim"))
    rule = "─" * wide
    for row in range(down):
        edge = "┌┬┐" if row == 0 else "├┼┤"
        yield line(f"  {edge[0]}{edge[1].join([rule] * across)}{edge[2]}")
        names = [f"warp {row * across + column}".center(wide) for column in range(across)]
        sizes = [f"{warp.m}×{warp.n}".center(wide)] * across
        yield line(f"  │{'│'.join(names)}│")
        yield line((f"  │{'│'.join(sizes)}│", ""))
    yield line(f"  └{'┴'.join([rule] * across)}┘")

"""`tilewright explain tiling`: which parts of A and B feed a tile of C, step by step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, heading, line, sentence
from tilewright.cli.explain_options import K, M, N, Number, check_range
from tilewright.cli.options import JsonTarget, MaybeWhole, Whole
from tilewright.cli.output import check_targets, console, emit
from tilewright.errors import InputError
from tilewright.model.formats import format_named
from tilewright.model.tiling import Step, steps

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_MOST = 32  # elements along a side: a picture, not a problem
_LONGEST_S = 60.0


def tiling(
    *,
    m: M = 8,
    n: N = 12,
    k: K = 8,
    bm: Whole = 4,
    bn: Whole = 4,
    bk: Whole = 2,
    row: MaybeWhole = None,
    col: MaybeWhole = None,
    dtype: str = "fp32",
    delay: Number = 0.7,
    json: JsonTarget = None,
) -> int:
    """Show which parts of A and B feed one tile of C, step by step along K.

    A film in a terminal, a picture a step elsewhere. Small sizes say all there is to see.

    Example: tilewright explain tiling -m 8 -n 8 -k 8 --bk 4

    Parameters
    ----------
    m
        Rows of A and C, at most 32.
    n
        Columns of B and C, at most 32.
    k
        Columns of A, rows of B, at most 32.
    bm
        Rows of the tile of C.
    bn
        Columns of the tile of C.
    bk
        Columns of A and rows of B of a step.
    row
        Which tile of C, counted down from 0; 1 if there is one and none is named.
    col
        Which tile of C, counted across from 0; 1 if there is one and none is named.
    dtype
        Type of A and B.
    delay
        Seconds that each step of the film stays; 0 prints the pictures.
    """
    check_targets(json)
    check_range(_MOST, m=m, n=n, k=k, bm=bm, bn=bn, bk=bk)
    if not 0 <= delay <= _LONGEST_S:
        raise InputError(f"delay={delay:g} must be 0..{_LONGEST_S:g} seconds.")
    at = (_second(m, bm) if row is None else row, _second(n, bn) if col is None else col)
    walk = steps((m, n, k), (bm, bn, bk), at, format_named(dtype).bytes)
    screen = console(json)
    fits = screen.height > m + k + 4 and not screen.is_dumb_terminal
    film = delay > 0 and screen.is_terminal and fits
    if film:
        _play((m, n, k), walk, delay, json)
    emit("explain-tiling", _rows(walk), _pictures((m, n, k), walk, with_steps=not film), json)
    return 0


def _second(extent: int, tile: int) -> int:
    """The second tile along an extent, or the only one."""
    return int(extent > tile)


def _rows(walk: list[Step]) -> list[dict[str, Any]]:
    rows, loaded, flops = [], 0, 0
    for step in walk:
        loaded, flops = loaded + step.loaded_bytes, flops + step.flops
        rows.append(
            {
                "step": step.number, "rows": step.rows, "columns": step.columns,
                "depth": step.depth, "bytes": step.loaded_bytes, "flops": step.flops,
                "bytes_so_far": loaded, "flops_so_far": flops, "intensity": flops / loaded,
            }
        )  # fmt: skip
    return rows


def _play(mnk: tuple[int, int, int], walk: list[Step], delay: float, json: str | None) -> None:
    from rich.console import Group
    from rich.live import Live

    with Live(console=console(json), auto_refresh=False) as live:
        for number in range(len(walk)):
            live.update(Group(*_frame(mnk, walk, number)), refresh=True)
            time.sleep(delay)


def _pictures(mnk: tuple[int, int, int], walk: list[Step], with_steps: bool) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        if with_steps:
            for number in range(len(walk)):
                yield from _frame(mnk, walk, number)
                yield line("")
        bm, bn, _ = walk[0].extents
        total = sum(step.loaded_bytes for step in walk)
        flops = sum(step.flops for step in walk)
        yield from sentence(
            f"The tile of C stays in registers over all {len(walk)} steps. Each element of A was "
            f"loaded once and used {_times(bn)}, each of B {_times(bm)}: {flops:,} FLOP for "
            f"{total:,} bytes, {flops / total:.2f} FLOP/B.",
            width,
        )

    return Drawing(draw)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _frame(mnk: tuple[int, int, int], walk: list[Step], number: int) -> Iterator[Text]:
    """B above C, A beside it: what is loaded now, what was before, and the tile of C."""
    m, n, k = mnk
    step = walk[number]
    yield heading(f"step {number + 1} of {len(walk)}: {_words(step)}")
    left = " " * (2 * k + 4)
    yield line((f"{left}B[{k}, {n}]", "dim"))
    for depth in range(k):
        yield line(left, *(_cell_b(step, depth, column) for column in range(n)))
    yield line((f"A[{m}, {k}]".ljust(2 * k + 4) + f"C[{m}, {n}]", "dim"))
    for row in range(m):
        a = [_cell_a(step, row, depth) for depth in range(k)]
        c = [_cell_c(step, row, column) for column in range(n)]
        yield line(*a, "    ", *c)


def _words(step: Step) -> str:
    (r0, r1), (c0, c1), (d0, d1) = step.rows, step.columns, step.depth
    return f"C[{r0}:{r1}, {c0}:{c1}] += A[{r0}:{r1}, {d0}:{d1}] · B[{d0}:{d1}, {c0}:{c1}]"


def _inside(index: int, span: tuple[int, int]) -> bool:
    return span[0] <= index < span[1]


def _cell_a(step: Step, row: int, depth: int) -> tuple[str, str]:
    return _operand("a ", "blue", _inside(row, step.rows), depth, step.depth)


def _cell_b(step: Step, depth: int, column: int) -> tuple[str, str]:
    return _operand("b ", "dark_orange", _inside(column, step.columns), depth, step.depth)


def _operand(
    letter: str, style: str, mine: bool, depth: int, now: tuple[int, int]
) -> tuple[str, str]:
    if mine and _inside(depth, now):
        return letter, f"bold {style}"
    return ("∘ ", style) if mine and depth < now[0] else ("· ", "dim")


def _cell_c(step: Step, row: int, column: int) -> tuple[str, str]:
    mine = _inside(row, step.rows) and _inside(column, step.columns)
    return ("c ", "bold green") if mine else ("· ", "dim")

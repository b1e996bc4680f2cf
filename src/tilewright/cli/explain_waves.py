"""`tilewright explain waves`: how a grid passes over the SMs, and what its tail wastes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, heading, line, sentence
from tilewright.cli.explain_options import GpuName, M, N, check_range, check_resident
from tilewright.cli.options import JsonTarget, Whole
from tilewright.cli.output import check_targets, emit
from tilewright.model import waves as model
from tilewright.model.waves import Waves, tiles

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

    from tilewright.gpus import Gpu

_TILES = ((64, 64), (64, 128), (128, 128), (128, 256), (256, 128), (256, 256))
_STEP, _LARGEST = 128, 8192
_SPARK = "▁▂▃▄▅▆▇█"
_MOST_WAVES = 12


def waves(
    *,
    m: M = 4096,
    n: N = 4096,
    bm: Whole = 128,
    bn: Whole = 128,
    gpu: GpuName = "h200",
    blocks_per_sm: Whole = 2,
    json: JsonTarget = None,
) -> int:
    """Draw the waves in which a grid of tiles passes over the SMs, and its tail.

    Example: tilewright explain waves -m 4096 -n 4096 --gpu h200

    Parameters
    ----------
    m
        Rows of C.
    n
        Columns of C.
    bm
        Rows of C of a block.
    bn
        Columns of C of a block.
    blocks_per_sm
        Resident blocks of an SM (see explain tile).
    """
    from tilewright.gpus import gpu_named

    check_targets(json)
    check_range(m=m, n=n, bm=bm, bn=bn)
    chip = gpu_named(gpu)
    check_resident(chip, blocks_per_sm)
    asked = [(bm, bn), *(pair for pair in _TILES if pair != (bm, bn))]
    found = {pair: _waves(m, n, pair, chip, blocks_per_sm) for pair in asked}
    rows = [_row(m, n, pair, chip, each) for pair, each in found.items()]
    emit("explain-waves", rows, _picture((m, n), (bm, bn), chip, blocks_per_sm, found), json)
    return 0


def _waves(m: int, n: int, tile: tuple[int, int], gpu: Gpu, blocks_per_sm: int) -> Waves:
    along_m, along_n = tiles(m, n, *tile)
    return model.waves(along_m * along_n, gpu.sms, blocks_per_sm)


def _row(m: int, n: int, tile: tuple[int, int], gpu: Gpu, found: Waves) -> dict[str, Any]:
    return {
        "gpu": gpu.name, "m": m, "n": n, "bm": tile[0], "bn": tile[1], "blocks": found.blocks,
        "blocks_per_wave": found.per_wave, "waves": found.blocks / found.per_wave,
        "full_waves": found.full, "tail_blocks": found.tail, "efficiency": found.efficiency,
    }  # fmt: skip


def _picture(
    mn: tuple[int, int],
    tile: tuple[int, int],
    gpu: Gpu,
    blocks_per_sm: int,
    found: dict[tuple[int, int], Waves],
) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        chosen = found[tile]
        yield heading(
            f"{chosen.blocks:,} tile{'s' * (chosen.blocks != 1)} of {tile[0]}×{tile[1]} for "
            f"{mn[0]}×{mn[1]} on {gpu.title}: {chosen.per_wave} at a time"
        )
        yield from _bars(chosen, width)
        yield from sentence(_verdict(chosen), width, "bold")
        yield line("")
        yield line(("tile          blocks      waves   last wave   places filled", "bold"))
        for pair, each in found.items():
            name, last = f"{pair[0]}×{pair[1]}", each.last
            yield line(
                f"{name:<9} {each.blocks:>10,} {_waves_of(each):>10}"
                f"{last / each.per_wave:>12.0%}{each.efficiency:>16.1%}"
            )
        held = f"all at {blocks_per_sm} an SM"
        yield line(f"({held}; a larger tile moves fewer bytes, and its tail is longer)")
        yield line("")
        yield from _sawtooth(tile, gpu, blocks_per_sm, width)

    return Drawing(draw)


def _bars(found: Waves, width: int) -> Iterator[Text]:
    room = max(width - 26, 20)
    cut = found.count > _MOST_WAVES
    numbers = [*range(_MOST_WAVES - 2), -1, found.count - 1] if cut else range(found.count)
    for number in numbers:
        if number < 0:
            yield line(("     …", "dim"))
            continue
        blocks = found.last if number == found.count - 1 else found.per_wave
        filled = max(round(room * blocks / found.per_wave), 1)
        style = "green" if blocks == found.per_wave else "yellow"
        rest = ("·" * (room - filled), "dim")
        yield line((f"wave {number:<4,}", "dim"), ("█" * filled, style), rest, f" {blocks:,}")


def _waves_of(found: Waves) -> str:
    """How many waves the blocks fill; part of one that rounds to nothing is still there."""
    count = found.blocks / found.per_wave
    return f"{count:,.2f}" if count >= 0.01 else "<0.01"


def _verdict(found: Waves) -> str:
    if not found.tail:
        plural = "s" * (found.full > 1)
        return f"{found.full} whole wave{plural}, no tail: every place is filled to the end."
    empty = found.per_wave - found.tail
    return (
        f"{_waves_of(found)} waves take the time of {found.count:,}; in the last "
        f"one {empty:,} of {found.per_wave:,} places stay empty: {found.efficiency:.1%} filled."
    )


def _sawtooth(tile: tuple[int, int], gpu: Gpu, blocks_per_sm: int, width: int) -> Iterator[Text]:
    """Places filled over the size of a square problem."""
    sizes = range(_STEP, _LARGEST + 1, _STEP)
    filled = [_waves(size, size, tile, gpu, blocks_per_sm).efficiency for size in sizes]
    yield heading(f"Places filled over square sizes {_STEP} to {_LARGEST} (0 to 100%)")
    for first in range(0, len(filled), max(width - 4, 16)):
        part = filled[first : first + max(width - 4, 16)]
        marks = "".join(_SPARK[min(int(value * 8), 7)] for value in part)
        yield line(("  " + marks, "green"))
    worst = min(range(len(filled) // 2, len(filled)), key=lambda at: filled[at])
    yield line(
        f"  from {sizes[len(filled) // 2]} on the worst is {sizes[worst]}: {filled[worst]:.1%}"
    )

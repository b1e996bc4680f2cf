"""When tiles load and when they are computed, with one buffer or several.

With one buffer a tile's load waits until the tile before it is computed. With N buffers up to N
tiles are loaded or waiting or computed at a time, so that the load of a later tile runs beside
the computation of an earlier one. A load takes `load`; of that it keeps the memory path to
itself for `transfer`, and the rest is latency, which other loads overlap.

Times have no unit of their own: clocks, microseconds, whatever went in. This is a model of one
block; other blocks on the SM hide latency too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from tilewright.errors import InputError

MOST_TILES = 100_000
MOST_STAGES = 64
_ROUNDED = 1e-9  # of a load and a computation


@dataclass(frozen=True, slots=True)
class Span:
    """A load or a computation of a tile, in the buffer `slot`, from `start` to `end`."""

    what: Literal["load", "compute"]
    tile: int
    slot: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """Spans in the order of tiles, the load of each before its computation."""

    stages: int
    spans: tuple[Span, ...]

    @property
    def loads(self) -> list[Span]:
        return [span for span in self.spans if span.what == "load"]

    @property
    def computes(self) -> list[Span]:
        return [span for span in self.spans if span.what == "compute"]

    @property
    def total(self) -> float:
        return self.spans[-1].end

    @property
    def computing(self) -> float:
        return sum(span.end - span.start for span in self.computes)

    @property
    def fill(self) -> float:
        """Until the first computation starts: nothing can hide the first load."""
        return self.computes[0].start

    @property
    def stalls(self) -> float:
        """Time between computations in which the arithmetic waits for a load.

        A gap that is nothing beside a load and a computation is what rounding left: 0.
        """
        computes, nothing = self.computes, _ROUNDED * self.spans[1].end
        gaps = (later.start - earlier.end for earlier, later in pairwise(computes))
        return sum(gap for gap in gaps if gap > nothing)

    @property
    def overlap(self) -> float:
        """Time in which at least one load runs beside a computation."""
        spans = iter(_merged(self.loads))
        load, shared = next(spans, None), 0.0
        for compute in self.computes:
            while load is not None and load[1] <= compute.start:
                load = next(spans, None)
            while load is not None and load[0] < compute.end:
                shared += min(load[1], compute.end) - max(load[0], compute.start)
                if load[1] > compute.end:
                    break
                load = next(spans, None)
        return shared

    def steps(self) -> list[str]:
        """In words: what is loaded and computed together."""
        tiles = len(self.computes)
        if self.stages == 1:
            return [word for tile in range(tiles) for word in (f"Load {tile}", f"Compute {tile}")]
        ahead = self.stages - 1
        first = [f"Preload {tile}" for tile in range(min(ahead, tiles))]
        both = [
            f"Compute {tile} + Load {tile + ahead}" if tile + ahead < tiles else f"Compute {tile}"
            for tile in range(tiles)
        ]
        return first + both


def timeline(
    stages: int, load: float, compute: float, tiles: int, transfer: float | None = None
) -> Timeline:
    """Of `tiles` tiles through `stages` buffers.

    `transfer` is the whole of `load` if not given: loads then run one after the other.
    Raises: InputError for counts that are not positive, times that are negative or not finite,
    a transfer longer than the load. Cost: linear in the tiles.
    """
    _check(stages, load, compute, tiles, transfer)
    busy = load if transfer is None else transfer
    spans: list[Span] = []
    computed: list[float] = []
    path_free = 0.0
    for tile in range(tiles):
        freed = computed[tile - stages] if tile >= stages else 0.0
        start = max(path_free, freed)
        path_free = start + busy
        ready = start + load
        begin = max(ready, computed[-1]) if computed else ready
        computed.append(begin + compute)
        slot = tile % stages
        spans.append(Span("load", tile, slot, start, ready))
        spans.append(Span("compute", tile, slot, begin, computed[-1]))
    return Timeline(stages, tuple(spans))


def _merged(spans: list[Span]) -> list[tuple[float, float]]:
    """Spans that start in order, those that touch or overlap joined."""
    joined: list[tuple[float, float]] = []
    for span in spans:
        if joined and span.start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], span.end))
        else:
            joined.append((span.start, span.end))
    return joined


def _check(stages: int, load: float, compute: float, tiles: int, transfer: float | None) -> None:
    for name, count, most in (("stages", stages, MOST_STAGES), ("tiles", tiles, MOST_TILES)):
        if not 1 <= count <= most:
            raise InputError(f"{name}={count} must be 1..{most}.")
    for name, time in (("load", load), ("compute", compute), ("transfer", transfer or 0.0)):
        if not 0 <= time <= 1e12:
            raise InputError(f"{name}={time:g} must be a time of 0 or more, at most 1e12.")
    if transfer is not None and transfer > load:
        raise InputError(f"transfer={transfer:g} is a part of load={load:g}; it cannot be more.")
    if load + compute <= 0:
        raise InputError("load and compute are both 0; one of them must take time.")

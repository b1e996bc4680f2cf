"""Which lanes run next: in lockstep, or in a random order of warps.

Inside a warp the group of lanes at the lowest program counter goes first, always: this is where
compilers put reconvergence, and it keeps a warp together for its collective instructions.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tilewright.emulator.arrays import Array

_PATIENCE = 8  # polls of lanes that others wait behind, before these get their turn


class Schedule(Protocol):
    """Takes from `ready` (basic block → lanes [B, W, 32]) what runs next.

    `repeats`: what it takes depends on `ready` and `turn` alone.
    """

    repeats: bool

    def take(self, ready: dict[int, Array], polling: frozenset[int]) -> tuple[int, Array]: ...

    def turn(self) -> object:
        """What it remembers of who polled."""


class Lockstep:
    """The lowest basic block first, with all lanes that are there.

    Lanes that poll memory in a loop may wait for lanes behind the loop: these have their turn
    once the others have polled a few times, first those that do not poll themselves.
    """

    repeats = True

    def __init__(self) -> None:
        self._polls = 0
        self._loop = -1

    def take(self, ready: dict[int, Array], polling: frozenset[int]) -> tuple[int, Array]:
        number = min(ready)
        if len(ready) == 1:
            self._polls = 0
        elif self._polls >= _PATIENCE:
            behind = [other for other in ready if other > self._loop]
            number = min(behind, default=number, key=lambda other: (other in polling, other))
        if number in polling:
            self._polls += 1
            self._loop = number
        return number, ready.pop(number)

    def turn(self) -> object:
        return min(self._polls, _PATIENCE), self._loop


class Shuffled:
    """Random warps of a random basic block, each at its own lowest one."""

    repeats = False

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def take(self, ready: dict[int, Array], polling: frozenset[int]) -> tuple[int, Array]:
        numbers = sorted(ready)
        number = int(self._random.choice(numbers))
        lanes = ready[number]
        ahead = np.zeros(lanes.shape[:2], bool)
        for lower in numbers[: numbers.index(number)]:
            if lower not in polling:
                ahead |= ready[lower].any(-1)
        may = lanes.any(-1) & ~ahead
        chosen = may & (self._random.random(may.shape) < self._random.choice((0.25, 0.5, 1.0)))
        if not chosen.any():
            return self._lowest(ready)
        run = lanes & chosen[..., None]
        if (left := lanes & ~run).any():
            ready[number] = left
        else:
            del ready[number]
        return number, run

    def turn(self) -> object:
        return None

    def _lowest(self, ready: dict[int, Array]) -> tuple[int, Array]:
        number = min(ready)
        return number, ready.pop(number)

"""What a tiling costs and gives: the calculator of the roadmap."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.errors import InputError
from tilewright.model.intensity import tile_bytes, tile_intensity, tile_threads
from tilewright.model.occupancy import REGISTERS_PER_THREAD

_REGISTERS_BESIDE = 32  # addresses, counters and what the compiler keeps: rungs have 30 to 62
_STEP = 8  # registers are allocated in units of 8 a thread


@dataclass(frozen=True, slots=True)
class Tile:
    """A block works on [bm, bn] of C in steps of bk, each thread on [tm, tn] of it.

    `stages` tiles of A and B lie in shared memory at a time; 1 is a single buffer.
    Raises: InputError for sizes that are not positive or don't divide.
    """

    bm: int
    bn: int
    bk: int
    tm: int
    tn: int
    element_bytes: int
    stages: int = 1

    def __post_init__(self) -> None:
        if not self.stages >= 1:
            raise InputError(f"stages={self.stages} must be positive; 1 is a single buffer.")
        tile_bytes(self.bm, self.bn, self.bk, self.element_bytes)
        tile_threads(self.bm, self.bn, self.tm, self.tn)

    @property
    def bytes(self) -> int:
        """Of one step's tiles of A and B."""
        return tile_bytes(self.bm, self.bn, self.bk, self.element_bytes)

    @property
    def shared_bytes(self) -> int:
        return self.stages * self.bytes

    @property
    def flops(self) -> int:
        """Of one step."""
        return 2 * self.bm * self.bn * self.bk

    @property
    def intensity(self) -> float:
        """FLOP per byte brought into shared memory."""
        return tile_intensity(self.bm, self.bn, self.element_bytes)

    @property
    def register_intensity(self) -> float:
        """FLOP per byte that a thread reads from shared memory, tm + tn elements a step of k."""
        return tile_intensity(self.tm, self.tn, self.element_bytes)

    @property
    def threads(self) -> int:
        return tile_threads(self.bm, self.bn, self.tm, self.tn)

    @property
    def accumulators(self) -> int:
        """Elements of C, one 32-bit register each, that a thread holds."""
        return self.tm * self.tn

    @property
    def registers_estimate(self) -> int:
        """Registers of a thread: accumulators, a column of A, a row of B, and about 32 more.

        A guess, for want of a compiled kernel; at most 255, beyond which the compiler spills.
        """
        need = self.accumulators + self.tm + self.tn + _REGISTERS_BESIDE
        return min(-(-need // _STEP) * _STEP, REGISTERS_PER_THREAD)


def intensity_curve(sides: tuple[int, ...], element_bytes: int) -> list[tuple[int, int, float]]:
    """(bm, bn, FLOP per byte) of all pairs of sides, row by row."""
    return [(bm, bn, tile_intensity(bm, bn, element_bytes)) for bm in sides for bn in sides]

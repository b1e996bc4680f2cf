"""In how many waves a grid of blocks passes over a GPU, and how full the last one is.

All SMs together hold `sms * blocks_per_sm` blocks at a time: a *wave*. Blocks that do equal work
end together, so that a grid one block larger than a wave takes as long as two waves: its *tail*.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.model.checks import check_positive


@dataclass(frozen=True, slots=True)
class Waves:
    """`blocks` of a grid in `full` whole waves of `per_wave` blocks and a last one of `tail`.

    `tail` is 0 where the last wave is whole, too.
    """

    blocks: int
    per_wave: int

    @property
    def full(self) -> int:
        return self.blocks // self.per_wave

    @property
    def tail(self) -> int:
        return self.blocks % self.per_wave

    @property
    def count(self) -> int:
        """Waves started, the last one whole or not."""
        return -(-self.blocks // self.per_wave)

    @property
    def efficiency(self) -> float:
        """Blocks over the places that the waves offer: 1 without a tail."""
        return self.blocks / (self.count * self.per_wave)

    @property
    def last(self) -> int:
        """Blocks of the last wave."""
        return self.tail or self.per_wave


def waves(blocks: int, sms: int, blocks_per_sm: int) -> Waves:
    """Raises: InputError unless all three are positive."""
    check_positive(blocks=blocks, sms=sms, blocks_per_sm=blocks_per_sm)
    return Waves(blocks, sms * blocks_per_sm)


def tiles(m: int, n: int, bm: int, bn: int) -> tuple[int, int]:
    """Tiles of C along m and n; those at the edges may be cut.

    Raises: InputError unless all four are positive.
    """
    check_positive(m=m, n=n, bm=bm, bn=bn)
    return -(-m // bm), -(-n // bn)

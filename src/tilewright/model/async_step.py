"""The clocks of a K step whose loads (TMA) and products (wgmma) run by themselves.

A block's tiles wait in `buffers` slots of a ring. Nobody issues what moves or multiplies them, so a
step takes what its slowest pipe takes, as far as slots and waits let the pipes run side by side:

  tensor pipe     the products, with both operands out of shared memory.
  TMA             the next tiles, as fast as they arrive in one multiprocessor. They do not disturb
                  the products: the probes took no longer where tiles arrived beside them.
  a slot          is loaded, waits for its products, and is free again when these are done.
  a turn          where all warps wait for the products of a step before they begin the next, the
                  tensor pipe stands still from one to the next.

Resident blocks share the pipes and not their slots and turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.model.rates import SHARED_LATENCY, TMA_BURST, TMA_LATENCY, TURN

# The probe of turns waits for no tiles: a rung also tests the mbarrier of its slot, which is a word
# of shared memory, once the warps have met.
TURN_CLOCKS = TURN.value + SHARED_LATENCY.value


def tma_clocks(tile_bytes: float) -> float:
    """From the issue of a tile's copies to all of its bytes in shared memory."""
    return TMA_LATENCY.value + tile_bytes / TMA_BURST.value


@dataclass(frozen=True, slots=True)
class AsyncStep:
    """One K step of one block: `tensor` clocks of products, and `fill_bytes` of tiles that arrive
    in its shared memory, from other blocks' multicasts too.

    `turns` says that no products are left in flight from a step to the next.
    """

    tensor: float
    fill_bytes: float
    buffers: int
    turns: bool

    @property
    def arriving(self) -> float:
        """Clocks in which the tiles of a step arrive, after the latency of the first byte."""
        return self.fill_bytes / TMA_BURST.value

    def clocks(self, blocks: int) -> float:
        """Clocks in which each of so many resident blocks makes one step."""
        alone = self.tensor + (TURN_CLOCKS if self.turns else 0.0)
        slot = tma_clocks(self.fill_bytes) + alone
        pipes = blocks * max(self.tensor, self.arriving)
        return max(pipes, alone, slot / self.buffers)

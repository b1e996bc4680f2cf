"""The clocks of a K step whose loads (TMA) and products (wgmma) run by themselves.

A block's tiles wait in `buffers` slots of a ring. Nobody issues what moves or multiplies them, so a
step takes what its slowest pipe takes, as far as slots and waits let the pipes run side by side:

  tensor pipe     the products. Both operands come out of shared memory meanwhile, read_bytes in
                  all, and shared memory gives and takes 128 bytes a clock.
  link to L2      the next tiles, as fast as L2 sends to one multiprocessor; they are written into
                  the same shared memory. While they arrive, products get only what is left of its
                  128 bytes; where they need more, they go slower.
  a slot          is loaded, waits for its products, and is free again when these are done.
  a turn          where all warps wait for the products of a step before they begin the next, the
                  tensor pipe stands still from one to the next.

Resident blocks share the pipes and not their slots and turns.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.model.rates import L2_BURST, L2_LATENCY, TURN

SHARED_BYTES = 128  # that shared memory gives or takes in a clock: a wavefront


@dataclass(frozen=True, slots=True)
class AsyncStep:
    """One K step of one block: `tensor` clocks of products, which read `read_bytes` of shared
    memory, and `fill_bytes` of tiles that arrive there, from other blocks' multicasts too.

    `turns` says that no products are left in flight from a step to the next.
    """

    tensor: float
    read_bytes: float
    fill_bytes: float
    buffers: int
    turns: bool

    @property
    def arriving(self) -> float:
        """Clocks in which the tiles of a step arrive, after the latency of the first byte."""
        return self.fill_bytes / L2_BURST.value

    @property
    def multiplying(self) -> float:
        """Clocks of the products while tiles arrive beside them."""
        if not self.tensor:
            return 0.0
        needed = self.read_bytes / self.tensor
        left = SHARED_BYTES - L2_BURST.value
        pace = min(1.0, left / needed) if needed else 1.0
        done = self.arriving * pace  # of the products, in clocks that they take undisturbed
        if done >= self.tensor:
            return self.tensor / pace
        return self.arriving + self.tensor - done

    def clocks(self, blocks: int) -> float:
        """Clocks in which each of so many resident blocks makes one step."""
        turn = TURN.value if self.turns else 0.0
        alone = self.multiplying + turn
        slot = L2_LATENCY.value + self.arriving + alone
        pipes = blocks * max(self.multiplying, self.arriving)
        return max(pipes, alone, slot / self.buffers)

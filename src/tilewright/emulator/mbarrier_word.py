"""The word of an mbarrier: 8 bytes in shared memory that count arrivals and bytes, by phases.

mark << 62 | phase << 61 | (bytes + 2**20) << 40 | expected << 20 | pending
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array

MOST = (1 << 20) - 1  # of a count, and of the bytes of a phase
EXPECTED, BYTES, PHASE, MARK = 20, 40, 61, 62
ZERO_BYTES = 1 << 20


def fresh(count: Array) -> Array:
    """The word of an mbarrier that waits for so many arrivals."""
    wide = count.astype(np.uint64)
    word: Array = wide | wide << np.uint64(EXPECTED) | np.uint64(ZERO_BYTES << BYTES)
    return word | np.uint64(1 << MARK)


def phase_of(token: Array) -> Array:
    phase: Array = token >> np.uint64(PHASE) & np.uint64(1)
    return phase


def pending_of(token: Array) -> Array:
    pending: Array = token & np.uint64(MOST)
    return pending


def in_use(word: int) -> bool:
    """Whether somebody has arrived in the present phase, or bytes are missing."""
    expected = word >> EXPECTED & MOST
    due = (word >> BYTES & (2 * ZERO_BYTES - 1)) - ZERO_BYTES
    return word >> MARK == 1 and (word & MOST != expected or due != 0)


def state(word: int) -> str:
    pending, expected = word & MOST, word >> EXPECTED & MOST
    due = (word >> BYTES & (2 * ZERO_BYTES - 1)) - ZERO_BYTES
    text = f"to which {expected - pending} of {expected} arrivals have come"
    if due < 0:
        return f"{text} and {-due} bytes more than it was told to expect"
    return text + (f" and {due} bytes have not" if due else "")

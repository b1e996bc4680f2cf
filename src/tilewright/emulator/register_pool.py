"""setmaxnreg: which warpgroup of a block holds how many registers, and who waits for some.

A block has as many as its threads had at entry. `setmaxnreg.inc` waits until others have given
theirs back; here it goes on at once, and is reported where the block's wishes never fit together.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import LANES, Mask
from tilewright.emulator.wgmma_sums import WARPS

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel
    from tilewright.emulator.machine import Machine

_NOBODY = -1
_IGNORED = (
    "ptxas ignores setmaxnreg here (its remark C7508), as nothing says how many registers a thread "
    "begins with: __launch_bounds__(threads, 1) does"
)
_OF_MULTIPROCESSOR, _OF_THREAD, _STEP = 65536, 256, 8  # registers, of all GPUs with setmaxnreg


def entry_registers(kernel: Kernel) -> int | None:
    """How many a thread has at most when the kernel begins.

    None where nothing in its PTX says so: ptxas then ignores setmaxnreg (its remark C7508).
    """
    required = kernel.required_threads
    threads = kernel.most_threads if required is None else prod(required)
    limits = [] if kernel.most_registers is None else [kernel.most_registers]
    if threads is not None and kernel.least_blocks is not None:
        limits.append(_OF_MULTIPROCESSOR // (kernel.least_blocks * -(-threads // LANES) * LANES))
    return min(*limits, _OF_THREAD) // _STEP * _STEP if limits else None


def remarks_on(kernel: Kernel) -> list[str]:
    """That setmaxnreg has no effect, where that is so: the kernel is right then, and may spill."""
    used = any(it.mnemonic == "setmaxnreg" for it in kernel.instructions)
    return [_IGNORED] if used and entry_registers(kernel) is None else []


class RegisterPool:
    """That of each block of a chunk, in registers a thread."""

    def __init__(self, machine: Machine) -> None:
        shape = machine.blocks, machine.warps // WARPS
        self._machine = machine
        self._entry = entry_registers(machine.program.kernel)
        self._held = np.full(shape, self._entry or 0, np.int64)
        self._waits = np.full(shape, _NOBODY, np.int64)  # at which instruction, for registers

    def set(self, at: int, mask: Mask, count: int, more: bool) -> None:
        """The warpgroups of these lanes hold `count` from now on, as soon as these are free."""
        if self._entry is None:
            return
        groups = self._machine.warpgroups.of(mask)
        change = np.maximum if more else np.minimum
        self._held[groups] = change(self._held[groups], count)
        self._waits[groups] = at if more else _NOBODY
        fits = self._held.sum(axis=1) <= self._entry * self._held.shape[1]
        self._waits[fits] = _NOBODY

    def deadlock(self) -> None:
        """Reports who never got what it asked for. A warpgroup that has ended still holds its."""
        machine = self._machine
        for at in np.unique(self._waits[self._waits != _NOBODY]).tolist():
            block, group = (int(i) for i in np.argwhere(self._waits == at)[0])
            machine.trace.completed = False
            held = " + ".join(map(str, self._held[block].tolist()))
            what = (
                f"it waits for registers: the warpgroups hold or want {held} a thread, and the "
                f"block began with {self._held.shape[1]} × {self._entry}"
            )
            machine.fault_at("deadlock", at, what, block, WARPS * group, 0)

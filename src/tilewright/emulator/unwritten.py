"""Elements of outputs that no thread wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.findings import Finding, Findings
from tilewright.emulator.hazards import ArrayShadows
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.shadow import NOBODY

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel


def find_unwritten(
    memory: GlobalMemory,
    given: set[int],
    arrays: ArrayShadows,
    findings: Findings,
    kernel: Kernel,
) -> None:
    """Reports, for each array given that was unset at the start, what of it is unset at the end.

    The finding lies at the kernel's last store to it, or at its first line.
    """
    for allocation in memory.allocations:
        if not allocation.unset or allocation.number not in given:
            continue
        size, table = arrays.tables.get(allocation.number, (1, None))
        element = max(1, np.asarray(allocation.array).dtype.itemsize)
        elements = allocation.nbytes // element
        if table is None:
            missing = np.arange(elements)
        else:
            cells = np.flatnonzero(table.written == NOBODY)
            missing = np.unique(cells * size // element) if size < element else cells
            if size > element:
                parts = size // element
                missing = (cells[:, None] * parts + np.arange(parts)).reshape(-1)
                missing = missing[missing < elements]
        if allocation.allowed is not None:
            missing = missing[allocation.allowed[missing] > 0]
        if not missing.size or not kernel.instructions:
            continue
        at = _last_store(table.written, len(kernel.instructions)) if table is not None else 0
        first = int(missing[0])
        index = tuple(int(i) for i in np.unravel_index(first, np.shape(allocation.array)))
        shown = ", ".join(map(str, index))
        what = (
            f"{missing.size} of {elements} elements of {allocation.name} are never written, "
            f"first [{shown}]"
        )
        place = kernel.instructions[at].place
        address = allocation.base + first * element
        finding = Finding("unwritten", what, place.file, place.line, array=allocation.name)
        findings.add(finding, at, address)


def _last_store(written: Array, count: int) -> int:
    """The instruction that wrote the most of an array; its first one if none did."""
    wrote = written[written != NOBODY] >> 12 & 0x3FFF
    return min(int(np.bincount(wrote).argmax()), count - 1) if wrote.size else 0

"""One launch from start to end: chunks of blocks in ascending order, then the report."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.arrays import LANES
from tilewright.emulator.compiler import Program
from tilewright.emulator.findings import Findings
from tilewright.emulator.machine import Machine, Shape, Trace
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.report import Report, make_report

CHUNK_LANES = 16384  # lanes that run together: more costs memory, fewer costs NumPy calls

Progress = Callable[[int, int], None]  # blocks done, blocks in all


def run(
    program: Program, shape: Shape, memory: GlobalMemory, progress: Progress | None = None
) -> Report:
    """Runs all blocks of the grid.

    The arrays in `memory` are changed in place. Findings never raise and the run goes on.
    Cost: a few ms a K step of a tiled GEMM for up to 16,384 lanes at a time.
    """
    trace = Trace(memory, Findings(program.kernel.instructions))
    size = max(1, CHUNK_LANES // (shape.warps * LANES))
    for first in range(0, shape.blocks, size):
        ids = np.arange(first, min(first + size, shape.blocks), dtype=np.int64)
        trace.findings.first_block = first
        Machine(program, shape, ids, trace).run()
        if progress is not None:
            progress(int(ids[-1]) + 1, shape.blocks)
    return make_report(program, trace)

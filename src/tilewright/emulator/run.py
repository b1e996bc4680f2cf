"""One launch from start to end: chunks of blocks in ascending order, then the report."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.cluster_order import whole_clusters
from tilewright.emulator.findings import Findings
from tilewright.emulator.global_shadow import MOST_BLOCKS, Knowledge
from tilewright.emulator.hazards import ArrayShadows
from tilewright.emulator.machine import FEW_POLLS, MOST_POLLS, Machine
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.naming import Naming, Variable, variable_name
from tilewright.emulator.program import Program
from tilewright.emulator.report import Report, make_report
from tilewright.emulator.schedule import Lockstep, Schedule, Shuffled
from tilewright.emulator.trace import STEP_LIMIT, Shape, Trace
from tilewright.emulator.unwritten import find_unwritten

CHUNK_LANES = 16384  # lanes that run together: more costs memory, fewer costs NumPy calls
LOCAL_BYTES = 1 << 28  # of local memory of the blocks that run together, where one block has less
_MOST_WAITING = 8  # chunks that poll, beside the one that runs

Progress = Callable[[int, int], None]  # blocks done, blocks in all


@dataclass(frozen=True, slots=True)
class How:
    """How a launch runs. `seed` shuffles the order of warps; None is lockstep.

    `blocks` holds the linear ids of those that run, with the rest of their clusters; None for all.
    `checks` looks for hazards (races, unset cells); bounds and alignment are always checked. Blocks
    that run together and take more than `step_limit` basic blocks are given up.
    """

    seed: int | None = None
    blocks: Array | range | None = None
    checks: bool = True
    step_limit: int = STEP_LIMIT

    def schedule(self) -> Schedule:
        return Lockstep() if self.seed is None else Shuffled(self.seed)


def run(
    program: Program,
    shape: Shape,
    memory: GlobalMemory,
    progress: Progress | None = None,
    how: How | None = None,
) -> Report:
    """Runs the blocks of the grid.

    The arrays in `memory` are changed in place. Findings never raise and the run goes on.
    Cost: a few ms a K step of a tiled GEMM for up to 16,384 lanes at a time.
    """
    how = how or How()
    findings = Findings(program.kernel.instructions, _naming(program, shape, memory))
    trace = Trace(memory, findings, step_limit=how.step_limit)
    if how.checks:
        knowledge = Knowledge(min(shape.blocks, MOST_BLOCKS), shape.warps)
        trace.arrays = ArrayShadows(knowledge, program.traits, _watched(program, shape, memory))
    blocks = whole_clusters(shape.grid, shape.cluster, how.blocks)
    lanes = shape.warps * LANES * shape.peers
    size = max(1, min(CHUNK_LANES, LOCAL_BYTES // max(program.local_bytes, 1)) // lanes)
    size *= shape.peers
    schedule = how.schedule()
    waiting: deque[Machine] = deque()
    done = 0
    for first in range(0, len(blocks), size):
        chunk = np.array(blocks[first : first + size], np.int64)
        machine = Machine(program, shape, chunk, trace, schedule)
        machine.start()
        if not _finished(machine):
            waiting.append(machine)
        if len(waiting) > _MOST_WAITING or machine not in waiting:
            _resume(waiting, patient=False)
        done += machine.blocks
        if progress is not None:  # those that wait are not done: they may never be
            progress(done - sum(each.blocks for each in waiting), len(blocks))
    polled = bool(waiting)
    _resume(waiting, patient=True)
    if polled and progress is not None:
        progress(done, done)
    if trace.arrays is not None:
        if how.blocks is None and trace.completed:
            given = _pointed_to(shape, memory)
            find_unwritten(memory, given, trace.arrays, trace.findings, program.kernel)
        for number in trace.arrays.tables:
            memory.allocations[number].unset = False  # for the next launch
    memory.hazards = None
    return make_report(program, trace)


def _naming(program: Program, shape: Shape, memory: GlobalMemory) -> Naming:
    shared = tuple(
        Variable(variable_name(name), offset, program.variables[name].nbytes)
        for name, offset in program.shared_offsets.items()
    )
    static = program.static_shared_bytes
    return Naming(memory, shape.grid, shape.block, shared, static, shape.shared_bytes)


def _resume(waiting: deque[Machine], patient: bool) -> None:
    """Runs chunks that polled once more; with `patient` until they end or none gets on."""
    polls = FEW_POLLS
    while waiting:
        before, count = waiting[0].memory.stores, len(waiting)
        memory = waiting[0].memory
        for _ in range(count):
            machine = waiting.popleft()
            if not _finished(machine, polls):
                waiting.append(machine)
        if not patient:
            return
        if memory.stores != before or len(waiting) < count:
            polls = FEW_POLLS
        elif polls < MOST_POLLS:
            polls = MOST_POLLS
        else:
            waiting.popleft().stuck("it polls memory that nobody writes any more")


def _finished(machine: Machine, polls: int = FEW_POLLS) -> bool:
    """Runs a chunk until it ends, or does nothing but poll."""
    done = machine.run(polls)
    if done and machine.hazards is not None:
        machine.hazards.arrays.knowledge.forget(machine.ids.tolist())
    return done


def _pointed_to(shape: Shape, memory: GlobalMemory) -> set[int]:
    """The arrays that the launch has been given."""
    words = np.frombuffer(shape.params[: len(shape.params) // 8 * 8], np.uint64).tolist()
    numbers = (memory.number_of(word) for word in words)
    return {number for number in numbers if number is not None}


def _watched(program: Program, shape: Shape, memory: GlobalMemory) -> set[int] | None:
    """The arrays that the kernel may write; None when that cannot be told."""
    if program.written_params is None:
        return None
    watched = set()
    for offset in program.written_params:
        pointer = int.from_bytes(shape.params[offset : offset + 8], "little")
        number = memory.number_of(pointer)
        if number is not None:
            watched.add(number)
    caller = len(memory.allocations)
    watched |= {it.number for it in memory.allocations if it.unset}
    return watched | {number for number in range(caller) if memory.is_variable(number)}

"""The machine: a chunk of blocks in lockstep, diverging and reconverging at basic blocks.

All blocks of a chunk, all their warps and lanes run the same basic block at once under a mask.
The group of lanes at the lowest program counter runs first, and groups that meet at one place
become one again: this is where compilers put reconvergence, and it makes the counts those of a
warp that stays together. A barrier is a basic block of its own where lanes park until every lane
of their block that has not exited is there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from tilewright.emulator.arrays import LANES, POISON, Array
from tilewright.emulator.async_groups import AsyncGroups
from tilewright.emulator.compiler import BasicBlock, Program, is_barrier
from tilewright.emulator.counters import Counters
from tilewright.emulator.findings import Finding, Findings
from tilewright.emulator.fragments import Fragments
from tilewright.emulator.ir import Immediate
from tilewright.emulator.memory import GlobalMemory, SharedMemory
from tilewright.errors import UnsupportedError
from tilewright.launch import Dim3


@dataclass(frozen=True, slots=True)
class Shape:
    """The launch: grid and block extents, dynamic shared bytes, the packed parameters."""

    grid: Dim3
    block: Dim3
    shared_bytes: int
    params: bytes

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        return -(-self.threads // LANES)

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(slots=True)
class Trace:
    """What all chunks of a launch add to."""

    memory: GlobalMemory
    findings: Findings
    counters: Counters = field(default_factory=Counters)
    issues: Counter[int] = field(default_factory=Counter)  # basic block → warps that ran it
    completed: bool = True


class Machine:
    """One chunk: blocks `ids` (linear block ids, ascending) of the launch."""

    def __init__(self, program: Program, shape: Shape, ids: Array, trace: Trace) -> None:
        self.program, self.shape, self.trace = program, shape, trace
        self.blocks, self.warps = len(ids), shape.warps
        self.full = (self.blocks, self.warps, LANES)
        self.shared = SharedMemory(
            self.blocks, self.warps, program.static_shared_bytes + shape.shared_bytes
        )
        self.memory, self.findings, self.counters = trace.memory, trace.findings, trace.counters
        self.params = np.frombuffer(shape.params.ljust(16, b"\0"), np.uint8)
        self.copies = AsyncGroups()
        self.fragments = Fragments(self.full)
        self.regs = self._registers(ids)
        self.everyone = np.ones(self.full, bool)  # recognised by identity, without a look inside
        self.nobody = np.zeros(self.full, bool)
        self.exited = self.nobody
        self.ready: dict[int, Array] = {}  # basic block → lanes that are about to run it
        self.parked: dict[int, Array] = {}  # barrier block → lanes that wait in it

    def _registers(self, ids: Array) -> list[Array]:
        program = self.program
        empty = np.zeros((1, 1, 1), np.uint8)
        regs: list[Array] = [empty] * program.slots
        for slot, dtype in enumerate(program.types):
            raw = np.full(dtype.itemsize, 0 if dtype.kind == "b" else POISON, np.uint8)
            regs[slot] = raw.view(dtype).reshape(1, 1, 1)
        for slot, value in program.constants:
            regs[slot] = value
        for slot, name in program.specials:
            regs[slot] = special(name, self.shape, ids, self.shared.nbytes)
        for slot, name, offset in program.variable_slots:
            address = next(a.base for a in self.memory.allocations if a.name == name)
            regs[slot] = np.full((1, 1, 1), address + offset, np.uint64)
        return regs

    # --- scheduling ---------------------------------------------------------------------

    def run(self) -> None:
        """Runs the chunk to its end, or to the deadlock that it reports."""
        lanes = np.arange(self.warps * LANES).reshape(1, self.warps, LANES)
        exists = np.broadcast_to(lanes < self.shape.threads, self.full)
        self.exited = ~exists
        self.ready[0] = self.everyone if exists.all() else exists
        with np.errstate(all="ignore"):
            while self.ready:
                number = min(self.ready)
                self._run_block(number, self.ready.pop(number))
        if self.parked:
            self._deadlock()

    def _run_block(self, number: int, lanes: Array) -> None:
        if number == len(self.program.blocks):  # fell off the end
            self._exit(lanes)
            return
        block = self.program.blocks[number]
        if block.end is not None and is_barrier(block.end):
            there = self.parked.get(number)
            self.parked[number] = lanes if there is None else there | lanes
            self._release()
            return
        mask = None if lanes is self.everyone or lanes.all() else lanes
        self._issued(number, lanes)
        for step in block.steps:
            step(self, mask)
        taken, rest = self._split(block, lanes)
        self._put(number + 1, rest)
        if block.end is not None and taken.any():
            if block.end.mnemonic == "bra":
                self._put(block.target, taken)
            else:
                self._exit(taken)
                if block.end.mnemonic == "trap":
                    self._trap(block, taken)

    def _split(self, block: BasicBlock, lanes: Array) -> tuple[Array, Array]:
        """The lanes that do what the block's end says, and those that go on behind it."""
        if block.end is None:
            return self.nobody, lanes
        if block.guard is None:
            return lanes, self.nobody
        holds = block.guard(self.regs)
        if holds.all():
            return lanes, self.nobody
        if not holds.any():
            return self.nobody, lanes
        return lanes & holds, lanes & ~holds

    def _put(self, number: int, lanes: Array) -> None:
        """Adds lanes at a basic block; they merge with those that are there already."""
        if lanes is self.nobody or not lanes.any():
            return
        there = self.ready.get(number)
        self.ready[number] = lanes if there is None else there | lanes

    def _issued(self, number: int, lanes: Array) -> None:
        everyone = self.blocks * self.warps
        warps = everyone if lanes is self.everyone else int(lanes.any(-1).sum())
        self.trace.issues[number] += warps

    def _exit(self, lanes: Array) -> None:
        self.exited = self.exited | lanes
        self._release()  # who waits at a barrier no longer waits for these

    def _release(self) -> None:
        """Lets the blocks go on whose barrier is complete."""
        alive = (~self.exited).sum((1, 2))
        for number, waiting in list(self.parked.items()):
            arrived = waiting.sum((1, 2))
            go = waiting & ((arrived >= self._needed(number, alive)) & (arrived > 0))[:, None, None]
            if not go.any():
                continue
            self._issued(number, go)
            left = waiting & ~go
            del self.parked[number]
            if left.any():
                self.parked[number] = left
            self._put(number + 1, self.everyone if go.all() else go)

    def _needed(self, number: int, alive: Array) -> Array | int:
        """Lanes of each block that the barrier waits for: its own count, or all that live."""
        end = self.program.blocks[number].end
        if end is not None and len(end.operands) > 1 and isinstance(end.operands[1], Immediate):
            return end.operands[1].value
        return alive

    # --- faults -------------------------------------------------------------------------

    def _deadlock(self) -> None:
        self.trace.completed = False
        for number, lanes in self.parked.items():
            block, warp, lane = (int(i) for i in np.argwhere(lanes)[0])
            elsewhere = int((~lanes[block] & ~self.exited[block]).sum())
            waits = f"{int(lanes[block].sum())} lanes wait here for {elsewhere} that wait elsewhere"
            self._fault("deadlock", number, waits, block, warp, lane)

    def _trap(self, block: BasicBlock, lanes: Array) -> None:
        number = self.program.blocks.index(block)
        first = [int(i) for i in np.argwhere(lanes)[0]]
        self._fault("trap", number, "the kernel executed a trap", *first)

    def _fault(self, kind: str, number: int, what: str, block: int, warp: int, lane: int) -> None:
        end = self.program.blocks[number].end
        assert end is not None
        block += self.findings.first_block
        message = f"{kind} at {end.text!r}: {what} (block {block}, warp {warp}, lane {lane})"
        finding = Finding(kind, message, end.place.file, end.place.line, block, warp, lane)
        self.findings.add(finding, self.program.blocks[number].last - 1)


def special(name: str, shape: Shape, ids: Array, shared_bytes: int) -> Array:
    """The value of a special register in every lane that it depends on."""
    thread = np.arange(shape.warps * LANES, dtype=np.uint32).reshape(1, shape.warps, LANES)
    block = ids.astype(np.uint32).reshape(-1, 1, 1)
    if "." in name:
        register, axis = name[1:].split(".")
        at = "xyz".index(axis)
        extents, linear = {
            "tid": (shape.block, thread),
            "ntid": (shape.block, None),
            "ctaid": (shape.grid, block),
            "nctaid": (shape.grid, None),
        }.get(register, (None, None))
        if extents is not None:
            if linear is None:
                return np.full((1, 1, 1), extents[at], np.uint32)
            below = int(np.prod(extents[:at], dtype=np.int64))
            return linear // np.uint32(below) % np.uint32(extents[at])
    lane = (thread & np.uint32(31))[:, :1]
    values = {
        "%laneid": lane,
        "%warpid": thread[..., :1] >> np.uint32(5),
        "%nwarpid": np.full((1, 1, 1), shape.warps, np.uint32),
        "%lanemask_eq": np.uint32(1) << lane,
        "%lanemask_lt": (np.uint32(1) << lane) - np.uint32(1),
        "%dynamic_smem_size": np.full((1, 1, 1), shape.shared_bytes, np.uint32),
        "%total_smem_size": np.full((1, 1, 1), shared_bytes, np.uint32),
    }
    if name not in values:
        raise UnsupportedError(f"the special register {name} is not modelled.")
    return values[name]

"""The machine: a chunk of blocks in lockstep, diverging and reconverging at basic blocks.

All blocks of a chunk, all their warps and lanes run the same basic block at once under a mask.
The group of lanes at the lowest program counter runs first, and groups that meet at one place
become one again: this is where compilers put reconvergence, and it makes the counts those of a
warp that stays together. A barrier is a basic block of its own where lanes park until every lane
of their block that has not exited is there.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, POISON, Array, Mask
from tilewright.emulator.async_groups import AsyncGroups
from tilewright.emulator.barrier_forms import ClusterWait
from tilewright.emulator.barriers import Barriers
from tilewright.emulator.bulk import BulkCopies
from tilewright.emulator.cluster_barrier import ClusterBarrier
from tilewright.emulator.findings import Finding
from tilewright.emulator.flow import BasicBlock, poll_in
from tilewright.emulator.fragments import Fragments
from tilewright.emulator.gather import Gather
from tilewright.emulator.hazards import Hazards
from tilewright.emulator.local import LocalMemory
from tilewright.emulator.map_fences import MapFences
from tilewright.emulator.mbarriers import Mbarriers
from tilewright.emulator.origins import NEVER
from tilewright.emulator.peer_watch import PeerWatch
from tilewright.emulator.program import Program
from tilewright.emulator.register_pool import RegisterPool
from tilewright.emulator.repetition import Repetition
from tilewright.emulator.schedule import Lockstep, Schedule
from tilewright.emulator.shared import SharedMemory
from tilewright.emulator.specials import WORKSPACE, special
from tilewright.emulator.tensor_box import Box
from tilewright.emulator.timeline import Recorder
from tilewright.emulator.trace import Shape, Trace
from tilewright.emulator.wgmma_flight import Warpgroups

FEW_POLLS = 32  # of a chunk in a row, before other blocks get their turn
MOST_POLLS = 2048  # before it counts as waiting for ever, where the others get no further either
PARAM_TAIL = 16  # poison behind the parameters, as wide as the widest load


class Machine:
    """One chunk: blocks `ids` (linear block ids, in the order of `cluster_order`) of the launch."""

    def __init__(
        self,
        program: Program,
        shape: Shape,
        ids: Array,
        trace: Trace,
        schedule: Schedule | None = None,
    ) -> None:
        self.program, self.shape, self.trace, self.ids = program, shape, trace, ids
        self.peers = shape.peers  # blocks of a cluster, which lie beside each other by rank
        self.schedule = schedule or Lockstep()
        self.blocks, self.warps = len(ids), shape.warps
        self.full = (self.blocks, self.warps, LANES)
        shared_bytes = program.static_shared_bytes + shape.shared_bytes
        self.hazards = self._hazards(shared_bytes)
        self.shared = SharedMemory(self.blocks, self.warps, shared_bytes, self.hazards)
        traits = None if self.hazards is None else self.hazards.traits
        self.local = LocalMemory(self.full, program.local_bytes, traits)
        self.steps = self.polls = 0
        self.repetition, self.idling = Repetition(), Repetition(FEW_POLLS)
        self.killed = np.zeros(self.full, bool)
        self.memory, self.findings, self.counters = trace.memory, trace.findings, trace.counters
        self.params = np.frombuffer(shape.params + bytes([POISON]) * PARAM_TAIL, np.uint8)
        self.copies = AsyncGroups()
        self.fragments = Fragments(self.full)
        self.regs = self._registers(ids)
        self.everyone = np.ones(self.full, bool)  # recognised by identity, without a look inside
        self.nobody = np.zeros(self.full, bool)
        self.exited = self.nobody
        self.absent = self.nobody  # lanes without a thread, which count as exited
        self.ready: dict[int, Array] = {}  # basic block → lanes that are about to run it
        self.gather = Gather(self)
        self.barriers = Barriers(self)
        self.mbarriers = Mbarriers(self)
        self.bulk = BulkCopies(self)
        self.box_at: dict[int, Box] = {}  # by the address of the tensor map in parameter space
        self.box_of: dict[bytes, Box] = {}  # by the bytes of one in global memory
        self.map_fences = MapFences(self, trace.map_releases)
        first = not trace.timeline.events
        self.timeline = Recorder(self, trace.timeline if first else None)
        self.cluster_barrier = ClusterBarrier(self)
        self.peer_watch = PeerWatch(self)
        self.warpgroups = Warpgroups(self)
        self.register_pool = RegisterPool(self)

    def _hazards(self, shared_bytes: int) -> Hazards | None:
        if self.trace.arrays is None:
            return None
        return Hazards(
            self.blocks,
            self.warps,
            shared_bytes,
            self.trace.findings,
            self.trace.arrays,
            self.shape.peers,
        )

    def _registers(self, ids: Array) -> list[Array]:
        program = self.program
        regs = program.registers.copy()
        for slot, name in program.specials:
            regs[slot] = self._special(name, ids)
        for slot, name, offset in program.variable_slots:
            variables = program.variables
            address = self.memory.variable(variables[name], variables, program.code) + offset
            regs[slot] = np.full((1, 1, 1), address % (1 << 64), np.uint64)
        return regs

    def _special(self, name: str, ids: Array) -> Array:
        if name in WORKSPACE:
            half = self.memory.workspace() >> WORKSPACE[name] & 0xFFFF_FFFF
            return np.full((1, 1, 1), half, np.uint32)
        return special(name, self.shape, ids, self.shared.nbytes)

    # --- scheduling ---------------------------------------------------------------------

    def start(self) -> None:
        """Puts all threads at the kernel's first instruction."""
        lanes = np.arange(self.warps * LANES).reshape(1, self.warps, LANES)
        exists = np.broadcast_to(lanes < self.shape.threads, self.full)
        self.exited = self.absent = ~exists
        self.ready[0] = self.everyone if exists.all() else exists

    def run(self, most_polls: int = FEW_POLLS) -> bool:
        """Runs the chunk to its end, or to the fault that it reports: True.

        False when its lanes have polled memory so often: other blocks must run first.
        """
        self.memory.hazards = self.hazards
        self.findings.ids = self.ids
        self.polls = 0
        polling = self.program.polling
        with np.errstate(all="ignore"):
            while self.ready or self.gather.waiting:
                number = self._advance(polling)
                self.steps += 1
                if number in polling:
                    changed = self.mbarriers.changed()  # who waits for an mbarrier gets on
                    self.polls = 1 if changed else self.polls + 1
                    self.repetition.forget()
                    if self.polls > most_polls or self._idles(number):
                        return False
                self._watch(number)
        self.barriers.deadlock()
        self.cluster_barrier.deadlock()
        self.register_pool.deadlock()
        return True

    def _idles(self, number: int) -> bool:
        """Whether the chunk polls without end, as nobody else runs: its state is as it was."""
        if self.polls == 1:
            self.idling = Repetition(FEW_POLLS)
        return self.schedule.repeats and self.idling.found(self, number, self.polls)

    def differs(self) -> None:
        """What comes may differ from what was, though registers and memory are the same."""
        self.repetition.forget()
        self.idling.forget()

    def _watch(self, number: int) -> None:
        """Gives up a loop that cannot end, or that has taken too long."""
        most = self.trace.step_limit
        if self.steps > most and self.ready:  # else its last step was the launch's last
            self.stuck(
                f"{most:,} steps (basic blocks) did not end it; step_limit sets how many may"
            )
        elif self.schedule.repeats and self.repetition.found(self, number, self.steps):
            self.stuck("registers and memory are again what they were: it repeats itself for ever")

    def check_partners(self, at: int, there: Array, valid: Array, mask: Mask) -> None:
        """A shuffle from a lane that does not take part gives no value."""
        if self.hazards is None:
            return
        active = ~self.exited if mask is None else np.broadcast_to(mask, self.full)
        if not active.all():
            reads = np.broadcast_to(valid, self.full) & active
            silent = reads & ~np.take_along_axis(active, there, 2)
            self.fault("inactive-lane", at, "it reads from a lane that takes no part", silent)

    def check_origin(self, at: int, name: str, origin: Array, mask: Mask) -> None:
        """Reports the active lanes that make use of a register's value which nothing wrote."""
        if not origin.any():
            return
        bad = origin != 0
        where = np.argwhere(np.broadcast_to(bad if mask is None else bad & mask, self.full))
        if len(where):
            lane = tuple(int(i) for i in where[0])
            word = int(np.broadcast_to(origin, self.full)[lane])
            first = max(word & NEVER, word >> 16)
            self._undefined(at, name, first, lane)

    def _undefined(self, at: int, name: str, origin: int, lane: tuple[int, ...]) -> None:
        read = at if origin == NEVER else origin - 1
        names = self.program.unset_reads.get(read, (name,))
        what = f"it reads {' or '.join(each.split('@')[0] for each in names)}, which nothing wrote"
        user = self.program.kernel.instructions[at]
        if read != at:
            what += f", and {user.text!r} in line {user.place.line} makes use of what came of it"
        self.fault_at("uninitialised", read, what, *lane)

    def stuck(self, why: str) -> None:
        """Reports an endless loop, and gives the chunk up."""
        self.trace.completed = False
        number = min(self.ready)
        block, warp, lane = (int(i) for i in np.argwhere(self.ready[number])[0])
        basic = self.program.blocks[min(number, len(self.program.blocks) - 1)]
        poll = poll_in(self.program.kernel, basic)
        at = min(basic.first, len(self.program.kernel.instructions) - 1) if poll is None else poll
        coming: Array = np.logical_or.reduce([self.nobody, *self.ready.values()])
        if not self.mbarriers.deadlock(coming):
            self.fault_at("endless-loop", at, why, block, warp, lane)
        self.ready.clear()
        self.gather.waiting.clear()
        self.barriers.clear()
        self.cluster_barrier.clear()

    def _run_block(self, number: int, lanes: Array) -> None:
        if number == len(self.program.blocks):  # fell off the end
            self._exit(lanes)
            return
        block = self.program.blocks[number]
        if block.barrier is not None:
            waiting, rest = self._split(block, lanes)
            self.put(number + 1, rest)
            if isinstance(block.barrier, ClusterWait):
                self.cluster_barrier.wait(number, waiting)
            else:
                self.barriers.come(number, waiting)
            return
        if number in self.program.meetings:
            lanes = self.gather.admit(number, lanes)
            if not lanes.any():
                return
        self._run_steps(number, lanes)

    def _run_steps(self, number: int, lanes: Array) -> None:
        block = self.program.blocks[number]
        mask = None if lanes is self.everyone or lanes.all() else lanes
        self.issued(number, lanes)
        for step in block.steps:
            step(self, mask)
        if self.killed.any():
            self._exit(lanes & self.killed)
            lanes = lanes & ~self.killed
            self.killed = np.zeros(self.full, bool)
            if not lanes.any():
                return
        taken, rest = self._split(block, lanes)
        self.put(number + 1, rest)
        if block.end is not None and taken.any():
            if block.end.mnemonic == "bra":
                self.put(block.target, taken)
            else:
                self._exit(taken)
                if block.end.mnemonic == "trap":
                    self._trap(number, taken)

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

    def put(self, number: int, lanes: Array) -> None:
        """Adds lanes at a basic block; they merge with those that are there already."""
        if lanes is self.nobody or not lanes.any():
            return
        there = self.ready.get(number)
        self.ready[number] = lanes if there is None else there | lanes

    def issued(self, number: int, lanes: Array) -> None:
        """Counts a basic block for the warps that have one of these lanes."""
        everyone = self.blocks * self.warps
        warps = everyone if lanes is self.everyone else int(lanes.any(-1).sum())
        self.trace.issues[number] += warps

    def _exit(self, lanes: Array) -> None:
        self.exited = self.exited | lanes
        self.barriers.release()  # who waits there no longer waits for these
        self.cluster_barrier.release()
        self.peer_watch.exits()
        self.bulk.exits()

    def _advance(self, polling: frozenset[int]) -> int:
        """Runs a basic block of some lanes; its number."""
        if self.gather.waiting and (alone := self.gather.give_up()) is not None:
            self._run_steps(*alone)
            return alone[0]
        number, lanes = self.schedule.take(self.ready, polling)
        self._run_block(number, lanes)
        return number

    # --- faults -------------------------------------------------------------------------

    def check_params(self, at: int, offset: Array, width: int, mask: Mask) -> Array:
        """Reports loads that leave .param space and sends them to the poison behind it."""
        end = self.params.size - PARAM_TAIL
        bad: Array = (offset < 0) | (offset > end - width)
        if not bad.any():
            return offset
        on = np.broadcast_to(bad if mask is None else bad & mask, self.full)

        def beyond(address: int) -> str:
            return f"{width} bytes of parameters beyond their end, which are {end:,} bytes"

        where = np.broadcast_to(offset, self.full)
        self.findings.lanes("out-of-bounds", at, beyond, where, on, self.blocks, "param")
        return np.where(bad, end, offset)

    def _trap(self, number: int, lanes: Array) -> None:
        self.trace.completed = False
        first = [int(i) for i in np.argwhere(lanes)[0]]
        at = self.program.blocks[number].last - 1
        self.fault_at("trap", at, "the kernel executed a trap", *first)

    def acquire(self, access: Access) -> None:
        """A strong load or an atomic may learn what another block has told at this address."""
        if self.hazards is not None:
            self.hazards.acquire(access)

    def release(self, access: Access) -> None:
        """A strong store or an atomic tells others what lies before the last fence."""
        if self.hazards is not None:
            self.hazards.release(access)

    def exchange(self, access: Access) -> None:
        """An atomic of global memory learns and tells."""
        if self.hazards is not None:
            self.hazards.exchange(access)

    def sync_warps(self, mask: Mask) -> None:
        """__syncwarp orders what the lanes of a warp did."""
        if self.hazards is not None:
            self.hazards.clocks.sync_warps(mask)

    def shuffled(self, mask: Mask) -> None:
        """Lanes have passed on what they loaded: these loads lie before what the warp does next."""
        if self.hazards is not None:
            self.hazards.clocks.shuffle(mask)

    def fence(self, mask: Mask) -> None:
        if self.hazards is not None:
            self.hazards.fence(mask)

    def fence_proxy(self, mask: Mask) -> None:
        """Between what threads do and what copies do."""
        if self.hazards is not None:
            self.hazards.clocks.fence_proxy(mask)

    def fence_init(self, mask: Mask) -> None:
        """Behind mbarrier.init: other blocks and copies may learn of these mbarriers."""
        if self.hazards is not None:
            self.hazards.clocks.fence_init(mask)

    def kill(self, lanes: Array) -> None:
        """These lanes end at the end of the basic block that they are in."""
        self.killed = self.killed | lanes

    def fault(self, kind: str, at: int, what: str, lanes: Array) -> None:
        """Reports a fault of the first of these lanes [b, W, 32] at an instruction."""
        where = np.argwhere(np.broadcast_to(lanes, self.full))
        if len(where):
            self.fault_at(kind, at, what, *(int(i) for i in where[0]))

    def fault_at(
        self, kind: str, at: int, what: str, block: int, warp: int, lane: int, apart: int = 0
    ) -> None:
        """Reports a fault of one lane; `block` counts within the chunk.

        Faults of one kind at one instruction are kept where they differ in `apart`.
        """
        instruction = self.program.kernel.instructions[at]
        block = self.findings.block_id(block)
        thread = self.findings.naming.thread(block, warp, lane)
        message = f"{kind} at {instruction.shown!r}: {what} ({thread})"
        place = instruction.place
        finding = Finding(kind, message, place.file, place.line, block, warp, lane)
        self.findings.add(finding, at, apart)

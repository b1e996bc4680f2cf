"""A multiprocessor plays the machine code of a K step, clock by clock, for all resident warps.

Each of four schedulers issues one instruction a clock: of the warp that it issued from last as
long as that can go on, else of the youngest that can. Whether a warp can is what the compiler
wrote into the instruction (clocks to pause, counters to wait for), and:

  registers  lie in two banks, by odd and even number, which give one a clock. An FMA has three
             clocks to read its operands; one that cannot holds up the scheduler. What is marked
             for reuse stays at hand, for its bank, operand and warp.
  others     what is neither FMA nor memory goes to pipes of half a warp's width.
  memory     each scheduler has four places for instructions that wait; shared memory and L1 serve
             them in order, each for as many clocks as the emulator counted wavefronts (a load
             from global memory: lines). Results follow after a latency.
  barriers   hold a block's warps until the last has come.

Sources: R. Huerta et al., "Analyzing Modern NVIDIA GPU cores" (arXiv 2503.20481) for the order of
issue, the register banks and the queues; model.rates for the figures. No figure is fitted to a
rung; docs/limiter.md says what was tried, and how far off this is.
Not modelled: the instruction cache, and who of many blocks waits for memory behind L2.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tilewright.errors import InputError
from tilewright.model.machine_words import NONE, Word, loops
from tilewright.model.occupancy import SCHEDULERS
from tilewright.model.rates import (
    BARRIER,
    INTEGER_CLOCKS,
    L2_BURST,
    L2_LATENCY,
    QUEUE,
    READ_CLOCKS,
    SHARED_LATENCY,
    SHARED_WIDE,
)

_SHARED = ("ld.shared", "st.shared", "ldmatrix")
_GLOBAL = ("ld.global", "st.global", "cp.async")
_MEMORY = frozenset((*_SHARED, *_GLOBAL))
_OTHER_RESULT, _OTHER_READ = 12, 8  # clocks until an "other" instruction clears its counters
# Bytes a lane and wavefronts of the widest load; one of 8 bytes, not measured, is as one of 4.
_WIDEST, _WIDEST_WAVEFRONTS = 16, 4
_PASSES = 9  # of the code; the first and the last are not timed
_NEVER = 1 << 60


class Cost(NamedTuple):
    """What a memory instruction takes of a multiprocessor: clocks of L1, bytes from L2."""

    clocks: float = 1.0
    bytes: float = 0.0


Costs = Mapping[tuple[str, int], Cost]  # by kind and bytes a lane; what is missing costs a clock


def step_code(words: Sequence[Word], products: float) -> tuple[list[Word], float]:
    """The code of one pass of the K loop, inner loops written out, and the K steps it makes.

    `products` are a warp's FMAs in a step. The K loop is the shortest with a barrier and an FMA,
    or without any barrier the one with most FMAs.
    Raises: InputError where there is no such loop, or the inner loop's passes are no number.
    """

    def made(first: int, last: int) -> int:
        return sum(word.kind == "fma" for word in words[first : last + 1])

    found = [loop for loop in loops(words) if made(*loop)]
    synced = [loop for loop in found if any(w.kind == "barrier" for w in words[loop[0] : loop[1]])]
    if not found or not products:
        raise InputError("the machine code has no loop that multiplies and adds in fp32.")
    first, last = synced[0] if synced else max(found, key=lambda loop: made(*loop))
    inside = [loop for loop in found if first <= loop[0] and loop[1] <= last][:-1]
    code = list(words[first : last + 1])
    if inside:
        start, end = inside[0]
        once = made(start, end)
        passes = (products - made(first, last) + once) / once
        if len(inside) > 1 or passes < 1 or abs(passes - round(passes)) > 0.05:
            raise InputError("the loops of the machine code do not make up a K step.")
        code = [
            *words[first:start],
            *list(words[start : end + 1]) * round(passes),
            *words[end + 1 : last + 1],
        ]
    return code, sum(word.kind == "fma" for word in code) / products


def pass_clocks(code: Sequence[Word], costs: Costs, warps: int, blocks: int) -> float:
    """Clocks in which `blocks` resident blocks of `warps` warps each run the code once.

    Raises: InputError for none of them. Cost: a second for 16 warps and 2,000 instructions.
    """
    if not code or warps < 1 or blocks < 1:
        raise InputError(f"code={len(code)}, warps={warps} and blocks={blocks} must be 1 or more.")
    return _Multiprocessor(code, costs, warps, blocks).run()


class _Warp:
    """One warp: how far it is, from which clock on it can go on, what it waits for."""

    __slots__ = ("at", "block", "clear", "copies", "groups", "when")

    def __init__(self, block: int) -> None:
        self.block = block
        self.at = 0  # instructions issued
        self.when = 0
        self.clear = [0.0] * 6  # when each of its counters is clear
        self.copies = 0.0  # when the copies are there that no group holds yet
        self.groups: list[float] = []


class _Scheduler:
    """Issues for its warps; `stuck` is the clock until which an FMA's operands hold it up."""

    __slots__ = ("banks", "integer", "kept", "last", "next", "queue", "stuck", "warps")

    def __init__(self, warps: list[_Warp]) -> None:
        self.warps = warps[::-1]  # the youngest first
        self.last: _Warp | None = None
        self.next = 0
        self.stuck = 0
        self.banks = [0, 0]  # until when each has registers to give
        self.kept: dict[tuple[int, int], int] = {}
        self.integer = 0
        self.queue: deque[float] = deque()


class _Multiprocessor:
    def __init__(self, code: Sequence[Word], costs: Costs, warps: int, blocks: int) -> None:
        self._code = code
        self._costs = [costs.get((word.kind, word.width), Cost()) for word in code]
        self._warps = [_Warp(number // warps) for number in range(warps * blocks)]
        self._block = warps
        self._schedulers = [
            _Scheduler(self._warps[first::SCHEDULERS]) for first in range(SCHEDULERS)
        ]
        self._l1 = 0.0  # until when it serves what was issued
        self._l2 = 0.0
        self._arrived = [0] * blocks

    def run(self) -> float:
        """The mean clocks of a pass, between the first and the last."""
        a_pass = len(self._code) * len(self._warps)
        issued, begun, clock = 0, 0, 0
        last = a_pass * (_PASSES - 1)
        while True:
            for scheduler in self._schedulers:
                if scheduler.next <= clock and self._issued(scheduler, clock):
                    issued += 1
                    if issued == a_pass:
                        begun = clock
                    elif issued == last:
                        return (clock - begun) / (_PASSES - 2)
            clock = max(clock + 1, min(scheduler.next for scheduler in self._schedulers))

    def _issued(self, scheduler: _Scheduler, clock: int) -> bool:
        """Issues one instruction at this clock, or says when to look again."""
        if scheduler.stuck > clock:
            scheduler.next = scheduler.stuck
            return False
        soonest = _NEVER
        last = scheduler.last
        for warp in scheduler.warps if last is None else (last, *scheduler.warps):
            when = warp.when
            if when <= clock:
                index = warp.at % len(self._code)
                word = self._code[index]
                when = _pipe_free(scheduler, word.kind, clock)
                if when <= clock:
                    self._issue(scheduler, warp, word, self._costs[index], clock)
                    scheduler.next = clock + 1
                    return True
            soonest = min(soonest, when)
        scheduler.next = soonest
        return False

    def _issue(
        self, scheduler: _Scheduler, warp: _Warp, word: Word, cost: Cost, clock: int
    ) -> None:
        if scheduler.last is not warp:
            scheduler.last = warp
            scheduler.kept = {}
        warp.at += 1
        ready = clock + word.stall
        kind = word.kind
        if kind == "fma":
            _read_registers(scheduler, word, clock)
        elif kind in _MEMORY:
            self._access(scheduler, warp, word, cost, clock)
        elif kind == "commit":
            warp.groups = [*warp.groups[-7:], warp.copies]
            warp.copies = 0.0
        elif kind == "barrier":
            ready = self._barrier(warp, clock)
        else:
            scheduler.integer = clock + int(INTEGER_CLOCKS.value)
            _hold(warp, word, clock + _OTHER_RESULT, clock + _OTHER_READ)
        warp.when = self._when(warp, ready)

    def _when(self, warp: _Warp, ready: int) -> int:
        """When the warp's next instruction can go, by the warp alone."""
        word = self._code[warp.at % len(self._code)]
        when: float = ready
        for counter in word.waits:
            when = max(when, warp.clear[counter])
        if word.kind == "wait":
            when = max([when, *warp.groups[: len(warp.groups) - word.at_most]])
        return -int(-when // 1)

    def _access(
        self, scheduler: _Scheduler, warp: _Warp, word: Word, cost: Cost, clock: int
    ) -> None:
        start = max(clock, self._l1)
        self._l1 = start + cost.clocks
        scheduler.queue.append(self._l1)
        if word.kind in _SHARED:
            there = self._l1 + _behind(word.width)
        else:
            self._l2 = max(self._l2, start) + cost.bytes / L2_BURST.value
            there = self._l2 + L2_LATENCY.value
            if word.kind == "cp.async":
                warp.copies = max(warp.copies, there)
        _hold(warp, word, there, self._l1)

    def _barrier(self, warp: _Warp, clock: int) -> int:
        """Never, until the last warp comes, which frees them all."""
        self._arrived[warp.block] += 1
        if self._arrived[warp.block] < self._block:
            return _NEVER
        self._arrived[warp.block] = 0
        free = clock + int(BARRIER.value)
        first = warp.block * self._block
        for other in self._warps[first : first + self._block]:
            other.when = self._when(other, free)
        for scheduler in self._schedulers:
            scheduler.next = min(scheduler.next, free)
        return free


def _pipe_free(scheduler: _Scheduler, kind: str, clock: int) -> int:
    """From when on an instruction of this kind has a place."""
    if kind in _MEMORY:
        queue = scheduler.queue
        while queue and queue[0] <= clock:
            queue.popleft()
        return clock if len(queue) < QUEUE.value else -int(-queue[0] // 1)
    return scheduler.integer if kind == "other" else clock


def _behind(width: int) -> float:
    """Clocks from the last wavefront of a load from shared memory to its result."""
    if width == _WIDEST:
        return SHARED_WIDE.value - _WIDEST_WAVEFRONTS
    return SHARED_LATENCY.value - 1


def _read_registers(scheduler: _Scheduler, word: Word, clock: int) -> None:
    """Takes the operands out of the banks; where they come too late the scheduler is stuck."""
    wanted = [0, 0]
    kept = scheduler.kept
    for slot, register in word.sources:
        bank = register % 2
        if kept.get((bank, slot)) != register:
            wanted[bank] += 1
        if slot in word.kept:
            kept[bank, slot] = register
        else:
            kept.pop((bank, slot), None)
    start = clock
    for bank in (0, 1):
        if wanted[bank]:
            start = max(start, scheduler.banks[bank] + wanted[bank] - int(READ_CLOCKS.value))
    for bank in (0, 1):
        if wanted[bank]:
            scheduler.banks[bank] = max(scheduler.banks[bank], start) + wanted[bank]
    scheduler.stuck = start + 1


def _hold(warp: _Warp, word: Word, result: float, read: float) -> None:
    """Lets the instruction's counters run until its result is there and its operands are read."""
    if word.holds != NONE:
        warp.clear[word.holds] = max(warp.clear[word.holds], result)
    if word.reads != NONE:
        warp.clear[word.reads] = max(warp.clear[word.reads], read)

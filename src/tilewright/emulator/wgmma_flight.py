"""wgmma in flight: what was issued, what completes at a wait, who touches registers meanwhile.

An operation takes place when a wgmma.wait_group of its warpgroup completes it, the latest moment
that the program allows: then it reads shared memory, and D becomes A·B + D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.counters import Tally
from tilewright.emulator.wgmma_operand import SharedOperand
from tilewright.emulator.wgmma_sums import WARPS, Registers, Sums, lanes_of

if TYPE_CHECKING:
    from tilewright.emulator.access import Access
    from tilewright.emulator.machine import Machine
    from tilewright.emulator.wgmma_touch import Touched

EARLY = "wgmma-registers"  # the kinds of findings
UNFENCED = "wgmma-fence"

# Multiplies a [n, 64, k] by b [n, k, columns] and adds c; n counts warpgroups.
Multiply = Callable[[Array, Array, Array], Array]
Numbers = Callable[[Array], Array]  # words of an operand → its matrices


@dataclass(frozen=True, eq=False, slots=True)
class Form:
    """What is the same whenever an instruction runs. `fragments` numbers its registers of a."""

    at: int
    shape: str
    into: Registers
    fragments: int | None
    multiply: Multiply
    left: Numbers
    right: Numbers


@dataclass(eq=False, slots=True)
class Flight:
    """One instruction as its warpgroups [blocks, warpgroups] issued it."""

    form: Form
    sums: Sums
    a: SharedOperand | Array  # or matrices [blocks, warpgroups, 64, k] that lay in registers
    b: SharedOperand
    adds: Array  # whether D is added: scale-d
    group: Array  # the number of its group, counted from 0
    pending: Array
    ahead: Array  # done before its wait, because a move wanted the registers


class Warpgroups:
    """The wgmma of a chunk; [blocks, warpgroups] each."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._shape = (machine.blocks, machine.warps // WARPS)
        self._open = np.zeros(self._shape, np.int64)  # the group that a new one joins
        self._fenced = np.zeros(self._shape, bool)
        self._flights: list[Flight] = []
        self._sums: dict[int, Sums] = {}  # by the number of the set of registers
        # By the number of the set: whether other instructions used it since the last fence.
        self._touched: dict[int, Array] = {}
        self._fragments: dict[int, Array] = {}
        self.accesses: dict[tuple[object, ...], list[Access]] = {}  # see SharedOperand

    def of(self, mask: Mask) -> Array:
        """The warpgroups that have one of these lanes."""
        if mask is None:
            return np.ones(self._shape, bool)
        lanes = np.broadcast_to(mask, self._machine.full)[:, : WARPS * self._shape[1]]
        found: Array = np.logical_or.reduce(lanes.reshape(*self._shape, -1), axis=-1)
        return found

    # --- the four instructions ----------------------------------------------------------

    def fence(self, mask: Mask) -> None:
        """What other instructions did to registers lies before the next wgmma."""
        groups = self.of(mask)
        self._fenced |= groups
        for touched in (*self._touched.values(), *self._fragments.values()):
            touched &= ~groups

    def sums(self, form: Form, groups: Array, overlapping: Iterable[int]) -> Sums:
        """The accumulators of an instruction that is about to be issued."""
        for number in overlapping:
            if number in self._sums:
                self._use(form.at, self._sums[number], groups)
        known = self._sums.get(form.into.number)
        if known is None or known.registers.kind != form.into.kind:
            if known is not None:  # the same registers, as another type
                self._use(form.at, known, groups)
            known = Sums(form.into, self._machine.blocks, self._machine.warps)
            self._sums[form.into.number] = known
        return known

    def issue(
        self, form: Form, sums: Sums, a: SharedOperand | Array, b: SharedOperand,
        adds: Array, groups: Array,
    ) -> None:  # fmt: skip
        """From now on `groups` multiply."""
        machine = self._machine
        if machine.hazards is not None:
            self._check(form, sums, groups)
        for operand in (a, b):
            if not isinstance(operand, np.ndarray):
                operand.begin(groups)
        if (old := groups & ~sums.held).any():
            if adds.any():
                sums.take(machine.regs, old)
            sums.held |= old
        sums.flying += groups
        nobody = np.zeros(self._shape, bool)
        group = self._open.copy()
        self._flights.append(Flight(form, sums, a, b, adds, group, groups.copy(), nobody))
        self._count(form.at, (a, b), groups)

    def commit(self, mask: Mask) -> None:
        self._open += self.of(mask)

    def wait(self, pending: int, mask: Mask) -> None:
        """Completes all groups but the newest `pending` of each warpgroup."""
        groups = self.of(mask)
        left: list[Flight] = []
        for flight in self._flights:
            due = flight.pending & groups & (flight.group < self._open - pending)
            if due.any():
                self._land(flight, due & ~flight.ahead)
                for operand in (flight.a, flight.b):
                    if not isinstance(operand, np.ndarray):
                        operand.over(due)
                flight.sums.flying -= due
                flight.pending &= ~due
            if flight.pending.any():
                left.append(flight)
        self._flights = left

    # --- other instructions -------------------------------------------------------------

    def touch(self, at: int, touched: Touched, mask: Mask) -> None:
        """Another instruction is about to use registers."""
        groups = self.of(mask)
        for number in (*touched.written, *touched.read):
            if (sums := self._sums.get(number)) is not None:
                self._use(at, sums, groups, touched.moves and number not in touched.written)
            if not touched.moves:
                self._note(self._touched, number, groups)
        for number in touched.fragments:
            self._overwrite(at, number, groups)
            if not touched.moves:
                self._note(self._fragments, number, groups)

    def _note(self, touched: dict[int, Array], number: int, groups: Array) -> None:
        touched.setdefault(number, np.zeros(self._shape, bool))
        touched[number] |= groups

    def _use(self, at: int, sums: Sums, groups: Array, moves: bool = False) -> None:
        """Gives the registers their values; those in flight have none."""
        regs, flying = self._machine.regs, groups & (sums.flying > 0)
        if flying.any() and moves:
            for flight in self._flights:
                if flight.sums is sums:
                    self._land(flight, flying & flight.pending & ~flight.ahead)
                    flight.ahead |= flying & flight.pending
            sums.deliver(regs, flying)
        elif flying.any():
            self.fault(EARLY, at, _IN_FLIGHT, flying)
            sums.spoil(regs, flying)
        if (stale := groups & sums.held & (sums.flying == 0)).any():
            sums.deliver(regs, stale)
            sums.held &= ~stale

    def _overwrite(self, at: int, fragments: int, groups: Array) -> None:
        for flight in self._flights:
            if flight.form.fragments == fragments and (early := flight.pending & groups).any():
                self.fault(EARLY, at, _A_IN_FLIGHT, early)

    # --- completion ---------------------------------------------------------------------

    def _land(self, flight: Flight, due: Array) -> None:
        if not due.any():
            return
        columns = np.flatnonzero(due.any(0))
        some = slice(columns[0], columns[-1] + 1)  # of the warpgroups
        on, sums, form = due[:, some], flight.sums, flight.form
        if isinstance(flight.a, np.ndarray):
            a = flight.a[:, some]
        else:
            a = form.left(flight.a.read(due)[:, some])
        b = form.right(flight.b.read(due)[:, some])
        old, adds = sums.matrix[:, some], flight.adds[:, some]
        c: Array = old
        if not adds.all():
            c = np.where(adds[..., None, None], old, old.dtype.type(0))
        flat = (part.reshape(-1, *part.shape[2:]) for part in (a, b, c))
        total = form.multiply(*flat).reshape(old.shape)
        if on.all():
            sums.matrix[:, some] = total
        else:
            np.copyto(old, total, where=on[..., None, None])

    # --- counts and faults --------------------------------------------------------------

    def _count(self, at: int, operands: tuple[SharedOperand | Array, ...], groups: Array) -> None:
        """A request a warp; each operand in shared memory is counted once a warpgroup."""
        read = sum(each.nbytes for each in operands if not isinstance(each, np.ndarray))
        one = Tally(requests=WARPS, bytes=read)
        self._machine.counters.tallies.setdefault(at, Tally()).add(one, int(groups.sum()))

    def _check(self, form: Form, sums: Sums, groups: Array) -> None:
        at = form.at
        self.fault(UNFENCED, at, _NO_FENCE, groups & ~self._fenced)
        for touched, number, what in (
            (self._touched, form.into.number, _TOUCHED),
            (self._fragments, form.fragments, _A_TOUCHED),
        ):
            if number in touched:
                self.fault(UNFENCED, at, what, groups & touched[number])
        for flight in self._flights:
            if flight.sums is sums and flight.form.shape != form.shape:
                other = f"m64n{flight.form.shape} still works on its accumulators"
                self.fault(EARLY, at, f"{other} ({_WAIT})", flight.pending & groups)

    def fault(self, kind: str, at: int, what: str, groups: Array) -> None:
        """Reports what some warpgroups did wrong, where the launch asked for checks."""
        machine = self._machine
        if machine.hazards is not None and groups.any():
            machine.fault(kind, at, what, lanes_of(groups, machine.warps))


_WAIT = "a wgmma.wait_group that completes it must come first"
_IN_FLIGHT = f"it uses an accumulator that a wgmma.mma_async still works on ({_WAIT})"
_A_IN_FLIGHT = f"it writes a register of A that a wgmma.mma_async still reads ({_WAIT})"
_NO_FENCE = "no wgmma.fence came before the first wgmma.mma_async of the warpgroup"
_TOUCHED = "its accumulators were used by other instructions after the last wgmma.fence"
_A_TOUCHED = "its registers of A were written after the last wgmma.fence"

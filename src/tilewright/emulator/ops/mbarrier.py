"""mbarrier and cp.async.mbarrier.arrive, also of other blocks. PTX ISA, "mbarrier"."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, Array, Mask
from tilewright.emulator.cluster_space import cluster_access
from tilewright.emulator.compiler import SHARED_WINDOW, Compiler, Fetch
from tilewright.emulator.ir import Immediate, Instruction, Operand, Sink
from tilewright.emulator.machine import Machine
from tilewright.emulator.mbarrier_inits import WIDTH
from tilewright.emulator.mbarrier_word import MOST, pending_of, phase_of
from tilewright.emulator.mbarriers import Arrival
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

Place = Callable[[Machine, Mask], Access]

_ISA = "Parallel Synchronization and Communication Instructions: mbarrier"
_OWN = r"(?P<space>\.shared(?:::cta)?)?\.b64"  # as ptxas has it: other blocks' take arrivals alone
_SPACE = r"(?P<space>\.shared(?:::cta|::cluster)?)?\.b64"
_RELEASE = r"(?:\.(?P<order>release|relaxed)\.(?:cta|cluster))?"
_ACQUIRE = r"(?:\.(?P<order>acquire|relaxed)\.(?:cta|cluster))?"


def _place(compiler: Compiler, operand: Operand, g: Groups, arrives: bool = False) -> Place:
    """A word in shared memory: one's own, which .shared::cta says, or another block's, too.

    Without a space in the opcode it is a generic address; who only `arrives` may mean any.
    """
    address, at, space = compiler.address(operand), compiler.at, g["space"]

    def place(machine: Machine, mask: Mask) -> Access:
        where = address(machine.regs)
        if space in (".shared", ".shared::cta"):
            return machine.shared.access(machine.findings, at, where, mask, WIDTH, LANES)
        if space is None:
            where = where - SHARED_WINDOW
        access = cluster_access(machine, at, where, mask, WIDTH)
        if not arrives:
            machine.mbarriers.check_own(access)
        return access

    return place


def _number(compiler: Compiler, operand: Operand, least: int) -> Fetch:
    """A count or a number of bytes. Raises ValueError for a constant out of its range."""
    if isinstance(operand, Immediate) and not least <= operand.value <= MOST:
        raise ValueError(f"{operand.value} must be {least} to {MOST:,}")
    return compiler.source(operand, "u32")


@op("mbarrier", rf"\.init{_OWN}", f"{_ISA}.init")
def init(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    where, expected = ins.operands
    place, count = _place(compiler, where, g), _number(compiler, expected, 1)

    def step(machine: Machine, mask: Mask) -> None:
        machine.mbarriers.make(place(machine, mask), count(machine.regs))

    return step


@op("mbarrier", rf"\.inval{_OWN}", f"{_ISA}.inval")
def inval(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (where,) = ins.operands
    place, nothing = _place(compiler, where, g), np.zeros((1, 1, 1), np.uint64)

    def step(machine: Machine, mask: Mask) -> None:
        machine.shared.store(place(machine, mask), nothing)

    return step


@op("mbarrier", rf"\.(?P<what>arrive|arrive_drop)(?P<how>\.expect_tx|\.noComplete)?"
    rf"{_RELEASE}{_SPACE}", f"{_ISA}.arrive")  # fmt: skip
def arrive(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """One arrival, or as many as the last operand says; of .expect_tx it is a number of bytes."""
    into, where, *rest = ins.operands
    if len(rest) > 1 or (g["how"] and not rest):
        raise ValueError("after the address comes one number at most, and with .expect_tx one")
    if g["space"] == ".shared::cluster" and not isinstance(into, Sink):
        raise ValueError("with .shared::cluster there is no token: _ must stand in its place")
    if g["space"] == ".shared::cluster" and g["how"] == ".noComplete":
        raise ValueError(".noComplete does not go with .shared::cluster")
    place = _place(compiler, where, g, arrives=True)
    put = None if isinstance(into, Sink) else compiler.dest(into, "b64")
    number = _number(compiler, rest[0], 0 if g["how"] == ".expect_tx" else 1) if rest else None
    expects, drops, releases = g["how"] == ".expect_tx", "drop" in g["what"], _orders(g)
    may_complete = g["how"] != ".noComplete"

    def step(machine: Machine, mask: Mask) -> None:
        access = place(machine, mask)
        given: Array | int = 1
        if number is not None:
            what, least = ("its number of bytes", 0) if expects else ("its count", 1)
            given = machine.mbarriers.within(access, number(machine.regs), least, what)
        count, nbytes = (1, given) if expects else (given, 0)
        arrival = Arrival(count, nbytes, drops, may_complete, releases)
        token = machine.mbarriers.arrive(access, arrival)
        if put is not None:
            put(machine.regs, token, mask)

    return step


@op("mbarrier", rf"\.(?P<what>expect_tx|complete_tx)(?:\.relaxed\.(?:cta|cluster))?{_SPACE}",
    f"{_ISA}.expect_tx")  # fmt: skip
def expect_tx(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    where, count = ins.operands
    place, nbytes = _place(compiler, where, g, arrives=True), _number(compiler, count, 0)
    sign = 1 if g["what"] == "expect_tx" else -1

    def step(machine: Machine, mask: Mask) -> None:
        access = place(machine, mask)
        more = sign * machine.mbarriers.within(
            access, nbytes(machine.regs), 0, "its number of bytes"
        )
        machine.mbarriers.arrive(access, Arrival(nbytes=more, releases=False))

    return step


@op("mbarrier", rf"\.(?:test|try)_wait(?P<parity>\.parity)?{_ACQUIRE}{_OWN}", f"{_ISA}.test_wait")
def wait(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Whether a phase has ended: that of a token, or the last one of a parity.

    try_wait may take its time on a GPU before it says no; here it says so at once.
    """
    into, where, phase, *hint = ins.operands
    if len(hint) > ("try" in ins.opcode):
        raise ValueError("a time goes with try_wait alone, after the phase")
    for operand in hint:
        compiler.source(operand, "u32")
    if g["parity"] and isinstance(phase, Immediate) and phase.value not in (0, 1):
        raise ValueError(f"the parity {phase.value} must be 0 or 1")
    put, place = compiler.dest(into, "pred"), _place(compiler, where, g)
    token = compiler.source(phase, "b32" if g["parity"] else "b64")
    parity, acquires = bool(g["parity"]), _orders(g)

    def step(machine: Machine, mask: Mask) -> None:
        access = place(machine, mask)
        word = token(machine.regs)
        which = word.astype(np.uint64) & np.uint64(1) if parity else phase_of(word)
        put(machine.regs, machine.mbarriers.wait(access, which, acquires), mask)

    return step


def _orders(g: Groups) -> bool:
    return g["order"] != "relaxed"


@op("mbarrier", r"\.pending_count\.b64", f"{_ISA}.pending_count")
def pending_count(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """How many arrivals were pending when the token was given."""
    into, operand = ins.operands
    put, token = compiler.dest(into, "u32"), compiler.source(operand, "b64")

    def step(machine: Machine, mask: Mask) -> None:
        put(machine.regs, pending_of(token(machine.regs)).astype(np.uint32), mask)

    return step


@op("cp", rf"\.async\.mbarrier\.arrive(?P<noinc>\.noinc)?{_OWN}", "Data Movement: cp.async")
def copies_arrive(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """An arrival once all copies have landed that the lane has issued so far."""
    (where,) = ins.operands
    place, increment = _place(compiler, where, g), not g["noinc"]

    def step(machine: Machine, mask: Mask) -> None:
        machine.mbarriers.track(place(machine, mask), increment)

    return step

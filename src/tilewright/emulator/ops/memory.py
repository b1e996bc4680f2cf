"""ld and st in the param, shared and global spaces. PTX ISA, "ld", "st"."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.emulator.arrays import LANES, TYPES, Array, Mask, join, split
from tilewright.emulator.compiler import PARAM_BASE, Compiler, Fetch, Put
from tilewright.emulator.counters import Price, priced, relative
from tilewright.emulator.ir import TYPE_BYTES, Instruction, Operand, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.memory import Access
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

_TYPE = r"(?:\.(?P<vector>v2|v4))?\.(?P<type>[bus](?:8|16|32|64)|f32|f64)"
_CACHE = r"(?:\.(?:ca|cg|cs|lu|cv|nc|wb|wt))?(?:\.L[12]::[\w:]+)*"
_WIDEST = 16  # bytes of a lane
_LD, _ST = "Data Movement: ld", "Data Movement: st"


@op("ld", rf"\.param{_TYPE}", _LD)
def ld_param(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    load = _load(compiler, ins, g)
    size = TYPE_BYTES[load.kind]

    def step(machine: Machine, mask: Mask) -> None:
        offset = load.address(machine.regs) - PARAM_BASE
        offset = machine.check_params(load.at, offset, load.width, mask)
        for i, put in enumerate(load.puts):
            raw = [machine.params[offset + i * size + j] for j in range(size)]
            put(machine.regs, join(raw, size).view(TYPES[load.kind]), mask)

    return step


@op("ld", rf"(?:\.volatile|\.weak)?\.shared(?:::cta)?{_TYPE}", _LD)
def ld_shared(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    load = _load(compiler, ins, g)
    price = priced(banks.shared_load, load.width)

    def step(machine: Machine, mask: Mask) -> None:
        access = shared_access(machine, load.at, load.address, mask, load.width, price)
        load.deliver(machine, machine.shared.load(access), mask)

    return step


@op("st", rf"(?:\.volatile|\.weak)?\.shared(?:::cta)?{_TYPE}", _ST)
def st_shared(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    store = _store(compiler, ins, g)
    price = priced(banks.shared_store, store.width)

    def step(machine: Machine, mask: Mask) -> None:
        access = shared_access(machine, store.at, store.address, mask, store.width, price)
        machine.shared.store(access, store.collect(machine))

    return step


@op("ld", rf"(?:\.volatile|\.weak)?\.global{_CACHE}{_TYPE}", _LD)
def ld_global(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    load = _load(compiler, ins, g)

    def step(machine: Machine, mask: Mask) -> None:
        access = global_access(machine, load.at, load.address, mask, load.width)
        load.deliver(machine, machine.memory.load(access), mask)

    return step


@op("st", rf"(?:\.volatile|\.weak)?\.global{_CACHE}{_TYPE}", _ST)
def st_global(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    store = _store(compiler, ins, g)

    def step(machine: Machine, mask: Mask) -> None:
        access = global_access(machine, store.at, store.address, mask, store.width)
        machine.memory.store(access, store.collect(machine))

    return step


@dataclass(frozen=True, slots=True)
class _Load:
    """A load: `puts` take the elements of `kind` that the `width` bytes of a lane hold."""

    at: int
    kind: str
    width: int
    address: Fetch
    puts: list[Put]

    def deliver(self, machine: Machine, wide: Array, mask: Mask) -> None:
        values = split(wide, TYPES[self.kind], len(self.puts))
        for put, value in zip(self.puts, values, strict=True):
            put(machine.regs, value, mask)


@dataclass(frozen=True, slots=True)
class _Store:
    at: int
    width: int
    address: Fetch
    fetches: list[Fetch]

    def collect(self, machine: Machine) -> Array:
        return join([fetch(machine.regs) for fetch in self.fetches], self.width)


def _load(compiler: Compiler, ins: Instruction, g: Groups) -> _Load:
    into, source = ins.operands
    items, width = _elements(into, g)
    puts = [compiler.dest(item, g["type"]) for item in items]
    return _Load(compiler.at, g["type"], width, compiler.address(source), puts)


def _store(compiler: Compiler, ins: Instruction, g: Groups) -> _Store:
    into, source = ins.operands
    items, width = _elements(source, g)
    fetches = [compiler.source(item, g["type"]) for item in items]
    return _Store(compiler.at, width, compiler.address(into), fetches)


def _elements(operand: Operand, g: Groups) -> tuple[tuple[Operand, ...], int]:
    """The registers of a lane's elements and the bytes that they make together."""
    items = operand.items if isinstance(operand, Vector) else (operand,)
    count = int((g["vector"] or "v1")[1:])
    width = count * TYPE_BYTES[g["type"]]
    if len(items) != count:
        raise ValueError(f"{len(items)} registers for {count} elements")
    if width > _WIDEST:
        raise ValueError(f"an access of {width} bytes is wider than {_WIDEST}")
    return items, width


def shared_access(
    machine: Machine, at: int, address: Fetch, mask: Mask, width: int, price: Price
) -> Access:
    """Checks and counts an access of all 32 lanes to shared memory."""
    where = address(machine.regs)
    found = machine.shared.access(machine.findings, at, where, mask, width, LANES)
    rows = [relative(found.address, found.active)]
    machine.counters.count(at, price, width, rows, machine.blocks)
    return found


def global_access(machine: Machine, at: int, address: Fetch, mask: Mask, width: int) -> Access:
    """Checks and counts an access of all 32 lanes to global memory."""
    where = address(machine.regs)
    found = machine.memory.access(machine.findings, at, where, mask, width, machine.full)
    rows = [relative(found.address, found.active)]
    machine.counters.count(at, priced(banks.global_access, width), width, rows, machine.blocks)
    return found

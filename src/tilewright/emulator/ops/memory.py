"""ld and st in all spaces, also in the shared memory of a cluster. PTX ISA, "ld", "st"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import LANES, TYPES, Array, Mask, join, split
from tilewright.emulator.cluster_space import cluster_access
from tilewright.emulator.compiler import PARAM_BASE, Compiler, Fetch, Put
from tilewright.emulator.counters import Price, Tally, priced, relative
from tilewright.emulator.generic import spaces
from tilewright.emulator.ir import TYPE_BYTES, Address, Instruction, Operand, Symbol, Vector
from tilewright.emulator.local import spread
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.model import banks

_TYPE = r"(?:\.(?P<vector>v2|v4|v8))?\.(?P<type>[bus](?:8|16|32|64)|f16|bf16|f32|f64|b128)"
_SCOPE = r"(?:cta|cluster|gpu|sys)"
_ORDER = rf"(?:\.volatile|\.weak|\.(?:relaxed|acquire|release|mmio\.relaxed)\.{_SCOPE})?"
_CACHE = (
    r"(?:\.(?:ca|cg|cs|lu|cv|nc|wb|wt))?(?:\.L1::\w+)?(?:\.L2::[\w:]+)*(?:\.level::\w+)*"
    r"(?:\.unified)?"
)
_WIDEST = 16  # bytes of a lane
_LD, _ST = "Data Movement: ld", "Data Movement: st"


@op("ld", rf"\.param(?:::(?:entry|func))?{_TYPE}", _LD)
def ld_param(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    load = _load(compiler, ins, g)
    if _is_own(compiler, ins.operands[1]):
        return _local_load(load, counted=False)
    size = TYPE_BYTES[load.kind]

    def step(machine: Machine, mask: Mask) -> None:
        offset = load.address(machine.regs) - PARAM_BASE
        offset = machine.check_params(load.at, offset, load.width, mask)
        for i, put in enumerate(load.puts):
            raw = [machine.params[offset + i * size + j] for j in range(size)]
            put(machine.regs, join(raw, size).view(TYPES[load.kind]), mask)

    return step


@op("st", rf"\.param(?:::func)?{_TYPE}", _ST)
def st_param(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Of a function that is called: its parameters are the thread's own memory."""
    if not _is_own(compiler, ins.operands[0]):
        raise ValueError("a kernel's parameters cannot be written")
    return _local_store(_store(compiler, ins, g), counted=False)


def _is_own(compiler: Compiler, operand: Operand) -> bool:
    """Whether the address is that of a .param variable in the body, for a call."""
    base = operand.base if isinstance(operand, Address) else None
    return isinstance(base, Symbol) and base.name in compiler.local


_SHARED = r"\.shared(?:::(?P<reach>cta|cluster))?"


@op("ld", rf"{_ORDER}{_SHARED}{_TYPE}", _LD)
def ld_shared(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    load, far = _load(compiler, ins, g), g["reach"] == "cluster"
    price = priced(banks.shared_load, load.width)

    def step(machine: Machine, mask: Mask) -> None:
        where = load.address(machine.regs)
        access = shared_access(machine, load.at, where, mask, load.width, price, far)
        load.deliver(machine, machine.shared.load(access), mask)

    return step


@op("st", rf"{_ORDER}{_SHARED}{_TYPE}", _ST)
def st_shared(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    store, far = _store(compiler, ins, g), g["reach"] == "cluster"
    price = priced(banks.shared_store, store.width)

    def step(machine: Machine, mask: Mask) -> None:
        where = store.address(machine.regs)
        access = shared_access(machine, store.at, where, mask, store.width, price, far)
        machine.shared.store(access, store.collect(machine))

    return step


@op("ld", rf"{_ORDER}\.(?:global|const){_CACHE}{_TYPE}", _LD)
@op("ldu", rf"\.global{_TYPE}", "Data Movement: ldu")
def ld_global(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    load = _load(compiler, ins, g)

    def step(machine: Machine, mask: Mask) -> None:
        where = load.address(machine.regs)
        access = global_access(machine, load.at, where, mask, load.width)
        machine.acquire(access)
        load.deliver(machine, machine.memory.load(access), mask)

    return step


@op("st", rf"{_ORDER}\.global{_CACHE}{_TYPE}", _ST)
def st_global(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    store = _store(compiler, ins, g)

    def step(machine: Machine, mask: Mask) -> None:
        where = store.address(machine.regs)
        access = global_access(machine, store.at, where, mask, store.width)
        machine.release(access)
        machine.memory.store(access, store.collect(machine))

    return step


@op("ld", rf"{_ORDER}\.local{_CACHE}{_TYPE}", _LD)
def ld_local(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _local_load(_load(compiler, ins, g), counted=True)


@op("st", rf"{_ORDER}\.local{_CACHE}{_TYPE}", _ST)
def st_local(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    return _local_store(_store(compiler, ins, g), counted=True)


@op("ld", rf"{_ORDER}{_CACHE}{_TYPE}", _LD)
def ld_generic(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Each lane's address says which space it is of."""
    load = _load(compiler, ins, g)
    price = priced(banks.shared_load, load.width)

    def step(machine: Machine, mask: Mask) -> None:
        for space, where, lanes in spaces(machine, load.address(machine.regs), mask):
            if space == "shared":
                found = shared_access(machine, load.at, where, lanes, load.width, price, far=True)
                values = machine.shared.load(found)
            elif space == "local":
                values = local_load(machine, load.at, where, lanes, load.width)
            else:
                access = global_access(machine, load.at, where, lanes, load.width)
                machine.acquire(access)
                values = machine.memory.load(access)
            load.deliver(machine, values, lanes)

    return step


@op("st", rf"{_ORDER}{_CACHE}{_TYPE}", _ST)
def st_generic(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    store = _store(compiler, ins, g)
    price = priced(banks.shared_store, store.width)

    def step(machine: Machine, mask: Mask) -> None:
        values = store.collect(machine)
        for space, where, lanes in spaces(machine, store.address(machine.regs), mask):
            if space == "shared":
                found = shared_access(machine, store.at, where, lanes, store.width, price, far=True)
                machine.shared.store(found, values)
            elif space == "local":
                local_store(machine, store.at, where, lanes, store.width, values)
            else:
                access = global_access(machine, store.at, where, lanes, store.width)
                machine.release(access)
                machine.memory.store(access, values)

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


def _local_load(load: _Load, counted: bool) -> Step:
    def step(machine: Machine, mask: Mask) -> None:
        where = load.address(machine.regs)
        load.deliver(machine, local_load(machine, load.at, where, mask, load.width, counted), mask)

    return step


def _local_store(store: _Store, counted: bool) -> Step:
    def step(machine: Machine, mask: Mask) -> None:
        where, values = store.address(machine.regs), store.collect(machine)
        local_store(machine, store.at, where, mask, store.width, values, counted)

    return step


def local_load(
    machine: Machine, at: int, where: Array, mask: Mask, width: int, counted: bool = True
) -> Array:
    if counted:
        _count_local(machine, at, where, mask, width)
    return machine.local.load(machine.findings, at, where, mask, width)


def local_store(
    machine: Machine,
    at: int,
    where: Array,
    mask: Mask,
    width: int,
    values: Array,
    counted: bool = True,
) -> None:
    if counted:
        _count_local(machine, at, where, mask, width)
    machine.local.store(machine.findings, at, where, mask, width, values)


def _count_local(machine: Machine, at: int, where: Array, mask: Mask, width: int) -> None:
    address = np.broadcast_to(spread(where), machine.full)
    on = None if mask is None else np.broadcast_to(mask, machine.full)
    price = priced(banks.global_access, min(width, 4))
    machine.counters.count(at, price, width, [relative(address, on)], machine.blocks)


def shared_access(
    machine: Machine,
    at: int,
    where: Array,
    mask: Mask,
    width: int,
    price: Price,
    far: bool = False,
) -> Access:
    """Checks and counts an access of all 32 lanes to shared memory; with `far` of the cluster.

    What goes to other blocks has no wavefronts: how their memory serves it is not known.
    """
    if far:
        found = cluster_access(machine, at, where, mask, width)
        if found.rows is not None:
            on = np.broadcast_to(True if found.active is None else found.active, machine.full)
            warps = int(on.any(-1).sum())
            machine.counters.add(at, Tally(warps, bytes=int(on.sum()) * width))
            return found
    else:
        found = machine.shared.access(machine.findings, at, where, mask, width, LANES)
    rows = [relative(found.address, found.active)]
    machine.counters.count(at, price, width, rows, machine.blocks)
    return found


def global_access(machine: Machine, at: int, where: Array, mask: Mask, width: int) -> Access:
    """Checks and counts an access of all 32 lanes to global memory."""
    found = machine.memory.access(machine.findings, at, where, mask, width, machine.full)
    rows = [relative(found.address, found.active)]
    machine.counters.count(at, priced(banks.global_access, width), width, rows, machine.blocks)
    return found

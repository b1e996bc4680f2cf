"""Kernel → Program: every instruction becomes a function over lane arrays, in basic blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from tilewright.emulator import ops
from tilewright.emulator.arrays import LANES, TYPES, Array, Mask, constant
from tilewright.emulator.inline import inlined
from tilewright.emulator.ir import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from tilewright.emulator.literals import bits
from tilewright.emulator.ops.registry import Step, build_step, unsupported
from tilewright.emulator.pointers import written_params
from tilewright.emulator.specials import KNOWN

Regs = list[Array]  # the register file of a machine: one array a slot, poison before a write
Fetch = Callable[[Regs], Array]
Put = Callable[[Regs, Array, Mask], None]

PARAM_BASE = 0x1000_0000  # where .param space begins, for addresses taken with mov
SHARED_WINDOW = 1 << 40  # generic addresses of shared memory lie from here on
LOCAL_WINDOW = 1 << 41  # and those of local memory from here
WINDOW_BYTES = 1 << 32
DYNAMIC_ALIGN = 1024  # dynamic shared memory starts on the driver's largest alignment

_BARRIER = re.compile(r"(?:bar(?:\.cta)?\.sync|barrier(?:\.cta)?\.sync(?:\.aligned)?)$")
_BARRIERS = 16  # of a block, numbered from 0
_POLL = re.compile(r"^atom\b|^ld\..*\b(?:volatile|relaxed|acquire)\b|^nanosleep|^test_wait")
_ENDING = ("bra", "bra.uni", "ret", "ret.uni", "exit", "trap")


@dataclass(slots=True)
class BasicBlock:
    """Instructions that run together. `end` says what follows: a branch, an exit or a barrier."""

    first: int
    last: int  # one past its last instruction
    steps: list[Step] = field(default_factory=list)
    end: Instruction | None = None
    target: int = -1  # basic block a branch goes to
    guard: Fetch | None = None
    barrier: tuple[int, int | None] | None = None  # its number, and its count of threads if given


@dataclass(slots=True)
class Program:
    """A compiled kernel, ready for any number of launches."""

    kernel: Kernel
    blocks: list[BasicBlock]
    slots: int
    types: list[np.dtype[Any]]  # of the registers, which come first among the slots
    constants: list[tuple[int, Array]]
    specials: list[tuple[int, str]]
    shared_offsets: dict[str, int]
    static_shared_bytes: int
    variables: dict[str, Variable]  # in global or constant space
    variable_slots: list[tuple[int, str, int]]
    local_bytes: int  # of a thread: .local variables and the parameters of functions it calls
    polling: frozenset[int]  # basic blocks that read what other threads may write meanwhile
    written_params: frozenset[int] | None  # offsets of the pointers that are stored through


class Compiler:
    """What builders use to turn operands into fetches and puts on register slots."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.kernel = kernel
        self.at = 0  # the index of the instruction that is being built
        known = {name: kind for name, kind in kernel.registers.items() if kind in TYPES}
        self.types = {name: _storage(kind) for name, kind in known.items()}
        self.slot_of = {name: slot for slot, name in enumerate(known)}
        self.slots = len(self.slot_of)
        self.constants: dict[tuple[int, str], tuple[int, Array]] = {}
        self.specials: dict[str, int] = {}
        self.params = {param.name: PARAM_BASE + param.offset for param in kernel.params}
        self.variables = _used(kernel, {**module.variables, **kernel.variables})
        self.variable_slots: dict[tuple[str, int], int] = {}
        self.shared, self.static_shared_bytes = _shared_layout(self.variables)
        self.local, self.local_bytes = _local_layout(self.variables)

    # --- operands -----------------------------------------------------------------------

    def source(self, operand: Operand, kind: str) -> Fetch:
        """Reads an operand as PTX type `kind`; a wider register gives its low bits."""
        dtype = TYPES[kind]
        match operand:
            case Register(name=name, negated=negated):
                slot, stored = self._register(name, dtype)
                if negated and dtype.kind != "b":
                    raise ValueError(f"!{name} is not a predicate")
                return _reader(slot, stored, dtype, negated)
            case Immediate():
                return itemgetter(self._constant(bits(operand, dtype), dtype))
            case Special(name=name):
                if name not in KNOWN:
                    raise ValueError(f"the special register {name} is not modelled")
                if name not in self.specials:
                    self.specials[name] = self._new_slot()
                return _reader(self.specials[name], np.dtype("u4"), dtype, negated=False)
            case Symbol():
                return self._symbol(operand, dtype)
        raise ValueError(f"{operand} is not a source")

    def dest(self, operand: Operand, kind: str) -> Put:
        """Writes a value of PTX type `kind`; a wider register is zero- or sign-extended."""
        if isinstance(operand, Sink):
            return lambda regs, value, mask: None
        if not isinstance(operand, Register) or operand.negated:
            raise ValueError(f"{operand} is not a destination")
        dtype = TYPES[kind]
        slot, stored = self._register(operand.name, dtype)
        if stored == dtype:

            def put(regs: Regs, value: Array, mask: Mask) -> None:
                regs[slot] = value if mask is None else np.where(mask, value, regs[slot])

            return put
        convert = _converter(dtype, stored)

        def put_as(regs: Regs, value: Array, mask: Mask) -> None:
            value = convert(value)
            regs[slot] = value if mask is None else np.where(mask, value, regs[slot])

        return put_as

    def _register(self, name: str, dtype: np.dtype[Any]) -> tuple[int, np.dtype[Any]]:
        """A register's slot and storage; it must be as wide as what is read or written."""
        if name not in self.slot_of:
            declared = self.kernel.registers.get(name)
            is_what = f"a .{declared} register, not modelled" if declared else "not declared"
            raise ValueError(f"{name} is {is_what}")
        stored = self.types[name]
        if (stored.kind == "b") != (dtype.kind == "b") or stored.itemsize < dtype.itemsize:
            declared = self.kernel.registers[name]
            raise ValueError(f"{name} is a .{declared} register, which does not hold this type")
        return self.slot_of[name], stored

    def address(self, operand: Operand) -> Fetch:
        """The byte address of [base + offset], as int64."""
        if not isinstance(operand, Address):
            raise ValueError(f"{operand} is not an address")
        base = operand.base
        if isinstance(base, Symbol):
            return self.source(Symbol(base.name, base.offset + operand.offset), "s64")
        if isinstance(base, Immediate):
            return self.source(Immediate(base.value + operand.offset), "s64")
        wide = base.name in self.types and self.types[base.name].itemsize == 8
        read = self.source(base, "s64" if wide else "u32")
        offset = constant(operand.offset, np.dtype(np.int64))
        return lambda regs: read(regs).astype(np.int64, copy=False) + offset

    def _symbol(self, symbol: Symbol, dtype: np.dtype[Any]) -> Fetch:
        if symbol.name in self.params:
            where = self.params[symbol.name] + symbol.offset
            return itemgetter(self._constant(where, dtype))
        if symbol.name in self.local:
            where = self.local[symbol.name] + symbol.offset
            return itemgetter(self._constant(where, dtype))
        if symbol.name in self.shared:
            where = self.shared[symbol.name] + symbol.offset
            return itemgetter(self._constant(where, dtype))
        if symbol.name not in self.variables:
            raise ValueError(f"{symbol.name} is not declared")
        variable = self.variables[symbol.name]
        if variable.space not in ("global", "const"):
            raise ValueError(f"{symbol.name} lies in .{variable.space}, which is not modelled")
        key = (symbol.name, symbol.offset)
        if key not in self.variable_slots:
            self.variable_slots[key] = self._new_slot()
        return _reader(self.variable_slots[key], np.dtype("u8"), dtype, negated=False)

    def _constant(self, value: int, dtype: np.dtype[Any]) -> int:
        key = (value, dtype.str)
        if key not in self.constants:
            self.constants[key] = (self._new_slot(), constant(value, dtype))
        return self.constants[key][0]

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1


def compile_kernel(module: Module, kernel: Kernel) -> Program:
    """Compiles one kernel.

    Raises: UnsupportedError for the first instruction that is not modelled.
    Cost: about 10 µs an instruction.
    """
    if kernel.problem is not None:
        raise kernel.problem
    ops.load()
    kernel = inlined(module, kernel)
    compiler = Compiler(module, kernel)
    blocks = [BasicBlock(first, last) for first, last in _cut(kernel)]
    starts = {block.first: number for number, block in enumerate(blocks)}
    for block in blocks:
        _fill(compiler, block, starts)
    return Program(
        kernel,
        blocks,
        compiler.slots,
        list(compiler.types.values()),
        list(compiler.constants.values()),
        [(slot, name) for name, slot in compiler.specials.items()],
        compiler.shared,
        compiler.static_shared_bytes,
        {v.name: v for v in compiler.variables.values() if v.space in ("global", "const")},
        [(slot, name, offset) for (name, offset), slot in compiler.variable_slots.items()],
        compiler.local_bytes,
        frozenset(
            number
            for number, block in enumerate(blocks)
            if _polls(kernel, block) and _loops(blocks, number)
        ),
        written_params(kernel),
    )


def _polls(kernel: Kernel, block: BasicBlock) -> bool:
    return any(
        _POLL.search(instruction.opcode)
        for instruction in kernel.instructions[block.first : block.last]
    )


def _loops(blocks: list[BasicBlock], number: int) -> bool:
    """Whether the block can come after itself."""
    seen: set[int] = set()
    todo = _followers(blocks, number)
    while todo:
        at = todo.pop()
        if at == number:
            return True
        if at not in seen and at < len(blocks):
            seen.add(at)
            todo += _followers(blocks, at)
    return False


def _followers(blocks: list[BasicBlock], number: int) -> list[int]:
    block = blocks[number]
    goes_on = block.end is None or block.end.guard is not None or block.barrier is not None
    after = [number + 1] if goes_on else []
    return [*after, block.target] if block.target >= 0 else after


def is_barrier(instruction: Instruction) -> bool:
    return _BARRIER.match(instruction.opcode) is not None


def _cut(kernel: Kernel) -> list[tuple[int, int]]:
    """Basic blocks start at labels and after branches; a barrier is a block of its own."""
    edges = {0, len(kernel.instructions), *kernel.labels.values()}
    for at, instruction in enumerate(kernel.instructions):
        if is_barrier(instruction):
            edges |= {at, at + 1}
        elif instruction.opcode in _ENDING:
            edges.add(at + 1)
    ordered = sorted(edges)
    return list(pairwise(ordered))


def _fill(compiler: Compiler, block: BasicBlock, starts: dict[int, int]) -> None:
    for at in range(block.first, block.last):
        compiler.at, instruction = at, compiler.kernel.instructions[at]
        try:
            if is_barrier(instruction):
                block.barrier = _barrier(instruction)
            elif instruction.opcode in ("bra", "bra.uni"):
                block.target = _target(compiler.kernel, instruction, starts)
            elif instruction.opcode not in _ENDING:
                block.steps.append(_guarded(compiler, instruction))
                continue
            elif instruction.operands:
                raise ValueError(f"{instruction.opcode} takes none")
            block.end = instruction
            if instruction.guard is not None:
                block.guard = compiler.source(instruction.guard, "pred")
        except ValueError as error:
            raise unsupported(instruction, f"its operands are not understood: {error}") from error


def _target(kernel: Kernel, instruction: Instruction, starts: dict[int, int]) -> int:
    """The basic block that a branch goes to; the one past the last is the kernel's end."""
    target = instruction.operands[0] if len(instruction.operands) == 1 else None
    if not isinstance(target, Symbol) or target.name not in kernel.labels:
        raise ValueError("its target is not a label of this kernel")
    return starts.get(kernel.labels[target.name], len(starts))


def _barrier(instruction: Instruction) -> tuple[int, int | None]:
    """The number of a barrier and how many threads it waits for (None = all of the block)."""
    values = [o.value for o in instruction.operands if isinstance(o, Immediate)]
    if len(values) != len(instruction.operands) or len(values) not in (1, 2):
        raise ValueError("a barrier takes a constant number and perhaps a constant count")
    if not 0 <= values[0] < _BARRIERS:
        raise ValueError(f"barrier {values[0]} must be 0 to {_BARRIERS - 1}")
    if len(values) == 1:
        return values[0], None
    if values[1] <= 0 or values[1] % LANES:
        raise ValueError(f"the count {values[1]} must be a multiple of {LANES}")
    return values[0], values[1]


def _guarded(compiler: Compiler, instruction: Instruction) -> Step:
    """A step that runs in the lanes whose guard holds."""
    step = build_step(compiler, instruction)
    if instruction.guard is None:
        return step
    guard = compiler.source(instruction.guard, "pred")

    def run(machine: Any, mask: Mask) -> None:
        active = guard(machine.regs)
        if mask is not None:
            active = active & mask
        if active.all():
            step(machine, None)
        elif active.any():
            step(machine, active)

    return run


def _used(kernel: Kernel, variables: dict[str, Variable]) -> dict[str, Variable]:
    """The variables that the kernel names: other kernels' shared memory is not allotted."""
    named = {name for instruction in kernel.instructions for name in _names(instruction.operands)}
    return {name: variable for name, variable in variables.items() if name in named}


def _names(operands: tuple[Operand, ...]) -> Iterator[str]:
    for operand in operands:
        match operand:
            case Symbol(name=name) | Address(base=Symbol(name=name)):
                yield name
            case Vector(items=items):
                yield from _names(items)


def _storage(kind: str) -> np.dtype[Any]:
    """Registers hold bits, but for floats and predicates, which are read as such most often."""
    if kind in ("pred", "f32", "f64"):
        return TYPES[kind]
    return np.dtype(f"u{TYPES[kind].itemsize}")


def _shared_layout(variables: dict[str, Variable]) -> tuple[dict[str, int], int]:
    """Offsets of the .shared variables: sized ones in order, then the dynamic ones, together."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables.values():
        if variable.space == "shared" and variable.nbytes:
            end = -(-end // variable.align) * variable.align
            offsets[variable.name] = end
            end += variable.nbytes
    dynamic = [v.name for v in variables.values() if v.space == "shared" and not v.nbytes]
    if dynamic and end:
        end = -(-end // DYNAMIC_ALIGN) * DYNAMIC_ALIGN
    offsets.update(dict.fromkeys(dynamic, end))
    return offsets, end


def _local_layout(variables: dict[str, Variable]) -> tuple[dict[str, int], int]:
    """Offsets in a thread's own memory: .local variables, and .param ones that calls use."""
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables.values():
        if variable.space in ("local", "param"):
            end = -(-end // variable.align) * variable.align
            offsets[variable.name] = end
            end += variable.nbytes
    return offsets, end


def _reader(slot: int, stored: np.dtype[Any], wanted: np.dtype[Any], negated: bool) -> Fetch:
    if negated:
        return lambda regs: ~regs[slot]
    if stored == wanted:
        return itemgetter(slot)
    convert = _converter(stored, wanted)
    return lambda regs: convert(regs[slot])


def _converter(have: np.dtype[Any], want: np.dtype[Any]) -> Callable[[Array], Array]:
    """Reinterprets equal widths; narrows to the low bits; widens by the sign of `have`."""
    if have.itemsize == want.itemsize:
        return lambda value: value.view(want)
    integer = np.dtype(f"{'i' if have.kind == 'i' else 'u'}{want.itemsize}")
    bits = np.dtype(f"{'i' if have.kind == 'i' else 'u'}{have.itemsize}")
    return lambda value: value.view(bits).astype(integer).view(want)

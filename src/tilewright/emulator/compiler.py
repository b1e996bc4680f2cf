"""Kernel → Program: every instruction becomes a function over lane arrays, in basic blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np

from tilewright.emulator import ops
from tilewright.emulator.arrays import TYPES, Array, Mask, constant
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
)
from tilewright.emulator.ops.registry import Step, build_step, unsupported
from tilewright.errors import UnsupportedError

Regs = list[Array]  # the register file of a machine: one array a slot, poison before a write
Fetch = Callable[[Regs], Array]
Put = Callable[[Regs, Array, Mask], None]

PARAM_BASE = 0x1000_0000  # where .param space begins, for addresses taken with mov
SHARED_WINDOW = 1 << 40  # generic addresses of shared memory lie from here on
DYNAMIC_ALIGN = 1024  # dynamic shared memory starts on the driver's largest alignment

_BLOCKING = ("bar.sync", "barrier.sync", "barrier.cta.sync")
_ENDING = ("bra", "ret", "exit", "trap")


@dataclass(slots=True)
class BasicBlock:
    """Instructions that run together. `end` says what follows: a branch, an exit or a barrier."""

    first: int
    last: int  # one past its last instruction
    steps: list[Step] = field(default_factory=list)
    end: Instruction | None = None
    target: int = -1  # basic block a branch goes to
    guard: Fetch | None = None


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
    variables: list[Variable]  # of module scope, in global or constant space
    variable_slots: list[tuple[int, str, int]]


class Compiler:
    """What builders use to turn operands into fetches and puts on register slots."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.kernel = kernel
        self.at = 0  # the index of the instruction that is being built
        self.types = {name: _storage(kind) for name, kind in kernel.registers.items()}
        self.slot_of = {name: slot for slot, name in enumerate(kernel.registers)}
        self.slots = len(self.slot_of)
        self.constants: dict[tuple[int, str], tuple[int, Array]] = {}
        self.specials: dict[str, int] = {}
        self.params = {param.name: PARAM_BASE + param.offset for param in kernel.params}
        self.variables = {**module.variables, **kernel.variables}
        self.variable_slots: dict[tuple[str, int], int] = {}
        self.shared, self.static_shared_bytes = _shared_layout(self.variables)

    # --- operands -----------------------------------------------------------------------

    def source(self, operand: Operand, kind: str) -> Fetch:
        """Reads an operand as PTX type `kind`; a wider register gives its low bits."""
        dtype = TYPES[kind]
        match operand:
            case Register(name=name, negated=negated):
                return _reader(self.slot_of[name], self.types[name], dtype, negated)
            case Immediate():
                return itemgetter(self._constant(_bits(operand, dtype), dtype))
            case Special(name=name):
                if name not in self.specials:
                    self.specials[name] = self._new_slot()
                wide = np.dtype("u8") if name in ("%clock64", "%globaltimer") else np.dtype("u4")
                return _reader(self.specials[name], wide, dtype, negated=False)
            case Symbol():
                return self._symbol(operand, dtype)
        raise ValueError(f"{operand} is not a source")

    def dest(self, operand: Operand, kind: str) -> Put:
        """Writes a value of PTX type `kind`; a wider register is zero- or sign-extended."""
        if isinstance(operand, Sink):
            return lambda regs, value, mask: None
        if not isinstance(operand, Register):
            raise ValueError(f"{operand} is not a destination")
        slot, stored, dtype = self.slot_of[operand.name], self.types[operand.name], TYPES[kind]
        if stored == dtype:

            def put(regs: Regs, value: Array, mask: Mask) -> None:
                regs[slot] = value if mask is None else np.where(mask, value, regs[slot])

            return put
        convert = _converter(dtype, stored)

        def put_as(regs: Regs, value: Array, mask: Mask) -> None:
            value = convert(value)
            regs[slot] = value if mask is None else np.where(mask, value, regs[slot])

        return put_as

    def address(self, operand: Operand) -> Fetch:
        """The byte address of [base + offset], as int64."""
        if not isinstance(operand, Address):
            raise ValueError(f"{operand} is not an address")
        base = operand.base
        if isinstance(base, Symbol):
            return self.source(Symbol(base.name, base.offset + operand.offset), "s64")
        if isinstance(base, Immediate):
            return self.source(Immediate(base.value + operand.offset), "s64")
        read = self.source(base, "s64" if self.types[base.name].itemsize == 8 else "u32")
        offset = np.int64(operand.offset)
        return lambda regs: read(regs).astype(np.int64) + offset

    def _symbol(self, symbol: Symbol, dtype: np.dtype[Any]) -> Fetch:
        if symbol.name in self.params:
            where = self.params[symbol.name] + symbol.offset
            return itemgetter(self._constant(where, dtype))
        if symbol.name in self.shared:
            where = self.shared[symbol.name] + symbol.offset
            return itemgetter(self._constant(where, dtype))
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
    ops.load()
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
        [v for v in compiler.variables.values() if v.space in ("global", "const")],
        [(slot, name, offset) for (name, offset), slot in compiler.variable_slots.items()],
    )


def is_barrier(instruction: Instruction) -> bool:
    return instruction.opcode.startswith(_BLOCKING)


def _cut(kernel: Kernel) -> list[tuple[int, int]]:
    """Basic blocks start at labels and after branches; a barrier is a block of its own."""
    edges = {0, len(kernel.instructions), *kernel.labels.values()}
    for at, instruction in enumerate(kernel.instructions):
        if is_barrier(instruction):
            edges |= {at, at + 1}
        elif instruction.mnemonic in _ENDING:
            edges.add(at + 1)
    ordered = sorted(edges)
    return list(pairwise(ordered))


def _fill(compiler: Compiler, block: BasicBlock, starts: dict[int, int]) -> None:
    kernel = compiler.kernel
    for at in range(block.first, block.last):
        compiler.at, instruction = at, kernel.instructions[at]
        if not (is_barrier(instruction) or instruction.mnemonic in _ENDING):
            block.steps.append(_guarded(compiler, instruction))
            continue
        block.end = instruction
        if instruction.guard is not None:
            block.guard = compiler.source(instruction.guard, "pred")
        if instruction.mnemonic == "bra":
            target = instruction.operands[0]
            if not isinstance(target, Symbol) or target.name not in kernel.labels:
                raise unsupported(instruction, "its target is not a label of this kernel")
            at = kernel.labels[target.name]
            block.target = starts.get(at, len(starts))
        elif is_barrier(instruction):
            _check_barrier(instruction)


def _check_barrier(instruction: Instruction) -> None:
    known = {"bar.sync", "barrier.sync", "barrier.sync.aligned", "barrier.cta.sync.aligned"}
    known.add("barrier.cta.sync")
    if instruction.opcode not in known:
        raise unsupported(instruction, "the emulator does not model this barrier")
    if not all(isinstance(operand, Immediate) for operand in instruction.operands):
        raise unsupported(instruction, "a barrier number must be a constant here")


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


def _storage(kind: str) -> np.dtype[Any]:
    """Registers hold bits, but for floats and predicates, which are read as such most often."""
    if kind in ("pred", "f32", "f64"):
        return TYPES[kind]
    if kind not in TYPES:
        raise UnsupportedError(f".reg .{kind} is not modelled.")
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


def _bits(immediate: Immediate, dtype: np.dtype[Any]) -> int:
    """The bits of a literal in this type; a float literal may be read as another width."""
    width = immediate.float_bytes
    if not width or dtype.kind != "f" or dtype.itemsize == width:
        return immediate.value
    raw = np.frombuffer(immediate.value.to_bytes(width, "little"), f"f{width}").astype(dtype)
    return int.from_bytes(raw.tobytes(), "little")


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

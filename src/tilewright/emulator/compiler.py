"""Kernel → Program: every instruction becomes a function over lane arrays, in basic blocks."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np

from tilewright.emulator import ops
from tilewright.emulator.arrays import TYPES, UNSET, Array, Mask, constant
from tilewright.emulator.barrier_forms import barrier_of, is_barrier
from tilewright.emulator.flow import (
    ENDING,
    BasicBlock,
    cut,
    leaves,
    loops,
    polls,
    target_of,
)
from tilewright.emulator.fused import Joiner, places_of
from tilewright.emulator.gather import meetings_of
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
)
from tilewright.emulator.layout import check_sizes, local_layout, shared_layout, used_variables
from tilewright.emulator.literals import bits
from tilewright.emulator.ops.registry import Step, build_step, unsupported
from tilewright.emulator.origins import ORIGIN, SHUFFLED
from tilewright.emulator.pointers import written_params
from tilewright.emulator.program import Program
from tilewright.emulator.register_types import check_register
from tilewright.emulator.specials import KNOWN
from tilewright.emulator.undefined import watched, watched_guard
from tilewright.emulator.unset import unset_reads, unset_values
from tilewright.emulator.wgmma_touch import RegisterSets, touching
from tilewright.errors import UnsupportedError

_SPACES = ("global", "const", "shared")  # of the variables that a launch knows by name
Regs = list[Array]  # the register file of a machine: one array a slot, poison before a write
Fetch = Callable[[Regs], Array]
Put = Callable[[Regs, Array, Mask], None]

PARAM_BASE = 0x1000_0000  # where .param space begins, for addresses taken with mov
SHARED_WINDOW = 1 << 40  # generic addresses of shared memory lie from here on
LOCAL_WINDOW = 1 << 41  # and those of local memory from here
WINDOW_BYTES = 1 << 32
_SET = constant(0, np.dtype("u4"))


class Compiler:
    """What builders use to turn operands into fetches and puts on register slots."""

    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module, self.kernel = module, kernel
        self.at = 0  # the index of the instruction that is being built
        known = {name: kind for name, kind in kernel.registers.items() if kind in TYPES}
        self.types = {name: _storage(kind) for name, kind in known.items()}
        self.slot_of = {name: slot for slot, name in enumerate(known)}
        self.slots = len(self.slot_of)
        self.constants: dict[tuple[int, str], tuple[int, Array]] = {}
        self.specials: dict[str, int] = {}
        self.unset_reads: dict[int, tuple[str, ...]] = {}
        self.flags: dict[str, int] = {}
        self.params = {param.name: PARAM_BASE + param.offset for param in kernel.params}
        self.variables = used_variables(kernel, {**module.variables, **kernel.variables})
        self.variable_slots: dict[tuple[str, int], int] = {}
        self.shared, self.static_shared_bytes = shared_layout(self.variables)
        self.local, self.local_bytes = local_layout(self.variables)
        self.register_sets = RegisterSets(kernel)

    def watch(self, reads: dict[int, tuple[str, ...]]) -> None:
        """Registers that may hold what nothing wrote get a second one, which says whence it came.

        What the second one holds is said in `origins`.
        """
        self.unset_reads = reads
        known = [name for name in unset_values(self.kernel, reads) if name in self.slot_of]
        for name in known:
            self.flags[name] = self._new_register(name + ORIGIN)
        if known:
            self._new_register(SHUFFLED)

    def _new_register(self, name: str) -> int:
        self.types[name] = np.dtype("u4")
        self.slot_of[name] = self._new_slot()
        return self.slot_of[name]

    # --- operands -----------------------------------------------------------------------

    def source(self, operand: Operand, kind: str) -> Fetch:
        """Reads an operand as PTX type `kind`; that of ld, st or cvt may be wider than `kind`."""
        dtype = TYPES[kind]
        match operand:
            case Register(name=name, negated=negated):
                slot, stored = self._register(name, kind)
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
        if isinstance(operand, Symbol) and operand.name not in self.variables:
            raise ValueError(f"{operand.name} is not declared")
        if not isinstance(operand, Register) or operand.negated:
            raise ValueError(f"{operand} is not a destination")
        dtype = TYPES[kind]
        slot, stored = self._register(operand.name, kind)
        if operand.name in self.flags:
            return self._flagged(slot, stored, dtype, self.flags[operand.name])
        if stored == dtype:

            def put(regs: Regs, value: Array, mask: Mask) -> None:
                regs[slot] = value if mask is None else np.where(mask, value, regs[slot])

            return put
        convert = _converter(dtype, stored)

        def put_as(regs: Regs, value: Array, mask: Mask) -> None:
            value = convert(value)
            regs[slot] = value if mask is None else np.where(mask, value, regs[slot])

        return put_as

    def _flagged(self, slot: int, stored: np.dtype[Any], dtype: np.dtype[Any], flag: int) -> Put:
        convert = (lambda value: value) if stored == dtype else _converter(dtype, stored)

        def put(regs: Regs, value: Array, mask: Mask) -> None:
            value = convert(value)
            regs[slot] = value if mask is None else np.where(mask, value, regs[slot])
            regs[flag] = _SET if mask is None else np.where(mask, _SET, regs[flag])

        return put

    def _register(self, name: str, kind: str) -> tuple[int, np.dtype[Any]]:
        """A register's slot and storage. Raises ValueError for one that does not hold `kind`."""
        declared = self.kernel.registers.get(name)
        if name not in self.slot_of:
            is_what = f"a .{declared} register, not modelled" if declared else "not declared"
            raise ValueError(f"{name} is {is_what}")
        if declared is not None:  # the machine's own registers fit
            check_register(self.kernel.instructions[self.at], name, declared, kind)
        return self.slot_of[name], self.types[name]

    def slot(self, operand: Operand, kind: str) -> int | None:
        """Where a register or a number lies as PTX type `kind`; None for what must be converted,
        and for a register of which is known whether it was written."""
        dtype = TYPES[kind]
        if isinstance(operand, Immediate):
            return self._constant(bits(operand, dtype), dtype)
        if not isinstance(operand, Register) or operand.negated or operand.name in self.flags:
            return None
        return self.slot_of[operand.name] if self.types.get(operand.name) == dtype else None

    def address(self, operand: Operand) -> Fetch:
        """The byte address of [base + offset], as int64."""
        if not isinstance(operand, Address):
            raise ValueError(f"{operand} is not an address")
        base = operand.base
        if isinstance(base, Symbol):
            return self.source(Symbol(base.name, base.offset + operand.offset), "s64")
        if isinstance(base, Immediate):
            return self.source(Immediate(base.value + operand.offset), "s64")
        if base.name in self.types and self.types[base.name].itemsize == 8:
            read, offset = self.source(base, "s64"), constant(operand.offset, np.dtype(np.int64))
            return lambda regs: read(regs) + offset
        read, short = self.source(base, "u32"), np.uint32(operand.offset & 0xFFFF_FFFF)
        return lambda regs: (read(regs) + short).view(np.int32).astype(np.int64)  # a sum of 32 bits

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
            return self._code(symbol, dtype)
        variable = self.variables[symbol.name]
        if variable.space not in ("global", "const"):
            raise ValueError(f"{symbol.name} lies in .{variable.space}, which is not modelled")
        key = (symbol.name, symbol.offset)
        if key not in self.variable_slots:
            self.variable_slots[key] = self._new_slot()
        return _reader(self.variable_slots[key], np.dtype("u8"), dtype, negated=False)

    def _code(self, symbol: Symbol, dtype: np.dtype[Any]) -> Fetch:
        """The address of a function; nothing can be done with it but to compare and keep it."""
        if symbol.name in self.module.refused:
            raise self.module.refused[symbol.name]
        where = self.module.code_address(symbol.name)
        if where is None:
            raise ValueError(f"{symbol.name} is not declared")
        return itemgetter(self._constant(where + symbol.offset, dtype))

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
    check_sizes(kernel, compiler.variables)
    variables = {v.name: v for v in compiler.variables.values() if v.space in ("global", "const")}
    blocks = [BasicBlock(first, last) for first, last in cut(kernel)]
    starts = {block.first: number for number, block in enumerate(blocks)}
    for block in blocks:
        _find_ends(compiler, block, starts)
    compiler.watch(unset_reads(kernel, blocks))
    for block in blocks:
        _fill(compiler, block)
    return Program(
        kernel,
        module.target,
        blocks,
        _registers(compiler),
        [(slot, name) for name, slot in compiler.specials.items()],
        compiler.shared,
        compiler.static_shared_bytes,
        {v.name: v for v in compiler.variables.values() if v.space in _SPACES},
        _code(module, variables),
        [(slot, name, offset) for (name, offset), slot in compiler.variable_slots.items()],
        compiler.unset_reads,
        compiler.local_bytes,
        {
            number: found
            for number, block in enumerate(blocks)
            if (found := meetings_of(compiler, kernel, block))
        },
        leaves(blocks),
        frozenset(
            number
            for number, block in enumerate(blocks)
            if polls(kernel, block) and loops(blocks, number)
        ),
        written_params(kernel),
    )


def _registers(compiler: Compiler) -> list[Array]:
    """Slot → what is there before the first instruction; nobody may write into these arrays."""
    found = [constant(0, np.dtype("u1"))] * compiler.slots
    poison = {kind: constant(0 if kind.kind == "b" else -1, kind) for kind in set(TYPES.values())}
    for name, kind in compiler.types.items():
        found[compiler.slot_of[name]] = poison[kind]
    unset = constant(UNSET, np.dtype("u4"))
    for slot in compiler.flags.values():
        found[slot] = unset
    for slot, value in compiler.constants.values():
        found[slot] = value
    return found


def _code(module: Module, variables: dict[str, Variable]) -> dict[str, int]:
    """The functions whose addresses variables begin with. Raises: UnsupportedError for others."""
    found: dict[str, int] = {}
    for variable in variables.values():
        for link in variable.links:
            if link.name in module.refused:
                raise module.refused[link.name]
            if link.name in variables:
                continue
            where = module.code_address(link.name)
            if where is None:
                raise UnsupportedError(
                    f"the variable {variable.name} begins with the address of {link.name}, which "
                    "is no variable in .global or .const and no function of the module."
                )
            found[link.name] = where
    return found


def _find_ends(compiler: Compiler, block: BasicBlock, starts: dict[int, int]) -> None:
    """What follows the block: the way on is known before any instruction is built."""
    for at in range(block.first, block.last):
        instruction = compiler.kernel.instructions[at]
        try:
            if instruction.opcode in ("bra", "bra.uni"):
                block.target = target_of(compiler.kernel, instruction, starts)
            elif is_barrier(instruction):
                pass  # its operands are compiled with those of the others
            elif instruction.opcode not in ENDING:
                continue
            elif instruction.operands:
                raise ValueError(f"{instruction.opcode} takes none")
            block.end = instruction
        except ValueError as error:
            raise unsupported(instruction, f"its operands are not understood: {error}") from error


def _fill(compiler: Compiler, block: BasicBlock) -> None:
    steps = Joiner(block.steps)
    for at in range(block.first, block.last):
        compiler.at, instruction = at, compiler.kernel.instructions[at]
        try:
            if instruction.guard is not None and instruction.guard.name in compiler.flags:
                steps.add(watched_guard(compiler, instruction))
            if instruction is not block.end:
                step = _guarded(compiler, instruction)
                steps.add(step, places_of(compiler, instruction))
                continue
            if instruction.guard is not None:
                block.guard = compiler.source(instruction.guard, "pred")
            if is_barrier(instruction):
                block.barrier = barrier_of(compiler, instruction)
        except ValueError as error:
            raise unsupported(instruction, f"its operands are not understood: {error}") from error
    steps.flush()


def _guarded(compiler: Compiler, instruction: Instruction) -> Step:
    """A step that runs in the lanes whose guard holds."""
    step = watched(compiler, instruction, build_step(compiler, instruction))
    step = touching(compiler, instruction, step)
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
    return np.dtype(f"u{TYPES[kind].itemsize}")


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

"""Calls: the body of the function called takes the place of the call, with names of its own.

What a call passes in .param variables stays in them: these are memory of the thread, and the
callee's formal parameters become other names for them.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.emulator.ir import (
    Address,
    Instruction,
    Kernel,
    Module,
    Operand,
    Pair,
    Parameter,
    Register,
    Symbol,
    Variable,
    Vector,
)
from tilewright.errors import UnsupportedError

# What the run time provides: an operation of their own, not a body.
BUILTINS = ("vprintf", "__assertfail", "malloc", "free")
_MOST_INSTRUCTIONS = 200_000
_DEEPEST = 200  # calls within each other
_NO_BODY = "compile all that it needs into one PTX text (nvcc -ptx without -rdc=true)"
_LAUNCH = "a kernel that launches kernels is not modelled: emulate the child by itself"


def inlined(module: Module, kernel: Kernel) -> Kernel:
    """The kernel without calls of functions that the module holds.

    Raises: UnsupportedError for recursion, calls through a pointer, and functions that are
    declared only.
    """
    if not any(_is_call(instruction) for instruction in kernel.instructions):
        return kernel
    made = Kernel(
        kernel.name,
        params=kernel.params,
        registers=dict(kernel.registers),
        variables=dict(kernel.variables),
        required_threads=kernel.required_threads,
        required_cluster=kernel.required_cluster,
        most_threads=kernel.most_threads,
        most_registers=kernel.most_registers,
        least_blocks=kernel.least_blocks,
        problem=kernel.problem,
    )
    _Inliner(module, made).body(kernel, {}, "", ())
    return made


def _is_call(instruction: Instruction) -> bool:
    return instruction.mnemonic == "call"


class _Inliner:
    def __init__(self, module: Module, made: Kernel) -> None:
        self.module, self.made = module, made
        self.count = 0

    def body(
        self, function: Kernel, names: dict[str, str], suffix: str, stack: tuple[str, ...]
    ) -> None:
        """Appends a body whose own names get `suffix`; `names` are its formal parameters'."""
        known = {**{name: name + suffix for name in (*function.registers, *function.variables)}}
        known |= {label: label + suffix for label in function.labels} | names
        if suffix:
            for name, kind in function.registers.items():
                self.made.registers[known[name]] = kind
            for name, variable in function.variables.items():
                self.made.variables[known[name]] = replace(variable, name=known[name])
        end = f"{function.name}{suffix}@end"
        at_index: dict[int, list[str]] = {}
        for label, index in function.labels.items():
            at_index.setdefault(index, []).append(known[label])
        for index, instruction in enumerate(function.instructions):
            for label in at_index.get(index, ()):
                self.made.labels[label] = len(self.made.instructions)
            renamed = replace(
                instruction,
                operands=tuple(_renamed(operand, known) for operand in instruction.operands),
                guard=_guard(instruction.guard, known),
            )
            if _is_call(instruction):
                self._call(renamed, stack)
            elif suffix and instruction.mnemonic == "ret":
                jump = replace(renamed, opcode="bra", operands=(Symbol(end),))
                self.made.instructions.append(jump)
            else:
                self.made.instructions.append(renamed)
        for label in at_index.get(len(function.instructions), ()):
            self.made.labels[label] = len(self.made.instructions)
        if suffix:
            self.made.labels[end] = len(self.made.instructions)
        if len(self.made.instructions) > _MOST_INSTRUCTIONS:
            raise UnsupportedError(
                f"{self.made.name} has more than {_MOST_INSTRUCTIONS:,} instructions with the "
                "functions that it calls."
            )

    def _call(self, call: Instruction, stack: tuple[str, ...]) -> None:
        returns, name, passed = _parts(call)
        if name in BUILTINS:
            self.made.instructions.append(replace(call, opcode=f"call.{name}"))
            return
        function = self.module.functions.get(name)
        where = f"{call.place.file}:{call.place.line}: {call.text!r} (PTX line {call.line})"
        if function is None:
            why = _LAUNCH if name.startswith("cudaLaunchDevice") else _NO_BODY
            raise UnsupportedError(f"{where}: the body of {name} is not in the module; {why}.")
        if function.problem is not None:
            raise function.problem
        if name in stack:
            raise UnsupportedError(
                f"{where}: {name} calls itself; recursion is not modelled: write it as a loop, or "
                "run the kernel on a GPU with --engine gpu."
            )
        if len(stack) >= _DEEPEST:
            raise UnsupportedError(f"{where}: more than {_DEEPEST} calls within each other.")
        counts = len(function.returns), len(function.params)
        if counts != (len(returns), len(passed)):
            raise UnsupportedError(
                f"{where}: {name} takes {counts[1]} values and gives {counts[0]}, not "
                f"{len(passed)} and {len(returns)}."
            )
        self.count += 1
        suffix = f"@{self.count}"
        names: dict[str, str] = {}
        before = self._bound(call, function.params, passed, names, suffix, inward=True)
        behind = self._bound(call, function.returns, returns, names, suffix, inward=False)
        skip = f"{name}@{self.count}@skipped"
        if call.guard is not None:
            opposite = Register(call.guard.name, not call.guard.negated)
            jump = replace(call, opcode="bra", operands=(Symbol(skip),), guard=opposite)
            self.made.instructions.append(jump)
        self.made.instructions += before
        self.body(function, names, suffix, (*stack, name))
        self.made.instructions += behind
        self.made.labels[skip] = len(self.made.instructions)

    def _bound(
        self,
        call: Instruction,
        formals: list[Parameter],
        actuals: tuple[Operand, ...],
        names: dict[str, str],
        suffix: str,
        inward: bool,
    ) -> list[Instruction]:
        """The moves that a call makes; a .param variable goes by its other name instead."""
        moves = []
        pair: tuple[Operand, Operand]
        for formal, actual in zip(formals, actuals, strict=True):
            own = formal.name + suffix
            if formal.is_register:
                pair = (Register(own), actual) if inward else (actual, Register(own))
                opcode = f"mov.{formal.kind}"
            elif isinstance(actual, Symbol) and actual.name in self.made.variables:
                names[formal.name] = actual.name
                continue
            else:  # a register or a number, in place of a variable
                names[formal.name] = own
                size = formal.nbytes
                self.made.variables[own] = Variable("param", own, formal.kind, size, size)
                pair = (Address(Symbol(own)), actual) if inward else (actual, Address(Symbol(own)))
                opcode = f"{'st' if inward else 'ld'}.param.{formal.kind}"
            moves.append(replace(call, opcode=opcode, operands=pair, guard=None))
        return moves


def _parts(call: Instruction) -> tuple[tuple[Operand, ...], str, tuple[Operand, ...]]:
    returns, name, passed = call.operands[:3]
    if not isinstance(name, Symbol) or not isinstance(returns, Vector):
        raise UnsupportedError(
            f"{call.place.file}:{call.place.line}: {call.text!r} (PTX line {call.line}): a call "
            "through a pointer (virtual functions make some, too) is not modelled: call the "
            "function by its name, or run the kernel on a GPU with --engine gpu."
        )
    assert isinstance(passed, Vector)  # the parser made them
    return returns.items, name.name, passed.items


def _guard(guard: Register | None, known: dict[str, str]) -> Register | None:
    return None if guard is None else replace(guard, name=known.get(guard.name, guard.name))


def _renamed(operand: Operand, known: dict[str, str]) -> Operand:
    match operand:
        case Register(name=name) | Symbol(name=name):
            return replace(operand, name=known.get(name, name))
        case Address(base=base):
            renamed = _renamed(base, known)
            assert isinstance(renamed, (Register, Symbol)) or renamed == base
            return replace(operand, base=renamed)
        case Vector(items=items):
            return Vector(tuple(_renamed(item, known) for item in items))
        case Pair(first=first, second=second):
            return Pair(_renamed(first, known), _renamed(second, known))
    return operand

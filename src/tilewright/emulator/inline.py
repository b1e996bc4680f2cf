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
    Register,
    Symbol,
    Vector,
)
from tilewright.errors import UnsupportedError

# What the run time provides: an operation of their own, not a body.
BUILTINS = ("vprintf", "__assertfail", "malloc", "free")
_MOST_INSTRUCTIONS = 200_000


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
        most_threads=kernel.most_threads,
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
        if function is None or function.problem is not None:
            if function is not None and function.problem is not None:
                raise function.problem
            raise UnsupportedError(f"{where}: the body of {name} is not in the module.")
        if name in stack:
            raise UnsupportedError(f"{where}: {name} calls itself; recursion is not modelled.")
        formals = [parameter.name for parameter in (*function.returns, *function.params)]
        actuals = [symbol.name for symbol in (*returns, *passed)]
        if len(formals) != len(actuals):
            raise UnsupportedError(f"{where}: {name} takes {len(formals)} values.")
        self.count += 1
        names = dict(zip(formals, actuals, strict=True))
        skip = f"{name}@{self.count}@skipped"
        if call.guard is not None:
            opposite = Register(call.guard.name, not call.guard.negated)
            jump = replace(call, opcode="bra", operands=(Symbol(skip),), guard=opposite)
            self.made.instructions.append(jump)
        self.body(function, names, f"@{self.count}", (*stack, name))
        self.made.labels[skip] = len(self.made.instructions)


def _parts(call: Instruction) -> tuple[tuple[Symbol, ...], str, tuple[Symbol, ...]]:
    returns, name, passed = call.operands
    if not isinstance(name, Symbol) or not isinstance(returns, Vector):
        raise UnsupportedError(
            f"{call.place.file}:{call.place.line}: {call.text!r}: a call through a pointer is not "
            "modelled."
        )
    assert isinstance(passed, Vector)  # the parser made them
    symbols = [
        tuple(it for it in part.items if isinstance(it, Symbol)) for part in (returns, passed)
    ]
    return symbols[0], name.name, symbols[1]


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

"""PTX text → Module.

Reads what nvcc, NVRTC and Triton emit: directives, one kernel after another, inline-asm scopes
with registers and labels of their own, vector operands, and the chains of `.loc … inlined_at`
that lead from an inlined line to the user's. Source: PTX ISA 9.0, "Syntax" and "Directives".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from math import prod

from tilewright.emulator.ir import (
    TYPE_BYTES,
    Address,
    Instruction,
    Kernel,
    Module,
    Operand,
    Pair,
    Parameter,
    Place,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)
from tilewright.emulator.literals import integer, is_variable, number, split, variable
from tilewright.emulator.statements import Statement, statements, without_comments
from tilewright.errors import UnsupportedError

_SPECIAL = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]$"
    r"|%(?:laneid|warpid|nwarpid|smid|nsmid|gridid|clock|clock64|globaltimer|lanemask_\w+"
    r"|cluster_ctarank|cluster_nctarank|dynamic_smem_size|aggr_smem_size|total_smem_size"
    r"|envreg\d+|reserved_smem_offset_\w+|is_explicit_cluster|clock_hi|globaltimer_(?:lo|hi))$"
)
_SUM = re.compile(r"([%\w$]+)\s*(?:([+-])\s*(-?\w+))?$")
_GUARD = re.compile(r"@\s*(!?)\s*([%\w$]+)\s+")
_OPCODE = re.compile(r"([a-z_][\w.:]*)\s*(.*)$", re.S)
_NUMBERS = r"\s+(\d+)\s+(\d+)\s+(\d+)"
_LOC = re.compile(rf"\.loc{_NUMBERS}(?:.*?inlined_at{_NUMBERS})?", re.S)
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_ENTRY = re.compile(r"\.entry\s+([%\w$]+)")
_FUNCTION = re.compile(
    r"\.func\s*(?:\.\w+\s+)*(?:\((?P<returns>[^)]*)\))?\s*(?P<name>[%\w$]+)\s*"
    r"(?:\((?P<params>[^)]*)\))?"
)
_REGISTERS = re.compile(r"\.reg\s*\.(\w+)\s+(.*)$", re.S)
_RANGE = re.compile(r"(%?[\w$]+)\s*<\s*(\d+)\s*>$")
_THREADS = re.compile(r"\.(maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")

_MOST_REGISTERS = 1 << 20  # of one range: more is a typing error that would eat the memory
_Loc = tuple[int, int, int]  # file, line, column


def parse(text: str) -> Module:
    """Reads a PTX module. What is wrong inside one kernel is told when that kernel is compiled.

    Raises: UnsupportedError for a construct that is not modelled, with its text and line.
    Cost: about 10 ms for a kernel of 500 instructions.
    """
    text = without_comments(text)
    files = {int(m[1]): m[2] for m in _FILE.finditer(text)}
    return _Reader(files).read(text)


@dataclass(slots=True)
class _Scope:
    """A { } inside a kernel. Names declared there carry its number, so that they stay apart."""

    number: int
    first: int  # index of its first instruction
    names: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        return f"{name}@{self.number}" if self.number else name


class _Reader:
    def __init__(self, files: dict[int, str]) -> None:
        self.files = files
        self.module = Module()
        self.kernel: Kernel | None = None
        self.scopes: list[_Scope] = []
        self.scope_count = 0
        self.skipping = 0  # depth inside a section or a function body
        self.callers: dict[_Loc, _Loc] = {}  # where an inlined line was inlined
        self.places: tuple[Place, ...] = ()

    def read(self, text: str) -> Module:
        statement = Statement("open", "", 1)
        for statement in statements(text):
            if self.skipping:
                self.skipping += {"open": 1, "close": -1}.get(statement.kind, 0)
                continue
            try:
                getattr(self, f"_{statement.kind}")(statement)
            except (UnsupportedError, ValueError) as error:
                self._problem(statement, str(error).removesuffix("."))
        if self.kernel is not None or self.skipping:
            raise UnsupportedError(f"PTX line {statement.line}: a {{ has no }} at the text's end.")
        return self.module

    def _problem(self, statement: Statement, why: str) -> None:
        """Keeps a kernel's first problem: another kernel of the module may be the one wanted."""
        shown = " ".join(statement.text.split())[:200]
        error = UnsupportedError(f"PTX line {statement.line}: {shown!r}: {why}.")
        if self.kernel is None:
            raise error
        self.kernel.problem = self.kernel.problem or error

    # --- structure ----------------------------------------------------------------------

    def _open(self, statement: Statement) -> None:
        if self.kernel is not None:
            self.scope_count += 1
            self.scopes.append(_Scope(self.scope_count, len(self.kernel.instructions)))
        elif ".entry" in statement.text or _FUNCTION.search(statement.text):
            is_kernel = ".entry" in statement.text
            self.kernel = (self._header if is_kernel else self._function)(statement.text)
            self.scopes, self.places, self.callers = [_Scope(0, 0)], (), {}
        else:
            self.skipping = 1

    def _close(self, statement: Statement) -> None:
        if self.kernel is None:
            raise ValueError("a } has no {")
        if statement.text:
            self._problem(statement, "no semicolon stands between it and the }")
        _bind_labels(self.kernel, self.scopes.pop())
        if not self.scopes:
            self.kernel = None

    def _label(self, statement: Statement) -> None:
        if self.kernel is None:
            raise ValueError("a label stands outside every kernel")
        scope = self.scopes[-1]
        if statement.text in scope.labels:
            raise ValueError("the label is declared twice")
        name = scope.labels[statement.text] = scope.unique(statement.text)
        self.kernel.labels[name] = len(self.kernel.instructions)

    def _directive(self, statement: Statement) -> None:
        text = statement.text
        if text.startswith((".version", ".target")):
            _, _, value = text.replace(",", " ").partition(" ")
            word = next(iter(value.split()), "")
            if text.startswith(".version"):
                self.module.version = word
            else:
                self.module.target = word
        elif match := _LOC.match(text):
            here = (int(match[1]), int(match[2]), int(match[3]))
            if match[4]:
                self.callers[here] = (int(match[4]), int(match[5]), int(match[6]))
            else:
                self.callers.pop(here, None)
            self.places = self._chain(here)

    def _chain(self, loc: _Loc) -> tuple[Place, ...]:
        chain: list[Place] = []
        seen: set[_Loc] = set()
        at: _Loc | None = loc
        while at is not None and at not in seen:  # a recursive inline would never end
            seen.add(at)
            if at[1]:
                chain.append(Place(self.files.get(at[0], f"<file {at[0]}>"), at[1]))
            at = self.callers.get(at)
        return tuple(chain)

    def _header(self, text: str) -> Kernel:
        match = _ENTRY.search(text)
        if match is None:
            raise ValueError("the entry has no name")
        rest = text[match.end() :].strip()
        params, _, attributes = rest[1:].partition(")") if rest[:1] == "(" else ("", "", rest)
        kernel = Kernel(match[1], params=_parameters(params))
        for limit in _THREADS.finditer(attributes):
            x, y, z = (int(extent or 1) for extent in limit.group(2, 3, 4))
            if limit[1] == "reqntid":
                kernel.required_threads = (x, y, z)
            else:
                kernel.most_threads = prod((x, y, z))
        self.module.kernels[kernel.name] = kernel
        return kernel

    def _function(self, text: str) -> Kernel:
        """.func (returns) name (parameters); what it takes and gives are .param variables."""
        match = _FUNCTION.search(text)
        if match is None:
            raise ValueError("the function has no name")
        function = Kernel(match["name"], params=_parameters(match["params"] or ""))
        function.returns = _parameters(match["returns"] or "")
        self.module.functions[function.name] = function
        return function

    # --- statements ---------------------------------------------------------------------

    def _statement(self, statement: Statement) -> None:
        text = statement.text
        if not text or text.startswith((".pragma", ".alias")):
            return
        if self.kernel is None:
            if is_variable(text):
                declared = variable(text)
                self.module.variables[declared.name] = declared
        elif text.startswith(".reg"):
            self._registers(text)
        elif text.startswith("."):
            declared = variable(text)
            name = self._declare(declared.name)
            self.kernel.variables[name] = replace(declared, name=name)
        else:
            self.kernel.instructions.append(self._instruction(statement))

    def _registers(self, text: str) -> None:
        assert self.kernel is not None  # _statement asked
        match = _REGISTERS.match(text)
        if match is None or match[1] not in TYPE_BYTES:
            raise ValueError("registers of this type are not modelled")
        for word in split(match[2]):
            names = [word]
            if counted := _RANGE.match(word):
                if int(counted[2]) > _MOST_REGISTERS:
                    raise ValueError(f"{counted[2]} registers are more than {_MOST_REGISTERS}")
                names = [f"{counted[1]}{number}" for number in range(int(counted[2]))]
            for name in names:
                self.kernel.registers[self._declare(name)] = match[1]

    def _declare(self, name: str) -> str:
        scope = self.scopes[-1]
        if name in scope.names:
            raise ValueError(f"{name} is declared twice")
        unique = scope.names[name] = scope.unique(name)
        return unique

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def _instruction(self, statement: Statement) -> Instruction:
        text = re.sub(r"\s+", " ", statement.text)
        rest, guard = text, None
        if match := _GUARD.match(text):
            guard = Register(self._resolve(match[2]), negated=match[1] == "!")
            rest = text[match.end() :]
        match = _OPCODE.match(rest)
        if match is None:
            raise ValueError("this is not an instruction")
        opcode = match[1]
        operands: tuple[Operand, ...] = ()
        if opcode.startswith("bra"):  # its label may come later: bound when the scope closes
            operands = tuple(Symbol(word) for word in split(match[2]))
        elif opcode.startswith("call"):
            operands = self._call(match[2])
        else:
            operands = tuple(self._operand(word) for word in split(match[2]))
        return Instruction(opcode, operands, guard, self.places, statement.line, text)

    def _call(self, text: str) -> tuple[Operand, ...]:
        """(returns), function, (parameters): three operands; each list may be missing."""
        words = split(text)
        returns = words.pop(0) if words and words[0].startswith("(") else "()"
        name = words.pop(0) if words else ""
        passed = words.pop(0) if words and words[0].startswith("(") else "()"
        lists = [
            Vector(tuple(self._operand(word) for word in split(part[1:-1]) if word))
            for part in (returns, passed)
        ]
        return lists[0], self._operand(name), lists[1]

    # --- operands -----------------------------------------------------------------------

    def _operand(self, word: str) -> Operand:
        if word == "_":
            return Sink()
        if word[0] == "{" and word[-1] == "}":
            return Vector(tuple(self._operand(item) for item in split(word[1:-1])))
        if word[0] == "[" and word[-1] == "]":
            return self._address(word[1:-1].strip())
        if word.count("|") == 1:
            first, second = (half.strip() for half in word.split("|"))
            if first and second:
                return Pair(self._operand(first), self._operand(second))
        if word[0] == "!":
            return Register(self._resolve(word[1:].strip()), negated=True)
        if (literal := number(word)) is not None:
            return literal
        if _SPECIAL.match(word):
            return Special(word)
        return self._named(word)

    def _named(self, word: str) -> Register | Symbol:
        match = _SUM.match(word)
        if match is None:
            raise ValueError(f"the operand {word!r} is not understood")
        assert self.kernel is not None  # _statement asked
        name, offset = self._resolve(match[1]), _offset(match)
        if name in self.kernel.registers:
            if offset:
                raise ValueError(f"the operand {word!r} adds to a register")
            return Register(name)
        return Symbol(name, offset)

    def _address(self, word: str) -> Address:
        match = _SUM.match(word)
        if match is None:
            raise ValueError(f"the address [{word}] is not understood")
        if (literal := number(match[1])) is not None:
            return Address(literal, _offset(match))
        return Address(self._named(match[1]), _offset(match))


def _parameters(declarations: str) -> list[Parameter]:
    """Parameters one behind the other, each on its own alignment."""
    found, offset = [], 0
    for declaration in split(declarations):
        if not declaration:
            continue
        param = variable(declaration)
        offset = -(-offset // param.align) * param.align
        found.append(Parameter(param.name, param.kind, offset, param.nbytes))
        offset += param.nbytes
    return found


def _offset(match: re.Match[str]) -> int:
    """What follows the name in `name + 8`, `name+-8` or `name - 8`."""
    if not match[3]:
        return 0
    value = integer(match[3])
    if value is None:
        raise ValueError(f"{match[3]!r} is not a constant offset")
    return -value if match[2] == "-" else value


def _bind_labels(kernel: Kernel, scope: _Scope) -> None:
    """Ties the branches of a scope that closes to its labels; inner scopes closed before."""
    for at in range(scope.first, len(kernel.instructions)):
        instruction = kernel.instructions[at]
        if not instruction.opcode.startswith("bra") or not instruction.operands:
            continue
        target = instruction.operands[0]
        if isinstance(target, Symbol) and target.name in scope.labels:
            bound = (Symbol(scope.labels[target.name]), *instruction.operands[1:])
            kernel.instructions[at] = replace(instruction, operands=bound)

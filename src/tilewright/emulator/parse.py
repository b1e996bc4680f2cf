"""PTX text → Module.

Reads what nvcc, NVRTC and Triton emit: directives, one kernel after another, inline-asm scopes
with registers and labels of their own, vector operands, and the chains of `.loc … inlined_at`
that lead from an inlined line to the user's. Source: PTX ISA 9.0, "Syntax" and "Directives".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from math import prod

from tilewright.emulator.declarations import (
    declared_name,
    is_variable,
    parameters,
    variables,
)
from tilewright.emulator.ir import (
    TYPE_BYTES,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Place,
    Register,
    Symbol,
    Vector,
)
from tilewright.emulator.literals import split
from tilewright.emulator.modifier_order import in_order
from tilewright.emulator.module_header import check_line
from tilewright.emulator.operand_text import AXES, OperandReader
from tilewright.emulator.source_files import local_name
from tilewright.emulator.statements import Statement, statements, without_comments
from tilewright.errors import UnsupportedError

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
_REGISTERS = re.compile(
    r"\.reg\s*(?:\.v(?P<vector>[24])\s*)?\.(?P<type>\w+)\s+(?P<names>.*)$", re.S
)
_RANGE = re.compile(r"(%?[\w$]+)\s*<\s*(\d+)\s*>$")
_THREADS = re.compile(
    r"\.(maxntid|reqntid|reqnctapercluster|maxnreg|minnctapersm)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?"
)

_MOST_REGISTERS = 1 << 20  # of one range: more is a typing error that would eat the memory
_Loc = tuple[int, int, int]  # file, line, column


def parse(text: str, name: str | None = None) -> Module:
    """Reads a PTX module. What is wrong inside one kernel is told when that kernel is compiled.

    `name` is that of the user's PTX file: instructions without a .loc are lines of it, and the
    files that .loc names are shown as seen from the working folder.
    Raises: UnsupportedError for a construct that is not modelled, with its text and line.
    Cost: about 10 ms for a kernel of 500 instructions.
    """
    text = without_comments(text)
    files = {int(m[1]): m[2] for m in _FILE.finditer(text)}
    if name is not None:
        files = {number: local_name(path) for number, path in files.items()}
    return _Reader(files, name).read(text)


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
    def __init__(self, files: dict[int, str], name: str | None = None) -> None:
        self.files, self.name = files, name
        self.module = Module()
        self.kernel: Kernel | None = None
        self.scopes: list[_Scope] = []
        self.scope_count = 0
        self.skipping = 0  # depth inside a section or a function body
        self.callers: dict[_Loc, _Loc] = {}  # where an inlined line was inlined
        self.places: tuple[Place, ...] = ()
        self.operands = OperandReader(Kernel(""), self._resolve)  # of the kernel that is read
        self.lists: dict[str, list[str]] = {}  # labels that a .branchtargets names
        self.aliases: dict[str, str] = {}
        self.externs: set[str] = set()  # variables that are declared, not defined

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
        if self.module.kernels and not (self.module.target and self.module.version):
            missing = ".target" if self.module.version else ".version"
            raise UnsupportedError(
                f"the PTX has no {missing} line; begin it with .version 8.0 and .target sm_80."
            )
        for name, meant in self.aliases.items():
            if meant in self.module.functions:
                self.module.functions[name] = self.module.functions[meant]
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
            self.operands, self.lists = OperandReader(self.kernel, self._resolve), {}
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
        if text.startswith((".version", ".target", ".address_size")):
            directive, word, *_ = [*text.replace(",", " ").split(), ""]
            check_line(directive, word)
            if directive == ".version":
                self.module.version = word
            elif directive == ".target":
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
        kernel = Kernel(match[1], params=parameters(params))
        for limit in _THREADS.finditer(attributes):
            x, y, z = (int(extent or 1) for extent in limit.group(2, 3, 4))
            if not x * y * z:
                raise ValueError(f"the extents of .{limit[1]} must be 1 or more")
            if limit[1] == "reqntid":
                kernel.required_threads = (x, y, z)
            elif limit[1] == "reqnctapercluster":
                kernel.required_cluster = (x, y, z)
            elif limit[1] == "maxntid":
                kernel.most_threads = prod((x, y, z))
            elif limit[1] == "maxnreg":
                kernel.most_registers = x
            else:
                kernel.least_blocks = x
        if kernel.name in self.module.kernels:
            raise ValueError(f"the kernel {kernel.name} is defined twice")
        self.module.kernels[kernel.name] = kernel
        return kernel

    def _function(self, text: str) -> Kernel:
        """.func (returns) name (parameters); what it takes and gives are .param variables."""
        match = _FUNCTION.search(text)
        if match is None:
            raise ValueError("the function has no name")
        function = Kernel(match["name"], params=parameters(match["params"] or ""))
        function.returns = parameters(match["returns"] or "")
        for formal in (*function.params, *function.returns):
            if formal.is_register:
                function.registers[formal.name] = formal.kind
        self.module.functions[function.name] = function
        return function

    # --- statements ---------------------------------------------------------------------

    def _statement(self, statement: Statement) -> None:
        text = statement.text
        if not text or text.startswith(".pragma"):
            return
        if text.startswith(".alias"):
            names = split(text.removeprefix(".alias"))
            if len(names) != 2:
                raise ValueError("an alias is a name and what it means")
            self.aliases[names[0]] = names[1]
        elif self.kernel is None:
            if is_variable(text):
                self._global(statement)
        elif text.startswith(".reg"):
            self._registers(text)
        elif text.startswith((".branchtargets", ".callprototype", ".calltargets")):
            self._list(text)
        elif text.startswith("."):
            for declared in variables(text):
                name = self._declare(declared.name)
                self.kernel.variables[name] = replace(declared, name=name)
        elif text.startswith("brx.") or (text.startswith("@") and " brx." in text):
            self._indexed_branch(statement)
        else:
            self.kernel.instructions.append(self._instruction(statement))

    def _global(self, statement: Statement) -> None:
        """A variable of the module. One that is not understood stops only kernels that use it."""
        try:
            extern = statement.text.startswith(".extern")
            for declared in variables(statement.text):
                if declared.name not in self.module.variables or declared.name in self.externs:
                    self.module.variables[declared.name] = declared
                elif not extern:
                    raise ValueError(f"{declared.name} is declared twice")
                (self.externs.add if extern else self.externs.discard)(declared.name)
        except (UnsupportedError, ValueError) as error:
            name = declared_name(statement.text)
            if name is None or isinstance(error, ValueError):
                raise
            shown = f"PTX line {statement.line}: {' '.join(statement.text.split())[:200]!r}"
            self.module.refused[name] = UnsupportedError(f"{shown}: {error!s}")

    def _list(self, text: str) -> None:
        """What a label before it names: where brx goes, or how a call through a pointer looks."""
        assert self.kernel is not None  # _statement asked
        scope = self.scopes[-1]
        name = next(reversed(scope.labels), None)
        if name is None or self.kernel.labels[scope.labels[name]] != len(self.kernel.instructions):
            raise ValueError("no label stands before it")
        del self.kernel.labels[scope.labels.pop(name)]
        self.lists[name] = split(text.partition(" ")[2]) if text.startswith(".branch") else []

    def _indexed_branch(self, statement: Statement) -> None:
        """brx.idx as a chain of comparisons and branches: one pair a target."""
        assert self.kernel is not None  # _statement asked
        whole = self._instruction(statement)
        targets = self.lists.get(str(whole.operands[-1])) if len(whole.operands) == 2 else None
        if whole.opcode not in ("brx.idx", "brx.idx.uni") or not targets:
            raise ValueError("brx.idx takes an index and a list made by .branchtargets before it")
        here = f"brx@{len(self.kernel.instructions)}"
        self.kernel.registers[here] = "pred"
        for at, target in enumerate(targets):
            test = replace(whole, opcode="setp.eq.u32", guard=None)
            index = (Register(here), whole.operands[0], Immediate(at))
            self.kernel.instructions.append(replace(test, operands=index))
            if whole.guard is not None:
                both = (Register(here), Register(here), whole.guard)
                self.kernel.instructions.append(replace(test, opcode="and.pred", operands=both))
            jump = replace(whole, opcode="bra", operands=(Symbol(target),), guard=Register(here))
            self.kernel.instructions.append(jump)

    def _registers(self, text: str) -> None:
        assert self.kernel is not None  # _statement asked
        match = _REGISTERS.match(text)
        if match is None or match["type"] not in TYPE_BYTES:
            raise ValueError("registers of this type are not modelled")
        for word in split(match["names"]):
            names = [word]
            if counted := _RANGE.match(word):
                if int(counted[2]) > _MOST_REGISTERS:
                    raise ValueError(f"{counted[2]} registers are more than {_MOST_REGISTERS}")
                names = [f"{counted[1]}{number}" for number in range(int(counted[2]))]
            for name in names:
                unique = self._declare(name)
                parts = [f".{axis}" for axis in AXES[: int(match["vector"] or 0)]] or [""]
                self.kernel.registers |= {unique + part: match["type"] for part in parts}

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
        opcode = in_order(match[1])
        operands: tuple[Operand, ...] = ()
        if opcode.startswith("bra"):  # its label may come later: bound when the scope closes
            operands = tuple(Symbol(word) for word in split(match[2]))
        elif opcode.startswith("call"):
            operands = self._call(match[2])
        else:
            operands = tuple(self.operands.operand(word) for word in split(match[2]))
        places = self.places
        if not places and self.name is not None:
            places = (Place(self.name, statement.line),)
        return Instruction(opcode, operands, guard, places, statement.line, text)

    def _call(self, text: str) -> tuple[Operand, ...]:
        """(returns), function, (parameters): three operands; each list may be missing."""
        words = split(text)
        returns = words.pop(0) if words and words[0].startswith("(") else "()"
        name = words.pop(0) if words else ""
        passed = words.pop(0) if words and words[0].startswith("(") else "()"
        lists = [
            Vector(tuple(self.operands.operand(word) for word in split(part[1:-1]) if word))
            for part in (returns, passed)
        ]
        return lists[0], self.operands.operand(name), lists[1]


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

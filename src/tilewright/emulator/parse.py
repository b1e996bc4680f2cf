"""PTX text → Module.

Reads what nvcc, NVRTC and Triton emit: directives, one kernel after another, inline-asm scopes
with registers and labels of their own, vector operands, and the chains of `.loc … inlined_at`
that lead from an inlined line to the user's. Source: PTX ISA 9.0, "Syntax" and "Directives".
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from tilewright.emulator.ir import (
    TYPE_BYTES,
    Address,
    Immediate,
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
    Variable,
    Vector,
)
from tilewright.errors import UnsupportedError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_MARK = re.compile(r'"[^"]*"|::|[;{}:()\[\]\n]')
_LINE_DIRECTIVE = (".loc", ".file", ".version", ".target", ".address_size")
_SCOPE = re.compile(r"(?:\.(?:visible|weak|extern)\s+)*\.(?:entry|func|section)\b|$")
_LABEL = re.compile(r"[A-Za-z_$%][\w$]*$")

_INTEGER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT = re.compile(r"(-?)0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})$")
_DECIMAL = re.compile(r"-?\d+\.\d*(?:[eE][+-]?\d+)?$")
_SPECIAL = re.compile(
    r"%(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]$"
    r"|%(?:laneid|warpid|nwarpid|smid|nsmid|gridid|clock|clock64|globaltimer|lanemask_\w+"
    r"|cluster_ctarank|cluster_nctarank|dynamic_smem_size|total_smem_size)$"
)
_SUM = re.compile(r"([%\w$]+)\s*(?:([+-])\s*(-?(?:0[xX][0-9a-fA-F]+|\d+)))?$")
_GUARD = re.compile(r"@(!?)([%\w$]+)\s+")
_OPCODE = re.compile(r"([a-z_][\w.:]*)\s*(.*)$", re.S)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:.*?inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?", re.S)
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_VARIABLE = re.compile(
    r"\.(?P<type>b8|u8|s8|b16|u16|s16|f16|b32|u32|s32|f32|b64|u64|s64|f64|b128)\s+"
    r"(?:\.ptr\s+(?:\.\w+\s+)*?(?:\.align\s+\d+\s+)?)?(?P<name>[\w$]+)(?P<dims>(?:\[\d*\])*)"
    r"\s*(?:=\s*(?P<data>.*))?$",
    re.S,
)
_ALIGN = re.compile(r"\.align\s+(\d+)")
_SPACE = re.compile(r"\.(shared|global|const|local)\b")
_ENTRY = re.compile(r"\.(entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_RANGE = re.compile(r"(%?[\w$]+)<(\d+)>$")

_Loc = tuple[int, int, int]  # file, line, column


def parse(text: str) -> Module:
    """Reads a PTX module.

    Raises: UnsupportedError for a construct that is not modelled, with its text and line.
    Cost: about 10 ms for a kernel of 500 instructions.
    """
    text = _COMMENT.sub(lambda m: "\n" * m.group().count("\n"), text)
    files = {int(m[1]): m[2] for m in _FILE.finditer(text)}
    return _Reader(files).read(text)


@dataclass(frozen=True, slots=True)
class _Statement:
    kind: str  # "statement" | "directive" | "label" | "open" | "close"
    text: str
    line: int


def _statements(text: str) -> Iterator[_Statement]:
    """Cuts the text at ; { } and labels; braces of vectors and initialisers stay inside."""
    start, line, first = 0, 1, 0
    brackets = vectors = 0
    for mark in _MARK.finditer(text):
        char, at = mark.group(), mark.start()
        so_far = text[start:at].strip()
        if so_far and not first:
            first = line
        if char == "\n":
            line += 1
            if so_far.startswith(_LINE_DIRECTIVE):
                yield _Statement("directive", so_far, first)
            elif so_far:
                continue
        elif char in "([":
            brackets += 1
            continue
        elif char in ")]":
            brackets -= 1
            continue
        elif char == "{" and not brackets and not vectors and _SCOPE.match(so_far):
            yield _Statement("open", so_far, first or line)
        elif char == "{":
            vectors += 1
            continue
        elif char == "}" and vectors:
            vectors -= 1
            continue
        elif char == "}":
            yield _Statement("close", so_far, line)
        elif char == ";" and not vectors:
            yield _Statement("statement", so_far, first or line)
        elif char == ":" and not brackets and not vectors and _LABEL.match(so_far):
            yield _Statement("label", so_far, first)
        else:
            continue
        start, first = mark.end(), 0


@dataclass(slots=True)
class _Scope:
    """A { } inside a kernel. Names declared there carry its number, so that they stay apart."""

    number: int
    first: int  # index of its first instruction
    names: dict[str, str] = field(default_factory=dict)


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
        for statement in _statements(text):
            if self.skipping:
                self.skipping += {"open": 1, "close": -1}.get(statement.kind, 0)
            else:
                getattr(self, f"_{statement.kind}")(statement)
        return self.module

    # --- structure ----------------------------------------------------------------------

    def _open(self, statement: _Statement) -> None:
        if self.kernel is not None:
            self.scope_count += 1
            self.scopes.append(_Scope(self.scope_count, len(self.kernel.instructions)))
        elif ".entry" in statement.text:
            self.kernel = self._header(statement.text)
            self.scopes, self.places, self.callers = [_Scope(0, 0)], (), {}
        else:
            self.skipping = 1

    def _close(self, statement: _Statement) -> None:
        scope = self.scopes.pop()
        if scope.number and self.kernel is not None:
            _bind_forward_labels(self.kernel, scope)
        if not self.scopes:
            self.kernel = None

    def _label(self, statement: _Statement) -> None:
        assert self.kernel is not None
        name = self._declare(statement.text)
        self.kernel.labels[name] = len(self.kernel.instructions)

    def _directive(self, statement: _Statement) -> None:
        text = statement.text
        if text.startswith(".version"):
            self.module.version = text.split()[1]
        elif text.startswith(".target"):
            self.module.target = text.split()[1].rstrip(",")
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
        assert match is not None
        kernel = Kernel(match[2])
        params = re.search(r"\(([^)]*)\)", text[match.end() :])
        offset = 0
        for declaration in _split(params[1] if params else ""):
            variable = _variable(declaration)
            offset = -(-offset // variable.align) * variable.align
            kernel.params.append(Parameter(variable.name, variable.kind, offset, variable.nbytes))
            offset += variable.nbytes
        self.module.kernels[kernel.name] = kernel
        return kernel

    # --- statements ---------------------------------------------------------------------

    def _statement(self, statement: _Statement) -> None:
        text = statement.text
        if not text or text.startswith((".pragma", ".alias")):
            return
        if self.kernel is None:
            if _SPACE.search(text) and ".func" not in text:
                variable = _variable(text)
                self.module.variables[variable.name] = variable
        elif text.startswith(".reg"):
            self._registers(text)
        elif text.startswith("."):
            variable = _variable(text)
            self.kernel.variables[variable.name] = variable
        else:
            self.kernel.instructions.append(self._instruction(statement))

    def _registers(self, text: str) -> None:
        assert self.kernel is not None
        _, kind, names = text.split(None, 2)
        for word in names.split(","):
            name = word.strip()
            if match := _RANGE.match(name):
                for number in range(int(match[2])):
                    self.kernel.registers[f"{match[1]}{number}"] = kind.removeprefix(".")
            else:
                self.kernel.registers[self._declare(name)] = kind.removeprefix(".")

    def _declare(self, name: str) -> str:
        scope = self.scopes[-1]
        unique = f"{name}@{scope.number}" if scope.number else name
        scope.names[name] = unique
        return unique

    def _resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def _instruction(self, statement: _Statement) -> Instruction:
        text = re.sub(r"\s+", " ", statement.text)
        rest, guard = text, None
        if match := _GUARD.match(text):
            guard = Register(self._resolve(match[2]), negated=match[1] == "!")
            rest = text[match.end() :]
        match = _OPCODE.match(rest)
        if match is None:
            raise UnsupportedError(f"PTX line {statement.line}: {text!r} is not an instruction.")
        try:
            operands = tuple(self._operand(word) for word in _split(match[2]))
        except ValueError as error:
            raise UnsupportedError(f"PTX line {statement.line}: {text!r}: {error}.") from None
        return Instruction(match[1], operands, guard, self.places, statement.line, text)

    # --- operands -----------------------------------------------------------------------

    def _operand(self, word: str) -> Operand:
        if word == "_":
            return Sink()
        if word[0] == "{":
            return Vector(tuple(self._operand(item) for item in _split(word[1:-1])))
        if word[0] == "[":
            return self._address(word[1:-1].strip())
        if "|" in word:
            first, second = word.split("|")
            return Pair(self._operand(first.strip()), self._operand(second.strip()))
        if word[0] == "!":
            return Register(self._resolve(word[1:].strip()), negated=True)
        if (number := _number(word)) is not None:
            return number
        if _SPECIAL.match(word):
            return Special(word)
        return self._named(word)

    def _named(self, word: str) -> Register | Symbol:
        match = _SUM.match(word)
        if match is None:
            raise ValueError(f"the operand {word!r} is not understood")
        name = self._resolve(match[1])
        assert self.kernel is not None
        if name in self.kernel.registers:
            return Register(name)
        offset = int(match[3], 0) if match[3] else 0
        return Symbol(name, -offset if match[2] == "-" else offset)

    def _address(self, word: str) -> Address:
        match = _SUM.match(word)
        if match is None:
            raise ValueError(f"the address [{word}] is not understood")
        offset = int(match[3], 0) if match[3] else 0
        offset = -offset if match[2] == "-" else offset
        if (number := _number(match[1])) is not None:
            return Address(number, offset)
        base = self._named(match[1])
        return Address(base, offset)


def _bind_forward_labels(kernel: Kernel, scope: _Scope) -> None:
    """A branch may name a label of its scope before the label is declared."""
    for at in range(scope.first, len(kernel.instructions)):
        target = kernel.instructions[at].operands[-1:]
        if target and isinstance(target[0], Symbol) and target[0].name in scope.names:
            bound = Symbol(scope.names[target[0].name])
            operands = (*kernel.instructions[at].operands[:-1], bound)
            kernel.instructions[at] = replace(kernel.instructions[at], operands=operands)


def _number(word: str) -> Immediate | None:
    if _INTEGER.match(word):
        return Immediate(int(word.rstrip("U"), 0))
    if match := _FLOAT.match(word):
        nbytes = len(match[3]) // 2
        sign = 1 << (8 * nbytes - 1) if match[1] else 0
        return Immediate(int(match[3], 16) ^ sign, nbytes)
    if _DECIMAL.match(word):
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(word)))[0], 8)
    return None


def _split(text: str) -> list[str]:
    """Cuts at the commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    if last := text[start:].strip():
        parts.append(last)
    return parts


def _variable(text: str) -> Variable:
    match = _VARIABLE.search(text)
    if match is None:
        raise UnsupportedError(f"the declaration {text!r} is not understood.")
    element = TYPE_BYTES[match["type"]]
    count = 1
    for extent in re.findall(r"\[(\d*)\]", match["dims"]):
        count *= int(extent or 0)
    align = max([int(a) for a in _ALIGN.findall(text)] or [element])
    space = _SPACE.search(text)
    data = _initial(match["data"], element) if match["data"] else None
    nbytes = max(count * element, len(data or b""))
    where = space[1] if space else "param"
    return Variable(where, match["name"], match["type"], nbytes, align, data)


def _initial(text: str, element: int) -> bytes:
    values = [_number(word) for word in _split(text.strip().strip("{}"))]
    if any(value is None for value in values):
        raise UnsupportedError(f"the initial value {text!r} is not a list of numbers.")
    mask = (1 << 8 * element) - 1
    return b"".join((v.value & mask).to_bytes(element, "little") for v in values if v is not None)

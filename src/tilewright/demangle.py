"""The C++ names of kernels from their symbols: `ns::gemm<float, 128>(float const*)`.

Covers what the compiler emits for `__global__` functions: namespaces, template arguments that are
types, integers, booleans or enumerators, packs, and parameters of any of these types, pointers,
references, arrays and functions. A symbol beyond that stays as it is.
Source: the Itanium C++ ABI, chapter "Mangling"; spelled as `c++filt` does, without the result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_BUILTIN = {
    "v": "void", "w": "wchar_t", "b": "bool", "c": "char", "a": "signed char",
    "h": "unsigned char", "s": "short", "t": "unsigned short", "i": "int", "j": "unsigned int",
    "l": "long", "m": "unsigned long", "x": "long long", "y": "unsigned long long",
    "n": "__int128", "o": "unsigned __int128", "f": "float", "d": "double", "e": "long double",
    "g": "__float128", "z": "...",
    "Dn": "decltype(nullptr)", "Di": "char32_t", "Ds": "char16_t", "Du": "char8_t",
    "DF16_": "_Float16", "DF16b": "std::bfloat16_t",
}  # fmt: skip
_STANDARD = {
    "Sa": "std::allocator", "Sb": "std::basic_string", "Ss": "std::string",
    "Si": "std::istream", "So": "std::ostream", "Sd": "std::iostream",
}  # fmt: skip
_SUFFIX = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
_CV = {"r": " restrict", "V": " volatile", "K": " const"}
_DEEPEST = 64
_LONGEST = 20_000  # of the text: substitutions of substitutions grow without bound


@dataclass(frozen=True)
class CppName:
    """`scoped` is ns::gemm, `arguments` is <float, 128> or empty, `parameters` (float const*)."""

    scoped: str
    arguments: str = ""
    parameters: str = ""

    @property
    def plain(self) -> str:
        """Without namespaces and template arguments."""
        return re.split(r"::(?![^<]*>)", self.scoped)[-1]

    @property
    def name(self) -> str:
        """As it is written to instantiate it."""
        return self.scoped + self.arguments

    def __str__(self) -> str:
        return self.name + self.parameters


@lru_cache(4096)
def demangle(symbol: str) -> CppName:
    """The C++ name of a symbol; one that is none, or not understood, is its own name."""
    if not symbol.startswith("_Z") or not symbol.isascii():
        return CppName(symbol)
    try:
        return _Reader(symbol).encoding()
    except _NotUnderstoodError:
        return CppName(symbol)


class _NotUnderstoodError(Exception):
    pass


@dataclass(frozen=True)
class _Name:
    text: str
    bare: str
    arguments: tuple[str, ...] | None = None


class _Reader:
    """Reads one symbol from left to right."""

    def __init__(self, symbol: str) -> None:
        self.text, self.at = symbol, 2
        self.known: list[str] = []  # what S_, S0_, … stand for
        self.template: tuple[str, ...] = ()  # what T_, T0_, … stand for
        self.depth = 0

    def encoding(self) -> CppName:
        found = self._name()
        arguments = "" if found.arguments is None else _listed(found.arguments)
        if self._done():
            return CppName(found.bare, arguments)
        try:
            shown = self._parameters(found.arguments)
        except _NotUnderstoodError:  # an expression, as in Tile<sizeof(T) * 2>; the name is known
            shown = "…"
        return CppName(found.bare, arguments, f"({shown})")

    def _parameters(self, arguments: tuple[str, ...] | None) -> str:
        if arguments is not None:
            self.template = arguments
            self._type()  # a template's symbol holds the type of its result too
        found = []
        while not self._done():
            found.append(self._type())
        return "" if found == ["void"] else ", ".join(each for each in found if each)

    # --- the text -------------------------------------------------------------------------

    def _done(self) -> bool:
        """A dot starts a suffix of the compiler's own, such as .constprop.0."""
        return self.at >= len(self.text) or self.text[self.at] in ".$"

    def _take(self, *words: str) -> str:
        """The first of the words that comes next, read; empty for none."""
        for word in words:
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return word
        return ""

    def _match(self, pattern: str) -> str:
        match = re.compile(pattern).match(self.text, self.at)
        if match is None:
            raise _NotUnderstoodError
        self.at = match.end()
        return match[0]

    def _grow(self, text: str) -> str:
        if len(text) > _LONGEST:
            raise _NotUnderstoodError
        return text

    def _learn(self, text: str) -> str:
        self.known.append(self._grow(text))
        return text

    # --- names ----------------------------------------------------------------------------

    def _name(self) -> _Name:
        if self._take("N"):
            return self._nested()
        if self._take("St"):
            name = "std::" + self._source_name()
        elif self.text.startswith("S", self.at):
            name = self._substitution()
            return _Name(*self._with_arguments(name)) if self._next("I") else _Name(name, name)
        else:
            name = self._source_name()
        if self._next("I"):
            self._learn(name)
            return _Name(*self._with_arguments(name))
        return _Name(name, name)

    def _next(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def _with_arguments(self, bare: str) -> tuple[str, str, tuple[str, ...]]:
        arguments = self._arguments()
        return self._grow(bare + _listed(arguments)), bare, arguments

    def _nested(self) -> _Name:
        self._match("[rVK]*[RO]?")
        found = _Name("", "")
        learnt = False
        while not self._take("E"):
            learnt = True
            if self._next("I"):
                found = _Name(*self._with_arguments(found.text))
            elif self._take("St"):
                found, learnt = _Name("std", "std"), False
            elif self._next("S"):
                text = self._substitution()
                found, learnt = _Name(text, text), False
            elif self._next("T"):
                text = self._template_parameter()
                found = _Name(text, text)
            else:
                text = self._grow(f"{found.text}::{self._source_name()}".removeprefix("::"))
                found = _Name(text, text)
            if learnt:
                self._learn(found.text)
        if not found.text:
            raise _NotUnderstoodError
        if learnt:
            self.known.pop()  # the whole is learnt by who asked for it, if it is a type
        return found

    def _source_name(self) -> str:
        self._take("L")  # internal linkage
        length = int(self._match("[1-9][0-9]{0,4}"))
        name = self.text[self.at : self.at + length]
        if len(name) < length:
            raise _NotUnderstoodError
        self.at += length
        if name.startswith("_GLOBAL__N_"):
            return "(anonymous namespace)"
        return name

    def _substitution(self) -> str:
        if standard := self._take(*_STANDARD):
            return _STANDARD[standard]
        return self._numbered("S", self.known)

    def _template_parameter(self) -> str:
        return self._numbered("T", self.template)

    def _numbered(self, letter: str, values: list[str] | tuple[str, ...]) -> str:
        """S_ is the first, S0_ the second; S counts with base 36, T with 10."""
        digits = self._match("S[0-9A-Z]{0,3}_" if letter == "S" else "T[0-9]{0,3}_")[1:-1]
        index = int(digits, 36 if letter == "S" else 10) + 1 if digits else 0
        if index >= len(values):
            raise _NotUnderstoodError
        return values[index]

    # --- template arguments ---------------------------------------------------------------

    def _arguments(self) -> tuple[str, ...]:
        self._match("I")
        found: list[str] = []
        while not self._take("E"):
            found.append(self._argument())
        return tuple(found)

    def _argument(self) -> str:
        if self._take("J"):
            pack: list[str] = []
            while not self._take("E"):
                pack.append(self._single())
            return self._grow(", ".join(each for each in pack if each))
        return self._single()

    def _single(self) -> str:
        if self._take("X"):
            value = self._template_parameter()
            self._match("E")
            return value
        return self._literal() if self._next("L") else self._type()

    def _literal(self) -> str:
        self._match("L")
        kind = self.text[self.at : self.at + 1]  # the type stands in one letter or is a name
        name = self._type()
        value = self._match("n?[0-9]+E")[:-1].replace("n", "-")
        if kind == "b" and value in ("0", "1"):
            return "true" if value == "1" else "false"
        return value + _SUFFIX[kind] if kind in _SUFFIX else f"({name}){value}"

    # --- types ----------------------------------------------------------------------------

    def _type(self) -> str:
        self.depth += 1
        if self.depth > _DEEPEST or self.at >= len(self.text):
            raise _NotUnderstoodError
        found = self._type_here()
        self.depth -= 1
        return found

    def _type_here(self) -> str:
        if builtin := self._take(*_BUILTIN):
            return _BUILTIN[builtin]
        if self._take("Dp"):
            if not self._next("T"):  # Ts*…: the pointers to each would have to be spelled out
                raise _NotUnderstoodError
            return self._type()
        letter = self.text[self.at]
        if letter in _CV:
            marks = self._match("r?V?K?")
            return self._learn(_declared(self._type(), "".join(_CV[m] for m in reversed(marks))))
        if mark := self._take("P", "R", "O"):
            return self._learn(_declared(self._type(), {"P": "*", "R": "&", "O": "&&"}[mark]))
        if letter == "T":
            return self._arguments_of(self._learn(self._template_parameter()))
        if self._take("A"):
            extent = self._match("[0-9]*_")[:-1]
            element, inner, rest = self._type().partition(" [")
            return self._learn(f"{element} [{extent}]{inner.strip()}{rest}")
        if self._take("F"):
            return self._learn(self._function())
        if self._take("u"):
            return self._learn(self._source_name())
        if letter == "S" and not self._next("St"):
            return self._arguments_of(self._substitution())
        return self._learn(self._name().text)

    def _arguments_of(self, template: str) -> str:
        """With the template arguments that may follow a type that is known already."""
        if not self._next("I"):
            return template
        return self._learn(self._with_arguments(template)[0])

    def _function(self) -> str:
        self._take("Y")
        result = self._type()
        parameters = []
        while not self._take("E"):
            parameters.append(self._type())
        shown = "" if parameters == ["void"] else ", ".join(parameters)
        return self._grow(f"{result} ({shown})")


def _listed(arguments: tuple[str, ...]) -> str:
    shown = ", ".join(each for each in arguments if each)
    return f"<{shown}{' ' if shown.endswith('>') else ''}>"


def _declared(inner: str, mark: str) -> str:
    """`mark` is *, &, && or a qualifier; of arrays and functions it stands in the middle."""
    if mark in ("&", "&&") and inner.endswith("&"):  # references to references collapse
        return inner.removesuffix("&") if mark == "&" and inner.endswith("&&") else inner
    if match := re.search(r"\(([*&]+[^()]*)\)(?= ?[\[(][^<>]*$)", inner):
        return inner[: match.end() - 1] + mark + inner[match.end() - 1 :]
    if inner.endswith("]"):
        if mark[0] == " ":
            element, _, extent = inner.rpartition(" [")
            return f"{element}{mark} [{extent}"
        at = inner.index(" [")
        return f"{inner[:at]} ({mark}){inner[at:]}"
    if inner.endswith(")") and " (" in inner and mark[0] != " ":
        at = inner.index(" (")
        return f"{inner[:at]} ({mark}){inner[at + 1 :]}"
    return inner + mark

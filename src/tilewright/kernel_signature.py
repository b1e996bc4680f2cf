"""What a kernel's own signature says of its arguments: names and types that do not fit are told.

Arguments bind by position, so that a label is only a name: one that another parameter has is likely
a slip. Parameter names come from the text (PTX keeps none of C++), types from the symbol, which
knows template arguments, or from the text of an `extern "C"` kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.demangle import demangle
from tilewright.emulator.statements import without_comments
from tilewright.kernel_source import plain_name

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel

_QUALIFIERS = re.compile(r"\b(?:const|volatile|restrict|__restrict(?:__)?|__grid_constant__)\b")
_NAMED = re.compile(r"(?P<type>.*?[\s*&>])(?P<name>[A-Za-z_]\w*)\s*(?P<array>(?:\[[^\]]*\]\s*)*)$")
_PTX_OWN = re.compile(r"_param_\d+$")
_ELEMENTS = {
    **dict.fromkeys(("float", "float2", "float3", "float4"), "float32"),
    **dict.fromkeys(("double", "double2"), "float64"),
    **dict.fromkeys(("half", "__half", "half2", "__half2"), "float16"),
    **dict.fromkeys(("nv_bfloat16", "__nv_bfloat16", "nv_bfloat162", "__nv_bfloat162"), "bfloat16"),
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    **dict.fromkeys(("short", "int16_t"), "int16"),
    **dict.fromkeys(("unsigned short", "uint16_t"), "uint16"),
    **dict.fromkeys(("int", "signed", "int32_t"), "int32"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t"), "uint32"),
    **dict.fromkeys(("long", "long long", "int64_t"), "int64"),
    **dict.fromkeys(("unsigned long", "unsigned long long", "uint64_t", "size_t"), "uint64"),
}  # what a pointer to them reads; char, void and wide integers are taken for bytes of anything


@dataclass(frozen=True)
class Formal:
    """A parameter as the kernel declares it; None for what is not known."""

    name: str | None
    type: str | None


def formals_of(kernel: Kernel, text: str, is_cuda: bool) -> list[Formal]:
    """One for each parameter of the kernel."""
    count = len(kernel.params)
    if not is_cuda:
        own = [None if _PTX_OWN.search(p.name) else p.name for p in kernel.params]
        types = _types(demangle(kernel.name).parameters, count)
        return [Formal(name, type_) for name, type_ in zip(own, types, strict=True)]
    declared = _declared(text, plain_name(kernel.name), count)
    types = _types(demangle(kernel.name).parameters, count)
    return [
        Formal(formal.name, type_ or (None if kernel.name.startswith("_Z") else formal.type))
        for formal, type_ in zip(declared, types, strict=True)
    ]


def slips(labels: Sequence[str], formals: Sequence[Formal]) -> list[str]:
    """Which labels look like another parameter's, as "in is for out"."""
    return [
        f"{label} is for {formal.name}"
        for label, formal in zip(labels, formals, strict=True)
        if formal.name is not None and _differs(label, formal.name, formals)
    ]


def misfits(
    dtypes: Sequence[np.dtype[Any] | None], labels: Sequence[str], formals: Sequence[Formal]
) -> list[str]:
    """A sentence for each array that holds other elements than its pointer's; the launch goes on.

    `dtypes` are None for arguments that are no arrays.
    """
    said = []
    for place, (dtype, label, formal) in enumerate(zip(dtypes, labels, formals, strict=True), 1):
        wanted = _ELEMENTS.get(_element(formal.type or "") or "")
        if wanted is None or dtype is None or _fits(dtype, wanted):
            continue
        said.append(
            f"argument {place} ({label}) holds {dtype.name}, and the kernel reads it as "
            f"{formal.type}; make it {wanted} if that is no intent."
        )
    return said


def _differs(label: str, name: str, formals: Sequence[Formal]) -> bool:
    """Whether the label is another parameter's name, or neither short for this one's nor long."""
    mine, own = _bare(label), _bare(name)
    if mine == own:
        return False
    others = {_bare(formal.name) for formal in formals if formal.name}
    return mine in others or not (own.startswith(mine) or mine.startswith(own))


def _bare(name: str) -> str:
    return name.strip("_").casefold()


def _fits(dtype: np.dtype[Any], wanted: str) -> bool:
    """The same type, or bits of the same width where the kernel takes integers."""
    if dtype.name == wanted:
        return True
    integers = wanted.startswith(("int", "uint"))
    width = int(re.sub(r"\D+", "", wanted)) // 8 if integers else 0
    return integers and dtype.itemsize == width and (width < 4 or not _is_float(dtype))


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype.name.startswith(("float", "bfloat"))


def _element(type_: str) -> str | None:
    """What a pointer points to: "float" for "float*"; None for no pointer, or one to pointers."""
    bare = " ".join(_QUALIFIERS.sub(" ", type_).split())
    if not bare.endswith("*") or bare.count("*") != 1:
        return None
    return bare[:-1].strip().removeprefix("struct ").removeprefix("std::")


def _types(parameters: str, count: int) -> list[str | None]:
    """Of a demangled name's "(float const*, int)"."""
    parts = list(_split(parameters[1:-1])) if parameters else []
    return [*parts] if len(parts) == count else [None] * count


def _declared(text: str, name: str, count: int) -> list[Formal]:
    """From the text; nothing is known where several declarations disagree."""
    bare = without_comments(text)
    found = {
        tuple(parts)
        for match in re.finditer(rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(", bare)
        if len(parts := list(_split(_inside(bare, match.end())))) == count
    }
    formals = {tuple(_formal(part) for part in parts) for parts in found}
    # A declaration without names beside the definition does no harm.
    named = [one for one in formals if all(formal.name for formal in one)]
    if len({tuple(formal.name for formal in one) for one in named}) != 1:
        return [Formal(None, None)] * count
    return list(named[0])


def _formal(part: str) -> Formal:
    match = _NAMED.match(part.partition("=")[0].strip())
    if match is None or not _QUALIFIERS.sub("", match["type"]).strip():
        return Formal(None, None)
    return Formal(match["name"], " ".join(match["type"].split()) + ("*" if match["array"] else ""))


def _inside(text: str, start: int) -> str:
    """Up to the parenthesis that closes the one before `start`."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if not depth:
            return text[start:at]
    return ""


def _split(text: str) -> Iterator[str]:
    """The parts between commas outside of all brackets."""
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += 1 if letter in "(<[{" else -1 if letter in ")>]}" else 0
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    if text.strip():
        yield text[start:].strip()

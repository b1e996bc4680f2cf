"""Declarations of variables and parameters, with what they hold at first. PTX ISA, "Variables"."""

from __future__ import annotations

import re
from math import prod

from tilewright.emulator.arrays import TYPES
from tilewright.emulator.constants import constant
from tilewright.emulator.ir import TYPE_BYTES, Link, Parameter, Variable
from tilewright.emulator.literals import bits, split
from tilewright.errors import UnsupportedError

_VARIABLE = re.compile(
    r"(?:\.v(?P<vector>[248])\s+)?"
    r"\.(?P<type>b8|u8|s8|b16|u16|s16|f16|b32|u32|s32|f32|b64|u64|s64|f64|b128)\s+"
    r"(?:\.ptr\s+(?:\.\w+\s+)*?(?:\.align\s+\d+\s+)?)?(?P<name>[%\w$]+)"
    r"(?P<dims>(?:\s*\[[^\[\]]*\])*)\s*(?:=\s*(?P<data>.*))?$",
    re.S,
)
_ALIGN = re.compile(r"\.align\s+(\d+)")
_SPACE = re.compile(r"\.(shared|global|const|local)\b")
_NAME = re.compile(r"([%\w$]+)\s*(?:\[[^\]]*\]\s*)*(?:=.*)?$", re.S)
_ADDRESS = re.compile(
    r"(?:(?P<mask>0x[fF][fF]0*)\s*\()?\s*(?:generic\s*\(\s*)?(?P<name>[A-Za-z_$%][\w$]*)\s*"
    r"(?P<closed>\)*)\s*(?P<offset>[+-].+?)?(?P<end>\)*)$",
    re.S,
)
_MOST_EXTENTS = 16
_LARGEST = 1 << 32  # bytes of a variable


def is_variable(text: str) -> bool:
    """Whether a statement outside kernels declares a variable (and not a function)."""
    return bool(_SPACE.search(text)) and ".func" not in text


def declared_name(text: str) -> str | None:
    """The name in a declaration that is not understood otherwise."""
    match = _NAME.search(text)
    return match[1] if match else None


def variables(text: str) -> list[Variable]:
    """Reads a declaration of one variable or, with commas, several of one type.

    Raises: UnsupportedError when it is not understood; ValueError for what ptxas refuses.
    """
    first, *others = split(text)
    match = _VARIABLE.search(first)
    if match is None:
        raise UnsupportedError(f"the declaration {text!r} is not understood.")
    kind = first[: match.start("name")]
    return [_variable(first), *(_variable(kind + other) for other in others)]


def parameters(declarations: str) -> list[Parameter]:
    """Parameters one behind the other, each on its own alignment; those in registers aside."""
    found: list[Parameter] = []
    offset = 0
    for declaration in split(declarations):
        param = _variable(declaration)
        if param.name in {each.name for each in found}:
            raise ValueError(f"the parameter {param.name} is declared twice")
        if declaration.startswith(".reg"):
            found.append(Parameter(param.name, param.kind, 0, param.nbytes, is_register=True))
            continue
        offset = -(-offset // param.align) * param.align
        found.append(Parameter(param.name, param.kind, offset, param.nbytes))
        offset += param.nbytes
    return found


def _variable(text: str) -> Variable:
    match = _VARIABLE.search(text)
    if match is None:
        raise UnsupportedError(f"the declaration {text!r} is not understood.")
    sizes = [_extent(extent, text) for extent in re.findall(r"\[([^\]]*)\]", match["dims"])]
    if len(sizes) > _MOST_EXTENTS or 0 in sizes[1:]:
        raise ValueError(f"{match['name']} has extents that are not understood")
    own = text.split(".ptr")[0]  # a pointer's .global and .align are those of what it names
    space = _SPACE.search(own)
    where = space[1] if space else "param"
    element = TYPE_BYTES[match["type"]] * int(match["vector"] or 1)
    data: bytes | None = None
    links: tuple[Link, ...] = ()
    nbytes = element * prod(sizes)
    if nbytes > _LARGEST:
        raise ValueError(f"{nbytes:,} bytes are more than {_LARGEST:,}, the most of a variable")
    if match["data"]:
        if where not in ("global", "const"):
            raise ValueError(f".{where} variables have no initial value")
        data, links = _initial(match["data"].strip(), match["type"], sizes)
    # A vector is aligned to its whole size.
    aligns = [int(align) for align in _ALIGN.findall(own)] or [element]
    if any(align < 1 or align & (align - 1) for align in aligns):
        raise ValueError(f"the alignment {min(aligns)} is no power of two")
    nbytes = max(nbytes, len(data or b""))
    return Variable(where, match["name"], match["type"], nbytes, max(aligns), data, links)


def _extent(word: str, text: str) -> int:
    if not word.strip():
        return 0
    value = constant(word.strip())
    if value is None or value.float_bytes or value.value < 0:
        raise UnsupportedError(f"the declaration {text!r} is not understood.")
    return value.value


def _initial(text: str, kind: str, sizes: list[int]) -> tuple[bytes, tuple[Link, ...]]:
    """The bytes of `1` or `{1, 2}`, and the addresses among them, which stay zeros."""
    element = TYPE_BYTES[kind]
    links: list[Link] = []
    data = bytearray()
    for word in _flat(text, sizes):
        value = constant(word)
        if value is not None and kind in TYPES:
            low = bits(value, TYPES[kind]) & ((1 << 8 * element) - 1)
            data += low.to_bytes(element, "little")
        else:
            links.append(_link(word, len(data), element, text))
            data += bytes(element)
    return bytes(data), tuple(links)


def _flat(text: str, sizes: list[int]) -> list[str]:
    """The values in the order of memory; zeros stand for those left out of inner braces."""
    if not sizes:
        if text[:1] in ("{", ""):
            raise ValueError(f"the initial value {text!r} is not one number")
        return [text]
    if text[:1] != "{" or text[-1:] != "}":
        raise ValueError(f"the initial value {text!r} of an array is not in braces")
    parts = split(text[1:-1])
    if sizes[0] and len(parts) > sizes[0]:
        raise ValueError(f"{len(parts)} initial values do not fit into {sizes[0]} elements")
    inner = prod(sizes[1:])
    flat: list[str] = []
    for part in parts:
        values = _flat(part, sizes[1:])
        flat += [*values, *(["0"] * (inner - len(values)))]
    return flat


def _link(word: str, at: int, nbytes: int, text: str) -> Link:
    """`f`, `x+8`, `generic(x)+8` or `0xff00(generic(x))`."""
    match = _ADDRESS.match(word)
    if match is None or word.count("(") != word.count(")"):
        raise UnsupportedError(f"the initial value {text!r} is not a list of numbers.")
    offset = constant(match["offset"].strip()) if match["offset"] else None
    if match["offset"] and (offset is None or offset.float_bytes):
        raise UnsupportedError(f"the initial value {text!r} is not a list of numbers.")
    shift = 4 * (len(match["mask"]) - 4) if match["mask"] else 0
    return Link(at, nbytes, match["name"], offset.value if offset else 0, shift)

"""Numbers and declarations in PTX. PTX ISA, "Constants", "Variables"."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from tilewright.emulator.arrays import TYPES
from tilewright.emulator.ir import TYPE_BYTES, Immediate, Variable
from tilewright.errors import UnsupportedError

_INTEGER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)[uU]?$")
_FLOAT = re.compile(r"(-?)0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))$")
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?$")
_VARIABLE = re.compile(
    r"(?:\.v(?P<vector>[248])\s+)?"
    r"\.(?P<type>b8|u8|s8|b16|u16|s16|f16|b32|u32|s32|f32|b64|u64|s64|f64|b128)\s+"
    r"(?:\.ptr\s+(?:\.\w+\s+)*?(?:\.align\s+\d+\s+)?)?(?P<name>[%\w$]+)"
    r"(?P<dims>(?:\s*\[\s*\w*\s*\])*)\s*(?:=\s*(?P<data>.*))?$",
    re.S,
)
_ALIGN = re.compile(r"\.align\s+(\d+)")
_SPACE = re.compile(r"\.(shared|global|const|local)\b")
WARP_SIZE = "WARP_SZ"


def integer(word: str) -> int | None:
    """The value of an integer literal: decimal, 0x, 0b or octal, with or without U."""
    match = _INTEGER.match(word)
    if match is None:
        return None
    digits = match[2]
    octal = digits[0] == "0" and digits.isdigit()
    value = int(digits, 8) if octal else int(digits, 0)
    return -value if match[1] else value


def number(word: str) -> Immediate | None:
    """An integer or floating literal, else None."""
    if word == WARP_SIZE:
        return Immediate(32)
    if (value := integer(word)) is not None:
        return Immediate(value)
    if match := _FLOAT.match(word):
        digits = match[2] or match[3]
        nbytes = len(digits) // 2
        sign = 1 << (8 * nbytes - 1) if match[1] else 0
        return Immediate(int(digits, 16) ^ sign, nbytes)
    if _DECIMAL.match(word):
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(word)))[0], 8)
    return None


def bits(immediate: Immediate, dtype: np.dtype[Any]) -> int:
    """The bits of a literal as this type; a float literal may be read as another width."""
    width = immediate.float_bytes
    if dtype.kind == "b":
        return int(immediate.value != 0)
    if not width:
        if dtype.kind == "f" and immediate.value:
            raise ValueError(f"the integer {immediate.value} stands where a float is wanted")
        return immediate.value
    if dtype.itemsize == width:
        return immediate.value
    if dtype.kind != "f":
        raise ValueError(f"a float of {width} bytes stands where {dtype.itemsize} are wanted")
    with np.errstate(all="ignore"):  # too large for the narrower type: infinity
        raw = np.frombuffer(immediate.value.to_bytes(width, "little"), f"f{width}").astype(dtype)
    return int.from_bytes(raw.tobytes(), "little")


def split(text: str) -> list[str]:
    """Cuts at the commas outside brackets. Raises ValueError where nothing is between two."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "[{(") - (char in "]})")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    if parts or text.strip():
        parts.append(text[start:].strip())
    if not all(parts):
        raise ValueError("a comma has nothing on one side")
    return parts


def is_variable(text: str) -> bool:
    """Whether a statement outside kernels declares a variable (and not a function)."""
    return bool(_SPACE.search(text)) and ".func" not in text


def variable(text: str) -> Variable:
    """Reads one declaration. Raises: UnsupportedError when it is not understood."""
    match = _VARIABLE.search(text)
    extents = [] if match is None else re.findall(r"\[\s*(\w*)\s*\]", match["dims"])
    sizes = [integer(extent or "0") for extent in extents]
    if match is None or any(size is None for size in sizes):
        raise UnsupportedError(f"the declaration {text!r} is not understood.")
    count = int(match["vector"] or 1)
    element = TYPE_BYTES[match["type"]]
    natural = element * count  # a vector is aligned to its whole size
    for size in sizes:
        count *= size or 0
    own = text.split(".ptr")[0]  # a pointer's .global and .align are those of what it names
    aligns, space = _ALIGN.findall(own), _SPACE.search(own)
    data = _initial(match["data"], match["type"]) if match["data"] else None
    nbytes = max(count * element, len(data or b""))
    align = max([int(a) for a in aligns] or [natural])
    where = space[1] if space else "param"
    return Variable(where, match["name"], match["type"], nbytes, align, data)


def _initial(text: str, kind: str) -> bytes:
    """The bytes of `1`, `{1, 2}` or of a word that is not a number: that is not modelled."""
    text = text.strip()
    words = split(text[1:-1]) if text[0] == "{" else [text]
    element, dtype = TYPE_BYTES[kind], TYPES.get(kind)
    data = b""
    for word in words:
        value = number(word)
        if value is None or dtype is None:
            raise UnsupportedError(f"the initial value {text!r} is not a list of numbers.")
        low = bits(value, dtype) & ((1 << 8 * element) - 1)
        data += low.to_bytes(element, "little")
    return data

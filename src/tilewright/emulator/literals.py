"""Numbers and lists in PTX. PTX ISA, "Constants"."""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np

from tilewright.emulator.ir import Immediate

_INTEGER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9]\d*)[uU]?$")
_FLOAT = re.compile(r"(-?)0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))$")
_DECIMAL = re.compile(r"-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?$")
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

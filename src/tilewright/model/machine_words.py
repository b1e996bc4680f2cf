"""Machine instructions of sm_70 and later as far as a clock-by-clock model needs them.

An instruction is 16 bytes. The low bits of the first 8 hold opcode and registers; the last 8 hold
what the compiler tells the scheduler: for how many clocks the warp pauses, which of its six
counters the instruction waits for and which it holds until its result is there.
Source: Z. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking"
(arXiv 1804.06826, section 2); the fields were compared with nvdisasm's text for sm_80 to sm_120.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from tilewright.errors import InputError

BYTES = 16
NONE = 7  # the number of a counter that is none
_NO_REGISTER = 255  # RZ, which reads as zero
_KINDS = {
    0x023: "fma", 0x020: "fma", 0x021: "fma",  # FFMA, FMUL, FADD
    0x184: "ld.shared", 0x188: "st.shared", 0x03B: "ldmatrix",
    0x181: "ld.global", 0x186: "st.global", 0x1AE: "cp.async",
    0x1AF: "commit", 0x11A: "wait", 0x11D: "barrier", 0x147: "branch",
    0x03C: "mma",
}  # fmt: skip
_REGISTER_FORM = 1  # of bits 9 to 11: the second operand is a register, not a constant
_WIDTHS = {5: 8, 6: 16}  # bits 73 to 75 of a load or store: bytes a lane, else 4 or less


class Word(NamedTuple):
    """One instruction. `kind` is "other" for what only takes a place in the issue.

    `stall` are the clocks until the warp's next; `waits` the counters that must be clear;
    `holds` the counter that is clear when the result is there, `reads` the one that is when the
    operands were read (NONE: none). `sources` are registers by operand, of an FMA; `kept` those
    operands that stay at hand. `width` is the bytes a lane moves; `at_most` the groups that a
    wait leaves; `target` the index that a branch goes to.
    """

    kind: str
    stall: int = 1
    waits: tuple[int, ...] = ()
    holds: int = NONE
    reads: int = NONE
    sources: tuple[tuple[int, int], ...] = ()
    kept: tuple[int, ...] = ()
    width: int = 4
    at_most: int = 0
    target: int | None = None


def kernel_words(cubin: bytes, kernel: str) -> list[Word]:
    """The instructions of a kernel. Raises: InputError for bytes that are no cubin with it."""
    return decoded(_section(cubin, f".text.{kernel}"))


def decoded(code: bytes) -> list[Word]:
    """Instructions from their bytes. Raises: InputError unless these are whole instructions."""
    if not code or len(code) % BYTES:
        raise InputError(f"{len(code)} bytes are no whole instructions of {BYTES} bytes.")
    raw = [int.from_bytes(code[at : at + BYTES], "little") for at in range(0, len(code), BYTES)]
    split = _targets_are_split(raw)
    return [_word(value, number, split) for number, value in enumerate(raw)]


def loops(words: Sequence[Word]) -> list[tuple[int, int]]:
    """First and last index of each loop, the shortest first; a branch to itself is none."""
    found = [
        (word.target, number)
        for number, word in enumerate(words)
        if word.target is not None and word.target < number
    ]
    return sorted(found, key=lambda loop: loop[1] - loop[0])


def _word(value: int, number: int, split: bool) -> Word:
    kind = _KINDS.get(value & 0x1FF, "other")
    operands: tuple[tuple[int, int], ...] = ()
    if kind == "fma":
        second = ((1, _bits(value, 32, 8)),) if _bits(value, 9, 3) == _REGISTER_FORM else ()
        operands = ((0, _bits(value, 24, 8)), *second, (2, _bits(value, 64, 8)))
    reuse = _bits(value, 122, 3)
    return Word(
        kind,
        max(1, _bits(value, 105, 4)),
        tuple(counter for counter in range(6) if _bits(value, 116 + counter, 1)),
        _bits(value, 110, 3),
        _bits(value, 113, 3),
        tuple((slot, register) for slot, register in operands if register != _NO_REGISTER),
        tuple(slot for slot in range(3) if reuse >> slot & 1),
        _WIDTHS.get(_bits(value, 73, 3), 4),
        _bits(value, 38, 6) if kind == "wait" else 0,
        number + 1 + _offset(value, split) // BYTES if kind == "branch" else None,
    )


def _bits(value: int, first: int, count: int) -> int:
    return value >> first & (1 << count) - 1


def _offset(value: int, split: bool) -> int:
    """Bytes from the next instruction to a branch's target; newer code splits them in two."""
    high = _bits(value, 34, 30)
    high -= (high >> 29) << 30
    return (high * 256 + _bits(value, 16, 8) if split else high) * 4


def _targets_are_split(raw: Sequence[int]) -> bool:
    """By the branch to itself that the compiler puts behind every kernel."""
    branches = [value for value in raw if _KINDS.get(value & 0x1FF) == "branch"]
    return bool(branches) and _offset(branches[-1], True) == -BYTES


def _section(cubin: bytes, name: str) -> bytes:
    """A section of a 64-bit little-endian ELF file."""
    if cubin[:6] != b"\x7fELF\x02\x01":
        raise InputError("the cubin is no 64-bit ELF file.")
    try:
        (table,) = struct.unpack_from("<Q", cubin, 40)
        size, count, names_at = struct.unpack_from("<HHH", cubin, 58)
        heads = [struct.unpack_from("<II4Q", cubin, table + size * i) for i in range(count)]
        names = heads[names_at][4]
        for head in heads:
            start = names + head[0]
            if cubin[start : cubin.index(b"\0", start)].decode() == name:
                return cubin[head[4] : head[4] + head[5]]
    except (struct.error, IndexError, OverflowError, ValueError):
        raise InputError("the cubin's table of sections is broken.") from None
    raise InputError(f"the cubin has no section {name}.")

"""Which registers an instruction's operand may be. PTX ISA, "Instruction Operands".

As ptxas decides it (tests/emulator/test_register_types.py): the same size, and not a float where
an integer is wanted or the reverse; untyped bits go with everything. The three instructions that
widen and narrow also take wider registers.
"""

from __future__ import annotations

from tilewright.emulator.arrays import TYPES
from tilewright.emulator.ir import Instruction

_WIDENING = ("ld", "st", "cvt")


def check_register(instruction: Instruction, name: str, declared: str, kind: str) -> None:
    """Raises ValueError unless the register `name`, declared so, holds the PTX type `kind`."""
    if not _fits(declared, kind, instruction.mnemonic in _WIDENING):
        raise ValueError(
            f"{name} is a .{declared} register, and {instruction.opcode} takes "
            f"{_described(kind)} there"
        )


def _fits(declared: str, kind: str, wider: bool) -> bool:
    if "pred" in (declared, kind):
        return declared == kind
    have, want = TYPES[declared].itemsize, TYPES[kind].itemsize
    classes = ["f" if each[0] == "f" else "i" for each in (declared, kind) if each[0] != "b"]
    if have != want and (not wider or have < want or classes == ["f", "f"]):
        return False
    return len(set(classes)) < 2


def _described(kind: str) -> str:
    if kind == "pred":
        return "a predicate"
    word = {"b": "any", "f": "a float"}.get(kind[0], "an integer")
    return f"{word} of {8 * TYPES[kind].itemsize} bits"

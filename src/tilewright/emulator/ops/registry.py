"""The table of what the emulator can execute: a pattern of opcode and modifiers → a builder.

An opcode whose modifiers no pattern matches in full stops the run with its text and line: never
skipped, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tilewright.emulator.ir import Instruction
from tilewright.emulator.operand_counts import check_count
from tilewright.errors import UnsupportedError

if TYPE_CHECKING:
    from tilewright.emulator.arrays import Mask
    from tilewright.emulator.compiler import Compiler
    from tilewright.emulator.machine import Machine

Step = Callable[["Machine", "Mask"], None]
Builder = Callable[["Compiler", Instruction, dict[str, str]], Step]


@dataclass(frozen=True)
class Op:
    """`pattern` matches what follows the mnemonic; `isa` names the section of the PTX ISA."""

    mnemonic: str
    pattern: re.Pattern[str]
    isa: str
    build: Builder


OPS: dict[str, list[Op]] = {}
LISTED = "docs/emulator.md lists what is modelled"
_HOPPER = (
    "wgmma",
    "tcgen05",
    "cp",
    "mbarrier",
    "mapa",
    "multimem",
    "barrier",
    "clusterlaunchcontrol",
)

_ACCESSES = ("ld", "st")
_MATRICES = ("ldmatrix", "stmatrix")
_RANKS = {  # words that people write in any order, and ptxas takes so; patterns have this one
    "async": 0,
    **dict.fromkeys(("volatile", "weak", "relaxed", "acquire", "release", "acq_rel", "mmio"), 1),
    **dict.fromkeys(("cta", "cluster", "gpu", "sys"), 2),
    **dict.fromkeys(("global", "shared", "shared::cta", "shared::cluster", "local", "const"), 3),
}
_ATOMICS = ("atom", "red")
_ATOMIC_RANKS = {
    **_RANKS,
    **dict.fromkeys(["add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas"], 4),
    **{"noftz": 5, "L2::cache_hint": 6, "v2": 7, "v4": 7, "v8": 7},
}
_MATRIX_RANKS = {
    **{"sync": 0, "aligned": 1, "trans": 4, "shared": 5, "shared::cta": 5},
    **dict.fromkeys(("m8n8", "m8n16", "m16n16", "m16n8"), 2),
    **dict.fromkeys(("x1", "x2", "x4"), 3),
}
_VERBS = ("init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "pending_count")
_MBARRIER_RANKS = {**_RANKS, **dict.fromkeys(_VERBS, -1), "complete_tx": -1, "parity": 0}
_MBARRIER_RANKS |= {"expect_tx": 0, "noComplete": 0}
_LAST = 9


def op(mnemonic: str, modifiers: str, isa: str) -> Callable[[Builder], Builder]:
    """Registers a builder; named groups of `modifiers` arrive in its third argument."""

    def register(builder: Builder) -> Builder:
        OPS.setdefault(mnemonic, []).append(Op(mnemonic, re.compile(modifiers), isa, builder))
        return builder

    return register


def build_step(compiler: Compiler, instruction: Instruction) -> Step:
    """The function that executes this instruction.

    Raises: UnsupportedError when no pattern takes the opcode or an operand.
    """
    mnemonic, modifiers = instruction.mnemonic, _modifiers(instruction)
    for candidate in OPS.get(mnemonic, ()):
        if match := candidate.pattern.fullmatch(modifiers):
            try:
                instruction = _without_policy(compiler, instruction)
                check_count(instruction)
                return candidate.build(compiler, instruction, match.groupdict())
            except ValueError as error:
                why = f"its operands are not understood: {error}"
            except (KeyError, IndexError, TypeError, AttributeError):  # of another shape
                why = f"its operands are not understood: {mnemonic} takes other ones"
            raise unsupported(instruction, why)
    why = "the emulator does not model this opcode with these modifiers"
    raise unsupported(instruction, f"{why}; {_way_out(mnemonic)}")


def _without_policy(compiler: Compiler, instruction: Instruction) -> Instruction:
    """The instruction without the cache policy that it ends with: nothing here depends on it."""
    if ".L2::cache_hint" not in instruction.opcode:
        return instruction
    *operands, policy = instruction.operands
    compiler.source(policy, "b64")
    return replace(instruction, operands=tuple(operands))


def _way_out(mnemonic: str) -> str:
    older = ", or emulate the kernel's sm_80 build" if mnemonic in _HOPPER else ""
    return f"run it on a GPU with --engine gpu{older}; {LISTED}"


def _modifiers(instruction: Instruction) -> str:
    """What follows the mnemonic; of accesses and matrices in the order that patterns expect.

    libcu++ writes `atom.add.relaxed.gpu.s32`, CUTLASS `ldmatrix.sync.aligned.x4.m8n8.shared.b16`,
    CUB `vote.ballot.sync.b32`.
    """
    modifiers = instruction.opcode[len(instruction.mnemonic) :]
    if instruction.mnemonic in _ATOMICS:
        ranks = _ATOMIC_RANKS
    elif instruction.mnemonic in _ACCESSES:
        ranks = _RANKS
    elif instruction.mnemonic in _MATRICES:
        ranks = _MATRIX_RANKS
    elif instruction.mnemonic == "mbarrier":
        ranks = _MBARRIER_RANKS
    elif instruction.mnemonic == "vote":
        ranks = {"sync": 0}
    else:
        return modifiers
    ordered = sorted(modifiers.split(".")[1:], key=lambda word: ranks.get(word, _LAST))
    return "".join(f".{word}" for word in ordered)


def unsupported(instruction: Instruction, why: str) -> UnsupportedError:
    place = instruction.place
    return UnsupportedError(
        f"{place.file}:{place.line}: {instruction.text!r} (PTX line {instruction.line}): {why}."
    )

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
_GPU = "run it on a GPU with --engine gpu"
_OLDER = f"{_GPU}, or emulate the kernel's sm_80 build"
_PLAIN = f"{_GPU}, or read a plain array through a pointer"
_WAYS_OUT = {  # by mnemonic, for what people meet most; see docs/emulator.md
    **dict.fromkeys(("tcgen05", "cp", "mbarrier", "mapa", "multimem"), _OLDER),
    **dict.fromkeys(("barrier", "clusterlaunchcontrol", "fence", "getctarank"), _OLDER),
    **dict.fromkeys(("tex", "tld4", "txq", "istypep"), _PLAIN),
    **dict.fromkeys(("suld", "sust", "sured", "suq"), _PLAIN),
    "call": f"{_GPU}, or allocate memory on the host and pass a pointer",
}
_BY_WORD = {  # the same by a word of the opcode, which goes first
    "im2col": "it moves pixels of a convolution's filter; a box in tiled mode for each position of "
    f"the filter moves the same, with element_strides for its stride; or {_GPU}",
    "gather4": f"there it is from sm_100 on only; {_GPU}",
    "scatter4": f"there it is from sm_100 on only; {_GPU}",
}


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
    mnemonic = instruction.mnemonic
    modifiers = instruction.opcode[len(mnemonic) :]
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
    known = (way for word, way in _BY_WORD.items() if word in instruction.opcode)
    way = next(known, _WAYS_OUT.get(mnemonic, _GPU))
    raise unsupported(instruction, f"{why}; {way}; {LISTED}")


def _without_policy(compiler: Compiler, instruction: Instruction) -> Instruction:
    """The instruction without the cache policy that it ends with: nothing here depends on it."""
    if ".L2::cache_hint" not in instruction.opcode:
        return instruction
    *operands, policy = instruction.operands
    compiler.source(policy, "b64")
    return replace(instruction, operands=tuple(operands))


def unsupported(instruction: Instruction, why: str) -> UnsupportedError:
    place = instruction.place
    return UnsupportedError(
        f"{place.file}:{place.line}: {instruction.shown!r} (PTX line {instruction.line}): {why}."
    )

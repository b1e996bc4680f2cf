"""What a run found wrong, each kind once per instruction, with the first lane it happened to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array

if TYPE_CHECKING:
    from tilewright.emulator.ir import Instruction
    from tilewright.emulator.memory import GlobalMemory


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. `block` is the linear block id; fields that don't apply are None.

    `inlined_from` has the lines of inlined functions that led to it, as "copy.cuh:12", the
    innermost first; `file` and `line` are where the outermost of them was called.
    """

    kind: str
    message: str
    file: str
    line: int
    block: int | None = None
    warp: int | None = None
    lane: int | None = None
    address: int | None = None
    array: str | None = None
    other_line: int | None = None
    inlined_from: tuple[str, ...] = ()


class Findings:
    """Collects findings; further occurrences of the same kind at the same instruction count up."""

    def __init__(self, instructions: list[Instruction]) -> None:
        self._instructions = instructions
        self._first: dict[tuple[str, int, int], Finding] = {}
        self._more: dict[tuple[str, int, int], int] = {}
        self.first_block = 0  # of the chunk that runs

    def lanes(
        self,
        kind: str,
        at: int,
        what: str,
        address: Array,
        bad: Array,
        blocks: int,
        memory: GlobalMemory | None,
    ) -> None:
        """Reports the lanes of [b, W, lanes] where `bad` holds; b = 1 stands for `blocks`.

        `memory` names the array that a global address belongs to.
        """
        count = int(bad.sum()) * (blocks // bad.shape[0])
        if not count:
            return
        key = (kind, at, 0)
        if key in self._first:
            self._more[key] += count
            return
        block, warp, lane = (int(i) for i in np.argwhere(bad)[0])
        where = int(address[block, warp, lane])
        instruction = self._instructions[at]
        self._more[key] = count - 1
        self._first[key] = Finding(
            kind,
            f"{instruction.mnemonic} touches {what}",
            instruction.place.file,
            instruction.place.line,
            self.first_block + block,
            warp,
            lane,
            where,
            memory.owner_name(where) if memory is not None else None,
            inlined_from=instruction.inlined_from,
        )

    def at_lane(
        self,
        kind: str,
        at: int,
        what: str,
        lane: tuple[int, int, int],
        address: int,
        array: str | None,
        other_line: int | None,
        count: int,
    ) -> None:
        """Reports `count` lanes or cells, the first in (block of the chunk, warp, lane)."""
        key = (kind, at, 0)
        if key in self._first:
            self._more[key] += count
            return
        instruction = self._instructions[at]
        self._more[key] = count - 1
        self._first[key] = Finding(
            kind,
            f"{instruction.mnemonic} {what}",
            instruction.place.file,
            instruction.place.line,
            self.first_block + lane[0],
            lane[1],
            lane[2],
            address,
            array,
            other_line,
            instruction.inlined_from,
        )

    def add(self, finding: Finding, at: int, place: int = 0) -> None:
        """Reports a fault that is not about the lanes of an access.

        Of several of one kind at one instruction, those of other `place`s are kept apart.
        """
        chain = self._instructions[at].inlined_from
        self._first.setdefault((finding.kind, at, place), replace(finding, inlined_from=chain))
        self._more.setdefault((finding.kind, at, place), 0)

    def all(self) -> list[Finding]:
        """In order of first occurrence, each message closed with how many lanes it concerns."""
        return [replace(f, message=_sentence(f, self._more[key])) for key, f in self._first.items()]


def _sentence(finding: Finding, more: int) -> str:
    if finding.address is None:
        return finding.message
    array = f" ({finding.array})" if finding.array else ""
    again = ("", ", and once more")[more] if more < 2 else f", and {more} more times"
    return (
        f"{finding.message}: address {finding.address:#x}{array}, block {finding.block}, "
        f"warp {finding.warp}, lane {finding.lane}{again}"
    )

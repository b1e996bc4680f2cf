"""What a run found wrong, each kind once per instruction, with the first lane it happened to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.emulator.naming import does

if TYPE_CHECKING:
    from tilewright.emulator.ir import Instruction
    from tilewright.emulator.naming import Naming


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

    def __init__(self, instructions: list[Instruction], naming: Naming) -> None:
        self.naming = naming
        self.ids = np.zeros(1, np.int64)  # the linear ids of the blocks of the chunk that runs
        self._instructions = instructions
        self._first: dict[tuple[str, int, int], Finding] = {}
        self._more: dict[tuple[str, int, int], int] = {}
        self._ranks: dict[tuple[str, int, int], int] = {}

    def block_id(self, block: int) -> int:
        """The linear id of a block of the chunk."""
        return int(self.ids[block])

    def lanes(
        self,
        kind: str,
        at: int,
        what: Callable[[int], str],
        address: Array,
        bad: Array,
        blocks: int,
        space: str,
    ) -> None:
        """Reports the lanes of [b, W, lanes] where `bad` holds; b = 1 stands for `blocks`.

        `what(address)` says what is wrong, behind the instruction and its verb. `space` is
        global, shared or another one, whose addresses have no names.
        """
        count = int(bad.sum()) * (blocks // bad.shape[0])
        if not count or self._again((kind, at, 0), count):
            return
        block, warp, lane = (int(i) for i in np.argwhere(bad)[0])
        where = int(address[block, warp, lane])
        array = self.naming.array(where) if space == "global" else None
        message = f"{does(self._instructions[at])} {what(where)}"
        self._report(kind, at, message, (block, warp, lane), where, array, None, space)

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
        rank: int = 0,
    ) -> None:
        """Reports `count` lanes or cells, the first in (block of the chunk, warp, lane).

        `array` is the name of the array, None for shared memory. A later one of a higher rank
        takes the place of what was reported: its remedy helps both.
        """
        key = (kind, at, 0)
        if self._again(key, count) and rank <= self._ranks.get(key, 0):
            return
        self._ranks[key] = rank
        message = f"{self._instructions[at].opcode} {what}"
        space = "global" if array else "shared"
        self._report(kind, at, message, lane, address, array, other_line, space)

    def add(self, finding: Finding, at: int, place: int = 0) -> None:
        """Reports a fault that is not about the lanes of an access.

        Of several of one kind at one instruction, those of other `place`s are kept apart.
        """
        chain = self._instructions[at].inlined_from
        self._first.setdefault((finding.kind, at, place), replace(finding, inlined_from=chain))
        self._more.setdefault((finding.kind, at, place), 0)

    def all(self) -> list[Finding]:
        """In order of first occurrence, each message closed with how often it happened again."""
        return [
            replace(f, message=f.message + _again(self._more[key]))
            for key, f in self._first.items()
        ]

    def _again(self, key: tuple[str, int, int], count: int) -> bool:
        """Counts up what has been reported before."""
        known = key in self._first
        self._more[key] = self._more[key] + count if known else count - 1
        return known

    def _report(
        self,
        kind: str,
        at: int,
        message: str,
        lane: tuple[int, int, int],
        address: int,
        array: str | None,
        other_line: int | None,
        space: str,
    ) -> None:
        place = ""
        if space == "global":
            place = self.naming.element(address)
        elif space == "shared":
            place = self.naming.shared_place(address)
        block = self.block_id(lane[0])
        thread = self.naming.thread(block, *lane[1:])
        instruction = self._instructions[at]
        self._first[kind, at, 0] = Finding(
            kind,
            f"{message}: address {address:#x}{f' ({place})' if place else ''}, {thread}",
            instruction.place.file,
            instruction.place.line,
            block,
            lane[1],
            lane[2],
            address,
            array,
            other_line,
            instruction.inlined_from,
        )


def _again(more: int) -> str:
    if not more:
        return ""
    return f", and {more:,} more times" if more > 1 else ", and once more"

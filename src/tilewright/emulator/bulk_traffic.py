"""What bulk copies moved: for the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.emulator.ir import Instruction
    from tilewright.emulator.tensor_box import Traffic


@dataclass(slots=True)
class BulkTally:
    """Of one instruction. A request to L2 is a line of 128 bytes that a row of a box touches.

    `global_bytes` are moved at the memory's side, once for all receivers, and only inside the
    tensor; `shared_bytes` are what shared memory takes or gives; `multicast_bytes` those of them
    that came without a read of their own.
    """

    opcode: str = ""
    file: str = ""
    line: int = 0
    copies: int = 0
    global_bytes: int = 0
    shared_bytes: int = 0
    multicast_bytes: int = 0
    l2_requests: int = 0


@dataclass(slots=True)
class BulkTraffic:
    """Of a launch, by the index of the instruction."""

    tallies: dict[int, BulkTally] = field(default_factory=dict)

    def add(self, at: int, copies: int, traffic: Traffic, delivered: int, extra: int) -> None:
        """`copies` that deliver so many bytes in all, `extra` of them to further blocks."""
        tally = self.tallies.setdefault(at, BulkTally())
        tally.copies += copies
        tally.global_bytes += traffic.nbytes
        tally.shared_bytes += delivered
        tally.multicast_bytes += extra
        tally.l2_requests += traffic.requests


def bulk_rows(traffic: BulkTraffic, instructions: Sequence[Instruction]) -> list[BulkTally]:
    """A row for each bulk instruction that ran, in program order."""
    rows = []
    for at, tally in sorted(traffic.tallies.items()):
        place = instructions[at].place
        opcode = instructions[at].opcode
        rows.append(replace(tally, opcode=opcode, file=place.file, line=place.line))
    return rows


def is_bulk_store(opcode: str) -> bool:
    """Whether it goes from shared to global memory."""
    return opcode.startswith("cp.") and ".bulk_group" in opcode


def bulk_totals(rows: Sequence[BulkTally]) -> dict[str, int]:
    """Bytes at the memory's side by direction, bytes that multicast saved, requests to L2."""
    store = sum(row.global_bytes for row in rows if is_bulk_store(row.opcode))
    return {
        "bulk_load_bytes": sum(row.global_bytes for row in rows) - store,
        "bulk_store_bytes": store,
        "multicast_bytes": sum(row.multicast_bytes for row in rows),
        "l2_requests": sum(row.l2_requests for row in rows),
    }

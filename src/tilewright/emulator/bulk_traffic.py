"""What bulk copies moved: for the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.emulator.tensor_box import Traffic


@dataclass(slots=True)
class BulkTally:
    """Of one instruction. A request to L2 is a line of 128 bytes that a row of a box touches.

    `global_bytes` are moved at the memory's side, once for all receivers; `shared_bytes` are what
    shared memory takes or gives; `multicast_bytes` those of them that came without a read of
    their own.
    """

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

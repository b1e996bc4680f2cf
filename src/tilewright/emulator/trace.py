"""A launch: its shape, and what all of its chunks add to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.bulk_traffic import BulkTraffic
from tilewright.emulator.counters import Counters
from tilewright.emulator.findings import Findings
from tilewright.emulator.hazards import ArrayShadows
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.timeline import Timeline
from tilewright.launch import Dim3

STEP_LIMIT = 500_000  # basic blocks of a chunk; a loop that needs more counts as endless


@dataclass(frozen=True, slots=True)
class Shape:
    """The launch: grid, block and cluster extents, dynamic shared bytes, the packed parameters."""

    grid: Dim3
    block: Dim3
    shared_bytes: int
    params: bytes
    cluster: Dim3 = (1, 1, 1)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps(self) -> int:
        return -(-self.threads // LANES)

    @property
    def peers(self) -> int:
        """Blocks of a cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(slots=True)
class Trace:
    """What all chunks of a launch add to."""

    memory: GlobalMemory
    findings: Findings
    counters: Counters = field(default_factory=Counters)
    issues: Counter[int] = field(default_factory=Counter)  # basic block → warps that ran it
    completed: bool = True
    arrays: ArrayShadows | None = None  # None: nothing is watched
    step_limit: int = STEP_LIMIT
    printed: list[str] = field(default_factory=list)
    bulk: BulkTraffic = field(default_factory=BulkTraffic)
    timeline: Timeline = field(default_factory=Timeline)
    map_releases: dict[int, Array] = field(default_factory=dict)  # see MapFences

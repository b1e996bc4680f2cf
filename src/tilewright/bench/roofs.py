"""Roofs: what this GPU can do at most, measured by the protocol that measures the candidates.

An empty node of a graph, reading memory that no cache holds, copying it, the matrix rate of
mma.sync fed from registers, and the rate that a library reaches on a large product (on Hopper its
wgmma is faster than mma.sync). From them comes the least time that a problem can take and the
roof that binds; a row's share of it says how much there is left to win.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tilewright.bench import record
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.dtypes import DType

MIB = 1024 * 1024
EMPTY = f"{record.ROOF}empty node"
READ = f"{record.ROOF}cold read"
COPY = f"{record.ROOF}copy"
RATE = f"{record.ROOF}mma rate"
LIBRARY = f"{record.ROOF}library rate"
_SIZE = re.compile(rf"(?:{READ}|{COPY}) (\d+) MiB")


@dataclass(frozen=True)
class Roofs:
    """What one GPU gave in one run.

    `empty_us` is an empty kernel's node of a graph; `reads` holds bytes and microseconds of cold
    reads, small to large; `copy_gbps` counts bytes read and written (10⁹ a second);
    `mma_tflops` is mma.sync's rate for `dtype`, `library_tflops` what a library reached on a large
    product, None without one. `lines` are the measurements behind the figures.
    """

    dtype: str
    empty_us: float
    reads: tuple[tuple[int, float], ...]
    copy_gbps: float
    mma_tflops: float
    library_tflops: float | None = None
    lines: tuple[record.Measurement, ...] = ()


class RoofProblem(Protocol):
    """What a floor depends on; problem.Problem is one."""

    @property
    def m(self) -> int: ...
    @property
    def n(self) -> int: ...
    @property
    def k(self) -> int: ...
    @property
    def dtype(self) -> DType: ...


# --- Floors -------------------------------------------------------------------------------


def floor_us(roofs: Roofs, problem: RoofProblem, cold: bool = True) -> tuple[float, str]:
    """The least microseconds for the problem, and what binds: "launch", "memory" or "matrix".

    Memory is the cold read of A and B and C's bytes at the copy's rate, and binds no warm inputs:
    these may lie in the L2 cache. What is mostly an empty node is put down to the launch. Of the
    two matrix rates the larger counts.
    """
    m, n, k, size = problem.m, problem.n, problem.k, problem.dtype.bytes
    memory_us = read_us(roofs, size * (m * k + k * n)) + size * m * n / roofs.copy_gbps / 1e3
    memory_us = memory_us if cold else 0.0
    matrix_us = 2 * m * n * k / max(roofs.mma_tflops, roofs.library_tflops or 0) / 1e6
    least_us = max(roofs.empty_us, memory_us, matrix_us)
    if least_us < 2 * roofs.empty_us:
        return least_us, "launch"
    return least_us, "memory" if memory_us >= matrix_us else "matrix"


def read_us(roofs: Roofs, size_bytes: int) -> float:
    """Microseconds to read so many cold bytes: linear between the sizes measured.

    Never shorter for more bytes: noise that says so is flattened. No bytes take an empty node;
    beyond the largest size, the last two sizes' bandwidth goes on.
    """
    points = [(0, roofs.empty_us)]
    for size, us in sorted(roofs.reads):
        points.append((size, max(us, points[-1][1])))
    after = next((i for i in range(1, len(points)) if points[i][0] >= size_bytes), len(points) - 1)
    (left, left_us), (right, right_us) = points[after - 1], points[after]
    return left_us + (size_bytes - left) * (right_us - left_us) / (right - left)


# --- Records ------------------------------------------------------------------------------


def from_lines(lines: Sequence[record.Measurement]) -> Roofs:
    """The roofs in the measurement lines of one run; other lines than roofs are passed over.

    Raises: InputError when a roof is missing or the lines are of several runs, GPUs or types.
    """
    roofs = [
        line for line in lines if line.name.startswith(record.ROOF) and line.correct is not False
    ]
    runs = sorted({(line.taken, line.machine, line.dtype) for line in roofs})
    if len(runs) != 1:
        raise InputError(f"roofs must be of one run, GPU and dtype; there are {len(runs)}: {runs}.")
    by_name = {line.name: line for line in roofs}
    reads = [line for line in roofs if line.name.startswith(READ)]
    copies = [line for line in roofs if line.name.startswith(COPY)]
    found = {EMPTY: EMPTY in by_name, RATE: RATE in by_name, READ: reads, COPY: copies}
    if missing := [name for name, there in found.items() if not there]:
        raise InputError(f"the roofs lack {', '.join(missing)}.")
    rate, copy = by_name[RATE], copies[-1]
    return Roofs(
        dtype=rate.dtype,
        empty_us=by_name[EMPTY].us,
        reads=tuple(sorted((_bytes(line), line.us) for line in reads)),
        copy_gbps=2 * _bytes(copy) / copy.us / 1e3,
        mma_tflops=rate.tflops,
        library_tflops=by_name[LIBRARY].tflops if LIBRARY in by_name else None,
        lines=tuple(roofs),
    )


def _bytes(line: record.Measurement) -> int:
    match = _SIZE.fullmatch(line.name)
    if not match or int(match[1]) < 1:
        raise InputError(f'the roof {line.name!r} must end with its size, like "32 MiB".')
    return int(match[1]) * MIB

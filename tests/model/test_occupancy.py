"""Occupancy against cases worked out by hand; an SM of the H200 has 65536 registers, 228 KiB."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.errors import InputError
from tilewright.gpus import gpu_named
from tilewright.model.occupancy import Occupancy, blocks_per_sm


@pytest.mark.parametrize(
    ("gpu", "threads", "registers", "shared_bytes", "expected"),
    [
        # 126 * 32 registers a warp are taken as 4096: 4 warps a scheduler, 16 in all, 2 blocks.
        ("h200", 256, 126, 16384, Occupancy(2, "registers")),
        ("h200", 256, 126, 32768, Occupancy(2, "registers")),
        # 168 * 32 = 5376: 3 warps a scheduler, 12 in all; 65536 // 5376 would also be 12.
        ("h200", 128, 168, 0, Occupancy(3, "registers")),
        # 96 * 32 = 3072: 5 warps a scheduler make 20; without the quarters it would be 21.
        ("h200", 224, 96, 0, Occupancy(2, "registers")),
        # 65 * 32 = 2080 is taken as 2304: 7 warps a scheduler, 28 in all.
        ("h200", 32 * 7, 65, 0, Occupancy(4, "registers")),
        ("h200", 1024, 32, 0, Occupancy(2, "threads")),
        ("h200", 33, 16, 0, Occupancy(32, "threads")),  # 2 warps of 64: a tie, first limit named
        ("h200", 32, 16, 0, Occupancy(32, "blocks")),
        ("a100", 128, 32, 48 * 1024, Occupancy(3, "shared memory")),  # 164 // (48 + 1)
        ("h200", 128, 32, 227 * 1024, Occupancy(1, "shared memory")),
        ("h200", 128, 32, 113 * 1024, Occupancy(2, "shared memory")),  # 2 * (113 + 1) = 228
        ("h200", 128, 32, 113 * 1024 + 1, Occupancy(1, "shared memory")),  # 128 bytes more each
        ("rtx5090", 256, 40, 8192, Occupancy(6, "threads")),
        # Cannot be launched at all.
        ("h200", 1024, 80, 0, Occupancy(0, "registers")),
        ("h200", 128, 32, 228 * 1024, Occupancy(0, "shared memory")),
    ],
)
def test_blocks_per_sm(
    gpu: str, threads: int, registers: int, shared_bytes: int, expected: Occupancy
) -> None:
    assert blocks_per_sm(gpu_named(gpu), threads, registers, shared_bytes) == expected


def test_the_limits_come_from_the_gpu() -> None:
    small = replace(gpu_named("h200"), registers_per_sm=32768)
    assert blocks_per_sm(small, 256, 126, 0) == Occupancy(1, "registers")


@pytest.mark.parametrize(
    ("threads", "registers", "shared_bytes", "message"),
    [
        (0, 32, 0, r"threads=0 must be 1\.\.1024\."),
        (1025, 32, 0, r"threads=1025 must be 1\.\.1024\."),
        (128, 0, 0, r"registers=0 must be 1\.\.255\."),
        (128, 256, 0, r"registers=256 must be 1\.\.255\."),
        (128, 32, -1, r"shared_bytes=-1 must not be negative\."),
    ],
)
def test_impossible_kernels_are_refused(
    threads: int, registers: int, shared_bytes: int, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        blocks_per_sm(gpu_named("h200"), threads, registers, shared_bytes)

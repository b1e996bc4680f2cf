"""The memories alone: allocation, bounds, gathers and scatters of several arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import BY_WIDTH
from tilewright.emulator.findings import Findings
from tilewright.emulator.ir import Instruction, Variable
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.naming import Naming
from tilewright.emulator.shared import SharedMemory

FULL = (2, 1, 32)


def findings(memory: GlobalMemory | None = None) -> Findings:
    instructions = [Instruction("ld.global.u32", (), None, (), 1, "")]
    return Findings(instructions, Naming(memory or GlobalMemory()))


def lanes(values: list[int]) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64).reshape(1, 1, 32)


def test_addresses_are_aligned_far_apart_and_stay() -> None:
    memory = GlobalMemory()
    a, b = np.zeros(3, "u1"), np.zeros(5, "u1")
    first, second = memory.allocate(a, "a"), memory.allocate(b, "b")
    assert first % 256 == second % 256 == 0
    assert second - first >= 1 << 32
    assert memory.allocate(a) == first
    assert memory.owner_name(first + 1000) == "a"
    assert memory.owner_name(second - 1) == "b"
    assert memory.owner_name(0) == "no array"


def test_variables_are_zero_or_as_declared_and_known_by_identity() -> None:
    memory = GlobalMemory()
    first = Variable("global", "x", "u32", 8, 4)
    other = Variable("global", "x", "u32", 8, 4, b"\x05")
    assert len({memory.variable(it, {}, {}) for it in (first, first, other)}) == 2
    assert memory.allocations[0].array.tolist() == [0] * 8
    assert memory.allocations[1].array.tolist() == [5] + [0] * 7


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_lanes_of_several_arrays(width: int) -> None:
    memory = GlobalMemory()
    rng = np.random.default_rng(width)
    arrays = [rng.integers(0, 256, 16 * width + extra).astype("u1") for extra in (0, 3)]
    bases = [memory.allocate(array) for array in arrays]
    address = lanes([bases[lane % 2] + lane // 2 * width for lane in range(32)])
    access = memory.access(findings(), 0, address, None, width, FULL)
    assert access.active is None
    loaded = memory.load(access)
    for lane in range(32):
        start = lane // 2 * width
        want = arrays[lane % 2][start : start + width].tobytes()
        assert loaded[0, 0, lane].tobytes() == want
    values = np.arange(64 * width, dtype="u1").view(BY_WIDTH[width]).reshape(2, 1, 32)
    memory.store(access, values)
    assert arrays[1][width : 2 * width].tobytes() == values[1, 0, 3].tobytes()


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_shared_memory_by_block_and_mask(width: int) -> None:
    memory = SharedMemory(2, 1, 32 * width)
    own = np.stack([np.arange(32), np.arange(32)[::-1]]).reshape(2, 1, 32) * width
    values = np.arange(64 * width, dtype="u1").view(BY_WIDTH[width]).reshape(2, 1, 32)
    mask = np.arange(64).reshape(2, 1, 32) % 3 > 0
    access = memory.access(findings(), 0, own, mask, width, 32)
    memory.store(access, values)
    everything = memory.access(findings(), 0, own, None, width, 32)
    loaded = memory.load(everything)
    masked = memory.load(access)
    for block in range(2):
        for lane in range(32):
            on = mask[block, 0, lane]
            want = values[block, 0, lane].tobytes() if on else b"\xff" * width
            assert loaded[block, 0, lane].tobytes() == want
            assert masked[block, 0, lane].tobytes() == want


def test_the_last_lane_wins_a_store_to_one_address() -> None:
    memory = SharedMemory(1, 1, 4)
    access = memory.access(findings(), 0, lanes([0] * 32), None, 4, 32)
    memory.store(access, np.arange(32, dtype="u4").reshape(1, 1, 32))
    assert memory.load(access)[0, 0, 0] == 31


def test_checked_patterns_are_forgotten_in_the_end() -> None:
    memory = SharedMemory(1, 1, 1 << 16)
    for start in range(5000):
        memory.access(findings(), 0, lanes([4 * start] * 32), None, 4, 32)
    assert len(memory._checked) < 5000


def test_an_array_without_elements_has_no_bytes() -> None:
    memory = GlobalMemory()
    found, base = findings(memory), memory.allocate(np.zeros((0, 4), "f4"), "empty")
    access = memory.access(found, 0, lanes([base] * 32), None, 4, FULL)
    assert isinstance(access, Access)
    assert not np.any(access.active)
    assert found.all()[0].array == "empty"
    assert "and 63 more times" in found.all()[0].message  # 32 lanes of two blocks

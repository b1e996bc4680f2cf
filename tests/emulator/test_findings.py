"""Findings: each kind once an instruction, with how often it happened."""

from __future__ import annotations

import numpy as np

from tilewright.emulator.findings import Finding, Findings
from tilewright.emulator.ir import Instruction, Place
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.naming import Naming

NAMING = Naming(GlobalMemory())
NAMING.memory.allocate(np.zeros(4, "u1"), "x")


def findings() -> Findings:
    return Findings([Instruction("ld.global.u32", (), None, (), 5, "ld.global.u32 …")], NAMING)


def report(found: Findings, bad: list[bool], blocks: int = 1) -> None:
    lanes = np.array(bad).reshape(1, 1, -1)
    address = np.full(lanes.shape, NAMING.memory.allocations[0].base + 4)
    found.lanes("out-of-bounds", 0, lambda at: f"{at % 16} bytes", address, lanes, blocks, "global")


def test_the_first_lane_and_the_number_of_others() -> None:
    found = findings()
    report(found, [False, False])
    assert found.all() == []
    found.ids = np.array([8])
    report(found, [False, True, True])
    found.ids = np.arange(16, 19)
    report(found, [True, True], blocks=3)
    (finding,) = found.all()
    assert (finding.block, finding.warp, finding.lane, finding.array) == (8, 0, 1, "x")
    assert finding.line == 5
    assert finding.message.startswith("ld.global.u32 reads 4 bytes: address 0x7f0000000004 (x), ")
    assert finding.message.endswith("(x), block 8, warp 0, lane 1, and 7 more times")


def test_once_is_not_more_times() -> None:
    found = findings()
    report(found, [True])
    assert found.all()[0].message.endswith("lane 0")


def test_faults_without_an_address() -> None:
    found = findings()
    found.add(Finding("deadlock", "nobody comes.", "k.cu", 3), 0)
    found.add(Finding("deadlock", "again", "k.cu", 3), 0)
    assert [f.message for f in found.all()] == ["nobody comes."]


def test_a_finding_names_the_inlined_lines_that_led_to_it() -> None:
    places = (Place("copy.cuh", 12), Place("tile.cuh", 30), Place("k.cu", 9))
    found = Findings([Instruction("bar.sync", (), None, places, 5, "bar.sync 0")], NAMING)
    report(found, [True])
    found.add(Finding("deadlock", "nobody comes.", "k.cu", 9), 0)
    for finding in found.all():
        assert (finding.file, finding.line) == ("k.cu", 9)
        assert finding.inlined_from == ("copy.cuh:12", "tile.cuh:30")

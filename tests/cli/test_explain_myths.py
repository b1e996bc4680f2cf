"""`tilewright explain myths`: answers whose figures are right and whose commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tilewright.__main__ import app, run
from tilewright.cli.explain_myths_table import MYTHS, Myth
from tilewright.ladder.rungs import RUNGS

ROADMAP = ("occupancy", "shared", "bigger", "double-buffer", "cublas")
COMMANDS = [(myth.name, command) for myth in MYTHS for command in myth.commands]


def test_the_roadmaps_five_come_first() -> None:
    assert tuple(myth.name for myth in MYTHS[:5]) == ROADMAP


@pytest.mark.usefixtures("compiler", "blocks_counted_once")
@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_every_command_runs_as_it_stands(
    name: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *words = shlex.split(command)
    assert program == "tilewright"
    assert run(words) == 0, capsys.readouterr().err


@pytest.mark.parametrize("myth", MYTHS, ids=lambda myth: myth.name)
def test_what_needs_a_gpu_is_understood(myth: Myth) -> None:
    """Its words are parsed, and its rungs exist; only running it needs the GPU."""
    program, *words = shlex.split(myth.on_gpu)
    assert program == "tilewright"
    app.parse_args(words, exit_on_error=False, print_error=False)
    named = re.findall(r"--rung (\S+)", myth.on_gpu)
    assert set(named) <= set(RUNGS)
    assert named or "bench" in myth.on_gpu


def test_each_of_the_roadmaps_shows_itself_on_a_rung() -> None:
    for myth in MYTHS[:5]:
        assert any(re.search(r"hgemm", command) for command in myth.commands), myth.name


def test_metrics_have_the_shape_of_nsight_computes() -> None:
    metric = re.compile(
        r"(sm|smsp|l1tex|dram|gpu|lts)__\w+\.(sum|avg|ratio)[\w.]*|launch__\w+|memory_l[12]_\w+"
    )
    for myth in MYTHS:
        assert len(myth.profiler) >= 2
        for name, words in myth.profiler:
            assert metric.fullmatch(name), name
            assert words


def figures(explained: Any, name: str) -> dict[str, str]:
    (row,) = explained(f"myths {name}")
    return {figure["what"]: figure["value"] for figure in row["figures"]}


def test_figures(explained: Any) -> None:
    assert figures(explained, "shared") == {
        "A of hgemm_naive": "16 wavefronts for 4 of data",
        "A of hgemm_bcf": "4 wavefronts for 4 of data",
        "B of hgemm_naive": "32 wavefronts for 4 of data",
        "B of hgemm_bcf": "4 wavefronts for 4 of data",
    }
    assert figures(explained, "cp-async") == {
        "rows of 64 bytes, as it lies": "8 wavefronts, 4 ideal",
        "rows of 64 bytes, chunk ^ ((row>>1)&3)": "8 wavefronts, 4 ideal",
        "rows of 128 bytes, chunk ^ (row&7)": "4 wavefronts, 4 ideal",
    }
    assert figures(explained, "padding") == {
        "column of [32][p]": "pitch 32: 32, pitch 33: 1 wavefronts",
        "rows of [16][p]": "pitch 16: 1, pitch 17: 2 wavefronts",
        "one row of [8][p]": "pitch 128: 4, pitch 133: 4 wavefronts",
    }
    assert figures(explained, "float4")["float4 at stride 1"] == "4 wavefronts, 0 conflicts"
    occupancy = figures(explained, "occupancy")
    assert occupancy["2×2 a thread"].startswith("0.5 FLOP per byte of shared memory")
    assert occupancy["8×8 a thread"].startswith("2 FLOP per byte of shared memory")
    assert "64 tiles: 48% of 132 SMs" in figures(explained, "bigger")["128×128"]
    double = figures(explained, "double-buffer")
    assert double["load 500, compute 1000"].startswith("1.49 times as fast")
    assert double["BK=64 on an RTX 5060"] == (
        "2 blocks an SM with one buffer of 32 KiB, 1 with two"
    )
    assert (
        "cannot take less than 17.4 µs, by arithmetic"
        in (figures(explained, "cublas")["4096×4096×512"])
    )


def test_all_and_one(explained: Any, shown: Any) -> None:
    assert [row["name"] for row in explained("myths")] == [myth.name for myth in MYTHS]
    said = shown("myths occupancy")
    assert said.startswith("Is higher occupancy always better?   (occupancy)\n")
    assert "  smsp__warps_eligible.avg.per_cycle_active\n" in said
    assert "tilewright explain limiter hgemm_bcf_dbf_rw\n" in said


def test_its_help_names_them_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "myths", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for myth in MYTHS:
        assert myth.name in said


def test_an_unknown_one_is_refused(refused: Any) -> None:
    assert refused("myths occupation") == "name='occupation' is not known; did you mean occupancy?"


def test_the_metrics_that_the_rungs_were_counted_with_are_among_them() -> None:
    recorded = (Path(__file__).parents[1] / "data" / "rung_counts_h200.json").read_text()
    named = {metric for myth in MYTHS for metric, _ in myth.profiler}
    assert sum(f'"{metric}"' in recorded for metric in named) >= 4

"""`tilewright explain hierarchy`: the levels of a rung, their sizes and their bytes."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.ladder.rungs import KERNELS
from tilewright.model.hierarchy import Shape, levels


def test_the_levels_of_a_tensor_core_rung(explained: Any) -> None:
    rows = {row["level"]: row for row in explained("hierarchy hgemm_bcf_dbf_rw")}
    assert list(rows) == ["matrix", "block", "warp", "instruction", "thread"]
    block, warp, mma = rows["block"], rows["warp"], rows["instruction"]
    assert (block["count"], block["m"], block["n"], block["k"]) == (1024, 128, 128, 32)
    assert (block["read_bytes"], block["held_bytes"]) == (16384, 32768)
    assert block["intensity"] == 64
    assert (warp["count"], warp["m"], warp["n"]) == (8, 64, 32)
    assert (warp["read_bytes"], warp["held_bytes"]) == (6144, 8192)
    assert warp["intensity"] == pytest.approx(64 / 3)
    assert (mma["count"], mma["m"], mma["n"], mma["k"]) == (32, 16, 8, 16)
    assert mma["flops"] == 4096
    assert rows["matrix"]["intensity"] == 2048
    thread = rows["thread"]  # 64 sums, as the roadmap's 8x8 tile of a thread
    assert (thread["count"], thread["within"], thread["m"], thread["n"]) == (32, "warp", 8, 8)
    assert thread["held_bytes"] == 64 * 4
    assert thread["read_bytes"] == 4 * (4 * 4 + 4 * 2)  # registers of 4 A and 4 B fragments


@pytest.mark.parametrize("name", list(KERNELS))
def test_every_rung_has_levels_that_multiply_up(name: str, explained: Any) -> None:
    rows = {row["level"]: row for row in explained(f"hierarchy {name} -m 1024 -n 2048 -k 512")}
    for level in rows.values():
        if level["within"] is not None:
            above = rows[level["within"]]
            steps = 1 if level["level"] == "instruction" else above["k"] // level["k"]
            assert above["flops"] == level["count"] * level["flops"] * steps, level["level"]


def test_threads_of_an_fma_kernel() -> None:
    shape = Shape((128, 128, 8), 256, 1, warp=None, mma=None, thread=(8, 8))
    _, block, thread = levels((256, 256, 64), shape, 4)
    assert (block.count, block.read_bytes, block.intensity) == (4, 8192, 32.0)
    assert (thread.name, thread.count, thread.read_bytes) == ("thread", 256, 64)
    assert (thread.intensity, thread.held_bytes) == (2.0, 256)


def test_the_levels_of_fp32_rungs(explained: Any) -> None:
    """Thread tiles are the table's; a rung without shared memory reads through the caches."""
    best = {row["level"]: row for row in explained("hierarchy sgemm_best")}
    assert best["block"]["held_bytes"] == 3 * 16 * (128 + 4 + 256) * 4
    thread = best["thread"]
    assert (thread["within"], thread["m"], thread["n"]) == ("warp", 8, 16)
    assert (thread["count"], best["warp"]["count"]) == (32, 8)
    naive = {row["level"]: row for row in explained("hierarchy sgemm_naive")}
    assert (naive["thread"]["reads_from"], naive["block"]["held_bytes"]) == ("L1 and L2", 0)
    assert naive["thread"]["intensity"] == 0.25


def test_the_picture(shown: Any) -> None:
    said = shown("hierarchy hgemm_naive")
    assert "\n      └─ instruction  32 of 16×8 a warp" in said
    assert "\n      └─ thread  32 of 8×8 a warp" in said
    assert "└─ block  1,024 of 128×128 a matrix, steps of 32 along K\n" in said
    assert "holds 16 KiB of shared memory" in " ".join(said.split())
    assert "│     warp 0    │     warp 1    │     warp 2    │     warp 3    │" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("hgemm_bfc", "rung='hgemm_bfc' is not known; did you mean hgemm_bcf?"),
        ("hgemm_bcf -m 100", "m=100 is not a multiple of 128, as hgemm_bcf needs; the nearest"),
        ("cpu_loops", "cpu_loops is a function in Python: it has no tile, threads and shared "),
        ("hgemm_bcf --dtype fp32", "hgemm_bcf takes bf16 or fp16, not fp32."),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"hierarchy {words}").startswith(said)

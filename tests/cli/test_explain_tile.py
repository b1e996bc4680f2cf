"""`tilewright explain tile`: the roadmap's numbers, and what a GPU makes of them."""

from __future__ import annotations

from typing import Any

import pytest

ROADMAP = "tile --bm 128 --bn 128 --bk 8 --tm 8 --tn 8 --dtype fp32"


def test_the_roadmaps_numbers(explained: Any, shown: Any) -> None:
    (row,) = explained(ROADMAP)
    assert row["tile_bytes"] == row["shared_bytes"] == 8192
    assert row["intensity"] == 32.0
    assert (row["threads"], row["accumulators"]) == (256, 64)
    assert row["flops_per_k_tile"] == 2 * 128 * 128 * 8
    said = shown(ROADMAP)
    for words in ("= 8192 B", "= 32.0 FLOP/B", ") = 256\n", "8·8 = 64 a thread", "[32.0]"):
        assert words in said


def test_a_second_stage_costs_as_much_shared_memory_again(explained: Any) -> None:
    (row,) = explained(f"{ROADMAP} --stages 2")
    assert (row["tile_bytes"], row["shared_bytes"]) == (8192, 16384)


def test_residency_and_waves_of_a_kernel_that_exists(explained: Any) -> None:
    """hgemm_bcf_dbf_rw: 126 registers, 32 KiB, two blocks an SM, 1024 tiles in 3.88 waves."""
    (row,) = explained("tile --bk 32 --tm 8 --tn 8 --dtype bf16 --stages 2 --registers 126")
    assert (row["shared_bytes"], row["blocks_per_sm"], row["limiter"]) == (32768, 2, "registers")
    assert (row["warps_per_sm"], row["occupancy"]) == (16, 0.25)
    assert (row["tiles"], row["blocks_per_wave"], row["tail_blocks"]) == (1024, 264, 232)
    assert row["waves"] == pytest.approx(1024 / 264)
    assert row["wave_efficiency"] == pytest.approx(1024 / (4 * 264))


@pytest.mark.parametrize(
    ("gpu", "dtype", "balance", "bound"),
    [
        ("h200", "fp32", 66.9e3 / 4800, "arithmetic"),
        ("rtx5060", "fp32", 16.6e3 / 384, "memory"),
        ("h200", "bf16", 989e3 / 4800, "memory"),
        ("h200", "e4m3", 2 * 989e3 / 4800, "memory"),
    ],
)
def test_machine_balance(gpu: str, dtype: str, balance: float, bound: str, explained: Any) -> None:
    (row,) = explained(f"tile --gpu {gpu} --dtype {dtype}")
    assert row["machine_balance"] == pytest.approx(balance)
    assert row["bound"] == bound


def test_the_curve_has_every_pair_of_sides(explained: Any) -> None:
    (row,) = explained(ROADMAP)
    curve = {(cell["bm"], cell["bn"]): cell["intensity"] for cell in row["curve"]}
    assert len(curve) == 25
    assert (curve[32, 32], curve[64, 64], curve[128, 128], curve[256, 256]) == (8, 16, 32, 64)
    assert curve[128, 256] == curve[256, 128] == pytest.approx(42.667, abs=1e-3)


def test_a_tile_that_cannot_be_launched_is_told(explained: Any, shown: Any) -> None:
    words = "tile --bm 256 --bn 256 --tm 4 --tn 4"
    (row,) = explained(words)
    assert (row["blocks_per_sm"], row["limiter"], row["waves"]) == (0, "threads", None)
    said = " ".join(shown(words).split())
    assert "it cannot be launched: too many threads (a block has at most 1024)" in said
    assert "it cannot be launched: too much shared memory" in shown("tile --bk 1024")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--bk 64 --stages 2", "more than 49152 B of shared memory a block need the opt-in"),
        ("--bk 24 --dtype bf16", "bk=24 is no multiple of the 16 that one mma of bf16 takes"),
        ("--bm 24 --bn 24", "9 threads leave lanes of the last warp idle"),
        ("--registers 64", "64 accumulators and addresses do not fit registers=64"),
        ("--tm 16 --tn 16", "so many accumulators will be spilled to memory"),
    ],
)
def test_what_a_kernel_has_to_mind(words: str, said: str, explained: Any, shown: Any) -> None:
    (row,) = explained(f"tile {words}")
    assert any(note.startswith(said) for note in row["notes"]), row["notes"]
    assert said in " ".join(shown(f"tile {words}").split())


def test_steps_along_k(explained: Any, shown: Any) -> None:
    (row,) = explained("tile -k 100 --bk 8")
    assert (row["steps"], row["notes"]) == (13, [])
    assert "13 of 8, the last of 4\n" in shown("tile -k 100 --bk 8")


def test_what_is_estimated_says_so(shown: Any) -> None:
    assert "about 112 a thread (a guess;" in shown(ROADMAP)
    assert "registers        128 a thread\n" in shown(f"{ROADMAP} --registers 128")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--bm 0", "bm=0 must be 1..65536."),
        ("--bm -128", "bm=-128 must be 1..65536."),
        ("--tm 7", "tm=7 must divide bm=128, and tn=8 must divide bn=128."),
        ("--dtype fp61", "dtype='fp61' is not known; did you mean fp16?"),
        ("--dtype int4", "dtype='int4' is not known; use fp32, tf32, bf16, fp16, e5m2, e4m3."),
        ("--gpu a100 --dtype e4m3", "dtype=e4m3: NVIDIA A100 SXM 40GB (sm_80) has no 8-bit "
         "floats."),
        ("--stages 0", "stages=0 must be 1..65536."),
        ("--registers 256", "registers=256 must be 1..255."),
        ("-m 0", "m=0 must be 1..2147483648."),
        ("--gpu h20", "gpu='h20' is not in the table; did you mean h200?"),
        ("--bm 12.5", "Invalid value for --bm: '12.5' is not a whole number."),
    ],
)  # fmt: skip
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"tile {words}") == said

"""`tilewright explain waves`, `raster` and `roofline`: figures by hand, and the pictures."""

from __future__ import annotations

from typing import Any

import pytest


def test_waves_of_the_rungs_on_an_h200(explained: Any, shown: Any) -> None:
    row, *others = explained("waves")
    assert (row["bm"], row["bn"], row["blocks"], row["blocks_per_wave"]) == (128, 128, 1024, 264)
    assert (row["full_waves"], row["tail_blocks"]) == (3, 232)
    assert row["efficiency"] == pytest.approx(1024 / 1056)
    assert len(others) == 5
    said = shown("waves")
    assert "wave 3   ███████████████████████████████████████████████······· 232\n" in said
    assert "3.88 waves take the time of 4; in the last one 32 of 264 places stay empty" in said


def test_a_grid_without_a_tail(explained: Any, shown: Any) -> None:
    words = "waves -m 1408 -n 1536 --gpu h200 --blocks-per-sm 1"  # 11 · 12 tiles, 132 SMs
    row = explained(words)[0]
    assert (row["waves"], row["tail_blocks"], row["efficiency"]) == (1, 0, 1)
    assert "1 whole wave, no tail" in shown(words)


def test_many_waves_are_cut_in_the_middle(shown: Any) -> None:
    lines = shown("waves -m 16384 -n 16384").splitlines()
    bars = [line for line in lines if line.startswith(("wave", "     …"))]
    assert len(bars) == 12
    assert bars[-2] == "     …"
    assert bars[-1].startswith("wave 62  ")


def test_the_largest_problem_is_no_trouble(explained: Any) -> None:
    row = explained("waves -m 2147483648 -n 2147483648")[0]
    assert row["blocks"] == 2**48


def test_the_articles_panels_pay_on_its_gpu(explained: Any) -> None:
    """32 x 32 tiles, 52 at a time: rows are 2 + 32 of them, panels of 8 columns 7 + 8."""
    rows, panels = explained("raster --gpu rtx5060 --order rows --order panels:8")
    first = rows["per_wave"][0]
    assert (first["blocks"], first["rows"], first["columns"]) == (52, 2, 32)
    assert first["bytes"] == (2 + 32) * 128 * 4096 * 2
    first = panels["per_wave"][0]
    assert (first["rows"], first["columns"]) == (7, 8)
    assert rows["read_bytes"] == panels["read_bytes"] == 1024 * 2 * 128 * 4096 * 2
    assert rows["least_bytes"] == 2 * 4096 * 4096 * 2
    assert rows["unique_bytes"] == sum(wave["bytes"] for wave in rows["per_wave"])
    assert panels["shared"] == 1 - panels["unique_bytes"] / panels["read_bytes"]
    assert rows["unique_bytes"] / panels["unique_bytes"] == pytest.approx(2.17, abs=0.01)


def test_tiles_at_the_edge_count_what_they_hold(explained: Any) -> None:
    (row,) = explained("raster -m 130 -n 200 -k 10 --dtype fp32 --order columns")
    assert (row["tiles_m"], row["tiles_n"], row["waves"]) == (2, 2, 1)
    assert row["unique_bytes"] == row["least_bytes"] == 4 * 10 * (130 + 200)


def test_the_maps(shown: Any) -> None:
    said = shown("raster --gpu rtx5060 --order groups:4 --order columns -m 1024 -n 2048")
    lines = said.splitlines()
    at = lines.index("groups:4           columns")
    assert lines[at + 1].startswith("█████████████▒▒▒")
    assert lines[at + 5].startswith("▒▒▒▒▒▒▒▒▒▒")
    assert "reads least" in said


def test_a_roofline(explained: Any, shown: Any) -> None:
    a, b, c = explained("roofline")
    assert (a["intensity"], b["intensity"]) == (0.5, 64)
    assert c["intensity"] == pytest.approx(4096 / 3)
    assert a["attainable_tflops"] == pytest.approx(2.4)
    assert (a["bound"], b["bound"], c["bound"]) == ("memory", "memory", "arithmetic")
    assert c["us"] == pytest.approx(2 * 4096**3 / 989e6)
    assert a["machine_balance"] == pytest.approx(989e3 / 4800)
    assert "balance 989 TFLOP/s ÷ 4,800 GB/s = 206.0 FLOP/B" in shown("roofline")


def test_a_measured_time_lies_under_the_roof(explained: Any, shown: Any) -> None:
    words = "roofline -m 128 -n 4096 -k 4096 --us 14.1"
    measured = explained(words)[-1]
    assert measured["tflops"] == pytest.approx(304.6, abs=0.1)
    assert measured["share_of_roof"] == pytest.approx(0.527, abs=0.001)
    assert "x  measured, 14.1 µs: 304.6 TFLOP/s, 53% of its roof" in shown(words)


def test_a_time_above_the_roof_is_doubted(shown: Any) -> None:
    said = " ".join(shown("roofline --us 20").split())
    assert "695% of its roof; no kernel can do more than the GPU" in said
    said = " ".join(shown("roofline -m 128 --us 5").split())
    assert "149% of its roof; DRAM does not give so much" in said


def test_tiles_that_reach_beyond_c_bring_only_what_is_there(explained: Any) -> None:
    a, b, c = explained("roofline -m 1 -n 1 -k 64")
    assert b["intensity"] == a["intensity"] == 0.5  # each element serves one product
    assert b["us"] < c["us"]  # which also writes C
    _, b, _ = explained("roofline -m 100 -n 300 -k 64 --dtype fp32")
    assert b["intensity"] == 2 * 100 * 300 / (4 * (3 * 100 + 300))


def test_few_and_many_blocks_are_told_in_columns(shown: Any) -> None:
    said = shown("waves -m 1 -n 1")
    assert said.startswith("1 tile of 128×128 for 1×1")
    assert "<0.01 waves take the time of 1" in said
    lines = shown(f"waves -m {2**31} -n {2**31} --bm 1 --bn 1").splitlines()
    assert any(
        line.startswith("64×64     1,125,899,906,842,624 4,264,772,374,403.88") for line in lines
    )


def test_an_order_that_is_named_twice_is_shown_once(explained: Any) -> None:
    assert [row["order"] for row in explained("raster --order rows --order rows")] == ["rows"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("waves --blocks-per-sm 0", "blocks_per_sm=0 must be 1..32 on NVIDIA H200;"),
        ("waves --blocks-per-sm 17 --gpu rtx3080", "blocks_per_sm=17 must be 1..16 on GeForce RTX"),
        ("raster --blocks-per-sm 25 --gpu rtx5060", "blocks_per_sm=25 must be 1..24 on GeForce"),
        ("waves --bm 0", "bm=0 must be 1..2147483648."),
        ("raster --order zigzag", "order='zigzag' must be rows, columns, panels:W,"),
        ("raster --order rows:8", "order='rows:8' must be rows, columns, panels:W,"),
        ("raster --order panels:0", "order='panels:0': its width must be positive."),
        ("raster -m 1000000 -n 1000000", "61,042,969 tiles of 128 by 128 are more than the"),
        ("roofline --us 0", "us=0 must be 1e-06..1e+12 microseconds."),
        ("roofline --us nan", "us=nan must be 1e-06..1e+12 microseconds."),
        ("roofline --us 1e-300", "us=1e-300 must be 1e-06..1e+12 microseconds."),
        ("roofline --gpu rtx3090 --dtype e5m2", "dtype=e5m2: GeForce RTX 3090 (sm_86) has no"),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(words).startswith(said)

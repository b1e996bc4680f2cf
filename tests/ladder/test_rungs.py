"""The table, and what every rung's file promises to a reader."""

from __future__ import annotations

import re
from difflib import unified_diff
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from tilewright.dtypes import BF16, DTYPES, FP16, FP32
from tilewright.errors import InputError
from tilewright.ladder.rungs import FAMILIES, RUNGS, Rung, Tile, select
from tilewright.problem import Problem

BUDGET = 40  # changed lines between neighbours, − and + both counted
BANNERS = ("Tile", "Smem", "Who am I", "Barriers", "Main loop", "Epilogue")
PACKAGE = Path(str(files("tilewright")))


def code(text: str) -> list[str]:
    """The lines without comments, blank ones and indentation."""
    bare = (re.sub(r"\s+", " ", line.split("//")[0]).strip() for line in text.splitlines())
    return [line for line in bare if line]


def changed(before: str, after: str) -> list[str]:
    diff = unified_diff(code(before), code(after), n=0, lineterm="")
    return [line for line in diff if line[0] in "+-" and line[:3] not in ("+++", "---")]


def neighbours() -> list[tuple[Rung, Rung]]:
    return [pair for family in FAMILIES for pair in pairwise(select(family))]


@pytest.mark.parametrize("pair", neighbours(), ids=lambda pair: pair[1].name)
def test_one_idea_a_rung(pair: tuple[Rung, Rung]) -> None:
    """The last, tuned rung of a family may change all at once."""
    before, after = pair
    tuned = after.name.endswith("_best") and after == select(after.family)[-1]
    assert len(changed(before.text, after.text)) > 0
    assert tuned or len(changed(before.text, after.text)) <= BUDGET


@pytest.mark.parametrize("rung", RUNGS.values(), ids=lambda rung: rung.name)
def test_the_header_tells_the_idea(rung: Rung) -> None:
    lines = rung.text.splitlines()
    assert lines[0].startswith(f"// {rung.name}: ")
    assert rung.idea.endswith(".")
    words = [line[3:12].strip() for line in lines if re.match(r"// [A-Z]\w+ {2,}\S", line)]
    assert words == ["Idea", "Expect", "Found", "Next"]


@pytest.mark.parametrize("rung", RUNGS.values(), ids=lambda rung: rung.name)
def test_banners_in_order(rung: Rung) -> None:
    found = re.findall(r"// --- ([\w ]+?) -+$", rung.text, re.M)
    assert found == [banner for banner in BANNERS if banner in found]
    assert {"Tile", "Who am I", "Main loop", "Epilogue"} <= set(found)
    assert ("Smem" in found) == (rung.buffers > 0)


@pytest.mark.parametrize("rung", RUNGS.values(), ids=lambda rung: rung.name)
def test_the_file_carries_number_and_name(rung: Rung) -> None:
    assert re.fullmatch(rf"{rung.family}/\d\d_{rung.name}\.cu", rung.file)
    assert 'extern "C" __global__' in rung.text


def test_every_file_is_in_the_table() -> None:
    there = {
        str(path.relative_to(PACKAGE / "ladder")) for path in (PACKAGE / "ladder").rglob("*.cu")
    }
    assert there == {rung.file for rung in RUNGS.values()}


def test_asm_only_in_ptx_wrappers() -> None:
    for path in (*PACKAGE.rglob("*.cu"), *PACKAGE.rglob("*.cuh")):
        if path.parent.name != "ptx":
            assert not re.search(r"\basm\b", path.read_text()), path


def test_wrappers_are_short_and_name_their_section() -> None:
    for path in (PACKAGE / "cuda" / "ptx").iterdir():
        text = path.read_text()
        assert "PTX ISA" in text, path
        for body in re.findall(r"__forceinline__[^{;]*\{\n(.*?)\n\}", text, re.S):
            assert len(body.splitlines()) <= 8, body
            assert body.count("asm") <= 1, body


def test_device_code_needs_no_system_header() -> None:
    for path in (*PACKAGE.rglob("*.cu"), *PACKAGE.rglob("*.cuh")):
        for name in re.findall(r"#include\s+(\S+)", path.read_text()):
            assert re.fullmatch(r'"(ptx|tile)/\w+\.cuh"', name), f"{path}: {name}"


def test_defines_name_the_fields() -> None:
    assert Tile(64, 128, 32).defines() == {"BM": "64", "BN": "128", "BK": "32"}
    assert Tile(64, 128, 32, 8, 4).defines() == {
        "BM": "64", "BN": "128", "BK": "32", "TM": "8", "TN": "4",
    }  # fmt: skip
    defines = dict(RUNGS["hgemm_bcf_dbf"].defines(FP16))
    assert defines["ELEMENT"] == "fp16"
    assert defines["SMEM_BYTES"] == str(2 * (128 * 32 + 32 * 128) * 2)


def test_c_fits_exactly_where_a_and_b_were() -> None:
    rung = RUNGS["hgemm_bcf_dbf_rw"]
    assert rung.shared_bytes(BF16) == rung.tile.bm * rung.tile.bn * 2


@pytest.mark.parametrize(
    ("m", "n", "k", "said"),
    [
        (
            100,
            256,
            64,
            "m=100 is not a multiple of 128, as hgemm_bcf needs; the nearest accepted "
            "value is 128.",
        ),
        (
            128,
            200,
            64,
            "n=200 is not a multiple of 128, as hgemm_bcf needs; the nearest accepted "
            "value is 256.",
        ),
        (
            128,
            256,
            1,
            "k=1 is not a multiple of 32, as hgemm_bcf needs; the nearest accepted value is 32.",
        ),
        (
            128,
            256,
            47,
            "k=47 is not a multiple of 32, as hgemm_bcf needs; the nearest accepted value is 32.",
        ),
    ],
)
def test_refusals_name_the_nearest_value(m: int, n: int, k: int, said: str) -> None:
    assert RUNGS["hgemm_bcf"].refusal(Problem(m, n, k, BF16)) == said


def test_refusal_of_a_type() -> None:
    said = RUNGS["hgemm_bcf"].refusal(Problem(128, 256, 64, FP32))
    assert said == "hgemm_bcf takes bf16 or fp16, not fp32."


def test_takes_what_fits() -> None:
    assert RUNGS["hgemm_naive"].refusal(Problem(128, 256, 32, BF16)) is None


def test_a_tile_may_be_cut_where_the_table_says_so() -> None:
    best = RUNGS["sgemm_best"]
    assert best.refusal(Problem(128, 384, 64, FP32)) is None
    assert best.grid(Problem(256, 384, 64, FP32)) == (4, 1, 1)
    assert best.grid(Problem(256, 512, 64, FP32)) == (4, 1, 1)
    said = best.refusal(Problem(128, 192, 64, FP32))
    assert said == (
        "n=192 is not a multiple of 128, as sgemm_best needs; the nearest accepted value is 256."
    )


@pytest.mark.parametrize("rung", RUNGS.values(), ids=lambda rung: rung.name)
def test_every_rung_takes_the_shapes_of_the_contract(rung: Rung) -> None:
    """M and N in multiples of 128, K of 64."""
    for m, n, k in ((128, 128, 64), (128, 384, 192), (384, 128, 320)):
        for name in rung.dtypes:
            assert rung.refusal(Problem(m, n, k, DTYPES[name])) is None


def test_the_threads_of_a_rung_with_thread_tiles_cover_its_block() -> None:
    for rung in RUNGS.values():
        tile = rung.tile
        if tile.tm and tile.tn:
            assert rung.threads * tile.tm * tile.tn == tile.bm * tile.bn


def test_the_grid_never_meets_a_limit() -> None:
    """Tiles lie along x: 8,388,480 rows and more would break the 65,535 of y (OVF-06)."""
    tall = Problem(128 * 70_000, 128, 32, BF16)
    assert RUNGS["hgemm_naive"].grid(tall) == (70_000, 1, 1)


def test_select() -> None:
    names = [rung.name for rung in select("hgemm")]
    assert names == ["hgemm_naive", "hgemm_bcf", "hgemm_bcf_dbf", "hgemm_bcf_dbf_rw"]
    assert [rung.name for rung in select(None, ("hgemm_bcf", "hgemm_naive"))] == names[:2]
    with pytest.raises(InputError, match=r"family='hgem' is not known; did you mean hgemm\?"):
        select("hgem")
    with pytest.raises(InputError, match=r"rung='hgemm_bfc' is not known; did you mean hgemm_bcf"):
        select(None, ("hgemm_bfc",))
    with pytest.raises(InputError, match="rung='x' is not known; tilewright ladder --list"):
        select(None, ("x",))

"""The table, and what every rung's file promises to a reader."""

from __future__ import annotations

import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest

from tilewright.dtypes import BF16, DTYPES, FP16, FP32
from tilewright.errors import InputError
from tilewright.gpus import GPUS
from tilewright.ladder.rung import Rung
from tilewright.ladder.rung_text import DIFF_BUDGET, changed_lines
from tilewright.ladder.rungs import (
    FAMILIES,
    KERNELS,
    RUNGS,
    KernelRung,
    Tile,
    select,
    select_kernels,
)
from tilewright.model.raster import Grid, order_named, wave_reads
from tilewright.problem import Problem

BANNERS = ("Tile", "Smem", "Who am I", "Barriers", "Main loop", "Epilogue")
PACKAGE = Path(str(files("tilewright")))


def neighbours() -> list[tuple[Rung, Rung]]:
    return [pair for family in FAMILIES for pair in pairwise(select(family))]


def tuned(rung: Rung) -> bool:
    """A family's last rung, which puts together what paid, has no budget."""
    return rung.name == f"{rung.name.split('_')[0]}_best" and rung == select(rung.family)[-1]


@pytest.mark.parametrize(
    "pair", [p for p in neighbours() if not tuned(p[1])], ids=lambda pair: pair[1].name
)
def test_one_idea_a_rung(pair: tuple[Rung, Rung]) -> None:
    """The last, tuned rung of a family may change all at once."""
    before, after = pair
    tuned = after.name.endswith("_best") and after == select(after.family)[-1]
    assert len(changed_lines(before.text, after.text)) > 0
    assert tuned or len(changed_lines(before.text, after.text)) <= DIFF_BUDGET


@pytest.mark.parametrize("rung", RUNGS.values(), ids=lambda rung: rung.name)
def test_the_header_tells_the_idea(rung: Rung) -> None:
    lines = rung.text.splitlines()
    mark = "//" if isinstance(rung, KernelRung) else "#"
    assert lines[0].startswith(f"{mark} {rung.name}: ")
    assert rung.idea.endswith(".")
    words = [line.split()[1] for line in lines if re.match(rf"{mark} [A-Z]\w+ {{2,}}\S", line)]
    assert words == ["Idea", "Expect", "Found", "Next"]


@pytest.mark.parametrize("rung", KERNELS.values(), ids=lambda rung: rung.name)
def test_banners_in_order(rung: KernelRung) -> None:
    found = re.findall(r"// --- ([\w ]+?) -+$", rung.text, re.M)
    assert found == [banner for banner in BANNERS if banner in found]
    assert {"Tile", "Who am I", "Main loop", "Epilogue"} <= set(found)
    assert ("Smem" in found) == (rung.buffers > 0)


@pytest.mark.parametrize("rung", RUNGS.values(), ids=lambda rung: rung.name)
def test_the_file_carries_number_and_name(rung: Rung) -> None:
    ending, function = (
        ("cu", 'extern "C" __global__')
        if isinstance(rung, KernelRung)
        else ("py", "\ndef gemm(a: ")
    )
    assert re.fullmatch(rf"{rung.family}/\d\d_{rung.name}\.{ending}", rung.file)
    assert function in rung.text


def test_every_file_is_in_the_table() -> None:
    there = {
        str(path.relative_to(PACKAGE / "ladder"))
        for path in (PACKAGE / "ladder").glob("*/*")
        if path.suffix in (".cu", ".py")
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
    defines = dict(KERNELS["hgemm_bcf_dbf"].defines(FP16))
    assert defines["ELEMENT"] == "fp16"
    assert defines["SMEM_BYTES"] == str(2 * (128 * 32 + 32 * 128) * 2)


def test_c_fits_exactly_where_a_and_b_were() -> None:
    rung = KERNELS["hgemm_bcf_dbf_rw"]
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
    assert KERNELS["hgemm_bcf"].refusal(Problem(m, n, k, BF16)) == said


def test_half_a_tile_is_taken() -> None:
    """256 rows a tile, and every hgemm rung takes m and n in multiples of 128, k of 64."""
    for rung in select_kernels("hgemm"):
        for m in (128, 256, 384, 640):
            assert rung.refusal(Problem(m, 128, 64, BF16)) is None
    best = KERNELS["hgemm_best"]
    assert best.tiles(Problem(384, 256, 64, BF16)) == 4
    said = best.refusal(Problem(192, 128, 64, BF16))
    assert said is not None
    assert said.startswith("m=192 is not a multiple of 128, as hgemm_best needs;")


def test_a_gpu_with_too_little_shared_memory_is_refused() -> None:
    """99 KiB a block, as sm_86, sm_89 and sm_120 have: enough for all but the last."""
    problem, small = Problem(256, 256, 64, BF16), GPUS["rtx5060"].shared_bytes_per_block
    refused = [rung.name for rung in select_kernels("hgemm") if rung.refusal(problem, small)]
    assert refused == ["hgemm_best"]
    assert KERNELS["hgemm_best"].refusal(problem, small) == (
        "hgemm_best needs 163840 bytes of shared memory a block, and this GPU gives 101376; "
        "an A100, H100 or H200 has enough."
    )
    for name in ("a100", "h100", "h200"):
        assert KERNELS["hgemm_best"].refusal(problem, GPUS[name].shared_bytes_per_block) is None


def test_a_persistent_rung_has_a_block_a_multiprocessor() -> None:
    best, large = KERNELS["hgemm_best"], Problem(4096, 4096, 64, BF16)
    assert best.tiles(large) == 512
    assert best.grid(large, sms=132) == (132, 1, 1)
    assert best.grid(large) == (512, 1, 1)
    assert best.grid(Problem(128, 256, 64, BF16), sms=132) == (2, 1, 1)
    assert KERNELS["hgemm_w64"].grid(large, sms=132) == (1024, 1, 1)


@pytest.mark.parametrize("rung", select_kernels("hgemm"), ids=lambda rung: rung.name)
def test_the_table_says_the_order_of_the_blocks(rung: KernelRung) -> None:
    widths = set(re.findall(r"tile::raster<(\d+)>", rung.text))
    assert {rung.order} == ({f"panels:{width}" for width in widths} or {"rows"})


def test_what_the_block_orders_read() -> None:
    """The megabytes that hgemm_raster's header tells, of 264 blocks at a time."""
    for size, expected in ((4096, (163, 181, 146)), (8192, (2204, 1392, 1136))):
        grid = Grid(size, size, size, 128, 128, 2)
        for order, mib in zip(("rows", "panels:8", "panels:16"), expected, strict=True):
            waves = wave_reads(order_named(order), grid, 2 * GPUS["h200"].sms)
            assert sum(wave.bytes for wave in waves) == mib << 20
            assert str(mib) in KERNELS["hgemm_raster"].text


def test_refusal_of_a_type() -> None:
    said = KERNELS["hgemm_bcf"].refusal(Problem(128, 256, 64, FP32))
    assert said == "hgemm_bcf takes bf16 or fp16, not fp32."


def test_takes_what_fits() -> None:
    assert KERNELS["hgemm_naive"].refusal(Problem(128, 256, 32, BF16)) is None


def test_a_tile_may_be_cut_where_the_table_says_so() -> None:
    best = KERNELS["sgemm_best"]
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
    for rung in KERNELS.values():
        tile = rung.tile
        if tile.tm and tile.tn:
            assert rung.threads * tile.tm * tile.tn == tile.bm * tile.bn


def test_the_grid_never_meets_a_limit() -> None:
    """Tiles lie along x: 8,388,480 rows and more would break the 65,535 of y (OVF-06)."""
    tall = Problem(128 * 70_000, 128, 32, BF16)
    assert KERNELS["hgemm_naive"].grid(tall) == (70_000, 1, 1)


def test_select() -> None:
    names = [rung.name for rung in select_kernels("hgemm")]
    assert names == [
        "hgemm_naive", "hgemm_bcf", "hgemm_bcf_dbf", "hgemm_bcf_dbf_rw",
        "hgemm_raster", "hgemm_k_stages", "hgemm_bk64", "hgemm_w64", "hgemm_best",
    ]  # fmt: skip
    assert [rung.name for rung in select(None, ("hgemm_bcf", "hgemm_naive"))] == names[:2]
    with pytest.raises(InputError, match=r"family='hgem' is not known; did you mean hgemm\?"):
        select("hgem")
    with pytest.raises(InputError, match=r"rung='hgemm_bfc' is not known; did you mean hgemm_bcf"):
        select(None, ("hgemm_bfc",))
    with pytest.raises(InputError, match="rung='x' is not known; tilewright ladder --list"):
        select(None, ("x",))


def test_select_kernels_gives_kernels() -> None:
    assert [rung.tile.bk for rung in select_kernels(None, ("hgemm_bk64", "hgemm_bcf"))] == [32, 64]
    with pytest.raises(InputError, match="rung='hgemm_bfc' is not known"):
        select_kernels(None, ("hgemm_bfc",))
    with pytest.raises(InputError, match=r"cpu_blas is a function in Python: .* as hgemm_naive\."):
        select_kernels(None, ("cpu_blas",))

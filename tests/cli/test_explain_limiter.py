"""`tilewright explain limiter`: what binds, what it says of it, and a page that is fresh."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.bench.rung_limits import Limited, limited
from tilewright.errors import UnsupportedError
from tilewright.ladder.rungs import KernelRung, select

pytestmark = pytest.mark.usefixtures("compiler", "blocks_counted_once")

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "measurements"


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("limiter_table")


def test_the_page_is_fresh(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0, "run scripts/limiter_table.py"


def test_a_stale_page_is_told(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(script.PAGE.read_text(encoding="utf-8").replace("**1215**", "**1**", 1))
    monkeypatch.setattr(script, "PAGE", page)
    assert script.main(["--check"]) == 1
    assert script.main([]) == script.main(["--check"]) == 0


def test_what_binds_the_first_rungs(explained: Any, shown: Any) -> None:
    words = f"limiter --measured {MEASURED}/h200-hgemm.jsonl"
    rows = {row["rung"]: row for row in explained(words)}
    bound = {name: row["binding"] for name, row in rows.items()}
    of_mma = {"hgemm_w64", "hgemm_best"}  # whose warps read less for each product
    assert bound == {name: "tensor" if name in of_mma else "shared" for name in rows}
    naive, bcf, dbf = (rows[f"hgemm_{name}"] for name in ("naive", "bcf", "bcf_dbf"))
    # 2240 and 576 wavefronts a K step: 1024 blocks of 128 steps over 132 SMs of 1.83 GHz
    for row, wavefronts in ((naive, 2240), (bcf, 576), (dbf, 576)):
        assert row["shared_us"] == pytest.approx(1024 * 128 * wavefronts / 132 / 1830)
    assert bcf["latency_us"] > 100 * dbf["latency_us"]
    assert naive["fma_us"] == 0
    assert naive["measured_us"] is not None
    assert naive["taken"].startswith("2026-")
    said = " ".join(shown(words).split())
    by_model = f"all together {naive['predicted_us']:,.1f} µs by the model"
    assert f"bound by shared-memory wavefronts; {by_model}" in said


def test_without_measurements_nothing_is_compared(explained: Any) -> None:
    (row,) = explained("limiter hgemm_bcf -m 1024 -n 1024 -k 1024")
    assert (row["measured_us"], row["error"], row["taken"]) == (None, None, None)
    assert row["rates_measured"] is True


def test_another_chip_is_labelled(explained: Any, shown: Any) -> None:
    (row,) = explained("limiter hgemm_bcf --gpu rtx5060")
    assert (row["binding"], row["rates_measured"]) == ("tensor", False)
    assert "for sm_120 they are assumed." in " ".join(
        shown("limiter hgemm_bcf --gpu rtx5060").split()
    )


def test_a_gpu_with_too_little_shared_memory_is_told(shown: Any) -> None:
    said = " ".join(shown("limiter hgemm --gpu rtx5060").split())
    assert "hgemm_best: hgemm_best needs 163840 bytes of shared memory a block" in said
    assert "hgemm_w64 1 block" in said


def test_a_rung_that_the_emulator_cannot_run_is_left_out_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, explained: Any, shown: Any
) -> None:
    def without_naive(rung: KernelRung, *others: Any) -> Limited:
        if rung.name == "hgemm_naive":
            raise UnsupportedError("wgmma is not modelled.")
        return limited(rung, *others)

    monkeypatch.setattr("tilewright.bench.rung_limits.limited", without_naive)
    names = [row["rung"] for row in explained("limiter")]
    assert names == [rung.name for rung in select("hgemm") if rung.name != "hgemm_naive"]
    assert "\nhgemm_naive: wgmma is not modelled.\n" in shown("limiter")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("hgemm_bfc", "rung='hgemm_bfc' is not known; did you mean hgemm_bcf?"),
        ("hgemm -m 100", "m=100 is not a multiple of 128, as hgemm_naive needs; the nearest"),
        ("--measured /nowhere.jsonl", "/nowhere.jsonl cannot be read:"),
        ("--measured /dev", "measured='/dev' holds no measurements; name a .jsonl file."),
        ("--gpu b200", "gpu='b200' is not in the table; did you mean h200?"),
        ("cpu_blas", "cpu_blas is a function in Python: it has no tile, threads and shared "),
        ("cpu", "cpu_loops is a function in Python: it has no tile, threads and shared "),
        ("--layout nt", "hgemm_naive takes A and B row-major (nn), not nt."),
        ("hopper_best --layout tn", "hopper_best takes nn or nt, not tn."),
        ("hopper_best --gpu a100", "hopper_best uses TMA and wgmma of an H100 or H200"),
        ("--dtype fp32", "hgemm_naive takes bf16 or fp16, not fp32."),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"limiter {words}").startswith(said)


def test_kernels_of_fmas_are_played_through(explained: Any, shown: Any) -> None:
    rows = {row["rung"]: row for row in explained("limiter simt")}
    assert {row["model"] for row in rows.values()} == {"machine code"}
    bound = {name: row["binding"] for name, row in rows.items()}
    assert bound["sgemm_naive"] == bound["sgemm_coalesced"] == "l1"
    assert bound["sgemm_shared"] == bound["sgemm_tiling"] == "shared"
    assert bound["sgemm_best"] == "issue"
    assert rows["sgemm_best"]["fma_us"] == pytest.approx(2 * 4096**3 / 66.9e6)
    said = " ".join(shown("limiter sgemm_best").split())
    assert "µs by the model of its machine code" in said
    assert {row["model"] for row in explained("limiter hgemm_bcf")} == {"queues"}


def test_pipes_run_by_themselves_at_the_clock_that_was_measured(explained: Any, shown: Any) -> None:
    words = f"limiter hopper_best --layout nt --measured {MEASURED}/h200-hopper.jsonl"
    (row,) = explained(words)
    assert (row["model"], row["layout"], row["binding"]) == ("pipes", "nt", "tensor")
    assert row["sm_mhz"] < 1600  # at the power cap
    assert "4096×4096×4096 nt bf16 on NVIDIA H200" in shown(words)
    said = f"by the model of its pipes at {row['sm_mhz']:,.0f} MHz, {row['measured_us']:,.1f} µs"
    assert said in " ".join(shown(words).split())
    (alone,) = explained("limiter hopper_best --gpu h100")
    assert (alone["sm_mhz"], alone["measured_us"]) == (1830, None)

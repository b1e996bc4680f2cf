"""Climbing in Python: what a notebook gets."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import tilewright
from tilewright.bench import host_rungs
from tilewright.bench.ladder import Ladder, climb
from tilewright.bench.meaning import meaning
from tilewright.emulator.report import Report
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.ladder.rungs import FAMILIES, KERNELS, RUNGS, select

pytestmark = pytest.mark.usefixtures("compiler")


@pytest.fixture(scope="module")
def ladder(compiler: str) -> Ladder:
    return climb(m=128, n=256, k=64, engine="emulator")


def test_the_public_name_is_the_function_and_the_folder() -> None:
    result = tilewright.ladder(m=128, n=256, k=32, engine="emulator", rungs=["hgemm_bcf"])
    assert [row.name for row in result] == ["hgemm_bcf"]
    assert tilewright.ladder.rungs.RUNGS is RUNGS  # type: ignore[attr-defined]


def test_rows_and_reports(ladder: Ladder) -> None:
    assert ladder.correct
    assert [row.name for row in ladder] == list(ladder.reports)
    assert ladder.to_dicts()[0]["name"] == "hgemm_naive"


def test_in_a_notebook(ladder: Ladder) -> None:
    html = ladder._repr_html_()
    assert html.startswith("<pre>")
    assert "hgemm_bcf_dbf_rw" in html
    assert "bank conflicts" in html


def test_what_the_counts_mean(ladder: Ladder) -> None:
    naive, bcf, dbf, rw, raster, stages, bk64, w64, *_ = (
        ladder.reports[rung.name] for rung in select("hgemm")
    )
    said = meaning(naive, None)
    assert said[0] == "4-way bank conflicts on ldmatrix.x4, 8-way on ldmatrix.x2.trans"
    assert "stores fill 50% of each sector" in said
    assert meaning(bcf, naive) == ["ldmatrix wavefronts ÷\u00a05.33", "no bank conflicts"]
    assert meaning(dbf, bcf) == ["barriers ÷\u00a02"]
    assert {"stores fill whole sectors", "store sectors ÷\u00a02"} <= set(meaning(rw, dbf))
    assert meaning(bcf, bcf) == meaning(raster, rw) == meaning(stages, raster) == []
    assert "cp.async wavefronts ÷\u00a01.5" in meaning(bk64, stages)
    assert "ldmatrix wavefronts ÷\u00a01.5" in meaning(w64, bk64)


def test_what_the_counts_of_fp32_mean() -> None:
    found = climb("simt", m=128, n=128, k=32, engine="emulator").reports
    said = {
        name: meaning(found[name], found[before])
        for before, name in pairwise(rung.name for rung in select("simt"))
    }
    assert "load sectors ÷\u00a06.6" in said["sgemm_coalesced"]
    assert said["sgemm_shared"] == ["load sectors ÷\u00a020"]  # no barriers to compare with
    assert "load and store wavefronts ÷\u00a07.69" in said["sgemm_register"]
    assert said["sgemm_at_tiling"] == ["4-way bank conflicts on stores"]  # and those of before
    assert said["sgemm_at_bcf_swizzling"] == ["no more bank conflicts on stores"]
    assert "no bank conflicts" in said["sgemm_at_bcf_swizzling_rw"]
    assert "stores fill 12.5% of each sector" in meaning(found["sgemm_naive"], None)


def test_each_family_has_a_type_of_its_own() -> None:
    """fp32 needs not be asked for; all families together are a ladder of parts."""
    assert {row.dtype for row in climb("simt", m=128, n=128, k=32, engine="emulator")} == {"fp32"}
    told: list[tuple[str, int, int]] = []
    every = climb(
        m=128, n=128, k=64, engine="emulator", every_family=True,
        progress=lambda *step: told.append(step),
    )  # fmt: skip
    assert every.correct
    assert [row.name for row in every] == list(RUNGS)
    assert list(every.reports) == list(KERNELS)
    assert [row.dtype for row in every] == [rung.dtypes[0] for rung in RUNGS.values()]
    assert len(every.parts) == len({(row.dtype, row.engine) for row in every})
    shares = [done / total for _, done, total in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    text = str(every)
    assert "128×128×64 bf16 on PTX" in text
    assert "128×128×64 fp32 on PTX" in text
    assert f"128×128×64 fp32 on {host_rungs.title()}" in " ".join(text.split())
    assert "Against hgemm_bcf_dbf_rw" not in text
    assert text.count("Counts, not times") == 1


def test_one_type_for_all_families_leaves_out_the_others() -> None:
    every = climb(m=128, n=128, k=64, dtype="fp16", engine="emulator", every_family=True)
    assert len(every.parts) == len({row.engine for row in every})
    reasons = {row.family: row.reason for row in every}
    assert reasons.keys() == set(FAMILIES)
    assert reasons["hgemm"] is None
    assert reasons["cpu"] is None
    assert (reasons["simt"] or "").endswith("takes fp32, not fp16.")


def test_as_text(ladder: Ladder) -> None:
    text = str(ladder)
    assert text.startswith("C = A·B, 128×256×64 bf16 on PTX emulator")
    assert "Against hgemm_naive: ldmatrix wavefronts" in text
    assert not any(line.endswith(" ") for line in text.splitlines())


def test_rows_by_name(ladder: Ladder) -> None:
    assert len(ladder) == len(select("hgemm"))
    assert ladder["hgemm_bcf"].bank_conflicts == 0
    with pytest.raises(KeyError):
        ladder["hgemm"]


def test_what_a_notebook_may_pass() -> None:
    """One name, NumPy's types, whole numbers of any kind."""
    (row,) = climb(m=np.int64(128), n=256, k=32, dtype=np.float16, rungs="hgemm_bcf",
                   engine="emulator")  # fmt: skip
    assert (row.dtype, row.m) == ("fp16", 128)
    for bad in (128.0, "128"):
        with pytest.raises(InputError, match=r"m=.* must be a whole number"):
            climb(m=bad, n=256, k=32, engine="emulator")  # type: ignore[arg-type]


def test_a_rung_that_refuses_is_a_skipped_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a named rung, or all of them refusing, is an error."""
    refuse = "no."
    original = type(RUNGS["hgemm_bcf"]).refusal
    monkeypatch.setattr(
        "tilewright.ladder.kernel_rung.KernelRung.refusal",
        lambda self, *asked: refuse if self.name == "hgemm_bcf" else original(self, *asked),
    )
    rows = {row.name: row for row in climb(m=128, n=256, k=32, engine="emulator")}
    assert (rows["hgemm_bcf"].status, rows["hgemm_bcf"].reason) == ("skipped", refuse)
    assert rows["hgemm_bcf"].correct is None
    assert rows["hgemm_naive"].correct is True
    with pytest.raises(InputError, match="no"):
        climb(m=128, n=256, k=32, engine="emulator", rungs=["hgemm_bcf"])


def test_a_layout_says_how_the_operands_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that reads B as [N, K] is right for nt, and wrong for nn."""
    rung = replace(KERNELS["sgemm_naive"])
    rung.__dict__["text"] = rung.text.replace(
        "&g.B[n0 + col]", "&g.B[size_t(n0 + col) * g.K]"
    ).replace("b[size_t(k) * g.N]", "b[k]")
    monkeypatch.setitem(RUNGS, "sgemm_naive", rung)
    monkeypatch.setattr(type(rung), "refusal", lambda self, *asked: None)
    rows = [
        climb(m=32, n=64, k=8, layout=layout, rungs="sgemm_naive", engine="emulator").rows[0]
        for layout in ("nt", "nn")
    ]
    assert [(row.layout, row.correct) for row in rows] == [("nt", True), ("nn", False)]


def test_layouts_that_nothing_takes() -> None:
    with pytest.raises(InputError, match="layout='row' must be one of nn, nt, tn, tt"):
        climb(layout="row", engine="emulator")
    with pytest.raises(InputError, match=r"takes A and B row-major \(nn\), not nt"):
        climb(layout="nt", engine="emulator")


def test_a_finding_makes_a_row_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.emulator.findings import Finding

    original = EmulatorEngine.launch
    finding = Finding("out-of-bounds", "reads past the end", "x.cu", 7)

    def launch(self: EmulatorEngine, launch: object) -> Report:
        report = original(self, launch)  # type: ignore[arg-type]
        return Report(
            report.completed, report.accesses, report.instructions, [finding], report.totals
        )

    monkeypatch.setattr(EmulatorEngine, "launch", launch)
    (row,) = climb(m=128, n=256, k=32, engine="emulator", rungs=["hgemm_bcf"])
    assert (row.status, row.correct) == ("wrong", False)
    assert row.reason == "out-of-bounds, x.cu:7: reads past the end"


def test_progress_is_told(compiler: str) -> None:
    told: list[tuple[str, int, int]] = []
    climb(m=128, n=256, k=64, engine="emulator", progress=lambda *step: told.append(step))
    assert [name for name, _, _ in told] == [rung.name for rung in select("hgemm")]
    assert told[-1][1] == told[-1][2]


def test_the_same_seed_gives_the_same_rows() -> None:
    options = {"m": 128, "n": 256, "k": 64, "engine": "emulator", "rungs": ["hgemm_bcf"]}
    first, again, other = (climb(**options, seed=seed).rows[0] for seed in (1, 1, 2))  # type: ignore[arg-type]
    assert first == again
    assert first.rel_error != other.rel_error

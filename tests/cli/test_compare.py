"""`tilewright compare`: exit codes, documents, sentences."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.bench.record import Measurement, append, load
from tilewright.cli.compare import compare
from tilewright.errors import InputError

ROOT = Path(__file__).parent.parent.parent
(LINE,) = (
    line
    for line in load(ROOT / "measurements" / "h200-hgemm.jsonl")
    if (line.taken, line.name) == ("2026-11-30T04:29:06Z", "hgemm_bcf")
)


def file(path: Path, *lines: Measurement) -> Path:
    append(path, lines)
    return path


@pytest.mark.parametrize(
    ("factor", "status", "code"), [(1.0, "ok", 0), (0.9, "slower", 1), (1.1, "faster", 0)]
)
def test_documents(
    factor: float, status: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert LINE.ratio is not None
    old = file(tmp_path / "old.jsonl", LINE)
    new = file(tmp_path / "new" / "x.jsonl", replace(LINE, ratio=LINE.ratio * factor))
    assert compare(old, new.parent, json="-") == code
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["schema"] == "tilewright.compare/1"
    (row,) = document["rows"]
    assert row.pop("change") == pytest.approx(factor)
    assert 0 < row.pop("noise") < 0.1
    assert row.pop("new_ratio") == pytest.approx(LINE.ratio * factor)
    assert row == {
        "name": "hgemm_bcf", "gpu": "NVIDIA H200", "dtype": "bf16", "layout": "nn", "m": 4096,
        "n": 4096, "k": 4096, "rival": "torch", "old_ratio": LINE.ratio, "status": status,
        "reason": None,
    }  # fmt: skip
    last = captured.err.splitlines()[-1]
    assert last == f"1 {status}; geometric mean of 1 changes: {factor:.3f}"


def test_the_limit_is_the_users(tmp_path: Path) -> None:
    assert LINE.ratio is not None
    old = file(tmp_path / "old.jsonl", LINE)
    new = file(tmp_path / "new.jsonl", replace(LINE, ratio=LINE.ratio * 0.9))
    assert compare(old, new, fail_below=0.85) == 0


def test_a_wrong_result_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = file(tmp_path / "old.jsonl", LINE)
    assert compare(old, file(tmp_path / "new.jsonl", replace(LINE, correct=False))) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "hgemm_bcf: the result measured 2026-11-30T04:29:06Z is wrong." in lines
    assert lines[-1] == "1 wrong; geometric mean of 0 changes: nothing could be compared"


def test_a_record_next_to_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare(ROOT / "measurements", ROOT / "measurements") == 0
    said = capsys.readouterr().out
    assert said.splitlines()[-1].endswith("changes: 1.000")
    assert "…" not in said  # neither shapes nor figures are cut
    assert "\ntorch" not in said  # and no name runs on


def test_many_kernels_that_are_ok_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [replace(LINE, m=128 * n) for n in range(1, 43)]
    old, new = file(tmp_path / "old.jsonl", *lines), file(tmp_path / "new.jsonl", *lines)
    assert compare(old, new) == 0
    _, title, count, *_ = ["", *capsys.readouterr().out.splitlines()]
    assert title == "bf16 on NVIDIA H200"
    assert count == "42 rows are ok and not shown; --json has them all."


def test_bad_input(tmp_path: Path) -> None:
    old = file(tmp_path / "old.jsonl", LINE)
    with pytest.raises(
        InputError, match=r"none\.jsonl cannot be read: No such file or directory\.$"
    ):
        compare(old, tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="none in common"):
        compare(old, file(tmp_path / "new.jsonl", replace(LINE, m=128)))
    with pytest.raises(InputError, match=r"fail_below=1.5 must be above 0 and at most 1"):
        compare(old, old, fail_below=1.5)

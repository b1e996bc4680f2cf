"""What speaks against a measurement of another GPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.bench import record
from tilewright.bench.imports import check, faults
from tilewright.bench.includes import code_of
from tilewright.bench.record import Measurement
from tilewright.errors import InputError
from tilewright.ladder.rungs import RUNGS

NOW = "2026-11-30T12:00:00Z"
HASH = record.source_hash(code_of(RUNGS["hgemm_bcf"].text))
LINE = Measurement(
    taken="2026-11-01T09:30:00Z",
    name="hgemm_bcf",
    source_hash=HASH,
    m=256,
    n=384,
    k=192,
    layout="nn",
    dtype="bf16",
    inputs="normal",
    seed=0,
    us=2.0,
    us_samples=(1.0, 2.0, 3.0),
    rival="torch",
    rival_version="2.11.0",
    rival_us=4.0,
    rival_us_samples=(4.0, 3.0, 6.0),
    ratio=2.0,
    correct=True,
    rel_error=1.66e-3,
    method="graph replay",
    gpu="NVIDIA A100-SXM4-40GB",
    driver="580.159.03",
    cuda="13.0",
    sm_mhz=1410,
    power_w=None,
    temperature_c=None,
    host="Linux",
)
ALONE: dict[str, Any] = dict.fromkeys(
    ("rival", "rival_version", "rival_us", "rival_us_samples", "ratio")
)


def said(**values: Any) -> str:
    return " ".join(faults(replace(LINE, **values), NOW))


@pytest.mark.parametrize(
    "values",
    [
        {},
        ALONE,
        {"us": 2.0000001, "rival_us": 4.0000001, "ratio": 2.0000001},
        {"us": 2.5, "us_samples": (2.0, 3.0), "rival_us_samples": (4.0, 4.0), "ratio": 5 / 3},
        {"name": "hgemm_cublas", "source_hash": None},
        {"name": "hgemm_bcf: a variant", "source_hash": "f" * 16},
        {"rel_error": 0.0},
        {"dtype": "fp16", "rel_error": 0.0019},
        {"taken": NOW},
        {"gpu": "Some Other GPU", "m": 256 * 10**6},
    ],
)
def test_nothing_speaks_against_a_good_line(values: dict[str, Any]) -> None:
    assert said(**values) == ""


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"us": 1.9}, "us=1.9 is not the median of us_samples, 2."),
        ({"us": 2.00001}, "us=2.00001 is not the median of us_samples, 2."),
        ({"rival_us": 5.0}, "rival_us=5.0 is not the median of rival_us_samples, 4."),
        ({"rival_us": None}, "rival_us=None is not the median of rival_us_samples, 4."),
        ({"ratio": 2.1}, "ratio=2.1 is not the median of the rounds' ratios, 2."),
        ({"ratio": None}, "ratio=None is not the median of the rounds' ratios, 2."),
        (
            {"rival_us_samples": (4.0, 4.0)},
            "us_samples holds 3 rounds and rival_us_samples 2; both must be of the same rounds.",
        ),
        (
            {"rival": None},
            "rival, rival_us, rival_us_samples and ratio must be all there or all null.",
        ),
        ({"correct": False}, "the result is wrong."),
        ({"correct": None}, "the result was not checked."),
        (
            {"rel_error": 2.0**-6},
            "rel_error=0.015625 must be at least 0 and below 0.0156, 4 roundings of bf16.",
        ),
        (
            {"rel_error": None},
            "rel_error=None must be at least 0 and below 0.0156, 4 roundings of bf16.",
        ),
        (
            {"dtype": "fp16", "rel_error": 0.002},
            "rel_error=0.002 must be at least 0 and below 0.00195, 4 roundings of fp16.",
        ),
        (
            {"rel_error": -1.0},
            "rel_error=-1.0 must be at least 0 and below 0.0156, 4 roundings of bf16.",
        ),
        ({"dtype": "fp4"}, "dtype='fp4' is not known; use bf16, fp16, tf32, fp32."),
        (
            {**ALONE, "m": 2560, "n": 3840, "k": 1920},
            "18,874 TFLOP/s of hgemm_bcf are impossible: the datasheet of NVIDIA A100 SXM 40GB "
            "says 312.",
        ),
        (
            {"source_hash": "f" * 16},
            f"of another version of the code: source_hash={'f' * 16}, here {HASH}.",
        ),
        (
            {"source_hash": None},
            f"of another version of the code: source_hash=None, here {HASH}.",
        ),
        (
            {"taken": "2026-11-30T12:00:01Z"},
            f"taken=2026-11-30T12:00:01Z lies in the future; it is {NOW}.",
        ),
        ({"taken": "2026-02-31T00:00:00Z"}, "taken=2026-02-31T00:00:00Z is no moment."),
    ],
)
def test_what_speaks_against_a_line(values: dict[str, Any], sentence: str) -> None:
    assert said(**values) == sentence


def test_a_clock_above_the_stated_boost_raises_the_limit_a_little() -> None:
    fast: dict[str, Any] = {**ALONE, "m": 4096, "n": 4096, "k": 4096}  # the A100 boosts to 1410 MHz
    us = 2 * 4096**3 / 400e6
    fast |= {"us": us, "us_samples": (us,)}
    assert said(**fast, sm_mhz=1900) == ""
    assert "says 312" in said(**fast, sm_mhz=1400)
    assert "says 312" in said(**fast, sm_mhz=None)
    us /= 1.1
    fast |= {"us": us, "us_samples": (us,)}
    assert "says 406 at 1833 MHz" in said(**fast, sm_mhz=3000)


def test_roofs_need_no_product(tmp_path: Path) -> None:
    roof: dict[str, Any] = {**ALONE, "name": "roof: copy 224 MiB", "m": 1, "n": 1, "k": 1}
    assert said(**roof, correct=None, rel_error=None) == ""
    assert "not checked" in said(correct=None)


def test_an_impossible_rival_is_refused_too() -> None:
    fast: dict[str, Any] = {"m": 2560, "n": 3840, "us": 200.0, "us_samples": (200.0,)}
    fast |= {"rival_us": 2.0, "rival_us_samples": (2.0,), "ratio": 0.01}
    assert said(**fast).startswith("1,887 TFLOP/s of torch are impossible")


def write(path: Path, *lines: Measurement | str) -> Path:
    texts = [line if isinstance(line, str) else record.to_line(line) for line in lines]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    return path


def test_rows_number_the_lines_of_the_file(tmp_path: Path) -> None:
    bad = json.dumps({**json.loads(record.to_line(LINE)), "m": "256"})
    path = write(tmp_path / "x.jsonl", LINE, "", bad, replace(LINE, m=128, us=1.0, correct=None))
    checked = check(path)
    assert [(row.line, row.name, row.status) for row in checked.rows] == [
        (1, "hgemm_bcf", "ok"),
        (3, None, "refused"),
        (4, "hgemm_bcf", "refused"),
    ]
    assert [row.reason for row in checked.rows] == [
        None,
        'm must be a whole number, not "256".',
        "us=1.0 is not the median of us_samples, 2. the result was not checked.",
    ]
    assert checked.to_dicts()[1] == {
        "line": 3, "name": None, "gpu": None, "status": "refused",
        "reason": 'm must be a whole number, not "256".',
    }  # fmt: skip
    assert not checked.fine
    assert check(write(tmp_path / "y.jsonl", LINE)).measurements == (LINE,)


def test_a_line_joins_once(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", LINE, replace(LINE, m=128), LINE)
    assert [row.status for row in check(path).rows] == ["ok", "ok", "refused"]
    checked = check(path, [LINE])
    assert [row.status for row in checked.rows] == ["refused", "ok", "refused"]
    assert checked.rows[0].reason == "the same line is already there."


def test_files_that_hold_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        check(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        check(tmp_path)
    with pytest.raises(InputError, match="holds no line"):
        check(write(tmp_path / "x.jsonl", ""))
    (tmp_path / "y.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        check(tmp_path / "y.jsonl")

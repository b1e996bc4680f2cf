"""Which files a picture is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.bench.chart_files import read
from tilewright.bench.record import Measurement, append
from tilewright.errors import InputError

TORCH = Measurement(
    taken="2026-12-01T09:30:00Z", name="torch", source_hash=None, m=4096, n=4096, k=4096,
    layout="nn", dtype="bf16", inputs="normal(0, 1)", seed=0, us=200.0,
    us_samples=(198.0, 200.0, 202.0), rival="torch", rival_version="2.11.0", rival_us=200.0,
    rival_us_samples=(198.0, 200.0, 202.0), ratio=1.0, correct=True, rel_error=1.6e-3,
    method="graph replay", gpu="NVIDIA H200", driver="580.159.03", cuda="13.0", sm_mhz=1980,
    power_w=None, temperature_c=None, host="Linux x86_64, 16 cores, Python 3.12.3",
)  # fmt: skip
OURS = replace(
    TORCH, name="hgemm_bcf", source_hash="0" * 16, us=400.0, us_samples=(396.0, 400.0, 505.0),
    ratio=0.5,
)  # fmt: skip
NAIVE = replace(OURS, name="hgemm_naive", us=800.0, us_samples=(800.0,) * 3, ratio=0.25)


def at(line: Measurement, m: int, n: int, k: int, **more: Any) -> Measurement:
    return replace(line, m=m, n=n, k=k, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The ladder, suites, what was tried, and a folder too deep."""
    kept = {
        "ladder.jsonl": [OURS, replace(OURS, dtype="fp16")],
        "suites/all.jsonl": [at(TORCH, 512, 256, 128)],
        "peers/more.jsonl": [replace(TORCH, name="quack")],
        "tried/lost.jsonl": [replace(NAIVE, name="hgemm_naive: slower")],
        "a/b/deep.jsonl": [NAIVE],
    }
    for name, lines in kept.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        append(tmp_path / name, lines)
    (tmp_path / "notes.txt").write_text("no measurement")
    return tmp_path


def names(folder: Path, *how: str) -> list[str]:
    lines, files = read(folder, *how)
    assert len(lines) >= len(files)
    return [str(file.relative_to(folder).as_posix()) for file in files]


EVERY = ["ladder.jsonl", "peers/more.jsonl", "suites/all.jsonl"]


@pytest.mark.parametrize("kind", ["size", "ratio", "roofline"])
def test_a_folder_is_its_files_and_its_subfolders_but_what_was_tried(
    folder: Path, kind: str
) -> None:
    assert names(folder, kind) == EVERY
    assert [line.name for line in read(folder, kind)[0]] == ["hgemm_bcf"] * 2 + ["quack", "torch"]


def test_a_ladder_is_of_the_folders_own_files() -> None:
    root = Path(__file__).parents[2] / "measurements"
    assert names(root, "ladder") == sorted(path.name for path in root.glob("*.jsonl"))


@pytest.mark.parametrize(
    ("how", "found"),
    [
        (("bf16",), EVERY[:1]),
        (("fp16", "nvidia h200"), EVERY[:1]),
        (("fp32",), EVERY),
        (("bf16", "B200"), EVERY),
    ],
)
def test_without_the_ladders_shape_there_a_ladder_is_of_all(
    folder: Path, how: tuple[str, ...], found: list[str]
) -> None:
    assert names(folder, "ladder", *how) == found


def test_second_timings_and_other_shapes_are_no_ladder(folder: Path) -> None:
    (folder / "ladder.jsonl").unlink()
    append(folder / "x.jsonl", [replace(TORCH, name="torch again"), replace(OURS, layout="nt")])
    append(folder / "x.jsonl", [at(OURS, 512, 256, 128)])
    assert names(folder, "ladder") == ["x.jsonl", *EVERY[1:]]


def test_a_file_is_itself_and_what_was_tried_can_be_named(folder: Path) -> None:
    assert read(folder / "ladder.jsonl", "ratio")[1] == [folder / "ladder.jsonl"]
    assert names(folder / "tried", "ratio") == ["lost.jsonl"]
    with pytest.raises(InputError, match=r"none\.jsonl cannot be read"):
        read(folder / "none.jsonl", "ratio")

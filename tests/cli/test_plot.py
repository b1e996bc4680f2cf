"""`tilewright plot`: files, documents, sentences."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cyclopts import App

from tilewright.bench.record import append, load
from tilewright.cli.plot import plot
from tilewright.errors import InputError

MEASUREMENTS = Path(__file__).parents[2] / "measurements"


def run(*words: str) -> int:
    app = App(result_action="return_value")
    app.command(plot)
    result = app(["plot", *words], exit_on_error=False, print_error=False)
    assert isinstance(result, int)
    return result


def test_help_imports_neither_matplotlib_nor_numpy() -> None:
    heavy = "{'matplotlib', 'numpy', 'rich.table', 'tilewright.bench'} & set(sys.modules)"
    code = f"import sys, tilewright.cli.plot; sys.exit(str({heavy}) if {heavy} else 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_picture_and_its_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    out = tmp_path / "ladder.SVG"
    assert run(str(MEASUREMENTS), "--kind", "ladder", "--out", str(out), "--json", "-") == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["schema"] == "tilewright.plot/1"
    known = {line.name for line in load(MEASUREMENTS)}
    assert {row["name"] for row in document["rows"]} <= known
    assert all(row["dtype"] == "bf16" and row["tflops"] > 0 for row in document["rows"])
    assert "<svg" in out.read_text(encoding="utf-8")
    count = len(document["rows"])
    assert captured.err.startswith(f"{out}: {count} points. Throughput of each rung: ")
    read = ", ".join(str(path) for path in sorted(MEASUREMENTS.glob("*.jsonl")))
    assert captured.err.endswith(f" Read: {read}.\n")


def test_a_folder_gives_the_suites_and_the_sentence_names_what_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    out = tmp_path / "ratio.svg"
    assert run(str(MEASUREMENTS), "--kind", "ratio", "--out", str(out), "--json", "-") == 0
    captured = capsys.readouterr()
    rows = json.loads(captured.out)["rows"]
    suite = load(MEASUREMENTS / "suites" / "h200-bf16.jsonl")
    assert {(row["m"], row["n"], row["k"]) for row in rows} >= {
        (line.m, line.n, line.k) for line in suite if line.name == "torch"
    }
    read = captured.err.rsplit(" Read: ", 1)[1]
    for name in ("h200-hgemm.jsonl", "suites/h200-bf16.jsonl", "peers/h200-bf16.jsonl"):
        assert str(MEASUREMENTS / name) in read
    assert "tried" not in read
    assert not any(": " in row["name"] for row in rows)


def test_a_roofline_says_its_roofs_and_its_points_their_intensity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    out = tmp_path / "roofline.svg"
    suite = MEASUREMENTS / "suites" / "h200-bf16.jsonl"
    words = ["--kind", "roofline", "--gpu", "h200", "--out", str(out), "--json", "-"]
    assert run(str(suite), *words) == 0
    captured = capsys.readouterr()
    rows = json.loads(captured.out)["rows"]
    assert {row["name"] for row in rows} >= {"hgemm_bcf", "torch"}
    assert not any(row["name"].endswith(" again") for row in rows)
    (square,) = (r for r in rows if (r["name"], r["n"], r["layout"]) == ("hgemm_bcf", 8192, "nn")
                 and r["m"] == r["k"] == 8192)  # fmt: skip
    assert square["intensity"] == pytest.approx(8192 / 3)
    assert "Roofline: " in captured.err
    assert " Roofs: " in captured.err
    assert "<dc:description>tilewright plot roofline, points " in out.read_text(encoding="utf-8")


def test_what_does_not_apply_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    line = next(line for line in load(MEASUREMENTS) if line.name == "torch")
    lines = tmp_path / "lines.jsonl"
    append(lines, [replace(line, name="wrong", correct=False), replace(line, ratio=None)])
    assert run(str(lines), "--out", str(tmp_path / "x.svg"), "--json", "-") == 0
    first, second = json.loads(capsys.readouterr().out)["rows"]
    assert first.keys() == second.keys() >= {"intensity", "ratio", "ratio_p20", "ratio_p80"}
    assert (first["us"], first["tflops"], first["ratio_p20"]) == (None, None, None)
    assert (second["ratio"], second["us"]) == (None, line.us)


def test_the_default_is_the_ladder_of_the_folder_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.chdir(MEASUREMENTS.parent)
    assert run("--out", str(tmp_path / "x.png")) == 0
    assert (tmp_path / "x.png").stat().st_size > 1000
    assert "Throughput of each rung" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "x.pdf"], "out='x.pdf' must end in .png or .svg."),
        (["--out", "x"], "out='x' must end in .png or .svg."),
        (["--out", "none/x.svg"], "none/x.svg cannot be written: none is missing."),
        (
            ["--out", "x.svg", "--kind", "pie"],
            "kind='pie' is not known; use ladder, size, ratio, roofline.",
        ),
        (["--out", "x.svg", "--dtype", "fp8"], "nothing is measured of fp8; there is "),
        (["--out", "x.svg", "--gpu", "A100"], "nothing is measured of bf16 on A100; there is "),
    ],
)
def test_bad_input(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        run(str(MEASUREMENTS), *words)
    assert str(error.value).startswith(said)
    assert list(tmp_path.iterdir()) == []

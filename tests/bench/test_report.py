from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.bench import record, report
from tilewright.bench.record import Measurement
from tilewright.errors import InputError

TORCH = Measurement(
    taken="2026-12-01T09:30:00Z",
    name="torch",
    source_hash=None,
    m=4096,
    n=2048,
    k=1024,
    layout="nn",
    dtype="bf16",
    inputs="normal",
    seed=7,
    us=20.0,
    us_samples=(20.0,),
    rival=None,
    rival_version=None,
    rival_us=None,
    rival_us_samples=None,
    ratio=None,
    correct=True,
    rel_error=1.656e-3,
    method="graph replay, 1 interleaved rounds of 9 runs over 3 input sets",
    gpu="NVIDIA H200",
    driver="580.159.03",
    cuda="13.0",
    sm_mhz=1980,
    power_w=None,
    temperature_c=None,
    host="Linux x86_64, 16 cores, Python 3.12.3",
)
OURS = replace(
    TORCH,
    name="hgemm_naive",
    source_hash="0" * 16,
    us=40.0,
    us_samples=(40.0,),
    rival="torch",
    rival_version="2.11.0",
    rival_us=20.0,
    rival_us_samples=(20.0,),
    ratio=0.503,
    sm_mhz=1900,
)
README = f"# Title\n\n{report.BEGIN}\nold\n{report.END}\n\nmore\n"


def test_the_table_has_the_articles_columns_from_the_lines_alone() -> None:
    assert report.ladder_table([TORCH, OURS]) == (
        "**4096×2048×1024 nn, bf16, NVIDIA H200** (driver 580.159.03, 2026-12-01)\n"
        "\n"
        "| kernel | time (µs) | TFLOP/s | speed ÷ torch | error |\n"
        "|:--|--:|--:|--:|--:|\n"
        "| torch | 20.0 | 859.0 | 1.00 | 1.66e-03 |\n"
        "| hgemm_naive | 40.0 | 429.5 | 0.50 | 1.66e-03 |\n"
        "\n"
        "SM clock 1900–1980 MHz. Inputs: normal, seed 7. Timed by graph replay."
    )


def test_only_the_newest_run_of_a_group_is_shown_and_groups_are_apart() -> None:
    old = replace(OURS, taken="2026-11-30T00:00:00Z", us=99.0)
    small = replace(old, m=128)
    text = report.ladder_table([TORCH, old, OURS, small])
    assert text.count("hgemm_naive") == 2
    assert text.index("**128×2048") < text.index("**4096×2048")
    assert text.count("| 99.0 |") == 1


def test_a_run_of_a_few_kernels_does_not_hide_one_of_them_all() -> None:
    full = [TORCH, OURS]
    few = replace(OURS, taken="2027-01-01T00:00:00Z", name="triton_basic")
    assert report.fullest([*full, few]) == full
    assert report.fullest([OURS, few]) == [few]
    assert report.covering([*full, few]) == [full, [few]]
    again = [replace(line, taken="2025-01-01T00:00:00Z") for line in full]
    assert report.covering([*full, *again, few]) == [full, [few]]


def test_wrong_results_show_no_figures_and_other_rivals_no_speed() -> None:
    text = report.ladder_table([replace(OURS, correct=False), replace(OURS, rival="hgemm_cublas")])
    assert "| hgemm_naive | wrong | – | – | 1.66e-03 |" in text
    assert "| hgemm_naive | 40.0 | 429.5 | – | 1.66e-03 |" in text
    assert "| – |\n" in report.ladder_table([replace(OURS, rel_error=None, correct=None)])


def test_unmeasured_says_so() -> None:
    assert report.ladder_table([]) == "Nothing has been measured yet."


def test_render_changes_only_what_is_between_the_markers() -> None:
    text = report.render(README, [TORCH])
    assert text.startswith(f"# Title\n\n{report.BEGIN}\n**4096")
    assert text.endswith(f"{report.END}\n\nmore\n")
    assert "old" not in text
    assert report.render(text, [TORCH]) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no markers", "0 times"),
        (README + README, "2 times"),
        (f"{report.END} {report.BEGIN}", "is not followed"),
    ],
)
def test_render_refuses_a_readme_without_one_pair_of_markers(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        report.render(text, [TORCH])


def test_the_command_checks_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    readme, lines = tmp_path / "README.md", tmp_path / "lines.jsonl"
    readme.write_text(README, encoding="utf-8")
    record.append(lines, [TORCH, OURS])
    assert report.main(["--check", str(readme), str(lines)]) == 1
    assert "is stale; bring it up to date with --write" in capsys.readouterr().err
    assert readme.read_text(encoding="utf-8") == README
    assert report.main(["--write", str(readme), str(lines)]) == 0
    assert report.main(["--check", str(readme), str(lines)]) == 0
    assert report.main(["--check", str(readme), str(tmp_path / "none.jsonl")]) == 2
    assert "cannot be read" in capsys.readouterr().err

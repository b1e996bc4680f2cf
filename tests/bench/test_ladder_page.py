"""docs/ladder.md: what it shows of each rung, and that it is fresh. Also bench/ladder_steps.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.bench.ladder_page import change, contents, escaped, page, pictures
from tilewright.bench.ladder_steps import Step, of_one_shape, steps_of
from tilewright.bench.record import Measurement
from tilewright.bench.rung_code import hash_of
from tilewright.bench.rung_counts import KEPT, RungCounts
from tilewright.ladder.checklist import Answer, Question
from tilewright.ladder.rung import Rung
from tilewright.ladder.rungs import RUNGS, KernelRung, Tile

ROOT = Path(__file__).parents[2]
HEADER = """\
// {name}: sentence of {name}.
//
// Idea      a * b, and | in a table.
// Expect    more.
// Found     as expected (2026-01-01T00:00:00Z).
// Next      second goes on.
"""
CODE = 'int a;\nextern "C" __global__ void gemm() {}\n'


def rung(name: str, text: str | None = None, family: str = "fam", suffix: str = ".cu") -> Rung:
    """A rung of 128×128 tiles in bf16 and fp16, whose file is this text."""
    made = KernelRung(
        name, family, f"{family}/10_{name}{suffix}", ("bf16", "fp16"), Tile(128, 128, 32), 256, 1
    )
    vars(made)["text"] = text or HEADER.format(name=name) + CODE
    return made


def line(of: Rung | str, us: float = 100.0, **more: Any) -> Measurement:
    """A measurement of the rung's present code, or of a peer, at 4096³ in two rounds."""
    given = {
        "taken": "2026-02-02T00:00:00Z", "name": of if isinstance(of, str) else of.name,
        "source_hash": None if isinstance(of, str) else hash_of(of), "m": 4096, "n": 4096,
        "k": 4096, "layout": "nn", "dtype": "bf16", "inputs": "normal(0, 1)", "seed": 0, "us": us,
        "us_samples": (us, us), "rival": "torch", "rival_version": "2", "rival_us": 50.0,
        "rival_us_samples": (50.0, 50.0), "ratio": 50.0 / us, "correct": True, "rel_error": 1e-3,
        "method": "graph replay", "gpu": "NVIDIA H200", "driver": "580", "cuda": "13.0",
        "sm_mhz": 1980, "power_w": 600.4, "temperature_c": 40, "host": "Linux",
    }  # fmt: skip
    return Measurement(**(given | more))


def counts(of: Rung, reason: str | None = None, **fields: Any) -> RungCounts:
    """Counts at 256×384×192, each 8 where not given; None with a reason."""
    whole = dict.fromkeys(KEPT, 8) | {"arch": "sm_90", "dtype": "bf16", "m": 256, "n": 384}
    shown = dict.fromkeys(KEPT) if reason else whole | {"k": 192} | fields
    return RungCounts(of.name, "NVRTC 1.0", hash_of(of), reason, shown)


FIRST = rung("first")
SECOND = rung("second", HEADER.format(name="second") + CODE.replace("int a;", "int b;"))
PYTHON = rung("third", "# third: in Python.\n#\n# Idea      words.\nimport os\n", suffix=".py")
ALONE = rung("alone", family="other")
WHY = Question("why", "section 1", "Why?", ("tilewright explain",))
OPEN = Question("how", "section 2", "How?", (), "not yet")
ANSWERS = {"first": Answer("first", WHY, "so it is.")}


def steps(
    rungs: Sequence[Rung] = (FIRST, SECOND, PYTHON, ALONE),
    lines: Sequence[Measurement] = (),
    counted: Sequence[RungCounts] = (),
) -> dict[str, Step]:
    known = {each.name: each for each in counted}
    return {step.rung.name: step for step in steps_of(rungs, known, lines, ANSWERS)}


def section(text: str, name: str) -> str:
    """What the page says of one rung."""
    return re.split(r"^##", text.split(f"### {name}\n", 1)[1], flags=re.MULTILINE)[0]


def shown(**known: Any) -> str:
    return page(list(steps(**known).values()), [WHY, OPEN])


def test_neighbours_are_of_one_family() -> None:
    found = steps()
    before = {name: step.before and step.before.name for name, step in found.items()}
    assert before == {"first": None, "second": "first", "third": "second", "alone": None}
    assert [step.changed for step in found.values()] == [None, 2, None, None]
    assert [step.is_rewrite for step in found.values()] == [True, False, True, True]


def test_more_changes_than_the_budget_are_a_rewrite() -> None:
    for changed, is_rewrite in ((39, False), (40, True)):  # and the line that was there
        text = HEADER + "".join(f"int b{i};\n" for i in range(changed)) + CODE.split("\n", 1)[1]
        step = steps([FIRST, rung("second", text)])["second"]
        assert (step.changed, step.is_rewrite) == (changed + 1, is_rewrite)


def test_lines_are_the_newest_of_this_code_and_those_that_found_names() -> None:
    old, cited, other = "2026-01-15T00:00:00Z", "2026-01-01T00:00:00Z", "2025-01-01T00:00:00Z"
    lines = [
        line(FIRST, taken=old), line(FIRST, taken=cited), line(FIRST), line(SECOND),
        line(FIRST, taken=other, dtype="fp16"), line(FIRST, m=8192), line("torch"),
        line(FIRST, taken="2026-03-01T00:00:00Z", source_hash="0" * 16),
    ]  # fmt: skip
    found = steps(lines=lines)["first"]
    assert found.lines == (lines[1], lines[2], lines[4], lines[5])
    assert found.headline == lines[2]


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({"dtype": "fp16"}, {"m": 512}),
        ({"m": 8192}, {}),
        ({"m": 512}, {"m": 1024}),
        ({"gpu": "NVIDIA A100-SXM4-40GB"}, {"m": 512}),
        ({"gpu": None}, {"m": 512}),
        ({"gpu": "NVIDIA A100-SXM4-40GB"}, {"gpu": None}),
    ],
)
def test_which_line_stands_for_a_rung(less: dict[str, Any], more: dict[str, Any]) -> None:
    lines = [line(FIRST, **less), line(FIRST, **more)]
    assert steps(lines=lines)["first"].headline == lines[1]
    assert steps(lines=lines[::-1])["first"].headline == lines[1]


def test_against_cublaslt_by_rounds_of_one_run() -> None:
    mine = line(FIRST, us_samples=(100.0, 200.0, 400.0))
    theirs = line("lt_best", us_samples=(90.0, 100.0, 100.0))
    (step,) = steps([FIRST], [mine, theirs]).values()
    assert step.against_library(mine) == 0.5
    assert step.against_library(replace(mine, taken="2026-01-01T00:00:00Z")) is None
    assert step.against_library(replace(mine, us_samples=(1.0, 2.0))) is None


def test_one_picture_is_of_one_shape() -> None:
    lines = [line(FIRST, m=512), line(SECOND), line(ALONE)]
    found = steps([FIRST, SECOND, ALONE], lines)
    assert set(of_one_shape(found.values())) == {"second", "alone"}
    assert of_one_shape([]) == {}


def test_pictures_are_of_families_that_were_timed() -> None:
    lines = [line(FIRST, 100.0), line("lt_best", 25.0)]
    drawn = pictures(list(steps(lines=lines).values()))
    assert list(drawn) == ["ladder-fam.svg"]
    assert "torch 1.00, cuBLASLt 2.00" in drawn["ladder-fam.svg"]
    assert drawn["ladder-fam.svg"].count("not timed beside torch") == 2
    text = shown(lines=lines)
    assert text.count("](ladder-") == 1


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (8, 8, "="), (0, 0, "="), (8, 2, "÷ 4"), (2, 8, "× 4"), (0, 8, "new"), (8, 0, "gone"),
        (None, 8, "new"), (1000, 1031, "+3.1 %"), (1000, 969, "−3.1 %"), (100, 89, "÷ 1.12"),
    ],
)  # fmt: skip
def test_changes(before: float | None, after: float, said: str) -> None:
    assert change(before, after) == said


def test_prose_is_shown_as_it_is() -> None:
    said = escaped("a * b | c<d> in hgemm_bcf_dbf, __syncthreads")
    assert said == r"a \* b \| c\<d> in hgemm_bcf_dbf, \_\_syncthreads"


def test_the_contents() -> None:
    lines = [line(FIRST, 200.0), line(SECOND, us=40.0, m=512, n=512, k=512, rival=None, ratio=None)]
    rows = contents(steps(lines=lines).values()).splitlines()[2:]
    fam, other = "[fam](#fam)", "[other](#other)"
    assert rows == [
        f"| {fam} | [first](#first) | sentence of first. | ██░░░░░░░░ 0.25 bf16 | first |",
        f"| {fam} | [second](#second) | sentence of second. | 40.0 µs, bf16 512³ | 2 |",
        f"| {fam} | [third](#third) | in Python. | not timed | –, rewrite |",
        f"| {other} | [alone](#alone) | sentence of alone. | not timed | first |",
    ]


def test_the_contents_have_the_hosts_times_too() -> None:
    host = line(ALONE, us=1_060_214.7, gpu=None, rival=None, ratio=None, dtype="fp32")
    found = steps(lines=[host])
    assert "| 1,060.2 ms on the host, fp32 |" in contents(found.values())
    assert of_one_shape(found.values()) == {}


def test_a_rungs_words_and_question() -> None:
    said = section(shown(), "first")
    link = "[fam/10_first.cu](../src/tilewright/ladder/fam/10_first.cu)"
    assert said.startswith(f"\n*Sentence of first.* ({link})\n")
    assert "\n**Idea:** a \\* b, and \\| in a table.\n" in said
    assert "\n**Next:** [second](#second) goes on.\n" in said
    assert "\n> **Settles** *Why?* (roadmap, section 1): so it is.\n" in said
    assert "Settles" not in section(shown(), "second")
    assert "**Next:** second goes on." in section(shown(), "second")


def test_code_is_a_diff_or_the_kernel() -> None:
    text = shown()
    assert "```diff\n@@\n-int a;\n+int b;\n" in section(text, "second")
    assert "Against `first`, 2 lines changed:" in section(text, "second")
    kernel = '```cuda\nextern "C" __global__ void gemm() {}\n```'
    assert f"The first of its family. The kernel</summary>\n\n{kernel}" in section(text, "first")
    other = "Written in another language than <code>second</code>. The kernel</summary>"
    assert f"{other}\n\n```python\nimport os\n```" in section(text, "third")


def test_counts_and_what_became_of_them() -> None:
    known = [counts(FIRST), counts(SECOND, registers=16, bank_conflicts=0), counts(PYTHON, "no.")]
    text = shown(counted=known)
    assert "Counts of this family: 256×384×192 bf16 for sm_90, built with NVRTC 1.0." in text
    assert "| count | of the launch |\n" in section(text, "first")
    assert "| count | of the launch | against `first` |\n" in section(text, "second")
    assert "| registers a thread | 16 | × 2 |\n" in section(text, "second")
    assert "| bank conflicts | 0 | gone |\n" in section(text, "second")
    assert "Not counted in the emulator: no." in section(text, "third")
    assert "Not counted: the emulator runs CUDA's files." in section(text, "alone")


def test_counts_after_a_rung_without_any() -> None:
    text = shown(counted=[counts(FIRST, "no."), counts(SECOND, shared_bytes=0)])
    assert "against `first` |" not in section(text, "second")
    assert "| bytes of shared memory a block | 0 |\n" in section(text, "second")
    assert "FLOP per byte" not in section(text, "second")


def test_cut_tiles_are_told() -> None:
    told = "Tiles of 128×128 are cut at the edge of C here, and cost whole ones."
    assert told not in shown(counted=[counts(FIRST)])
    assert told in shown(counted=[counts(FIRST, n=320)])


def test_measurements() -> None:
    cited = line(FIRST, taken="2026-01-01T00:00:00Z", sm_mhz=None, power_w=None, rival="quack")
    far = line(FIRST, 1234.5, gpu="NVIDIA A100-SXM4-40GB", m=512, layout="nt")
    said = section(shown(lines=[cited, line(FIRST), far, line("lt_best", 50.0)]), "first")
    rows = said.split("| record |\n", 1)[1].splitlines()[1:]
    old, now = "`2026-01-01T00:00:00Z` (in *Found*)", "`2026-02-02T00:00:00Z`"
    assert rows[:3] == [
        f"| bf16, 4096³ | 100.0 | 1374.4 | – | – | – | – | – | – | {old} |",
        "| bf16, 4096³ | 100.0 | 1374.4 | 0.50 | 0.50 | 1980 MHz | 600 W | 0.06 J | 0.437 | "
        f"{now} |",
        "| bf16, 512×4096×4096 nt, NVIDIA A100-SXM4-40GB | 1,234.5 | 13.9 | 0.04 | 0.04 | "
        f"1980 MHz | 600 W | 0.741 J | 43.1 | {now} |",
    ]
    assert "Not timed yet." in section(shown(), "first")


def test_a_familys_climb_shows_clock_power_and_energy_beside_the_times() -> None:
    text = shown(lines=[line(FIRST, power_w=None), line(SECOND, 50.0, power_w=500.0)])
    rows = text.split("| rung | µs | TFLOP/s | SM clock | power | a GEMM | pJ/FLOP |\n", 1)[1]
    assert rows.splitlines()[1:3] == [
        "| [first](#first) | 100.0 | 1374.4 | 1980 MHz | – | – | – |",
        "| [second](#second) | 50.0 | 2748.8 | 1980 MHz | 500 W | 0.025 J | 0.182 |",
    ]
    assert "| rung | µs |" not in shown()


def test_the_questions() -> None:
    text = shown()
    assert "| Why? | section 1 | [first](#first) | `tilewright explain` |" in text
    assert "| How? | section 2 | – | *open:* not yet |" in text


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("ladder_page")


def test_the_page_is_fresh(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0, "run python scripts/ladder_page.py"


def test_every_rung_has_a_section_with_all_its_parts(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(RUNGS)
    for name in RUNGS:
        for part in ("**Idea:**", "**Found:**", "> **Settles**"):
            assert part in section(text, name), name


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)


def anchors(page: Path) -> set[str]:
    """Those that a page of Markdown has for its headings."""
    headings = re.findall(r"^##* (.*)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in headings}


def test_its_links_lead_somewhere(script: ModuleType) -> None:
    """Files that exist, and headings that they have."""
    targets = set(re.findall(r"\]\(([^)]+)\)", without_code(script.PAGE)))
    assert any(target.startswith("#") for target in targets)
    assert any(".md#" in target for target in targets)
    for target in targets:
        name, hash_sign, anchor = target.partition("#")
        page = script.PAGE.parent / name if name else script.PAGE
        assert page.exists(), target
        assert not hash_sign or anchor in anchors(page), target


def test_what_is_stale_is_told(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    copy = tmp_path / "ladder.md"
    copy.write_text(script.PAGE.read_text(encoding="utf-8").replace(" bf16 |", " bf17 |", 1))
    monkeypatch.setattr(script, "PAGE", copy)
    assert script.main(["--check"]) == 1
    assert f"{copy} is stale; run python scripts/ladder_page.py." in capsys.readouterr().err
    fewer = tmp_path / "counts.jsonl"
    fewer.write_text("".join(script.COUNTS.read_text().splitlines(keepends=True)[1:]))
    monkeypatch.setattr(script, "COUNTS", fewer)
    assert script.main(["--check"]) == 1
    assert f"no counts of {next(iter(RUNGS))}; run python" in capsys.readouterr().err


def test_it_writes_what_it_checks(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "ladder.md"
    copy.write_text(f"mine\n{script.BEGIN}\nold\n{script.END}\n")
    monkeypatch.setattr(script, "PAGE", copy)
    monkeypatch.setattr(script, "DOCS", tmp_path)
    assert script.main(["--check"]) == 1
    assert script.main([]) == script.main(["--check"]) == 0
    assert copy.read_text(encoding="utf-8").startswith(f"mine\n{script.BEGIN}\n\n| family |")
    assert (tmp_path / "ladder-hgemm.svg").exists()

"""`tilewright emulate`: limits, parts of a grid, reports as files, exit codes, odd names."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tilewright.emulator.report import Report

from .conftest import PTX, SCALE, Emulate

FILES = "--html r.html --junit r.xml --sarif r.sarif --json r.json"

# A column of 32 words, so that all lanes of a warp meet in one bank; {line} may name a source.
CONFLICT = """.version 8.0
.target sm_80
.address_size 64
{file}
.visible .entry _Z1kILi4EEvPfi(.param .u64 _Z1kILi4EEvPfi_param_0, .param .u32 n)
{{
  .reg .b32 %r<3>; .reg .b64 %d<4>; .shared .align 4 .b8 s[4096];
  {line}
  mov.u32 %r1, %ctaid.x; mov.u32 %r0, %tid.x; mul.lo.u32 %r2, %r0, 128; mov.u32 %r1, s;
  add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0;
  ld.param.u64 %d0, [_Z1kILi4EEvPfi_param_0]; mul.wide.u32 %d1, %r0, 4;
  add.s64 %d2, %d0, %d1; st.global.u32 [%d2], %r0; ret;
}}
"""
PLAIN = CONFLICT.format(file="", line="")
LAUNCH = "--grid 16 --block 32 --arg out=zeros:32 --arg n=1"


def row() -> dict[str, Any]:
    document = json.loads(Path("r.json").read_text(), parse_constant=lambda word: 1 / 0)
    assert document["schema"] == "tilewright.emulate/1"
    (found,) = document["rows"]
    return dict(found)


def failures() -> list[tuple[str | None, str | None]]:
    found = ET.parse("r.xml").iter("failure")
    return [(failure.get("type"), failure.text) for failure in found]


def sarif() -> dict[str, Any]:
    (found,) = json.loads(Path("r.sarif").read_text())["runs"]
    return dict(found)


# --- Limits -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "code", "met"),
    [
        ("0", 1, [False, True]),
        ("495", 1, [False, True]),
        ("496", 0, [True, True]),
        ("wavefronts=496,sectors=0", 0, [True, True]),
        ("sectors=0", 0, [True]),
        ("copies=0", 0, [True]),
    ],
)
def test_limits(emulate: Emulate, limit: str, code: int, met: list[bool]) -> None:
    Path("k.ptx").write_text(PLAIN)
    assert emulate(f"{LAUNCH} --no-checks --max-excess {limit} {FILES}", file="k.ptx") == code
    found = row()
    assert found["passed"] is (code == 0)
    assert [demand["met"] for demand in found["demands"]] == met
    assert len(failures()) == len(sarif()["results"]) == met.count(False)


def test_an_exceeded_limit_in_every_view(
    emulate: Emulate, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("k.ptx").write_text(PLAIN)
    assert emulate(f"{LAUNCH} --no-checks --max-excess 0 {FILES}", file="k.ptx") == 1
    said = "496 bank conflicts (wavefronts beyond the ideal), all at k.ptx:10 (st.shared.u32)"
    out = " ".join(capsys.readouterr().out.split())
    assert "k<4>, grid 16, block 32: no findings, 1 exceeded limit" in out
    assert f"✗ {said}; the limit is 0" in out
    assert "↳ st.shared.u32: 32-way bank conflicts, all of the excess" in out
    assert said in Path("r.html").read_text()
    assert failures() == [("excess", f"{said}; the limit is 0")]
    (result,) = sarif()["results"]
    assert (result["ruleId"], result["message"]["text"]) == ("excess", f"{said}; the limit is 0")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "k.ptx"}
    assert place["region"]["startLine"] == 10


def test_a_failed_check_in_every_view(emulate: Emulate) -> None:
    assert emulate(f"{SCALE} {FILES}", "--check", "out == in") == 1
    ((kind, text),) = failures()
    assert kind == "check"
    assert text is not None
    assert text.startswith("out == in: ")
    assert "out == in: " in Path("r.html").read_text()
    assert [result["ruleId"] for result in sarif()["results"]] == ["check"]
    (demand,) = row()["demands"]
    assert (demand["kind"], demand["text"], demand["met"]) == ("check", "out == in", False)


# --- Parts of the grid ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "ranges", "words"),
    [
        ("first:4", [[0, 3]], "Only 4 of 16 blocks ran: 0 to 3;"),
        ("1,2,3,10", [[1, 3], [10, 10]], "Only 4 of 16 blocks ran: 1, 2, 3, 10;"),
        ("10,3,1,2", [[1, 3], [10, 10]], "Only 4 of 16 blocks ran: 1, 2, 3, 10;"),
    ],
)
def test_a_part_is_labelled_in_every_view(
    emulate: Emulate,
    blocks: str,
    ranges: list[list[int]],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("k.ptx").write_text(PLAIN)
    launch = LAUNCH.replace("zeros", "empty")
    assert emulate(f"{launch} --blocks {blocks} {FILES}", file="k.ptx") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "k<4>, grid 16, block 32, 4 of 16 blocks: no findings 44 instructions" in out
    assert f"Note: {words} unwritten outputs were not looked for." in out
    assert row()["part"] == {"blocks": 4, "of": 16, "ranges": ranges}
    page = Path("r.html").read_text()
    assert "4 of 16 blocks: no findings</title>" in page
    assert words in page
    (case,) = ET.parse("r.xml").iter("testcase")
    assert "4 of 16 blocks" in str(case.get("name"))
    assert words in str(case.findtext("system-out"))
    ((invocation,),) = [sarif()["invocations"]]
    (notification,) = invocation["toolExecutionNotifications"]
    assert words in notification["message"]["text"]


def test_all_blocks_are_no_part(emulate: Emulate) -> None:
    Path("k.ptx").write_text(PLAIN)
    ids = ",".join(map(str, range(16)))
    for blocks in ("first:16", "sample:99", ids):
        assert emulate(f"{LAUNCH} --blocks {blocks} {FILES}", file="k.ptx") in (0, 1)
        assert row()["part"] is None


# --- Names ------------------------------------------------------------------------------


def test_labels_and_cpp_names_in_every_view(emulate: Emulate) -> None:
    Path("k.ptx").write_text(PLAIN)
    launch = LAUNCH.replace("zeros:32", "zeros:31")
    assert emulate(f"{launch} --no-checks {FILES}", file="k.ptx") == 1
    found = row()
    assert (found["kernel"], found["symbol"]) == ("k<4>", "_Z1kILi4EEvPfi")
    assert found["findings"][0]["array"] == "out"
    (failure,) = ET.parse("r.xml").iter("failure")
    texts = (
        found["findings"][0]["message"],
        str(failure.text),
        sarif()["results"][0]["message"]["text"],
        Path("r.html").read_text(),
    )
    for text in texts:
        assert "(out)" in text
    for name in ("r.html", "r.xml"):
        text = Path(name).read_text()
        assert "k&lt;4&gt;, grid 16" in text
        assert "_Z1kILi4EEvPfi_param_0 (" not in text
    (where,) = sarif()["results"][0]["locations"][0]["logicalLocations"]
    assert where == {"name": "k<4>", "kind": "function", "decoratedName": "_Z1kILi4EEvPfi"}


def test_the_text_of_a_source_that_ptx_names(
    emulate: Emulate, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Path.cwd()
    (here / "src").mkdir()
    (here / "src" / "k.cu").write_text("// one\n// two\ns[32 * i] = out[i] = i;\n// four\n")
    text = CONFLICT.format(file=f'.file 1 "{here}/src/k.cu"', line=".loc 1 3 0")
    Path("k.ptx").write_text(text)
    assert emulate(f"{LAUNCH} --no-checks {FILES}", file="k.ptx") == 0
    out = capsys.readouterr().out
    assert "\nsrc/k.cu\n" in out
    assert "3 !│s[32 * i] = out[i] = i;" in out
    found = row()
    assert {access["file"] for access in found["accesses"]} == {"src/k.cu"}
    assert "src/k.cu" in found["sources"]


def test_what_ptx_names_is_read_only_if_it_is_a_source(
    emulate: Emulate, capsys: pytest.CaptureFixture[str]
) -> None:
    here = Path.cwd()
    Path("secret.txt").write_text("1\n2\nsecret\n")
    os.mkfifo("pipe.cu")  # reading it would wait for ever
    Path("latin.cu").write_bytes(b"\n\n\xff\n")
    for name in ("secret.txt", "pipe.cu", "latin.cu", "none.cu"):
        text = CONFLICT.format(file=f'.file 1 "{here}/{name}"', line=".loc 1 3 0")
        Path("k.ptx").write_text(text)
        assert emulate(f"{LAUNCH} --no-checks {FILES}", file="k.ptx") == 0
        said = capsys.readouterr().out
        assert "(the report does not hold its text)" in said
        assert "secret\n" not in said


@pytest.mark.parametrize(
    "name",
    [
        "a b & 'c' \"d\".ptx",
        "<script>alert(1)<_script>.ptx",
        "\x1b[31mred\x07.ptx",
        "two\nlines.ptx",
        os.fsdecode(b"latin\xff.ptx"),
        "x" * 240 + ".ptx",
        "-- .ptx",
    ],
)
def test_odd_names_of_files(
    emulate: Emulate, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_text(PTX)
    words = SCALE.replace("in=randn:64", "in=randn:60")
    assert emulate(f"{words} {FILES}", file=f"./{name}") == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert row()["file"] == name
    assert len(failures()) == 1
    uri = sarif()["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.isascii()
    assert not set(uri) & set(" <>\"'\n\x1b")
    page = Path("r.html").read_text(encoding="utf-8")
    assert page.count("<script>") == 1
    assert "\x1b" not in page


def test_not_a_number_is_valid_json(emulate: Emulate) -> None:
    words = SCALE.replace("n=64", "n=60").replace("f=0.1", "f=nan")
    assert emulate(f"{words} --max-excess 0 {FILES}", "--check", "out ~ in") == 1
    (check,) = row()["checks"]
    assert (check["rel_error"], check["max_error"]) == (None, None)


def test_a_view_of_the_whole_source(emulate: Emulate, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ptx").write_text(PLAIN)
    assert emulate(f"{LAUNCH} --no-checks", file="k.ptx") == 0
    worst = capsys.readouterr().out
    assert ".version" not in worst
    assert emulate(f"{LAUNCH} --no-checks --order source", file="k.ptx") == 0
    whole = capsys.readouterr().out
    assert "  9  │" in whole
    assert "⋯" in whole or ".version" in whole
    assert "10 !│" in worst
    assert "10 !│" in whole


def test_the_view_is_as_wide_as_the_terminal(
    emulate: Emulate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("k.ptx").write_text(PLAIN)
    for columns in (60, 80, 160):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert emulate(f"{LAUNCH} --no-checks", file="k.ptx") == 0
        out = capsys.readouterr().out
        view, _, _ = out.partition("\nMost issued")
        assert max(map(len, view.splitlines())) <= columns
        whole = "add.s64 %d2, %d0, %d1; st.global.u32 [%d2], %r0; ret;"
        assert (f"│  {whole}" in out) is (columns == 160)


# --- Exit codes and files ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (SCALE, 0),
        (SCALE.replace("in=randn:64", "in=randn:60"), 1),  # a finding
        (f"{SCALE} --check 'out == in'", 1),
        (f"{SCALE} --step-limit 1", 0),  # without a loop it ends by itself
        ("--grid 1", 2),
        (f"{SCALE} --cluster 2", 2),  # not modelled
    ],
)
def test_exit_codes(emulate: Emulate, words: str, code: int) -> None:
    assert emulate(words) == code


@pytest.mark.parametrize(("limit", "code"), [("10", 1), ("200", 0)])
def test_the_step_limit(
    emulate: Emulate, limit: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = "mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p, %r2, 100; @%p bra L; mul.f32"
    Path("loop.ptx").write_text(PTX.replace("mul.f32", loop))
    assert emulate(f"{SCALE} --step-limit {limit}", file="loop.ptx") == code
    assert ("did not complete, 1 finding" in capsys.readouterr().out) is (code == 1)


def test_exit_codes_of_kernels(emulate: Emulate, compiler: str) -> None:
    Path("bad.cu").write_text("__global__ void k( {")
    assert emulate("--grid 1 --block 1", file="bad.cu") == 2
    Path("bad.ptx").write_text(PTX.replace("mul.f32", "frobnicate.f32"))
    assert emulate(SCALE, file="bad.ptx") == 2


def test_an_interrupt_is_130(emulate: Emulate, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: Any, **options: Any) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.cli.emulate_run.emulate", interrupt)
    assert emulate(f"{SCALE} {FILES}") == 130
    assert sorted(os.listdir()) == ["scale.ptx"]  # nothing half written


def test_a_reader_that_leaves_after_a_line(emulate: Emulate) -> None:
    command = f"{shlex.quote(sys.executable)} -m tilewright emulate scale.ptx {SCALE}"
    root = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; echo ${{PIPESTATUS[0]}}"],
        env={**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stdout == "scale, grid 1, block 64: no findings\n0\n"
    assert done.stderr == ""


def test_stdout_is_json_alone(emulate: Emulate, capsys: pytest.CaptureFixture[str]) -> None:
    words = SCALE.replace("out=", "result=")  # a note, too
    assert emulate(f"{words} --json - --html r.html --max-excess 0") == 0
    captured = capsys.readouterr()
    (found,) = json.loads(captured.out)["rows"]
    assert found["warnings"] == ["--arg binds by order, not by label; here result is for out."]
    assert f"note: {found['warnings'][0]}" in captured.err
    assert "no findings" in captured.err


def test_everything_the_text_has_is_in_the_json(emulate: Emulate) -> None:
    assert emulate(f"{SCALE} {FILES} --save out=y.npy", "--check", "out ~ f * in") == 0
    found = row()
    assert found["sources"]["scale.ptx"] == PTX
    assert found["paths"] == {"scale.ptx": "scale.ptx"}
    assert found["saved"] == {"out": "y.npy"}
    assert sum(line["issues"] for line in found["issues"]) == found["totals"]["instructions"]
    assert found["printed"] == []
    assert (found["passed"], found["completed"], found["part"]) == (True, True, None)

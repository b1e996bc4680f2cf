"""`tilewright emulate`: its example, its JSON contract, its exit codes, its sentences."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.cli.output import late_progress
from tilewright.emulator.findings import Finding
from tilewright.emulator.report import Report

from .conftest import PTX, SCALE, Emulate

CUDA = """#include "scale.cuh"
struct Args { const float* x; int n; };
__global__ void first(const float* x, float* y, int n) {
  const int i = blockIdx.x * BM + threadIdx.x;
  if (i < n) y[i] = SCALE * x[i];
}
__global__ void second(Args args, float* y) { y[threadIdx.x] = args.n; }
"""

ROW = ["file", "arch", "passed", "kernel", "symbol", "grid", "block", "part", "checked",
       "completed", "totals", "demands", "findings", "accesses", "instructions", "issues",
       "bulk", "l2_requests_per_block", "timeline", "printed", "notes", "sass", "sources", "paths",
       "checks", "saved", "warnings"]  # fmt: skip


def row(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tilewright.emulate/1"
    (found,) = document["rows"]
    assert list(found) == ROW
    return dict(found)


# --- What it prints and writes ----------------------------------------------------------


def example() -> str:
    """The lines of the help text that are to be pasted."""
    words = [sys.executable, "-m", "tilewright", "emulate", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    first = next(at for at, line in enumerate(lines) if line.startswith("Example"))
    return "\n".join(lines[first + 2 : lines.index("", first + 2)]) + "\n"


def test_the_example_of_the_help_works_when_pasted(compiler: str, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    shim = commands / "tilewright"
    shim.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tilewright "$@"\n')
    shim.chmod(0o755)
    here = tmp_path / "empty"
    here.mkdir()
    text = example()
    assert "tilewright emulate transpose.cu" in text
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    root = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    done = subprocess.run(
        ["bash"],
        input=text,
        cwd=here,
        env={**os.environ, "PATH": path, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "✓ out == in.T" in done.stdout
    assert "transpose, grid 1, block 32×32: no findings" in done.stdout
    assert "No line is above its ideal; these are the busiest." in done.stdout
    worse = text.replace("[33]", "[32]")
    (here / "run.sh").write_text(worse)
    done = subprocess.run(
        ["bash", "run.sh"],
        cwd=here,
        env={**os.environ, "PATH": path, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1,056 wavefronts of shared memory, 16.5 × ideal: 992 bank conflicts" in done.stdout
    assert "↳ ld.shared.f32: 32-way bank conflicts, all of the excess" in done.stdout


def test_a_run_for_people(emulate: Emulate, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate(SCALE, "--check", "out ~ f * in", "--save", "out=y.npy") == 0
    said = capsys.readouterr().out
    assert "scale, grid 1, block 64: no findings\n" in said
    assert "16 sectors of global memory, 1.0 × ideal: 8 loaded, 8 stored\n" in said
    assert "scale.ptx\n" in said
    assert "│  mul.wide.u32 %d2, %r1, 4;" in said
    assert "Most issued: " in said
    assert "✓ out ~ f * in: rel. error " in said
    assert "out is in y.npy" in said
    out = np.load("y.npy")
    assert out.shape == (64,)
    assert np.isfinite(out).all()


def test_json(emulate: Emulate, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulate(SCALE, "--check", "out ~ f * in", "--kernel", "scale", "--json", "-") == 0
    found = row(capsys)
    assert (found["file"], found["kernel"], found["arch"]) == ("scale.ptx", "scale", None)
    assert (found["grid"], found["block"], found["completed"]) == ([1, 1, 1], [64, 1, 1], True)
    load, store = found["accesses"]
    assert (load["opcode"], load["requests"], load["sectors"]) == ("ld.global.f32", 2, 8)
    assert (store["space"], store["bytes"], type(store["bytes"])) == ("global", 256, int)
    assert found["instructions"]["st.global.f32"] == 2
    assert found["totals"]["global_sectors"] == 16
    assert found["findings"] == []
    (check,) = found["checks"]
    assert (check["check"], check["correct"], check["wrong"]) == ("out ~ f * in", True, 0)
    assert check["elements"] == 64


def test_wrong_results_are_1_and_nan_is_null(
    emulate: Emulate, capsys: pytest.CaptureFixture[str]
) -> None:
    words = SCALE.replace("n=64", "n=63")
    assert emulate(words, "--check", "out ~ f * in", "--json", "-") == 1
    captured = capsys.readouterr()
    said = " ".join(captured.err.split())
    assert "1 finding, 1 failed check" in said
    assert "✗ out ~ f * in: 1 of 64 elements are wrong, first out[63] = nan" in said
    (check,) = json.loads(captured.out)["rows"][0]["checks"]
    assert (check["correct"], check["rel_error"]) == (False, None)
    assert emulate(words, "--no-checks") == 0
    assert emulate(words) == 1  # one element of an output is never written
    assert "1 of 64 elements of out" in capsys.readouterr().out


def test_long_runs_leave_pipes_clean(
    emulate: Emulate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[int, int]] = []

    @contextmanager
    def progress(what: str) -> Iterator[Callable[[int, int], None]]:
        with late_progress(what, 0) as tell:

            def step(done: int, total: int) -> None:
                told.append((done, total))
                tell(done, total)

            yield step

    monkeypatch.setattr("tilewright.cli.emulate.late_progress", progress)
    assert emulate() == 0
    assert capsys.readouterr().err == ""
    assert told == [(1, 1)]
    assert emulate(SCALE, "--json", "-") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["rows"]
    assert "running" not in captured.err  # the table is there, as stdout holds JSON


@pytest.mark.parametrize("json", [[], ["--json", "-"]])
def test_a_closed_pipe_keeps_the_exit_code(json: list[str], emulate: Emulate) -> None:
    words = [sys.executable, "-m", "tilewright", "emulate", "scale.ptx", *shlex.split(SCALE), *json]
    root = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    for more, code in (([], 0), (["--check", "out == in"], 1)):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [*words, *more],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": root},
            text=True,
            check=False,
        )
        os.close(writer)
        assert done.returncode == code
        assert "Broken" not in done.stderr
        assert "Traceback" not in done.stderr


def test_findings_are_1_and_call_arrays_by_their_labels(
    emulate: Emulate, capsys: pytest.CaptureFixture[str]
) -> None:
    words = SCALE.replace("in=randn:64", "source=randn:60")
    assert emulate(words, "--json", "-") == 1
    captured = capsys.readouterr()
    (finding,) = json.loads(captured.out)["rows"][0]["findings"]
    assert finding["array"] == "source"
    assert "(source)" in finding["message"]
    assert "✗ out-of-bounds: ld.global" in captured.err
    assert finding["file"] == "scale.ptx"
    assert f"{finding['line']} ✗│" in captured.err
    assert "--arg binds by order, not by label; here source is for in." in captured.err


def test_a_run_that_stops_is_1(
    emulate: Emulate, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Report(False, findings=[Finding("deadlock", "warps wait for ever", "a.cu", 3)])
    monkeypatch.setattr("tilewright.cli.emulate_run.emulate", lambda *_, **__: stuck)
    assert emulate() == 1
    said = capsys.readouterr().out
    assert "did not complete" in said
    assert "a.cu" in said
    assert "3 ✗│" in said
    assert "✗ deadlock: warps wait for ever" in said


def test_files_in_and_out(emulate: Emulate, capsys: pytest.CaptureFixture[str]) -> None:
    np.save("x.npy", np.arange(64, dtype="f4"))
    words = SCALE.replace("in=randn:64", "in=load:x.npy").replace("f=0.1", "f=-2")
    more = ("--save", "out=y.npy", "--json", "r.json", "--check", "out == -2 * in")
    assert emulate(words, *more) == 0
    assert np.load("y.npy").tolist() == [-2.0 * i for i in range(64)]
    assert json.loads(Path("r.json").read_text())["rows"][0]["completed"] is True
    refused: tuple[tuple[tuple[str, ...], str], ...] = (
        (("--save", "out=x.npy"), "x.npy is read by this run; name another file"),
        (("--save", "out=./a.npy", "--save", "in=a.npy"), "a.npy is written twice"),
        (("--save", "out=y.txt"), "must end in .npy"),
        (("--save", "out=no/y.npy"), "cannot be written"),
        (("--save", "f=y.npy"), "'f' is not an array; there are: out, in."),
        (("--save", "y.npy"), "write LABEL=VALUE, as in c=out.npy"),
        (("--json", "x.npy"), "--json x.npy is another file of this run"),
        (("--json", "scale.ptx"), "is another file of this run"),
        (("--json", "no/r.json"), "cannot be written"),
    )
    for words_more, said in refused:
        before = Path("x.npy").read_bytes()
        capsys.readouterr()
        assert emulate(words, *words_more) == 2, words_more
        assert said in capsys.readouterr().err
        assert Path("x.npy").read_bytes() == before


def test_the_data_part_of_a_padded_array(
    emulate: Emulate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: dict[str, Any] = {}
    real = tilewright.emulate

    def spy(*args: Any, **options: Any) -> Report:
        told.update(options, progress=None, labels=None)
        return real(*args, **options)

    monkeypatch.setattr("tilewright.cli.emulate_run.emulate", spy)
    words = SCALE.replace("n=64", "n=60")
    shapes = ("--shape", "out=60", "--shape", "in=60")
    assert emulate(words, *shapes, "--check", "out ~ in * f") == 0
    assert told == {"shapes": {0: (60,), 1: (60,)}, "progress": None, "labels": None}
    for more, said in (
        (("--shape", "out=65"), "65 is no part of 64"),
        (("--shape", "out=8x8"), "8x8 is no part of 64"),
        (("--shape", "n=8"), "'n' is not an array"),
        (("--shape", "out=x"), "is not a shape"),
        (("--shape", "out=8", "--shape", "out=9"), "given twice"),
    ):
        capsys.readouterr()
        assert emulate(words, *more) == 2
        assert said in capsys.readouterr().err


def test_options_are_passed_on_only_when_given(
    emulate: Emulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []

    def spy(*args: Any, **options: Any) -> Report:
        assert callable(options.pop("progress"))
        assert options.pop("labels") == ["out", "in", "f", "n"]
        told.append(options)
        return Report(True)

    monkeypatch.setattr("tilewright.cli.emulate_run.emulate", spy)
    assert emulate() == 0
    words = ("--schedule random --seed 3 --blocks sample:4 --no-checks --cluster 2,1 "
             "--shared-bytes 1024 --step-limit 9")  # fmt: skip
    assert emulate(f"{SCALE} {words}") == 0
    assert told == [
        {},
        {
            "shared_bytes": 1024,
            "step_limit": 9,
            "schedule": "random",
            "seed": 3,
            "blocks": "sample:4",
            "cluster": (2, 1, 1),
            "checks": False,
        },
    ]


# --- CUDA C++ ---------------------------------------------------------------------------


@pytest.fixture
def cuda(emulate: Emulate) -> Emulate:
    Path("inc").mkdir()
    Path("scale.cuh").write_text('#include "far.cuh"\n')
    Path("inc/far.cuh").write_text("#define SCALE 3.0f\n")
    Path("two.cu").write_text(CUDA)

    def call(words: str, *more: str) -> int:
        return emulate(f"--include inc --define BM=32 --block 32 {words}", *more, file="two.cu")

    return call


def test_cuda(compiler: str, cuda: Emulate, capsys: pytest.CaptureFixture[str]) -> None:
    words = "--kernel first --grid 2 --arg x=randn:50 --arg y=empty:50 --arg n=50"
    assert cuda(words, "--check", "y ~ 3 * x", "--json", "-") == 0
    found = row(capsys)
    assert (found["kernel"], found["arch"]) == ("first", "sm_80")
    assert [(a["file"], a["line"]) for a in found["accesses"]] == [("two.cu", 5)] * 2
    assert found["symbol"] == "_Z5firstPKfPfi"
    bytes_ = "bytes:" + "00" * 8 + "07000000" + "00" * 4
    words = f"--kernel second --grid 1 --arg args={bytes_} --arg y=empty:32"
    assert cuda(words, "--check", "y == 7") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--grid 1", "two.cu has 2 kernels; name one by --kernel: "
         "first(float const*, float*, int), second(Args, float*)."),
        ("--grid 1 --kernel third", "--kernel third is not in the module; it has: first("),
        ("--grid 1 --kernel first --arg x=zeros:9", "--arg is given 1 times (x); first takes 3 "
         "parameters (float const* x, float* y, int n)."),
        ("--grid 1 --kernel first", "--arg is given 0 times; first takes 3 parameters"),
        ("--grid 1 --kernel first --arg x=5 --arg y=null --arg n=1.5",
         "--arg n is an integer of 4 bytes, not 1.5"),
        ("--grid 1 --kernel first --arg x=null --arg y=null --arg n=null",
         "--arg n is for int n, of 4 bytes, which takes no pointer"),
        ("--grid 1 --kernel first --arg x=null --arg y=null --arg n=5000000000",
         "--arg n is 5000000000, which does not fit in 4 bytes"),
        ("--grid 1 --kernel second --arg a=bytes:00 --arg y=null", "--arg a takes 16 bytes, not 1"),
        ("--grid 1 --kernel second --arg a=7 --arg y=null", "--arg a is for Args args, a "
         "struct of 16 bytes; give bytes:HEX"),
        ("--grid 1 --define BM=33", "--define BM is given twice"),
        ("--grid 1 --define 3=4", "write NAME or NAME=VALUE"),
        ("--grid 1 --include none", "--include none is not a folder"),
        ("--grid 1 --arch ''", "--arch '' must look like sm_90"),
        ("--grid 1 --arch sm90", "--arch sm90 must look like sm_90"),
        ("--grid 1 --arch sm_999", "sm_999"),
        ("--grid 1 --define SCALE=(", "two.cu"),
    ],
)  # fmt: skip
def test_cuda_input_that_is_refused(
    compiler: str, cuda: Emulate, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cuda(words) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


# --- Sentences --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "--grid"),
        ("--grid 1", "--block"),
        ("--grid 0 --block 1", "--grid.x=0 must be between 1 and"),
        ("--grid 1,1,1,1 --block 1", "must have 1 to 3 extents"),
        ("--grid 1.5 --block 1", "--grid 1.5: write 1 to 3 whole numbers"),
        ("--grid 8x2 --block 1", "--grid 8x2: write 1 to 3 whole numbers, as in 8 or 8,2"),
        ("--grid 'a\nb' --block 1", "--grid a?b: write"),
        ("--grid '' --block 1", "write 1 to 3 whole numbers"),
        ("--grid ٣ --block 1", "write 1 to 3 whole numbers"),
        ("--grid 1 --block 2000", "--block.x=2000"),
        ("--grid 1 --block 64,32", "2048 threads"),
        (f"{SCALE} --arg more=5", "--arg is given 5 times (out, in, f, n, more); scale takes 4"),
        (f"{SCALE} --arg n=5", "--arg n is given twice"),
        (f"{SCALE} --kernel none", "it has: scale"),
        (f"{SCALE} --data-seed -1", "--data-seed -1 must be 0 or more"),
        (f"{SCALE} --data-seed x", "'x' is not a whole number"),
        (f"{SCALE} --shared-bytes 9999999", "--shared-bytes 9999999 must be 0 to"),
        (f"{SCALE} --shared-bytes -1", "--shared-bytes -1 must"),
        (f"{SCALE} --cluster 0", "--cluster.x=0"),
        (f"{SCALE} --cluster x", "--cluster x: write"),
        (f"{SCALE} --schedule backwards", "--schedule backwards is not known"),
        (f"{SCALE} --blocks 5", "--blocks 5 must be ids from 0 to 0"),
        (f"{SCALE} --blocks 0,0", "names block 0 twice"),
        (f"{SCALE} --blocks 0,", "--blocks 0,: write first:N or sample:N, N being 1 or more, or"),
        (f"{SCALE} --blocks=-1", "--blocks -1: write first:N or"),
        (f"{SCALE} --step-limit 0", "--step-limit 0 must be 1 or more"),
        (f"{SCALE} --order best", "best"),
        (f"{SCALE} --max-excess x", "--max-excess x: write a whole number"),
        (f"{SCALE} --max-excess=-1", "--max-excess -1: write a whole number"),
        (f"{SCALE} --max-excess lines=0", "or NAME=N with wavefronts, sectors, copies"),
        (f"{SCALE} --max-excess sectors=0,sectors=1", "names sectors twice"),
        (f"{SCALE} --html=-", "--html - is not known; name a file"),
        (f"{SCALE} --html ''", "the name of a file to write is empty"),
        (f"{SCALE} --html a.html --junit a.html", "is another file of this run"),
        (f"{SCALE} --sarif scale.ptx", "--sarif scale.ptx is another file of this run"),
        (f"{SCALE} --sarif none/r.sarif", "none is missing"),
        (f"{SCALE} --html .", "it is a folder; name a file"),
        ("--grid 1 --block.x=32", "'--block.x=32' is not an option; give --block all it takes"),
        (f"{SCALE} --blocks first:0", "write first:N or sample:N"),
        (
            f"{SCALE} --blocks first:1 --check 'out ~ in'",
            "compares whole arrays, and --blocks "
            "first:1 leaves parts of them unwritten; leave out --blocks, or run a smaller problem",
        ),
        (f"{SCALE} --define A=1", "PTX is compiled already"),
        (f"{SCALE} --check 'out ~ in @'", "is expected at the end"),
        (f"{SCALE} --check '-out ~ in'", "the left side must be the name"),
        (f"{SCALE} --check 'out ~ out'", "out is empty before the launch"),
        (f"{SCALE} --check 'out ~ y'", "y is not an array or a number among the arguments"),
        (f"{SCALE} --check 'n ~ in'", "n is a number, which no kernel can write"),
        (SCALE.replace("in=randn:64", "in=null") + " --check 'out ~ in'", "in is not an array"),
        (
            SCALE.replace("in=randn:64", "in=1.5"),
            "--arg in is a pointer or an integer of 8 bytes, "
            "not 1.5; give an array, as in in=randn:64, null or a whole number.",
        ),
        (SCALE.replace("f=0.1", "f=zeros:3"), "--arg f is a .f32 of 4 bytes"),
        (SCALE.replace("out=empty:64", "out=empty:64:fp17"), "'fp17' is not a type"),
        (f"{SCALE} --no-such-option", "--no-such-option"),
    ],
)
def test_bad_input_is_one_sentence(
    emulate: Emulate, words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert emulate(words) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.cu", None, "No such file"),
        ("k.txt", b"", "must be a .cu or .cuh file"),
        ("k.ptx", b"\xff\xfe", "not a text file"),
        ("k.ptx", b"", "k.ptx has no kernel"),
        ("k.ptx", b"garbage {{{", ""),
        ("k.ptx", b".version 8.0\n.visible .entry k(", ""),
        ("k.ptx", PTX.replace("mul.f32", "frobnicate.f32").encode(), "frobnicate"),
        ("k\0.ptx", None, "not a text file"),
    ],
)
def test_files_that_are_none(
    emulate: Emulate,
    name: str,
    content: bytes | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    assert emulate(SCALE, file=name) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1
    assert "fault of tilewright" not in captured.err


def test_nothing_is_written_when_a_run_is_refused(emulate: Emulate) -> None:
    words = SCALE.replace("n=64", "n=1.5")
    assert emulate(words, "--save", "out=y.npy", "--json", "r.json") == 2
    assert sorted(os.listdir()) == ["scale.ptx"]

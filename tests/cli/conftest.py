"""What the tests of `tilewright emulate` and `tilewright explain` share."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.__main__ import run

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry scale(.param .u64 out, .param .u64 in, .param .f32 factor, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<3>; .reg .f32 %f<2>; .reg .b64 %d<4>;
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in];
  ld.param.f32 %f0, [factor]; ld.param.u32 %r0, [n];
  mov.u32 %r1, %tid.x; setp.ge.u32 %p, %r1, %r0; @%p ret;
  mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; ld.global.f32 %f1, [%d3];
  mul.f32 %f1, %f1, %f0; add.s64 %d3, %d0, %d2; st.global.f32 [%d3], %f1; ret;
}
"""

SCALE = "--grid 1 --block 64 --arg out=empty:64 --arg in=randn:64 --arg f=0.1 --arg n=64"

Emulate = Callable[..., int]
Rows = Callable[[str], list[dict[str, Any]]]
Shown = Callable[[str], str]
Refused = Callable[[str], str]


@pytest.fixture
def emulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Emulate:
    """Runs `tilewright emulate scale.ptx <words>` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("scale.ptx").write_text(PTX)

    def call(words: str = SCALE, *more: str, file: str = "scale.ptx") -> int:
        return run(["emulate", file, *shlex.split(words), *more])

    return call


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str]) -> Rows:
    """Rows of `tilewright explain <words> --json -`, which must succeed."""

    def rows(words: str) -> list[dict[str, Any]]:
        assert run(["explain", *shlex.split(words), "--json", "-"]) == 0, capsys.readouterr().err
        document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        command = words.split()[0]
        assert document["schema"] == f"tilewright.explain-{command}/1"
        found: list[dict[str, Any]] = document["rows"]
        return found

    return rows


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What a person sees of `tilewright explain <words>` on 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def text(words: str) -> str:
        assert run(["explain", *shlex.split(words)]) == 0, capsys.readouterr().err
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return text


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """The one sentence with which `tilewright explain <words>` ends, and its exit code is 2."""

    def sentence(words: str) -> str:
        assert run(["explain", *shlex.split(words)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("tilewright: ")
        assert captured.err.count("\n") == 1
        return captured.err.removeprefix("tilewright: ").rstrip("\n")

    return sentence

"""What the tests of `tilewright emulate` share."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

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


@pytest.fixture
def emulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Emulate:
    """Runs `tilewright emulate scale.ptx <words>` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("scale.ptx").write_text(PTX)

    def call(words: str = SCALE, *more: str, file: str = "scale.ptx") -> int:
        return run(["emulate", file, *shlex.split(words), *more])

    return call

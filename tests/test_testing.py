"""tilewright.testing: assertions, and the plugin in a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import tilewright
from tilewright.testing import Emulated, emulated

ROOT = Path(__file__).parent.parent
PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 stride)
{
.reg .b64 %d<4>; .reg .b32 %r<6>;
.shared .align 16 .b8 s[4096];
ld.param.u64 %d0, [p]; ld.param.u32 %r4, [stride];
mov.u32 %r0, %tid.x; mov.u32 %r1, s; mul.lo.u32 %r5, %r0, %r4; mul.wide.u32 %d1, %r5, 1;
add.s64 %d2, %d0, %d1; add.s32 %r2, %r1, %r5;
st.shared.u32 [%r2], %r0;
st.global.u32 [%d2], %r0;
ret;
}
"""
TEST = f'''
import numpy as np

PTX = """{PTX}"""

def test_clean(emulate):
    out = np.zeros(32, "u4")
    report = emulate(PTX, "k", (1,), (32,), [out, 4])
    assert out.tolist() == list(range(32))
    report.assert_clean()
    report.assert_no_excess()

def test_conflicts(emulate):
    emulate(PTX, "k", (1,), (32,), [np.zeros(1024, "u4"), 128]).assert_no_excess(sectors=None)
'''


def launch(words: int, stride: int) -> Emulated:
    return emulated(PTX, "k", (1,), (32,), [np.zeros(words, "u4"), stride])


def test_a_good_kernel_passes() -> None:
    report = launch(32, 4)
    report.assert_clean()
    report.assert_no_excess(wavefronts=0, sectors=0, copies=0)
    assert (report.kernel, report.grid[0] if report.grid else 0) == ("k", 1)


def test_excess_is_shown_with_its_line() -> None:
    report = launch(1024, 128)
    report.assert_clean()
    with pytest.raises(AssertionError, match="31 bank conflicts") as raised:
        report.assert_no_excess(wavefronts=30, sectors=None)
    assert str(raised.value).startswith(
        "k: 31 bank conflicts (wavefronts beyond the ideal), all at <ptx>:11 (st.shared.u32); "
        "the limit is 30\n"
    )
    assert "11 !│st.shared.u32 [%r2]" in str(raised.value)
    assert "32-way bank conflicts, all of the excess" in str(raised.value)
    with pytest.raises(AssertionError, match=r"28 sectors beyond the ideal, .*; the limit is 27"):
        report.assert_no_excess(wavefronts=31, sectors=27)
    report.assert_no_excess(wavefronts=31, sectors=28)
    report.assert_no_excess(wavefronts=None, sectors=None)


def test_findings_are_shown_with_their_line() -> None:
    with pytest.raises(AssertionError, match="k: 1 finding: out-of-bounds at <ptx>:12\n") as raised:
        launch(16, 4).assert_clean()
    assert "12 ✗│st.global.u32 [%d2]" in str(raised.value)
    assert "✗ out-of-bounds: st.global" in str(raised.value)


def test_the_text_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(PTX, encoding="utf-8")
    report = emulated(path, "k", (1,), (32,), [np.zeros(32, "u4"), 4])
    assert list(report.sources) == ["k.ptx"]
    assert {access.file for access in report.accesses} == {"k.ptx"}


def test_cuda(compiler: str) -> None:
    text = 'extern "C" __global__ void fill(int* p) {\n  p[threadIdx.x + 1] = 1;\n}\n'
    with pytest.raises(AssertionError, match=r"p\[threadIdx.x \+ 1\] = 1;"):
        emulated(text, "fill", (1,), (32,), [np.zeros(32, "i4")]).assert_clean()


def test_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST, encoding="utf-8")
    options = ["-p", "tilewright.testing", "-p", "no:cacheprovider", "--emulated-reports", "kept"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(tilewright.__file__).parent.parent)},
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
    assert "k: 31 bank conflicts" in done.stdout
    assert "11 !│st.shared.u32" in done.stdout
    assert "def assert_no_excess" not in done.stdout  # the failure is at the user's own line
    kept = tmp_path / "kept"
    assert sorted(path.suffix for path in kept.iterdir()) == sorted([".html", ".xml", ".sarif"] * 2)
    (failed,) = ET.parse(kept / "test_it.py-test_conflicts.xml").iter("failure")
    assert failed.get("type") == "excess"
    assert "31 bank conflicts" in str(failed.text)
    assert not list(ET.parse(kept / "test_it.py-test_clean.xml").iter("failure"))


def test_it_is_registered() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"tilewright.testing": "tilewright.testing"}


def test_it_needs_no_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None; import tilewright.testing as t; "
        "print(hasattr(t, 'emulate'), t.emulated.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8")
    assert done.stdout.split() == ["False", "emulated"], done.stderr

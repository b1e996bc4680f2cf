"""A text is read, and a kernel compiled, once; what must not be shared is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tilewright.emulator import loaded as module_of_loaded
from tilewright.emulator.loaded import loaded
from tilewright.errors import UnsupportedError

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
COUNT = (
    HEAD
    + """.global .u32 calls;
.visible .entry count(.param .u64 out)
{
  .reg .b32 %r<2>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [out]; mov.u64 %d1, calls;
  atom.global.add.u32 %r0, [%d1], 1; st.global.u32 [%d0], %r0; ret;
}
"""
)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module_of_loaded, "_kept", {})


def text(body: str) -> str:
    return f"{HEAD}.visible .entry k()\n{{\n.reg .b32 %r<9>;\n{body}\nret;\n}}\n"


def test_a_text_is_read_once_and_its_kernels_are_compiled_once() -> None:
    one, other = loaded(COUNT), loaded(str(COUNT.encode(), "utf-8"))
    assert one is other
    kernel = one.module.kernels["count"]
    assert one.program(kernel) is other.program(kernel)
    assert one.program(kernel).traits is one.program(kernel).traits


def test_other_texts_owners_and_names_are_read_by_themselves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    several = [loaded(COUNT), loaded(COUNT + "\n"), loaded(COUNT, owner="a"), loaded(COUNT, "k")]
    assert len({id(each.module) for each in several}) == 4
    monkeypatch.chdir(tmp_path)  # names of files are shown as seen from there
    assert loaded(COUNT) is several[0]
    assert loaded(COUNT, "k") is not several[3]


def test_launches_share_no_variables() -> None:
    for _ in range(2):
        out = np.full(1, 9, np.uint32)
        report = tilewright.emulate(COUNT, "count", 1, 1, [out])
        assert report.findings == []
        assert out[0] == 0


def test_a_kernel_that_is_refused_is_not_kept() -> None:
    """The error lies in the module: raised again and again it would hold every caller's frames."""
    depths = []
    for _ in range(3):
        one = loaded(text("frobnicate.b32 %r1, [%r2"))
        with pytest.raises(UnsupportedError, match="frobnicate") as caught:
            one.program(one.module.kernels["k"])
        depths.append(len(caught.traceback))
    assert depths == depths[:1] * 3
    assert module_of_loaded._kept == {}


def test_those_used_longest_ago_go(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [text(f"mov.u32 %r0, {number};") for number in range(4)]
    monkeypatch.setattr(module_of_loaded, "MOST_KEPT", 3 * loaded(texts[0]).weight)
    first, second, _ = map(loaded, texts[:3])
    assert loaded(texts[0]) is first
    loaded(texts[3])  # in place of the second
    assert loaded(texts[0]) is first
    assert loaded(texts[1]) is not second


@pytest.mark.parametrize(
    "grown",
    [
        lambda: text(".reg .b64 %d<4000>;"),
        lambda: text("mov.u32 %r0, 1;" * 4000),
        lambda: text("// " + "x" * 2_000_000),
    ],
    ids=["registers", "instructions", "characters"],
)
def test_what_takes_memory_has_weight(
    monkeypatch: pytest.MonkeyPatch, grown: Callable[[], str]
) -> None:
    monkeypatch.setattr(module_of_loaded, "MOST_KEPT", 4000)
    small = loaded(text(""))
    loaded(grown())
    assert list(module_of_loaded._kept.values()) == []
    assert loaded(text("")) is not small

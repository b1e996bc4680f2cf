"""Multiply-adds in a row are computed together, and give what they give one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.emulator import fused, loaded
from tilewright.emulator.report import Report

Execute = Callable[..., Report]
Text = Callable[..., str]

LOAD = "".join(
    f"ld.global.f32 %f{i}, [%d1+{4 * 1024 * i}];\n" for i in range(8)
)  # of 1,024 threads, eight rows of numbers
ADDRESS = "mov.u32 %r1, %ctaid.x; mad.lo.u32 %r1, %r1, 256, %r99;\nmul.wide.u32 %d2, %r1, 4;\n"
INDEPENDENT = "".join(f"fma.rn.f32 %f{8 + i}, %f{i}, %f{7 - i}, %f{i ^ 1};\n" for i in range(8))
CHAINED = "".join(f"fma.rn.f32 %f{8 + i}, %f{i}, %f{7 + i}, %f{i ^ 1};\n" for i in range(8))
# Each reads what comes to be overwritten; the last two write the same register.
REUSED = (
    "fma.rn.f32 %f8, %f0, %f1, %f2; fma.rn.f32 %f0, %f1, %f2, %f3;\n"
    "fma.rn.f32 %f1, %f2, %f3, %f1; fma.rn.f32 %f2, %f3, 0f3FC00000, %f4;\n"
    "fma.rn.f32 %f9, %f4, %f5, %f6; fma.rn.f32 %f9, %f5, %f6, %f7;\n"
)
MIXED = INDEPENDENT + "mul.f32 %f2, %f8, %f9;\n" + REUSED + CHAINED
STORE = "".join(f"st.global.f32 [%d1+{4 * 1024 * i}], %f{i};\n" for i in range(16))


def numbers() -> Any:
    """Ordinary ones, subnormals, infinities, NaN, and products that end on a tie."""
    random = np.random.default_rng(7)
    raw = random.integers(0, 1 << 32, (8, 1024), np.uint64).astype(np.uint32)
    raw[:, ::3] = random.standard_normal((8, 342)).astype("f4").view("u4")
    raw[:, 1::5] &= 0x8FFF_FFFF  # small ones
    return raw.view("f4")


def stored(execute: Execute, body: str, first: str = "") -> Any:
    """Bits of the 16 registers of every thread; NaN is like any other."""
    out = np.full((16, 1024), np.nan, "f4")
    text = (
        f"{ADDRESS}add.u64 %d1, %d0, %d2;\n{LOAD}{first}{body}OUT:\nadd.u64 %d1, %d9, %d2;\n{STORE}"
    )
    text = "mov.u64 %d9, %d1;\n" + text
    report = execute(text, numbers(), out, grid=(4,), block=(256,))
    assert report.completed
    return np.where(np.isnan(out), 0, out.view("u4"))


@pytest.mark.parametrize("body", [INDEPENDENT, CHAINED, REUSED, MIXED])
@pytest.mark.parametrize("first", ["", "setp.gt.f32 %p1, %f0, %f3; @%p1 bra OUT;\n"])
@pytest.mark.parametrize("elements", [1 << 15, 4096, 1])
def test_bit_for_bit(
    execute: Execute, monkeypatch: pytest.MonkeyPatch, body: str, first: str, elements: int
) -> None:
    """All together, four at a time, and one by one because there are so many lanes."""
    monkeypatch.setattr(loaded, "_kept", {})
    monkeypatch.setattr(fused, "_ELEMENTS", elements)
    together = stored(execute, body, first)
    monkeypatch.setattr(loaded, "_kept", {})
    monkeypatch.setattr(fused, "LEAST", 1000)
    np.testing.assert_array_equal(together, stored(execute, body, first))
    assert len(np.unique(together)) > 1000


@pytest.mark.parametrize(
    ("body", "steps"),
    [
        (INDEPENDENT, 1),
        (INDEPENDENT * 2, 2),  # the second writes the same registers
        (CHAINED, 8),
        ("".join(f"fma.rn.f32 %f{8 + i}, %f0, %f1, %f2;\n" for i in range(3)), 3),
        (INDEPENDENT.replace("fma.rn", "@%p1 fma.rn"), 8),
        (INDEPENDENT.replace("fma.rn", "fma.rz"), 8),
        (REUSED, 2),
    ],
)
def test_which_go_together(kernel_text: Text, body: str, steps: int) -> None:
    begun = "".join(f"mov.f32 %f{i}, 0f3F800000;\n" for i in range(16))
    one = loaded.loaded(kernel_text(f"setp.eq.u32 %p1, %r99, 3;\n{begun}bra IN;\nIN:\n{body}", []))
    program = one.program(one.module.kernels["k"])
    assert len(program.blocks[1].steps) == steps


def test_a_register_that_may_be_unset_is_watched(execute: Execute) -> None:
    """Eight sums, one of which nothing began: found where it is stored."""
    body = "".join(f"mov.f32 %f{i}, 0f3F800000;\n" for i in range(16) if i != 12)
    body += "".join(f"fma.rn.f32 %f{8 + i}, %f{i}, %f{i}, %f{8 + i};\n" for i in range(8))
    body += "st.global.f32 [%d0], %f12; st.global.f32 [%d0+4], %f11;"
    report = execute(body, np.zeros(2, "f4"), block=(1,), checks=True)
    assert [finding.kind for finding in report.findings] == ["uninitialised"]
    assert "%f12" in report.findings[0].message

"""Vectors of atomics (sm_90), and cache policies, which end an instruction and change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]


@pytest.mark.parametrize("form", ["red.global.add.v4.f32", "red.global.v4.f32.add"])
@pytest.mark.parametrize("hint", [False, True])
def test_reductions_of_four_floats(execute: Execute, form: str, hint: bool) -> None:
    """Lanes of two blocks add (lane, 1, -lane, 0.5) to eight places; words come in any order."""
    out = np.full((8, 4), 3, "f4")
    form, policy = (f"{form}.L2::cache_hint", ", %d9") if hint else (form, "")
    body = f"""and.b32 %r1, %r99, 7; mul.wide.u32 %d4, %r1, 16; add.s64 %d4, %d0, %d4;
      mov.b64 %d9, 0; cvt.rn.f32.u32 %f1, %r99; neg.f32 %f2, %f1; mov.f32 %f3, 0f3F800000;
      mov.f32 %f4, 0f3F000000; {form} [%d4], {{%f1, %f3, %f2, %f4}}{policy}; ret;"""
    assert execute(body, out, grid=(2,), checks=True).findings == []
    sums = 2 * np.array([sum(range(i, 32, 8)) for i in range(8)])
    expected = np.stack([sums, np.full(8, 8), -sums, np.full(8, 4)], 1) + 3
    np.testing.assert_array_equal(out, expected)


def test_what_atoms_of_vectors_return(execute: Execute) -> None:
    words = np.arange(64, dtype="f4").reshape(32, 2)
    old = np.full((32, 2), np.nan, "f4")
    body = """mul.wide.u32 %d4, %r99, 8; add.s64 %d5, %d0, %d4; add.s64 %d6, %d1, %d4;
      mov.f32 %f1, 0f40000000; atom.global.v2.f32.add {%f3, %f4}, [%d5], {%f1, %f1};
      st.global.v2.f32 [%d6], {%f3, %f4}; ret;"""
    before = words.copy()
    assert execute(body, words, old, checks=True).findings == []
    np.testing.assert_array_equal(old, before)
    np.testing.assert_array_equal(words, before + 2)


@pytest.mark.parametrize(("kind", "dtype"), [("f16", "f2"), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("change", ["add", "min", "max"])
def test_halves(execute: Execute, kind: str, dtype: Any, change: str) -> None:
    values = np.random.default_rng(5).integers(-20, 20, (32, 8)).astype(dtype)
    out = np.full(8, 1, dtype)
    body = f"""mul.wide.u32 %d4, %r99, 16; add.s64 %d1, %d1, %d4;
      ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%d1];
      red.global.v4.{kind}x2.{change}.noftz [%d0], {{%r1, %r2, %r3, %r4}}; ret;"""
    assert execute(body, out, values, checks=True).findings == []
    wide = values.astype("f8")
    expected = {"add": wide.sum(0) + 1, "min": wide.min(0), "max": wide.max(0).clip(1)}[change]
    np.testing.assert_allclose(out.astype("f8"), np.minimum(expected, 1) if change == "min" else
                               expected, atol=2 if change == "add" else 0)  # fmt: skip


def test_a_misaligned_vector_is_told(execute: Execute) -> None:
    body = "red.global.add.v2.f32 [%d0+4], {%f1, %f1}; ret;"
    report = execute(f"mov.f32 %f1, 0f00000000; {body}", np.zeros(8, "f4"))
    assert [it.kind for it in report.findings] == ["misaligned"]


@pytest.mark.parametrize(
    "text",
    [
        "red.global.add.v8.f32 [%d0], {%f0, %f0, %f0, %f0, %f0, %f0, %f0, %f0};",
        "red.global.max.v2.f32 [%d0], {%f0, %f0};",
        "red.global.add.v2.u32 [%d0], {%r0, %r0};",
        "red.global.add.v2.f32 [%d0], {%f0, %f0, %f0};",
        "red.shared.add.v2.f32 [%r0], {%f0, %f0};",
        "red.async.relaxed.cluster.global.add.u32 [%d0], %r0;",
        "multimem.red.global.add.u32 [%d0], %r0;",
    ],
)
def test_other_forms_stop(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError):
        execute(f"{text} ret;", np.zeros(32, "f4"))


@pytest.mark.parametrize(
    "text",
    [
        "ld.global.L2::cache_hint.b32 %r1, [%d1], %d9;",
        "ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.b32 %r1, [%d1], %d9;",
        "mov.b32 %r1, 0; atom.global.add.L2::cache_hint.u32 %r1, [%d1], %r1, %d9;",
        "cp.async.ca.shared.global.L2::cache_hint [%r10], [%d1], 4, %d9; "
        "cp.async.wait_all; ld.shared.u32 %r1, [%r10];",
        "cp.async.ca.shared.global.L2::cache_hint.L2::128B [%r10], [%d1], 4, 4, %d9; "
        "cp.async.wait_all; ld.shared.u32 %r1, [%r10];",
    ],
)
def test_cache_policies_change_nothing(execute: Execute, text: str) -> None:
    out, x = np.zeros(32, "u4"), np.arange(32, dtype="u4") + 9
    body = f""".shared .align 16 .b8 s[128]; mov.u32 %r10, s; shl.b32 %r11, %r99, 2;
      add.u32 %r10, %r10, %r11; add.s64 %d0, %d0, %d99; add.s64 %d1, %d1, %d99;
      createpolicy.fractional.L2::evict_last.b64 %d9; {text}
      st.global.L2::cache_hint.b32 [%d0], %r1, %d9; ret;"""
    assert execute(body, out, x, checks=True).findings == []
    np.testing.assert_array_equal(out, x)


def test_a_policy_must_be_there_and_be_one(execute: Execute) -> None:
    for text in ("ld.global.L2::cache_hint.b32 %r1, [%d0];",
                 "ld.global.L2::cache_hint.b32 %r1, [%d0], [%d0];"):  # fmt: skip
        with pytest.raises(UnsupportedError, match="operand"):
            execute(f"{text} ret;", np.zeros(32, "u4"))

"""Votes, matches, reductions and elections against Python, also with lanes that are off."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]
ALL = 0xFFFF_FFFF

# Which lanes are active, and the member mask that they name.
GROUPS = [(ALL, ALL), (0x0000_FFFF, 0x0000_FFFF), (0xF0F0_1234, 0xF0F0_1234), (0x0F, ALL)]


def run(execute: Execute, body: str, values: np.ndarray[Any, Any], active: int) -> Any:
    """%r1 (or %d5 for 64 bits) holds a value; `body` sets %r5 where bit lane of `active` is 1."""
    out = np.full(32, 0xEEEE_EEEE, "u4")
    wide = values.itemsize == 8
    load = "mul.wide.u32 %d6, %r99, 8; add.s64 %d6, %d0, %d6; ld.global.u64 %d5, [%d6];"
    if not wide:
        load = "add.s64 %d6, %d0, %d99; ld.global.u32 %r1, [%d6];"
    text = f"""{load} mov.u32 %r5, 77; mov.u32 %r6, {active}; shr.u32 %r6, %r6, %r99;
      and.b32 %r6, %r6, 1; setp.eq.u32 %p9, %r6, 0; @%p9 bra SKIP; {body}
      SKIP: add.s64 %d1, %d1, %d99; st.global.u32 [%d1], %r5; ret;"""
    report = execute(text, values, out)
    assert report.findings == []
    for lane in range(32):
        if not active >> lane & 1:
            assert out[lane] == 77
    return out


def lanes(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


@pytest.mark.parametrize(("active", "members"), GROUPS)
@pytest.mark.parametrize("limit", [0, 1, 3, 9])
def test_votes(execute: Execute, active: int, members: int, limit: int) -> None:
    values = np.random.default_rng(0).integers(0, 5, 32).astype("u4")
    there = lanes(active & members)
    yes = [lane for lane in there if values[lane] < limit]
    want = {
        "all": yes == there,
        "any": bool(yes),
        "uni": yes in (there, []),
        "ballot": sum(1 << lane for lane in yes),
    }
    for name, result in want.items():
        forms = [(f"vote.{word}", f", {members}") for word in (f"sync.{name}", f"{name}.sync")]
        if members == ALL:
            forms.append((f"vote.{name}", ""))
        for form, tail in forms:
            body = f"setp.lt.u32 %p1, %r1, {limit};"
            if name == "ballot":
                body += f"{form}.b32 %r5, %p1{tail};"
            else:
                body += f"{form}.pred %p2, %p1{tail}; selp.b32 %r5, 1, 0, %p2;"
            out = run(execute, body, values, active)
            assert {int(out[lane]) for lane in there} == {int(result)}, form


def test_two_halves_of_a_warp_vote_with_their_own_masks(execute: Execute) -> None:
    body = """setp.lt.u32 %p1, %r99, 16; selp.b32 %r7, 0xFFFF, 0xFFFF0000, %p1;
      setp.lt.u32 %p2, %r1, 2; vote.sync.ballot.b32 %r5, !%p2, %r7;"""
    values = np.arange(32, dtype="u4") % 4
    out = run(execute, body, values, ALL)
    assert out.tolist() == [0xCCCC] * 16 + [0xCCCC_0000] * 16


def test_activemask(execute: Execute) -> None:
    for active in (ALL, 0x1234_5678, 1):
        out = run(execute, "activemask.b32 %r5;", np.zeros(32, "u4"), active)
        assert {int(out[lane]) for lane in lanes(active)} == {active}
    out = np.zeros(40, "u4")
    body = "activemask.b32 %r1; add.s64 %d0, %d0, %d99; st.global.u32 [%d0], %r1; ret;"
    execute(body, out, block=(40,))
    assert out.tolist() == [ALL] * 32 + [0xFF] * 8


@pytest.mark.parametrize(("active", "members"), GROUPS)
@pytest.mark.parametrize("kind", ["b32", "b64"])
def test_matches(execute: Execute, active: int, members: int, kind: str) -> None:
    wide = kind == "b64"
    source = "%d5" if wide else "%r1"
    values = np.random.default_rng(1).integers(0, 3, 32).astype("u8" if wide else "u4")
    if wide:
        values <<= np.uint64(40)
    there = lanes(active & members)
    out = run(execute, f"match.any.sync.{kind} %r5, {source}, {members};", values, active)
    for lane in there:
        assert out[lane] == sum(1 << j for j in there if values[j] == values[lane])
    whole = f"""match.all.sync.{kind} %r5|%p1, {source}, {members};
      @%p1 xor.b32 %r5, %r5, 0x80000000;"""
    out = run(execute, whole, values, active)
    assert {int(out[lane]) for lane in there} == {0}
    for lane in there:
        values[lane] = 7
    out = run(execute, whole, values, active)
    assert {int(out[lane]) for lane in there} == {active & members ^ 0x8000_0000}


@pytest.mark.parametrize(("active", "members"), GROUPS)
def test_reductions(execute: Execute, active: int, members: int) -> None:
    values = np.random.default_rng(2).integers(0, 1 << 32, 32).astype("u4")
    there = lanes(active & members)
    unsigned = [int(values[lane]) for lane in there]
    signed = [int(x) for x in values.view("i4")[there]]
    want = {
        "add.u32": sum(unsigned),
        "add.s32": sum(signed),
        "min.u32": min(unsigned),
        "min.s32": min(signed),
        "max.u32": max(unsigned),
        "max.s32": max(signed),
        "and.b32": reduce(lambda a, b: a & b, unsigned),
        "or.b32": reduce(lambda a, b: a | b, unsigned),
        "xor.b32": reduce(lambda a, b: a ^ b, unsigned),
    }
    for name, result in want.items():
        out = run(execute, f"redux.sync.{name} %r5, %r1, {members};", values, active)
        assert {int(out[lane]) for lane in there} == {result % (1 << 32)}, name


@pytest.mark.parametrize(("active", "members"), GROUPS)
def test_election(execute: Execute, active: int, members: int) -> None:
    there = lanes(active & members)
    body = f"elect.sync %r5|%p1, {members}; @%p1 add.u32 %r5, %r5, 100;"
    out = run(execute, body, np.zeros(32, "u4"), active)
    assert [int(out[lane]) - there[0] for lane in there] == [100] + [0] * (len(there) - 1)
    body = f"elect.sync _|%p1, {members}; selp.b32 %r5, 1, 0, %p1;"
    assert run(execute, body, np.zeros(32, "u4"), active)[there[0]] == 1


def test_a_64_bit_shuffle_in_two_halves(execute: Execute) -> None:
    values = np.random.default_rng(3).integers(0, 1 << 64, 32, dtype=np.uint64)
    body = """mov.b64 {%r7, %r8}, %d5; shfl.sync.bfly.b32 %r7|%p1, %r7, 5, 31, -1;
      shfl.sync.bfly.b32 %r8|%p2, %r8, 5, 31, -1; mov.b64 %d7, {%r7, %r8};
      shr.u64 %d7, %d7, 16; cvt.u32.u64 %r5, %d7;"""
    out = run(execute, body, values, ALL)
    want = values[np.arange(32) ^ 5] >> np.uint64(16)
    np.testing.assert_array_equal(out, want.astype("u4"))


@pytest.mark.parametrize(
    "text",
    [
        "vote.sync.all.pred %p1, %p2;",
        "vote.all.pred %p1, %p2, -1;",
        "vote.sync.ballot.pred %p1, %p2, -1;",
        "vote.sync.none.pred %p1, %p2, -1;",
        "match.any.sync.b16 %r1, %h1, -1;",
        "match.any.sync.b32 %r1|%p1, %r2, -1;",
        "redux.sync.add.b32 %r1, %r2, -1;",
        "redux.sync.and.u32 %r1, %r2, -1;",
        "redux.sync.min.f32 %f1, %f2, -1;",
        "elect.sync %r1, -1;",
        "activemask.u32 %r1;",
    ],
)
def test_other_forms_stop(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0]):
        execute(text)

"""The caches of mma operands: found by identity, and bounded."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilewright.emulator.fragments import (
    Fragments,
    Layout,
    fused,
    fused_single,
    layout,
    mma_a,
    mma_b,
    mma_c,
    quad_a,
    quad_b,
    quad_c,
    settled,
    values,
)

FULL = (1, 2, 32)
A, B = mma_a(16, 16, 16), mma_b(16, 16)


def registers(seed: int, count: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 0x3C00, (*FULL, 2)).astype("u2").view("u4")[..., 0] for _ in range(count)
    ]


def test_an_operand_is_unpacked_once_for_each_type() -> None:
    fragments, regs = Fragments(FULL), registers(1, 4)
    as_half = fragments.operand(regs, A, "f16")
    assert fragments.operand(regs, A, "f16") is as_half
    as_bf16 = fragments.operand(regs, A, "bf16")
    assert not np.array_equal(as_half, as_bf16)
    assert fragments.operand(list(reversed(regs)), A, "f16") is not as_half


def test_uniform_registers_are_spread_over_the_lanes() -> None:
    fragments = Fragments(FULL)
    one = np.full((1, 1, 1), 0x3F80_3F80, "u4")
    a, b = fragments.operand([one] * 4, A, "bf16"), fragments.operand([one] * 2, B, "bf16")
    zero = [np.zeros((1, 1, 1), "f4")] * 4
    regs = fragments.multiply_add(a, b, zero)
    assert [reg.shape for reg in regs] == [FULL] * 4
    assert all((reg == 16).all() for reg in regs)


def test_accumulators_that_nobody_takes_up_are_let_go() -> None:
    fragments = Fragments(FULL)
    a, b = (
        fragments.operand(registers(1, 4), A, "f16"),
        fragments.operand(registers(2, 2), B, "f16"),
    )
    zero = [np.zeros((1, 1, 1), "f4")] * 4
    kept = [fragments.multiply_add(a, b, zero) for _ in range(600)]
    assert len(fragments._accumulators) <= 256
    for regs in (kept[0], kept[-1]):  # forgotten or not, the next product is the same
        twice = fragments.multiply_add(a, b, regs)
        for reg, once in zip(twice, regs, strict=True):
            np.testing.assert_array_equal(reg, once + once)


# --- layouts ----------------------------------------------------------------------------

LAYOUTS = [
    *(mma_a(16, k, bits) for k, bits in ((8, 16), (16, 16), (4, 32), (8, 32), (16, 8), (32, 8))),
    *(mma_a(16, k, bits) for k, bits in ((32, 4), (64, 4), (4, 64), (8, 64), (16, 64))),
    *(mma_a(8, k, bits) for k, bits in ((16, 8), (32, 4), (4, 64))),
    *(mma_b(k, bits) for k, bits in ((8, 16), (16, 16), (4, 32), (16, 8), (64, 4), (16, 64))),
    *(mma_c(m, bits) for m, bits in ((16, 32), (16, 16), (16, 64), (8, 32), (8, 64))),
    *(quad_a("row"), quad_a("col"), quad_b("row"), quad_b("col"), quad_c(16), quad_c(32)),
]


@pytest.mark.parametrize("form", LAYOUTS)
def test_every_element_has_one_place(form: Layout) -> None:
    assert form.cell.size == form.many * form.rows * form.columns
    np.testing.assert_array_equal(form.cell.reshape(-1)[form.place], np.arange(form.cell.size))


def test_a_layout_must_hold_every_element() -> None:
    register = np.zeros((1, 32, 2), int)
    with pytest.raises(ValueError, match="leaves elements out"):
        layout(register, register, (1, 8, 8))


@pytest.mark.parametrize("form", [mma_c(16, 32), mma_c(8, 32), quad_c(32)])
def test_registers_come_back(form: Layout) -> None:
    fragments, rng = Fragments(FULL), np.random.default_rng(3)
    regs = [rng.random(FULL).astype("f4") for _ in range(form.registers)]
    matrix = fragments.matrix(regs, form, "f32")
    assert matrix.shape == (2 * form.many, form.rows, form.columns)
    back = fragments.registers(matrix, form, lambda elements: elements[..., 0])
    for reg, want in zip(back, regs, strict=True):
        np.testing.assert_array_equal(reg, want)


# --- numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["e4m3", "e5m2"])
def test_all_fp8_values(kind: str) -> None:
    every = np.arange(256).astype("u1")
    dtype = ml_dtypes.float8_e4m3fn if kind == "e4m3" else ml_dtypes.float8_e5m2
    want = every.view(dtype).astype("f4")
    got = values(every.view("u4"), kind)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))


def test_small_integers_and_tf32() -> None:
    word = np.array([0x8F_7E_01_F0], "u4")
    assert values(word, "s8").tolist() == [-16, 1, 126, -113]
    assert values(word, "u8").tolist() == [240, 1, 126, 143]
    assert values(word, "u4").tolist() == [0, 15, 1, 0, 14, 7, 15, 8]
    assert values(word, "s4").tolist() == [0, -1, 1, 0, -2, 7, -1, -8]
    assert values(np.array([0x3F80_1FFF], "u4"), "tf32").tolist() == [1.0]


def test_fused_rounds_once() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 400))
    c = -(a * b) * rng.choice([1, 1 + 2.0**-52, 2.0**-53, 2.0**53, 0], 400)
    want = [
        float(Fraction(x) * Fraction(y) + Fraction(z))
        for x, y, z in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(fused(a, b, c), want)


def test_fused_single_rounds_once() -> None:
    a, b, c = (np.array([bits], "u4").view("f4") for bits in (0x59B5277E, 0x41200000, 0xBB000000))
    assert fused_single(a, b, c).view("u4").tolist() == [0x5B62715D]  # an H200 says so


def test_a_sum_that_overflows_has_the_sign_of_the_whole() -> None:
    a = np.full((1, 1, 3), 2.0**100, "f4")
    b = np.array([2.0**60, -(2.0**61), 2.0**59], "f4").reshape(1, 3, 1)
    for c, bits in ((0, 0xFF800000), (np.inf, 0x7F800000), (np.nan, 0x7FFFFFFF)):
        addend = np.full((1, 1, 1), c, "f4")
        with np.errstate(all="ignore"):
            got = settled(np.matmul(a, b) + addend, a, b, addend)
        assert got.view("u4").tolist() == [[[bits]]]

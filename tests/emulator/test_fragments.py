"""The caches of mma operands: found by identity, and bounded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.emulator.fragments import Fragments

FULL = (1, 2, 32)


def registers(seed: int, count: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, 0x3C00, (*FULL, 2)).astype("u2").view("u4")[..., 0] for _ in range(count)
    ]


def test_an_operand_is_unpacked_once_for_each_type() -> None:
    fragments, regs = Fragments(FULL), registers(1, 4)
    as_half = fragments.a(regs, "f16")
    assert fragments.a(regs, "f16") is as_half
    as_bf16 = fragments.a(regs, "bf16")
    assert not np.array_equal(as_half, as_bf16)
    assert fragments.a(list(reversed(regs)), "f16") is not as_half


def test_uniform_registers_are_spread_over_the_lanes() -> None:
    fragments = Fragments(FULL)
    one = np.full((1, 1, 1), 0x3F80_3F80, "u4")
    a, b = fragments.a([one] * 4, "bf16"), fragments.b([one] * 2, "bf16")
    zero = [np.zeros((1, 1, 1), "f4")] * 4
    regs = fragments.multiply_add(a, b, zero)
    assert [reg.shape for reg in regs] == [FULL] * 4
    assert all((reg == 16).all() for reg in regs)


def test_accumulators_that_nobody_takes_up_are_let_go() -> None:
    fragments = Fragments(FULL)
    a, b = fragments.a(registers(1, 4), "f16"), fragments.b(registers(2, 2), "f16")
    zero = [np.zeros((1, 1, 1), "f4")] * 4
    kept = [fragments.multiply_add(a, b, zero) for _ in range(600)]
    assert len(fragments._accumulators) <= 256
    for regs in (kept[0], kept[-1]):  # forgotten or not, the next product is the same
        twice = fragments.multiply_add(a, b, regs)
        for reg, once in zip(twice, regs, strict=True):
            np.testing.assert_array_equal(reg, once + once)

"""Corners of C++ and CUDA (corpus/language.cu) against Python's integers and NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.errors import UnsupportedError

SOURCE = Path(__file__).parent / "corpus" / "language.cu"
BF16 = ml_dtypes.bfloat16
LANES = range(32)

pytestmark = pytest.mark.usefixtures("compiler")
Array = np.ndarray[Any, Any]


def run(kernel: str, *args: Any, block: int = 32) -> Any:
    report = tilewright.emulate(SOURCE, kernel, (1,), (block,), args, arch="sm_90")
    assert report.clean, report.findings
    return report


def integers(count: int, dtype: str, least: int, most: int) -> Array:
    return np.random.default_rng(count).integers(least, most, count, dtype)


def test_variables_begin_with_addresses() -> None:
    out = np.zeros(32, "i4")
    run("addresses", out)
    table: list[list[float]] = [[1, 2, 3, 4, 5], [6, 7, 8, 0, 0], [0.5, 0, 0, 0, 0]]
    for i in LANES:
        want = 30 + (40 if i & 1 else 10) + (4 if i & 1 else 5) * 1000
        want += (2, 3, 1)[i % 3] * 10_000 + int(table[i % 3][i % 5] * 2) * 100_000
        assert out[i] == want


def test_only_a_call_through_a_pointer_stops() -> None:
    with pytest.raises(UnsupportedError, match=r"language.cu:\d+: 'call .*through a pointer"):
        run("through_a_pointer", np.zeros(32, "i4"))


def test_integers_of_128_bits() -> None:
    x = integers(64, "i8", -(2**62), 2**62)
    x[:8] = [10**15, 10**15, -(10**15), 7 * 10**12, 5000, -12345678901234567, 0, 1]
    third = 7 << 64 | 5
    out = np.zeros(32 * 8 * 2, "u8")
    run("wide", out, x, third.to_bytes(16, "little"))
    words = out.reshape(32, 8, 2).tolist()
    for i in LANES:
        a, b = int(x[2 * i]) * int(x[2 * i + 1]) + third, cut(int(x[2 * i]), 1000) + 1
        u = a % 2**128
        want = [a, cut(a, b), a - cut(a, b) * b, u // (i + 3)]
        want += [u % ((u >> 50) + 1), a >> (i + 60), u * u, a < b]
        assert [high << 64 | low for low, high in words[i]] == [it % 2**128 for it in want], i


def cut(a: int, b: int) -> int:
    """a / b as C divides."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def test_bit_fields_unions_and_structs_by_value() -> None:
    form: Any = {
        **{"names": ["a", "b", "c", "d"], "formats": ["i1", "f8", ("i4", 3), "i2"]},
        **{"offsets": [0, 8, 16, 28], "itemsize": 32},
    }
    mixed: Any = np.zeros((), form)
    mixed["a"], mixed["b"], mixed["c"], mixed["d"] = -5, 2.5, [1, 2, 3], -7
    x = np.random.default_rng(1).standard_normal(32).astype("f4")
    y, out = integers(32, "i8", -(2**62), 2**62), np.zeros(32, "i8")
    run("layouts", out, x, y, mixed[()])
    for i, word, v in zip(LANES, x.view("u4").tolist(), y.tolist(), strict=True):
        pun = (word ^ 5 << 23) ^ 1 << 31
        a = ((v & 2**40 - 1) ^ 2**39) - 2**39
        want = pun + a * 3 + (v >> 17 & 2**24 - 1) * 5 - (i & 1) * 7 + (v >> 3 & 2**31 - 1)
        assert out[i] == want + 0 + (1, 2, 3)[i % 3] - 7


def test_atomics_of_every_type() -> None:
    t = np.arange(32)
    a, b, c = np.zeros(10, "i4"), np.zeros(4, "u4"), np.zeros(8, "u8")
    a[4], b[2], c[1], c[3] = -1, 100, 2**64 - 1, 2**64 - 1
    d, e, f = np.zeros(1, "f4"), np.zeros(1, "f8"), np.zeros(2, "i8")
    half, pair = np.zeros(1, "f2"), np.zeros(2, "f2")
    run("atomics", a, b, c, d, e, f, half, pair)
    assert a.tolist() == [496, -496, -16, 15, 0, -1, np.bitwise_xor.reduce(t * t), 9, 77, 496]
    assert b.tolist() == [32 % 11, 21 - 32 % 21, 3, 93]
    bits = sum(1 << i + 20 for i in LANES)
    crossed = int(np.bitwise_xor.reduce(t)) << 33
    assert c.tolist() == [
        *(32 * 2**40 + 496, 0, 2**50 * 31, 2**64 - 1 & ~bits, bits, crossed, 1 << 45, 8)
    ]
    assert (d.tolist(), e.tolist(), f.tolist()) == ([248], [124], [-(2**40) * 31, 2**40 * 31])
    assert (half.tolist(), pair.tolist()) == ([496], [496, 32])


def test_atomics_through_pointers_to_any_memory() -> None:
    out = np.full(32, 20, "i4")
    run("anywhere", out)
    before = [20 if i % 3 == 0 else 30 if i % 3 == 1 else 1 + (i & 1) for i in LANES]
    assert out.tolist() == [
        was * 1000 + (was + i) * 10 + (1, 2, 4)[i % 3] for i, was in zip(LANES, before, strict=True)
    ]


def test_every_format_of_printf() -> None:
    """As the C library prints them."""
    assert run("prints", block=1).printed == [
        "-1|   42|42   |00042|+42| 42|7|4000000000|10|ff|FF|0xff|010\n",
        "-1|18446744073709551615|-5|-3|-4|ff|9\n",
        "1.500000|2.35|     3.142|1.234568e+04|1.200E-04|1e-05|1E+20|0x1p+0|-0X1.4P-3\n",
        "A|    B|C  |hi|     right|left  |tr|%\n",
        "    42|7    |2.718|1   |0.500000\n",
        "0x1234|x1y2\n",
    ]


def test_functions_that_take_and_give_structs() -> None:
    x = np.random.default_rng(2).standard_normal(64).astype("f4")
    out = np.zeros(32, "f4")
    run("functions_of_all_kinds", out, x, 7)
    for i in LANES:
        n = [1, 2, 3, 4, 5]
        n[i % 5] += i * ((i + 1) % 5 + 1)
        want = x[i] + x[i + 3] * np.float64(i) + (x[i + 1] - 2) * 2 + x[i + 2] * 3
        want += n[i % 5] + n[(i + 2) % 5] + (9, 8, 7)[i % 3] + (i * 7 + i) * 7 + i
        assert out[i] == pytest.approx(want, rel=1e-5)


def test_jumps_and_switches() -> None:
    x, out = integers(32, "i4", -1000, 1000), np.zeros(32, "i4")
    run("jumps", out, x)
    for i in LANES:
        v = int(x[i])
        a = (v, v + 1, 2 * v + 2, v + 2)
        s = 0
        for j in range(9 + i % 3):
            s += a[j & 3]
            s += 0 if s & 1 else 10
        match v & 15:
            case 0:
                s *= 3
            case 1 | 2:
                s = (s ^ 77) - 5
            case 3:
                s -= 5
            case 4:
                s = cut(s, 3)
            case 5:
                s -= cut(s, 7) * 7
            case 9:
                s = s * 4 + i
            case _:
                s += i
        assert out[i] == s, i


def test_pairs_of_16_bit_floats() -> None:
    x = np.random.default_rng(3).standard_normal((32, 2)).astype("f4")
    half, wide = np.zeros((32, 2), "f2"), np.zeros((32, 2), BF16)
    run("pairs", half, wide, x)
    a = x.astype("f2").astype("f8")
    b = np.stack([a[:, 0], -a[:, 0]], 1)
    want = np.maximum((a * a + b).astype("f2"), np.clip(a * b, 0, 1).astype("f2"))
    np.testing.assert_array_equal(half, want)
    c = x.astype(BF16).astype("f8")
    d = np.stack([c[:, 1], c[:, 1]], 1)
    both = [(c * c + d).astype(BF16), (c + d).astype(BF16)]
    np.testing.assert_array_equal(wide, np.minimum(*both))

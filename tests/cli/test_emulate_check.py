"""Checks after a run: right results pass, slightly wrong ones don't, NaN never."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import verify
from tilewright.cli.emulate_args import dtype_named
from tilewright.cli.emulate_check import Verdict, check_shapes, judge
from tilewright.cli.expression import parse_check
from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.errors import InputError

RANDOM = np.random.default_rng(1)
FLOATS = ["fp16", "bf16", "fp32", "fp64", "e4m3", "e5m2"]


def normal(*shape: int, dtype: str = "fp32") -> Any:
    return RANDOM.standard_normal(shape).astype(dtype_named("", dtype))


def check(text: str, c: Any, **values: Any) -> Verdict:
    parsed = parse_check(text)
    check_shapes(parsed, {"c": c, **values}, set())
    return judge(parsed, {"c": c}, {"c": c, **values})


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_a_product_is_held_to_the_bound_of_the_oracle(dtype: DType) -> None:
    a, b = normal(24, 200, dtype=dtype.name), normal(200, 40, dtype=dtype.name)
    oracle = verify.oracle(a, b, dtype)
    c = oracle.exact.astype(dtype.numpy())
    found = check("c ~ a @ b", c, a=a, b=b)
    assert found.correct
    assert found.message == ""
    assert found.bound == pytest.approx(float(oracle.bound.max()))
    assert found.rel_error == pytest.approx(verify.judge(c, oracle).rel_error)
    assert check("c.T ~ b.T @ a.T", np.ascontiguousarray(c), a=a, b=b).elements == 960
    c[3, 7] = oracle.exact[3, 7] + 2.1 * oracle.bound[3, 7]
    found = check("c ~ a @ b", c, a=a, b=b)
    assert (found.correct, found.wrong) == (False, 1)
    assert "1 of 960 elements are wrong, first c[3, 7] = " in found.message


def test_an_fp32_product_is_allowed_what_the_oracle_allows_and_little_more() -> None:
    """Somebody's fp32 sums may come from anywhere, so they have the allowance of an mma, too."""
    a, b = normal(24, 200), normal(200, 40)
    oracle = verify.oracle(a, b, FP32)
    c = oracle.exact.astype(np.float32)
    found = check("c ~ a @ b", c, a=a, b=b)
    assert found.correct
    assert oracle.bound.max() <= found.bound < 2 * oracle.bound.max()
    c[3, 7] = oracle.exact[3, 7] + 2.1 * found.bound
    assert check("c ~ a @ b", c, a=a, b=b).wrong == 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_elementwise_in_every_float(dtype: str) -> None:
    if dtype not in ("fp16", "fp32", "fp64"):
        pytest.importorskip("ml_dtypes")
    a, b = normal(30, 50, dtype=dtype), normal(50, dtype=dtype)
    half = a.dtype.type(0.5)
    steps = a * b + half * a  # rounded to the type at every step
    assert check("c ~ a * b + 0.5 * a", steps, a=a, b=b).correct
    wide = (a.astype(float) * b.astype(float) + a.astype(float) / 2).astype(a.dtype)
    assert check("c ~ a * b + 0.5 * a", wide, a=a, b=b).correct
    assert check("c ~ a", a, a=a).correct
    wrong = wide.copy()
    wrong[29, 49] = wrong[29, 49] + a.dtype.type(2.0)
    assert check("c ~ a * b + 0.5 * a", wrong, a=a, b=b).wrong == 1
    sign = (-wide.astype(float)).astype(a.dtype)
    assert not check("c ~ a * b + 0.5 * a", sign, a=a, b=b).correct


def test_functions() -> None:
    a, b = normal(40, 60), normal(40, 60)
    wide_a, wide_b = a.astype(float), b.astype(float)
    for text, exact in {
        "max(a, 0) - abs(b)": np.maximum(wide_a, 0) - abs(wide_b),
        "exp(a * 3)": np.exp(wide_a * 3),
        "a / b": wide_a / wide_b,
        "a / (1 + exp(-a))": wide_a / (1 + np.exp(-wide_a)),
        "-a.T.T": -wide_a,
    }.items():
        assert check(f"c ~ {text}", exact.astype(np.float32), a=a, b=b).correct, text
        off = (exact * (1 + 1e-4)).astype(np.float32)
        assert not check(f"c ~ {text}", off, a=a, b=b).correct, text
    rows = a.sum(1, dtype=np.float32)
    assert check("c ~ sum(a, 1)", rows, a=a).correct
    assert not check("c ~ sum(a, 1)", rows + np.float32(1e-3), a=a).correct
    assert check("c ~ sum(a, 0)", a.sum(0), a=a).elements == 60
    assert check("c ~ sum(a)", np.full(1, a.sum()), a=a).correct


def test_numbers_are_what_a_kernel_gets() -> None:
    a = normal(100)
    c = np.float32(0.1) * a
    assert check("c ~ alpha * a", c, a=a, alpha=0.1).correct
    assert check("c ~ 0.1 * a", c, a=a).correct
    wide = normal(100, dtype="fp64")
    assert check("c ~ 0.1 * a", 0.1 * wide, a=wide).correct
    assert not check("c ~ 0.1 * a", float(np.float32(0.1)) * wide, a=wide).correct


def test_alpha_scales_the_product() -> None:
    pytest.importorskip("ml_dtypes")
    a, b = normal(24, 64, dtype="bf16"), normal(64, 40, dtype="bf16")
    c = (0.3 * (a.astype(float) @ b.astype(float))).astype(a.dtype)
    bounds = {
        check(f"c ~ {text}", c, a=a, b=b, alpha=0.3).bound
        for text in ("alpha * (a @ b)", "alpha * a @ b", "a @ (b * alpha)")
    }
    assert max(bounds) == pytest.approx(min(bounds))
    assert check("c ~ 2 * a * a @ (b * 3) - 1", c, a=a.astype("f4"), b=b).wrong > 900
    two = (6 * (a.astype(float) ** 2 @ b.astype(float)) - 1).astype(np.float32)
    assert check("c ~ 2 * a * a @ (b * 3) - 1", two, a=a, b=b).correct


def test_fp64_is_held_to_fp64() -> None:
    a, b = normal(20, 300, dtype="fp64"), normal(300, 20, dtype="fp64")
    assert check("c ~ a @ b", a @ b, a=a, b=b).correct
    assert not check("c ~ a @ b", a @ b + 1e-10, a=a, b=b).correct


def test_nan_never_passes_and_infinity_only_as_itself() -> None:
    a = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    for text in ("c ~ a", "c == a"):
        found = check(text, a, a=a)
        assert (found.wrong, found.elements) == (1, 4), text
        assert "c[1] = nan, expected nan (NaN is never right)" in found.message
    assert check("c ~ a", np.array([1, 2, np.inf, 3], "f4"), a=a).wrong == 2
    zero = np.zeros(4, np.float32)
    assert check("c ~ 1 / a", np.full(4, np.inf, "f4"), a=zero).correct
    assert check("c ~ 1 / a", np.full(4, 1e38, "f4"), a=zero).wrong == 4
    assert check("c ~ a / a", np.ones(4, "f4"), a=zero).wrong == 4


def test_exact() -> None:
    a, b = normal(64), normal(64)
    assert check("c == a + b", a + b, a=a, b=b).correct
    assert check("c == a", a.astype(np.float16), a=a).correct
    beside = np.nextafter(a, np.float32(9))
    found = check("c == a", beside, a=a)
    assert (found.correct, found.wrong, found.bound) == (False, 64, 0.0)
    assert "±" not in found.message
    assert check("c == 0", np.zeros((3, 4))).correct
    assert check("c == 0", np.full(3, -0.0)).correct


def test_integers() -> None:
    a, b = np.arange(-8, 8, dtype="i4"), np.arange(16, dtype="u1")
    assert check("c == a * b - 3", a * b - 3, a=a, b=b).correct
    assert check("c ~ a * b - 3", a * b - 3, a=a, b=b).correct
    assert check("c ~ a * b - 3", a * b - 2, a=a, b=b).wrong == 16
    assert check("c ~ a * 0.3", (a * 0.3).astype("i4"), a=a).correct
    assert check("c ~ a * 0.3", (a * 0.3).astype("i4") + 2, a=a).wrong > 0
    assert check("c == a * 0.5", a // 2, a=a).wrong == 8
    assert check("c == a", a > 0, a=a > 0).correct


def test_integers_beyond_float64() -> None:
    a = np.array([2**63 - 1, 2**53 + 1, 5])
    assert check("c == a", a.copy(), a=a).correct
    assert check("c ~ a", a - 1, a=a).wrong == 3
    assert check("c == a", a.astype("u8"), a=a).correct
    assert "9223372036854775806, expected 9223372036854775807" in (
        check("c == a", a - 1, a=a).message
    )
    found = check("c == a + 0", a.copy(), a=a)
    assert not found.correct
    assert "beyond 2^53" in found.message


def test_no_elements_are_right() -> None:
    none = np.zeros((0, 3), "f4")
    for text in ("c ~ 2 * a", "c == a", "c ~ a / 3", "c ~ a + sum(a)"):
        found = check(text, none, a=none)
        assert (found.correct, found.elements, found.max_error) == (True, 0, 0.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c ~ a @ b", "a @ b: 3x4 times 3x4 do not fit."),
        ("c ~ x", "x is not an array or a number among the arguments; they are: c, a, b, n, e."),
        ("x ~ a", "x is not an array"),
        ("n ~ a", "n is a number, which no kernel can write"),
        ("c ~ a.T", "the left side is 3x4, the right 4x3"),
        ("c ~ sum(a, 1)", "the left side is 3x4, the right 3."),
        ("c.T ~ a", "the left side is 4x3, the right 3x4"),
        ("c ~ a / 0", "a / 0 is not a finite number."),
        ("c ~ a / (1 - 1) + 2", "a / (1 - 1) is not a finite number."),
        ("c == a * exp(1000)", "exp(1000) is not a finite number."),
        ("c ~ a + 1e308 * 10", "1e308 * 10 is not a finite number."),
        ("c ~ max(a, 0 / sum(0))", "0 / sum(0) is not a finite number."),
        ("c ~ a + e", "e is empty before the launch"),
    ],
)
def test_checks_that_make_no_sense(text: str, said: str) -> None:
    values = {"c": np.zeros((3, 4)), "a": np.zeros((3, 4)), "b": np.zeros((3, 4)), "n": 5}
    with pytest.raises(InputError) as raised:
        check_shapes(parse_check(text), {**values, "e": np.zeros((3, 4))}, {"e"})
    assert said in str(raised.value)
    assert str(raised.value).startswith(f'--check "{text}": ')


# --- Sums of fp32 in fp64, sizes of errors, rows ------------------------------------------


def dot(operands: str, error: float) -> Verdict:
    """Of sum(a * b) over 1,000 terms that comes out with this error, in an fp64 result."""
    random = np.random.default_rng(3)
    before = {name: random.standard_normal(1000).astype(operands) for name in ("a", "b")}
    exact = float((before["a"].astype("f8") * before["b"].astype("f8")).sum())
    return judge(parse_check("c ~ sum(a * b)"), {"c": np.array([exact + error])}, before)


def test_sums_of_fp32_may_be_kept_in_fp32_where_the_result_is_fp64() -> None:
    assert dot("f4", 1e-6).correct
    assert dot("f2", 1e-6).correct
    assert not dot("f8", 1e-6).correct
    assert dot("f8", 1e-14).correct
    assert not dot("f4", 1.0).correct
    assert dot("f4", 0.0).bound > 1e-5 > 1e-10 > dot("f8", 0.0).bound


def test_an_fp64_copy_of_fp32_is_still_held_to_fp64() -> None:
    a = np.linspace(1, 2, 9, dtype="f4")
    wide = a.astype("f8")
    assert judge(parse_check("c ~ 2 * a"), {"c": 2 * wide}, {"a": a}).correct
    assert not judge(parse_check("c ~ 2 * a"), {"c": 2 * wide + 1e-9}, {"a": a}).correct
    assert not judge(parse_check("c ~ 0.1 * a"), {"c": np.float32(0.1) * a + 0.0 * wide},
                     {"a": a}).correct  # fmt: skip


def test_a_message_tells_the_numbers_apart_and_how_far_off_they_are() -> None:
    a = np.array([3.0, 3.0])
    found = judge(parse_check("c ~ a"), {"c": a + np.array([1e-9, 1e-8])}, {"a": a})
    assert (
        "first c[0] = 3.000000001, expected 3 ± 3.3e-16; it is off by 1e-09, 3e+06 × what is"
        in (found.message)
    )
    assert "allowed; the worst, [1], by 1e-08, 3e+07 × what is allowed" in found.message
    exact = judge(parse_check("c == a"), {"c": a + np.array([1e-15, 0])}, {"a": a})
    assert exact.message.endswith("c[0] = 3.000000000000001, expected 3; it is off by 8.9e-16")
    lost = judge(parse_check("c ~ a"), {"c": a * np.nan}, {"a": a})
    assert "off by" not in lost.message


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("y ~ exp(x) / sum(exp(x), 1)", 'Write "y.T ~ exp(x.T) / sum(exp(x), 1)".'),
        ("y == x - r", 'Write "y.T == x.T - r".'),
        ("z.T ~ r * x", 'Write "z ~ r * x.T".'),
        ("y ~ max(r, x)", 'Write "y.T ~ max(r, x.T)".'),
        ("y ~ (x + x) / sum(x, 1)", 'Write "y.T ~ (x + x).T / sum(x, 1)".'),
        ("y ~ 2 * (x / sum(x, 1))", "Write (x.T / sum(x, 1)).T for it."),
    ],
)
def test_a_number_a_row(text: str, way_out: str) -> None:
    values = {
        "x": np.ones((6, 200)),
        "y": np.ones((6, 200)),
        "r": np.ones(6),
        "z": np.ones((200, 6)),
    }
    with pytest.raises(InputError, match=r"6x200 and 6|6 and 6x200") as error:
        check_shapes(parse_check(text), values, set())
    assert str(error.value).endswith(way_out)
    meant = way_out.split('"')[1] if '"' in way_out else "y ~ 2 * " + way_out[6:-8]
    check_shapes(parse_check(meant), values, set())


def test_what_no_transposing_helps() -> None:
    with pytest.raises(InputError, match=r"6x200 and 7 do not fit\.$"):
        check_shapes(parse_check("y ~ x + r"), {"x": np.ones((6, 200)), "y": np.ones((6, 200)),
                                                "r": np.ones(7)}, set())  # fmt: skip

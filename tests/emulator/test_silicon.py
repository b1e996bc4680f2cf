"""The emulator against an H200: tests/data/silicon holds what its instructions answered.

Each .npz is one PTX module of small kernels `name(const unsigned* in, unsigned* out, int n)` with
their inputs and outputs, uint32 [registers, threads], recorded with 32 threads a block. The same
PTX runs here. Outputs must agree to the bit, except where this file states a bound and why:

- NaN is NaN, whatever its payload (an H200 makes 0x7FFFFFFF of nearly all).
- mma with fp32 sums: the order and the truncation of the sum, see `tensor_core` and `sum_bound`.
- .approx functions: the units in the last place in APPROXIMATE.
- rem by zero: the ISA leaves the value open.
- What is in OPEN: differences that are to go. A kernel that agrees must leave the list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.emulator.compiler import compile_kernel
from tilewright.emulator.fragments import BITS, Fragments, Layout, mma_a, mma_b, mma_c
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.parse import parse
from tilewright.emulator.run import run
from tilewright.emulator.trace import Shape

FOLDER = Path(__file__).parents[1] / "data" / "silicon"
GROUPS = ("approx", "convert", "half", "matrix", "mma", "warp")

Array = np.ndarray[Any, Any]


@cache
def recorded(group: str) -> dict[str, Array]:
    with np.load(FOLDER / f"{group}.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def names(group: str) -> list[str]:
    return [name.removesuffix(".in") for name in recorded(group) if name.endswith(".in")]


@cache
def module(group: str) -> Any:
    return parse(recorded(group)["ptx"].tobytes().decode())


def emulated(group: str, name: str) -> Array:
    """What the emulator answers to the recorded inputs."""
    given = np.ascontiguousarray(recorded(group)[f"{name}.in"])
    out = np.zeros_like(recorded(group)[f"{name}.out"])
    memory = GlobalMemory()
    n = given.shape[1]
    params = np.array([memory.allocate(given), memory.allocate(out)], "u8").tobytes()
    params += np.array([n], "u4").tobytes()
    program = compile_kernel(module(group), module(group).kernels[name])
    report = run(program, Shape((n // 32, 1, 1), (32, 1, 1), 0, params), memory)
    assert report.completed
    assert report.findings == []
    return out


_TININESS = "an H200 flushes what is tiny before it is rounded, not after"
_NAN_BITS = "an H200 rounds the bits of a NaN whose payload is in the low 13"
OPEN = {
    "mul_ftz_f16": _TININESS,
    "fma_rn_ftz_f16x2": _TININESS,
    "cvt_rna_tf32_f32": _NAN_BITS,
    "cvt_rna_satfinite_tf32_f32": _NAN_BITS,
}


def one(name: str) -> Any:
    if name not in OPEN:
        return name
    return pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=OPEN[name]))


def params(group: str, pattern: str = "", without: str = "(?!)") -> pytest.MarkDecorator:
    """Parametrises over the recorded kernels whose names fit."""
    found = [n for n in names(group) if re.search(pattern, n) and not re.search(without, n)]
    empty = pytest.param("", marks=pytest.mark.skip(f"{group}.npz is not there"))
    return pytest.mark.parametrize("name", [one(name) for name in found] or [empty])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Infinities and NaN are meant here."""
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("group", GROUPS)
def test_the_recording_says_where_it_is_from(group: str) -> None:
    assert names(group)
    about = json.loads(recorded(group)["about"].tobytes())
    assert "H200" in about["engine"]
    assert about["missing"] == []


# --- comparing --------------------------------------------------------------------------


def numbers(words: Array, kind: str) -> Array:
    """Output words as floats: f32 as they are, 16-bit types from the low halves or both."""
    if kind == "f32":
        return words.view("f4")
    halves = np.ascontiguousarray(words).view("u2")
    if kind == "f16":
        return halves.view("f2").astype("f4")
    return (halves.astype("u4") << np.uint32(16)).view("f4")


def result_kind(name: str) -> str | None:
    """The float type of a kernel's outputs, None for integers."""
    if name.startswith("setp") or name.startswith("testp"):
        return None
    if name.startswith("cvt"):
        types = re.findall(r"(?:bf16|f16|f32|f64|e4m3|e5m2|tf32|[us]\d+|b32)(?=x2|_|$)", name)
        kind = types[0]
    else:
        found = re.search(r"bf16|f16|f32|f64|fma_near", name)
        kind = found[0] if found else ""
    return {"tf32": "f32", "fma_near": "f32"}.get(kind, kind if kind in FLOATS else None)


FLOATS = ("f16", "bf16", "f32", "f64")


def assert_alike(group: str, name: str, got: Array, kind: str | None) -> None:
    """Equal bits; any NaN is as good as another."""
    want = recorded(group)[f"{name}.out"]
    bad = got != want
    if kind == "f64":
        nan = ((want[1] & 0x7FFFFFFF) > 0x7FF00000) & ((got[1] & 0x7FFFFFFF) > 0x7FF00000)
        bad = bad & ~nan
    elif kind is not None:
        both = np.isnan(numbers(got, kind)) & np.isnan(numbers(want, kind))
        parts = both.shape[1] // bad.shape[1]
        differ = np.ascontiguousarray(got).view(f"u{4 // parts}") != want.view(f"u{4 // parts}")
        bad = (differ & ~both).reshape(*bad.shape, parts).any(-1)
    if re.match("rem_", name):
        divisor = recorded(group)[f"{name}.in"][len(want) :]
        words = divisor & (0xFFFF if "16" in name else 0xFFFF_FFFF)
        bad = bad & (words != 0).any(0)
    where = np.flatnonzero(bad.any(0))
    given = recorded(group)[f"{name}.in"]
    first = [[[hex(x) for x in part[:, i]] for part in (given, want, got)] for i in where[:5]]
    assert where.size == 0, f"{where.size} of {bad.shape[1]} differ; in, H200, emulator: {first}"


@params("convert")
def test_conversions(name: str) -> None:
    assert_alike("convert", name, emulated("convert", name), result_kind(name))


@params("half")
def test_float_arithmetic(name: str) -> None:
    assert_alike("half", name, emulated("half", name), result_kind(name))


@params("warp")
def test_warp_and_integer_instructions(name: str) -> None:
    kind = "f32" if name == "slct_f32_s32" else None
    assert_alike("warp", name, emulated("warp", name), kind)


@params("matrix", without="wmma.*bf16")
def test_matrix_instructions(name: str) -> None:
    """wmma: the registers of a, b, c and d, then the stored d. The sums are exact in fp32."""
    assert_alike("matrix", name, emulated("matrix", name), None)


@params("matrix", "wmma.*bf16")
def test_wmma_of_bf16(name: str) -> None:
    """All terms are positive, so 17 of them, summed in any order, are apart by this at most."""
    got, want = emulated("matrix", name), recorded("matrix")[f"{name}.out"]
    loads = sum(
        {"m16n16k16": (4, 4, 8), "m32n8k16": (8, 2, 8), "m8n32k16": (2, 8, 8)}[name.split("_")[1]]
    )
    np.testing.assert_array_equal(got[:loads], want[:loads])
    np.testing.assert_allclose(got[loads:].view("f4"), want[loads:].view("f4"), rtol=28 * 2.0**-24)


# --- approximations ---------------------------------------------------------------------

# The largest distance seen between an H200 and the correctly rounded value, in units in the last
# place, and where that is no measure (near a zero of the function) an absolute one.
APPROXIMATE = {
    "ex2_approx_f16": (1, 0.0),
    "tanh_approx_f16": (1, 0.0),
    "ex2_approx_ftz_bf16": (1, 0.0),
    "tanh_approx_bf16": (1, 0.0),
    "ex2": (2, 0.0),
    "lg2": (1, 2.0**-22),
    "rcp": (1, 0.0),
    "sqrt": (1, 0.0),
    "rsqrt": (1, 0.0),
    "sin": (0, 2.0**-20.5),
    "cos": (0, 2.0**-20.5),
    "tanh": (128, 0.0),
    "div": (1, 0.0),
}


def order(values: Array) -> Array:
    """Floats of 16 or 32 bits as integers that count units in the last place."""
    bits = values.view(f"i{values.itemsize}").astype("i8")
    return np.where(bits < 0, -(bits & ((1 << 8 * values.itemsize - 1) - 1)), bits)


@params("approx", without="f64$")
def test_approximations(name: str) -> None:
    got, want = emulated("approx", name), recorded("approx")[f"{name}.out"]
    given = recorded("approx")[f"{name}.in"].view("f4")
    if name.endswith(("_f16", "_bf16")):
        kind = name.rsplit("_", 1)[1]
        x, y = (words.astype("u2") for words in (got, want))
        if kind == "f16":
            x, y = x.view("f2"), y.view("f2")
        apart = np.abs(order(x.view("f2")) - order(y.view("f2")))
        nan = [np.isnan(numbers(words, kind)[:, ::2]) for words in (got, want)]
        close = apart <= APPROXIMATE[name][0]
    else:
        ulps, absolute = APPROXIMATE[name.split("_")[0]]
        x, y = got.view("f4"), want.view("f4")
        nan = [np.isnan(x), np.isnan(y)]
        close = (np.abs(order(x) - order(y)) <= ulps) | (np.abs(x - y) <= absolute)
        if name.startswith(("sin", "cos")):  # beyond, the hardware's argument reduction gives out
            close |= np.abs(given) > 2 * np.pi
        if name.startswith("div_approx"):  # the ISA: 0 for divisors above 2**126
            close |= np.abs(given[1]) > 2.0**126
    np.testing.assert_array_equal(nan[0], nan[1])
    bad = np.flatnonzero(~(close | nan[0]).all(0))
    assert bad.size == 0, [(given[:, i], want[:, i], got[:, i]) for i in bad[:5]]


@params("approx", "f64$")
def test_approximations_in_f64(name: str) -> None:
    """About 20 bits are right, so the upper words are neighbours; NaN and infinities agree."""
    both = emulated("approx", name), recorded("approx")[f"{name}.out"]
    got, want = (words[1].astype("i8") for words in both)
    special = (want & 0x7FF00000) == 0x7FF00000
    np.testing.assert_array_equal((got & 0x7FF00000) == 0x7FF00000, special)
    assert np.abs(got - want)[~special].max() <= 1


# --- mma --------------------------------------------------------------------------------

INEXACT = r"^mma_m16n8k\d+_f32_"  # sums in fp32


@params("mma", without=INEXACT)
def test_mma_to_the_bit(name: str) -> None:
    got, want = emulated("mma", name), recorded("mma")[f"{name}.out"]
    np.testing.assert_array_equal(got, want)


def operands(name: str) -> tuple[str, Array, Array, Array, Array]:
    """The type of a, and a, b, c and the recorded d as matrices [warps, rows, columns]."""
    _, shape, _, a, b, _ = name.split("_")
    k = int(shape.split("k")[1])
    forms = mma_a(16, k, BITS[a]), mma_b(k, BITS[b]), mma_c(16, 32)
    given, out = recorded("mma")[f"{name}.in"], recorded("mma")[f"{name}.out"]
    fragments = Fragments((1, given.shape[1] // 32, 32))

    def matrix(words: Array, form: Layout, kind: str) -> Array:
        return fragments.matrix(list(words.reshape(len(words), 1, -1, 32)), form, kind)

    ends = np.cumsum([form.registers for form in forms])
    parts = np.split(given, ends[:-1])
    left, right, c = map(matrix, parts, forms, (a, b, "f32"))
    return a, left, right, c, matrix(out, forms[2], "f32")


LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -14, "e5m2": -14}  # exponents


def exponent(values: Array, least: int) -> Array:
    """Of each number as it is encoded; zeros take no part."""
    safe = np.where(np.isfinite(values) & (values != 0), values, 1)
    return np.where(values == 0, -300, np.maximum(np.frexp(safe)[1] - 1, least))


def last_place(a: Array, b: Array, c: Array, least: int) -> Array:
    """The exponent of the last place that an H200 keeps: 25 below the largest exponent of a
    product (the sum of its factors' exponents) or of c."""
    left, right = a.astype("f8")[:, :, None], b.astype("f8").swapaxes(1, 2)[:, None]
    tops = exponent(left, least) + exponent(right, least)
    top = np.where(left * right == 0, -300, tops).max(-1)
    last: Array = np.maximum(np.maximum(top, exponent(c.astype("f8"), -126)), -126) - 25
    return last


def tensor_core(a: Array, b: Array, c: Array, least: int) -> Array:
    """a·b + c as an H200 sums it: every term cut at `last_place`, summed, cut to fp32."""
    products = a.astype("f8")[:, :, None] * b.astype("f8").swapaxes(1, 2)[:, None]
    last = last_place(a, b, c, least)
    cut = np.trunc(np.ldexp(products, -last[..., None])).sum(-1)
    total = np.ldexp(cut + np.trunc(np.ldexp(c.astype("f8"), -last)), last) + 0.0
    single = total.astype("f4")
    up = (np.abs(single.astype("f8")) > np.abs(total)) & (np.abs(total) < 2.0**128)
    single = np.where(up, np.nextafter(single, np.float32(0)), single)
    whole = (products.sum(-1) + c).astype("f4")
    result: Array = np.where(np.isfinite(products).all(-1) & np.isfinite(c), single, whole)
    return result


@params("mma", INEXACT)
def test_the_sum_of_an_h200_is_understood(name: str) -> None:
    """To the bit. fp8 goes through fp16: two halves of k from zero on, then c with a rounding."""
    kind, a, b, c, want = operands(name)
    if BITS[kind] == 8:
        first = np.arange(a.shape[-1]) % 4 < 2
        got = tensor_core(a[..., first], b[:, first], np.zeros_like(c), LEAST[kind])
        got = tensor_core(a[..., ~first], b[:, ~first], got, LEAST[kind]) + c
    else:
        got = tensor_core(a, b, c, LEAST[kind])
    alike = (got.view("u4") == want.view("u4")) | (np.isnan(got) & np.isnan(want))
    assert alike.all(), f"{(~alike).sum()} differ"


def sum_bound(a: Array, b: Array, c: Array, least: int) -> Array:
    """How far the two sums of n = k + 1 terms may lie apart; |sum| is at most size = sum|t|.

    Here: n roundings of partial sums of at most 2**-24 of size. An H200: n terms cut at the last
    place kept, then the sum cut to 24 bits, at most 2**-23 of it. fp8: twice, the second time
    from the largest of the terms and the first sum, and one more rounding. Partial sums below
    2**-126 are rounded to multiples of 2**-149.
    """
    size = np.matmul(np.abs(a.astype("f8")), np.abs(b.astype("f8"))) + np.abs(c)
    terms = a.shape[-1] + 1
    here = 1.01 * terms * (2.0**-24 * size + 2.0**-149)
    place = np.maximum(np.ldexp(1.0, last_place(a, b, c, least)), 2.0**-25 * size)
    bound: Array = here + 2 * terms * place + 3 * 2.0**-23 * size
    return bound


@params("mma", INEXACT)
def test_mma_within_the_bound(name: str) -> None:
    kind, a, b, c, want = operands(name)
    words = emulated("mma", name)
    shape = Fragments((1, words.shape[1] // 32, 32))
    got = shape.matrix(list(words.reshape(4, 1, -1, 32)), mma_c(16, 32), "f32")
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite].view("u4"), want[~finite].view("u4"))
    apart = np.abs(got.astype("f8") - want)
    inside = apart <= sum_bound(a, b, c, LEAST[kind])
    assert inside[finite].all()

"""wgmma against an H200: tests/data/silicon/wgmma.npz, which scripts/record_wgmma.py wrote there.

Its probes say which 16 bytes of shared memory a descriptor names, ordinary and odd ones; its sums
what the products of random operands add up to, also of any bits at all, with NaN and overflow. The
emulator agrees to the bit but for fp32 sums of f16, bf16 and tf32, which it adds up in another
order; how an H200 adds those is written down here (`summed`) and agrees to the bit, so that the
bound for the emulator follows from it.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tilewright.artifact import Artifact
from tilewright.build import Source, build
from tilewright.emulator.fragments import values
from tilewright.emulator.report import Report
from tilewright.emulator.wgmma_descriptors import pieces
from tilewright.engines.emulator import EmulatorEngine
from tilewright.gpus import GPUS
from tilewright.launch import Launch

Array = np.ndarray[Any, Any]

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "data" / "silicon" / "wgmma.npz"
SCRIPT = ROOT / "scripts" / "record_wgmma.py"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recorder = load(SCRIPT)
of_mma = load(Path(__file__).with_name("test_silicon.py"))  # for the bound of the same sums there


@cache
def recorded() -> dict[str, Array]:
    with np.load(FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@cache
def artifact() -> Artifact:
    ptx = recorded()["ptx"].tobytes().decode()
    return Artifact("wgmma.cu", "sm_90a", ptx, b"", "", "NVRTC", {}, "recorded wgmma")


PROBES = {cases[0].name: cases[0] for cases in recorder.probes()}
SUMS = {case.name: case for case in recorder.sums()}


def test_it_is_from_an_h200() -> None:
    about = json.loads(recorded()["about"].tobytes())
    assert "H200" in about["engine"]
    assert "emulator" not in about["engine"]
    assert about["missing"] == []


def probed(case: Any) -> tuple[Array, int]:
    """What the H200 read, a row each descriptor: the bytes' addresses of 16 bytes or, where these
    do not belong together, of an element; and how many there are of 16 bytes."""
    along = case.form.b_along_n if case.form.a_in_registers else case.form.a_along_m
    whole = f"{case.name}.pieces" in recorded()
    per = 1 if whole else 128 // recorder.BITS[case.form.a]
    found = recorded()[f"{case.name}.{'pieces' if whole else 'places'}"].astype(np.int64)
    found = found.swapaxes(1, 2) if along else found
    return found.reshape(len(found), -1) * (16 // per), per


def named(case: Any, change: Callable[[int], int] = int) -> Array:
    """What the emulator reads, likewise, by descriptors that `change` has changed."""
    of_b = case.form.a_in_registers
    along = case.form.b_along_n if of_b else case.form.a_along_m
    extent, (_, per) = case.form.n if of_b else 64, probed(case)
    given = case.descs[:, int(of_b)].tolist()
    found = np.stack([pieces(change(bits), extent, along) for bits in given])
    parts: Array = found[..., None] + np.arange(per) * (16 // per)
    return parts.reshape(len(found), -1)


@pytest.mark.parametrize("name", PROBES)
def test_descriptors(name: str) -> None:
    case = PROBES[name]
    (want, _), found = probed(case), named(case)
    wrong = np.flatnonzero((found != want).any(1))
    of_b = int(case.form.a_in_registers)
    first = [(hex(int(case.descs[i, of_b])), want[i, :8], found[i, :8]) for i in wrong[:4]]
    assert wrong.size == 0, f"{wrong.size} of {len(found)} differ; H200, emulator: {first}"


def base(bits: int) -> int:
    return bits >> 49 & 7


@pytest.mark.parametrize(
    ("instead", "fewest"), [(lambda base: 0, 400), (lambda base: -base & 7, 200)]
)
def test_the_base_offset_is_decided(instead: Callable[[int], int], fewest: int) -> None:
    """Of some 600 swizzled descriptors with a base offset many refute that it does not count, and
    that it is added where the emulator takes it off."""
    refuted = 0
    for case in PROBES.values():
        changed = named(case, lambda bits: bits & ~(7 << 49) | instead(base(bits)) << 49)
        refuted += int((changed != probed(case)[0]).any(1).sum())
    assert refuted >= fewest


@cache
def shared_engine() -> EmulatorEngine:
    """It parses the recorded PTX once."""
    return EmulatorEngine(GPUS["h200"])


def emulated(case: Any) -> Array:
    found, report = launched(case)
    assert report.findings == []
    return found


def launched(case: Any, compiled: Artifact | None = None) -> tuple[Array, Report]:
    engine = shared_engine()
    given = [case.image, case.descs, case.fragments, case.sums, np.zeros_like(case.sums)]
    buffers = [engine.upload(np.ascontiguousarray(each)) for each in given]
    params = [np.uint64(buffer.address).tobytes() for buffer in buffers]
    params.append(np.int32(case.scale).tobytes())
    grid = (len(case.descs), 1, 1)
    kernel = compiled or artifact()
    launch = Launch(kernel, case.form.name, grid, (128, 1, 1), tuple(params), recorder.IMAGE_BYTES)
    report = engine.launch(launch)
    return engine.download(buffers[-1]), report


# --- operands and sums as matrices ------------------------------------------------------


def matrix(form: Any, words: Array) -> Array:
    """d or c [blocks, 64, n] in their type. PTX ISA: the fragment of matrix D."""
    if form.d != "f16":
        return np.asarray(recorder.matrix(form, words)).view({"f32": "f4", "s32": "i4"}[form.d])
    pairs = np.ascontiguousarray(words).view("f2").reshape(len(words), form.registers, 128, 2)
    register, lane, i = np.ogrid[: form.registers, :128, :2]
    found = np.zeros((len(words), 64, form.n), "f2")
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (register % 2)
    found[:, row, register // 2 * 8 + lane % 4 * 2 + i] = pairs
    return found


def in_shared(case: Any, bits: int, extent: int, kind: str) -> Array:
    """[extent, k]"""
    at = pieces(int(bits), extent, False).reshape(extent, 2, 1) + np.arange(16)
    return values(case.image[at].reshape(extent, -1).view("u4"), kind)


def in_registers(case: Any, registers: Array) -> Array:
    register, lane = np.ogrid[:4, :128]
    words = np.zeros((64, 8), "u4")
    row = lane // 32 * 16 + lane % 32 // 4 + 8 * (register % 2)
    words[row, lane % 4 + register // 2 * 4] = registers
    return values(words, case.form.a)


@cache
def operands(name: str) -> tuple[Array, Array, Array, Array]:
    """a, b with their signs, c, and the recorded d: [blocks, rows, columns]."""
    case, form = SUMS[name], SUMS[name].form
    a = [
        in_registers(case, fragments) if form.a_in_registers else in_shared(case, bits, 64, form.a)
        for bits, fragments in zip(case.descs[:, 0], case.fragments, strict=True)
    ]
    b = [in_shared(case, bits, form.n, form.b).T for bits in case.descs[:, 1]]
    c = matrix(form, case.sums) * case.scale
    want = matrix(form, recorded()[f"{name}.out"])
    with np.errstate(invalid="ignore"):  # signalling NaN
        left, right = np.stack(a) * form.signs[0], np.stack(b) * form.signs[1]
    return left, right, c.astype(want.dtype), want


# --- how an H200 adds up ----------------------------------------------------------------

FP8 = ("e4m3", "e5m2")
INEXACT = [name for name, case in SUMS.items() if case.form.d == "f32" and case.form.a not in FP8]
INEXACT = [name for name in INEXACT if not name.startswith("exact")]
OF_FP8 = [name for name, case in SUMS.items() if case.form.a in FP8]


@dataclass(frozen=True)
class Rule:
    """Terms keep `places` below the largest exponent, fp32 sums `kept` bits; both are cut by
    `cut`, and fp16 sums rounded. `late`: c is added to the sum of the products. `parts`: of k,
    each added to the sum before."""

    places: int
    kept: int
    cut: Callable[[Array], Array] = np.trunc
    cut_sum: Callable[[Array], Array] = np.trunc
    late: bool = False
    parts: int = 1


RULES = {"fp8": Rule(13, 14), "wide": Rule(25, 24)}


def summed(rule: Rule, case: Any, a: Array, b: Array, c: Array) -> Array:
    """a·b + c, written down as the rule says it: [blocks, 64, n, k] terms in float64."""
    total = np.zeros(c.shape) if rule.late else c.astype("f8")
    for left, right in zip(
        np.split(a, rule.parts, axis=-1), np.split(b, rule.parts, axis=1), strict=True
    ):
        total = _added(rule, case.form, left, right, total)
    if rule.late:
        total = total + c
    if case.form.d == "f16":
        return total.astype("f2")
    size, exponent = np.frexp(total)
    cut = np.ldexp(rule.cut_sum(np.ldexp(size, rule.kept)), exponent - rule.kept)
    return np.asarray(cut, "f4")


def _added(rule: Rule, form: Any, a: Array, b: Array, c: Array) -> Array:
    left, right = a.astype("f8")[:, :, None], b.astype("f8").swapaxes(1, 2)[:, None]
    least = {"e4m3": -6, "f16": -14, "e5m2": -14}  # of others that of fp32
    tops = of_mma.exponent(left, least.get(form.a, -126))
    tops = tops + of_mma.exponent(right, least.get(form.b, -126))
    products = left * right
    top = np.where(products == 0, -300, tops).max(-1)
    top = np.maximum(top, of_mma.exponent(c, least.get(form.d, -126)))
    last = np.maximum(top, -126) - rule.places
    terms = np.concatenate([products, c[..., None]], axis=-1)
    cut = rule.cut(np.ldexp(terms, -last[..., None])).sum(-1)
    finite = np.isfinite(terms).all(-1)
    found: Array = np.where(finite, np.ldexp(cut, last), terms.sum(-1)) + 0.0
    return found


def alike(got: Array, want: Array) -> Array:
    bits = f"u{want.dtype.itemsize}"
    same: Array = (got.view(bits) == want.view(bits)) | (np.isnan(got) & np.isnan(want))
    return same


def rule_of(case: Any) -> Rule:
    return RULES["fp8" if case.form.a in FP8 else "wide"]


@pytest.mark.parametrize("name", INEXACT + OF_FP8)
def test_the_sum_of_an_h200_is_understood(name: str) -> None:
    case, (a, b, c, want) = SUMS[name], operands(name)
    with np.errstate(all="ignore"):
        same = alike(summed(rule_of(case), case, a, b, c), want)
    assert same.all(), f"{(~same).sum()} differ"


OTHERWISE = {
    "a place less": lambda rule: replace(rule, places=rule.places - 1),
    "a place more": lambda rule: replace(rule, places=rule.places + 1),
    "terms rounded": lambda rule: replace(rule, cut=np.rint),
    "terms cut downwards": lambda rule: replace(rule, cut=np.floor),
    "the sum rounded": lambda rule: replace(rule, cut_sum=np.rint),
    "a bit less": lambda rule: replace(rule, kept=rule.kept - 1),
    "a bit more": lambda rule: replace(rule, kept=rule.kept + 1),
    "c afterwards": lambda rule: replace(rule, late=True),
    "two halves of k": lambda rule: replace(rule, parts=2),
}


ONLY_FP32 = ("the sum rounded", "a bit less", "a bit more")  # fp16 sums are rounded, not cut


@pytest.mark.parametrize(
    ("name", "way"),
    [
        (name, way)
        for name in INEXACT + OF_FP8
        for way in OTHERWISE
        if name.startswith("sum") and not (SUMS[name].form.d == "f16" and way in ONLY_FP32)
    ],
)
def test_any_other_rounding_is_refuted(name: str, way: str) -> None:
    """So the recording decides the rule, each sum of random operands by itself."""
    case, (a, b, c, want) = SUMS[name], operands(name)
    other = OTHERWISE[way](rule_of(case))
    assert (~alike(summed(other, case, a, b, c), want)).mean() > 0.02


# --- the emulator -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in SUMS if name not in INEXACT])
def test_sums_to_the_bit(name: str) -> None:
    """NaN included, which are 0x7FFFFFFF and 0x7FFF."""
    np.testing.assert_array_equal(emulated(SUMS[name]), recorded()[f"{name}.out"])


def apart(name: str, got: Array) -> tuple[Array, Array]:
    """The distance from the H200 and what is allowed, where that is finite; the rest is alike."""
    a, b, c, want = operands(name)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite].view("u4"), want[~finite].view("u4"))
    with np.errstate(all="ignore"):
        bound = of_mma.sum_bound(a, b, c, of_mma.LEAST[SUMS[name].form.a])
    return np.abs(got[finite].astype("f8") - want[finite]), bound[finite]


@pytest.mark.parametrize("name", INEXACT)
def test_sums_within_the_bound(name: str) -> None:
    case = SUMS[name]
    distance, bound = apart(name, matrix(case.form, emulated(case)))
    assert (distance <= bound).all(), f"{(distance > bound).sum()} differ too much"


@pytest.mark.parametrize("name", [name for name in INEXACT if name.startswith("sum")])
def test_the_bound_is_narrow(name: str) -> None:
    """The last bit it can't hold, as the order is another one (what an H200 rounds is held above);
    but sums that lack their last 6 bits are seen, and distances use a fifth of it at most."""
    case = SUMS[name]
    words = emulated(case)
    distance, bound = apart(name, matrix(case.form, words))
    assert (distance <= bound / 5).all()
    distance, bound = apart(name, matrix(case.form, words & np.uint32(0xFFFFFFC0)))
    assert (distance > bound).mean() > 0.05


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("name", recorder.ODD)
def test_what_faults_on_an_h200_is_a_finding(name: str) -> None:
    """Operands beyond the shared memory of the block; the GPU's context was lost with each."""
    told = json.loads(recorded()["odd"].tobytes())
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in told[name]
    form, case = recorder.odd_case(name)
    compiled = build(Source("odd.cu", recorder.kernel_text(form)), "sm_90a")
    _, report = launched(case, compiled)
    assert {finding.kind for finding in report.findings} == {"out-of-bounds"}

"""wgmma.mma_async against float64: types, extents, layouts in shared memory, signs, scale-d.

Kernels come from scripts/record_wgmma.py: one instruction, with descriptors, registers and shared
memory as the test gives them. Where an element lies is written down here once more, element by
element, from the canonical layouts of the PTX ISA.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.errors import UnsupportedError

Array = np.ndarray[Any, Any]

SCRIPT = Path(__file__).parents[3] / "scripts" / "record_wgmma.py"
B_AT = 32768  # where B lies in shared memory, behind A
DTYPES: dict[str, Any] = {
    **{"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32},
    **{"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2},
    **{"s8": np.int8, "u8": np.uint8},
}
LINES = {0: 16, 1: 128, 2: 64, 3: 32}  # swizzle mode → bytes of a row of the atom


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_wgmma", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- operands ---------------------------------------------------------------------------


def offset(i: int, k: int, size: int, desc: Any, along: bool) -> int:
    """Byte of element i along m or n and k. CuTe writes the same as ((T,W,m),(8,k)) and so on."""
    line, per = LINES[desc.swizzle], LINES[desc.swizzle] // size
    if along and desc.swizzle:
        inner, outer = i % per * size + i // per * desc.leading, k % 8 * line + k // 8 * desc.stride
    elif along:
        inner, outer = i % per * size + i // per * desc.stride, k % 8 * line + k // 8 * desc.leading
    elif desc.swizzle:
        inner, outer = k * size, i % 8 * line + i // 8 * desc.stride
    else:
        inner, outer = k % per * size + k // per * desc.leading, i % 8 * 16 + i // 8 * desc.stride
    address = int(desc.start) + inner + outer
    return int(address ^ (address >> 7 & line // 16 - 1) << 4)


def store(image: Array, matrix: Array, desc: Any, along: bool) -> None:
    """Puts a matrix [m or n, k] of elements (b1: of bytes with 8 bits) where `desc` has it."""
    size = matrix.dtype.itemsize
    raw = np.ascontiguousarray(matrix).view("u1").reshape(*matrix.shape, size)
    for i, k in np.ndindex(*matrix.shape):
        at = offset(i, k, size, desc, along)
        image[at : at + size] = raw[i, k]


def random_matrix(kind: str, extent: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Elements as they lie in memory, and their values in float64, [extent, k]."""
    if kind == "b1":
        packed = rng.integers(0, 256, (extent, 32), dtype="u1")
        return packed, np.unpackbits(packed, axis=-1, bitorder="little").astype("f8")
    k = {"f16": 16, "bf16": 16, "tf32": 8}.get(kind, 32)
    if kind in ("s8", "u8"):
        info = np.iinfo(DTYPES[kind])
        elements = rng.integers(info.min, info.max + 1, (extent, k)).astype(DTYPES[kind])
        return elements, elements.astype("f8")
    elements = rng.standard_normal((extent, k)).astype(DTYPES[kind])
    numbers = elements.astype("f8")
    if kind == "tf32":  # the 13 low bits do not count
        numbers = (elements.view("u4") & 0xFFFFE000).view("f4").astype("f8")
    return elements, numbers


def fragments(matrix: Array) -> Array:
    """Registers [4, 128] of A: lane l of warp w holds rows 16·w + l / 4 and 8 below."""
    words = np.ascontiguousarray(matrix).view("u4")  # [64, 8]: of each row 4 and 4 words along k
    registers = np.zeros((4, 128), "u4")
    for register, lane in np.ndindex(4, 128):
        row = 16 * (lane // 32) + lane % 32 // 4 + 8 * (register % 2)
        registers[register, lane] = words[row, lane % 4 + 4 * (register // 2)]
    return registers


def accumulators(matrix: Array) -> Array:
    """Registers of D [64, n]: lane l of warp w holds pairs of columns of rows l / 4 and 8 below."""
    n = matrix.shape[1]
    pairs = 1 if matrix.dtype.itemsize == 4 else 2
    registers = np.zeros((n // (2 * pairs), 128), "u4")
    for lane in range(128):
        row, column = 16 * (lane // 32) + lane % 32 // 4, 2 * (lane % 4)
        own = [matrix[row + 8 * h, 8 * j + column :][:2] for j in range(n // 8) for h in (0, 1)]
        registers[:, lane] = np.concatenate(own).view("u4")
    return registers


def launch(recorder: ModuleType, form: Any, descs: list[Any], **given: Any) -> Array:
    """The registers of D after one instruction, [blocks, registers, 128]; nothing may be found."""
    blocks = len(descs)
    out = np.zeros((blocks, form.registers, 128), "u4")
    pairs = np.array([[a.bits, b.bits] for a, b in descs], "u8")
    image = np.zeros(65536, "u1") if given.get("image") is None else given["image"]
    regs = np.zeros((4, 128), "u4") if given.get("fragments") is None else given["fragments"]
    sums = np.zeros((form.registers, 128), "u4") if given.get("sums") is None else given["sums"]
    args = [image, pairs, np.stack([regs] * blocks), np.stack([sums] * blocks), out]
    report = tilewright.emulate(
        recorder.kernel_text(form), form.name, (blocks,), (128,),
        [*args, given.get("scale", 1)], arch="sm_90a", shared_bytes=65536,
    )  # fmt: skip
    assert report.findings == []
    assert report.completed
    return out


def bound(form: Any, a: Array, b: Array, c: Array) -> Array:
    """A share of all sizes: f16: 2**-11, one rounding; fp32: 2**-23 each partial sum.

    fp8: each of k products and c is cut by at most 2**-13 of the largest, and so is an fp32 sum.
    """
    size = np.abs(a) @ np.abs(b).T + np.abs(c)
    rounding = 2.0**-11 if form.d == "f16" else 0.0
    terms = a.shape[1] + 2
    if form.a in ("e4m3", "e5m2"):
        share = terms * 2.0**-13 + rounding
    else:
        share = rounding or terms * 2.0**-23
    limit: Array = size * share
    return limit


def check(form: Any, got: Array, a: Array, b: Array, c: Array) -> None:
    """The registers of one block against a · bᵀ + c in float64."""
    want = a @ b.T + c
    dtype = {"f32": "f4", "f16": "f2", "s32": "i4"}[form.d]
    assert form.d != "s32" or np.abs(want).max() < 2**31
    if form.d == "s32":
        np.testing.assert_array_equal(got, accumulators(want.astype("i4")))
        return
    near = accumulators(np.zeros((64, form.n), dtype)).shape
    assert got.shape == near
    limits = accumulators(bound(form, a, b, c).astype("f4")).view("f4")
    wants = accumulators(want.astype("f4")).view("f4")
    numbers = got.view(dtype)
    if form.d == "f16":  # two columns a register; those of fp32 come one by one
        numbers = numbers.reshape(-1, 128, 2).swapaxes(1, 2).reshape(-1, 128)
    apart = np.abs(numbers.astype("f8") - wants)
    assert (apart <= limits + 2.0**-24).all(), f"{apart.max()} is too far"


# --- tests ------------------------------------------------------------------------------

TYPES = [
    *(("f32", kind, kind) for kind in ("f16", "bf16", "tf32", "e4m3", "e5m2")),
    *(("f32", "e4m3", "e5m2"), ("f16", "f16", "f16"), ("f16", "e5m2", "e4m3")),
    *(("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")),
    ("s32", "b1", "b1"),
]


@pytest.mark.parametrize(
    ("d", "a", "b", "n", "in_registers"),
    [
        *((d, a, b, 24, in_registers) for d, a, b in TYPES for in_registers in (False, True)),
        *(("f32", "bf16", "bf16", n, False) for n in (8, 64, 128, 256)),
        ("s32", "s8", "s8", 256, False),
        ("f16", "f16", "f16", 128, False),
    ],
)
def test_types_and_extents(
    recorder: ModuleType, d: str, a: str, b: str, n: int, in_registers: bool
) -> None:
    rng = np.random.default_rng(n + 7 * in_registers)
    form = recorder.Form(d, a, b, n, a_in_registers=in_registers)
    descs = recorder.Desc(0, 128, 256, 0), recorder.Desc(B_AT, 128, 256, 0)
    left, x = random_matrix(a, 64, rng)
    right, y = random_matrix(b, n, rng)
    c = rng.integers(-50, 50, (64, n)).astype({"f32": "f4", "f16": "f2", "s32": "i4"}[d])
    image = rng.integers(0, 256, 65536, dtype="u1")
    store(image, right, descs[1], False)
    if not in_registers:
        store(image, left, descs[0], False)
    got = launch(recorder, form, [descs], image=image, sums=accumulators(c),
                 fragments=fragments(left) if in_registers else None)  # fmt: skip
    check(form, got[0], x, y, c.astype("f8"))


@pytest.mark.parametrize("a_along", [False, True])
@pytest.mark.parametrize("b_along", [False, True])
def test_layouts(recorder: ModuleType, a_along: bool, b_along: bool) -> None:
    """All swizzles, one a block, with strides that leave gaps."""
    form = recorder.Form("f32", "bf16", "bf16", 64, a_along_m=a_along, b_along_n=b_along)
    for swizzle, line in LINES.items():
        rng = np.random.default_rng(swizzle)
        apart = 8 * line + (1024 if swizzle else 32)  # between atoms of 8 rows
        descs = [
            recorder.Desc(start, 3072 if along or not swizzle else 16, apart, swizzle)
            for start, along in ((0, a_along), (B_AT, b_along))
        ]
        if not swizzle:  # a piece is followed by the next one of the same k
            descs = [recorder.Desc(each.start, 6144, apart, 0) for each in descs]
        left, x = random_matrix("bf16", 64, rng)
        right, y = random_matrix("bf16", 64, rng)
        image = rng.integers(0, 256, 65536, dtype="u1")
        store(image, left, descs[0], a_along)
        store(image, right, descs[1], b_along)
        got = launch(recorder, form, [tuple(descs)], image=image)
        check(form, got[0], x, y, np.zeros((64, 64)))


def test_the_start_advances_inside_a_swizzled_atom(recorder: ModuleType) -> None:
    """Four steps of k in rows of 128 bytes: 32 bytes further each, one step a block."""
    rng = np.random.default_rng(5)
    form = recorder.Form("f32", "bf16", "bf16", 64)
    steps = [random_matrix("bf16", 64, rng) for _ in range(8)]
    image = np.zeros(65536, "u1")
    for at, parts in ((0, steps[:4]), (B_AT, steps[4:])):
        whole = np.concatenate([elements for elements, _ in parts], axis=1)
        store(image, whole, recorder.Desc(at, 16, 1024, 1), False)
    descs = [[recorder.Desc(at + 32 * k, 16, 1024, 1) for at in (0, B_AT)] for k in range(4)]
    got = launch(recorder, form, descs, image=image)
    for k in range(4):
        check(form, got[k], steps[k][1], steps[4 + k][1], np.zeros((64, 64)))


def test_the_base_offset_says_where_the_pattern_begins(recorder: ModuleType) -> None:
    """An atom that begins 384 bytes after a multiple of 1024, and the base that tells so."""
    rng = np.random.default_rng(6)
    form = recorder.Form("f32", "bf16", "bf16", 8, a_in_registers=True)
    left, x = random_matrix("bf16", 64, rng)
    right, y = random_matrix("bf16", 8, rng)
    image, plain = np.zeros(65536, "u1"), np.zeros(65536, "u1")
    store(plain, right, recorder.Desc(0, 16, 1024, 1), False)
    image[384 : 384 + 1024] = plain[:1024]
    desc = recorder.Desc(384, 16, 1024, 1, base=3)
    got = launch(recorder, form, [(desc, desc)], image=image, fragments=fragments(left))
    check(form, got[0], x, y, np.zeros((64, 8)))


@pytest.mark.parametrize("signs", [(-1, 1), (1, -1), (-1, -1)])
def test_signs(recorder: ModuleType, signs: tuple[int, int]) -> None:
    rng = np.random.default_rng(3)
    form = recorder.Form("f32", "tf32", "tf32", 8, signs=signs)
    descs = recorder.Desc(0, 128, 256, 0), recorder.Desc(B_AT, 128, 256, 0)
    left, x = random_matrix("tf32", 64, rng)
    right, y = random_matrix("tf32", 8, rng)
    image = np.zeros(65536, "u1")
    store(image, left, descs[0], False)
    store(image, right, descs[1], False)
    c = rng.standard_normal((64, 8)).astype("f4")
    got = launch(recorder, form, [descs], image=image, sums=accumulators(c))
    check(form, got[0], signs[0] * x, signs[1] * y, c.astype("f8"))


@pytest.mark.parametrize("d", ["f32", "f16"])
def test_without_scale_d_the_accumulators_do_not_matter(recorder: ModuleType, d: str) -> None:
    rng = np.random.default_rng(4)
    form = recorder.Form(d, "f16", "f16", 8)
    descs = recorder.Desc(0, 128, 256, 0), recorder.Desc(B_AT, 128, 256, 0)
    left, x = random_matrix("f16", 64, rng)
    right, y = random_matrix("f16", 8, rng)
    image = np.zeros(65536, "u1")
    store(image, left, descs[0], False)
    store(image, right, descs[1], False)
    nothing = np.full((form.registers, 128), 0x7FFF7FFF, "u4")
    got = launch(recorder, form, [descs], image=image, sums=nothing, scale=0)
    check(form, got[0], x, y, np.zeros((64, 8)))


@pytest.mark.parametrize("saturate", [False, True])
def test_integers_wrap_or_saturate(recorder: ModuleType, saturate: bool) -> None:
    form = recorder.Form("s32", "s8", "s8", 8, saturate=saturate)
    desc = recorder.Desc(0, 128, 256, 0)
    image = np.full(65536, 100, "u1")
    start = accumulators(np.full((64, 8), 2**31 - 1, "i4"))
    got = launch(recorder, form, [(desc, desc)], image=image, sums=start)
    want = 2**31 - 1 if saturate else -(2**31) - 1 + 32 * 10000
    assert (got.view("i4") == want).all()


# --- what there is not ------------------------------------------------------------------

PTX = """.version 8.0
.target {target}
.address_size 64
.visible .entry k()
{{
  .reg .pred p; .reg .b64 %d<2>; .reg .b32 %r<132>; .reg .f32 %f<132>;
  {text}
  ret;
}}
"""


def registers(letter: str, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"


def multiply(rest: str, d: str = registers("f", 4), a: str = "%d0", scale: str = "p, 1, 1") -> str:
    return f"wgmma.mma_async.sync.aligned.{rest} {d}, {a}, %d1, {scale};"


WORDS = registers("r", 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [  # all of them are refused by ptxas of CUDA 13.5
        (multiply("m64n8k16.f32.f16.f16"), "4 constants must follow scale-d, not 2"),
        (multiply("m64n8k16.f32.f16.f16", scale="p, 1, 0, 0, 0"), "must be 1 or -1"),
        (multiply("m64n8k16.f32.f16.f16", scale="p, 1, 1, 0, 2"), "must be 0 or 1"),
        (
            multiply("m64n8k16.f32.f16.f16", a=WORDS, scale="p, 1, 1, 0, 1"),
            "3 constants must follow scale-d, not 4",
        ),
        (multiply("m64n8k16.f32.f16.f16", registers("f", 3), scale="p, 1, 1, 0, 0"), "4 registers"),
        (multiply("m64n8k8.f32.f16.f16", scale="p, 1, 1, 0, 0"), "k must be 16 for .f16, not 8"),
        (multiply("m64n4k16.f32.f16.f16", scale="p, 1, 1, 0, 0"), "n=4 must be 8 to 256 by 8"),
        (multiply("m64n264k16.f32.f16.f16", scale="p, 1, 1, 0, 0"), "n=264 must be"),
        (multiply("m64n8k16.f32.f16.bf16", scale="p, 1, 1, 0, 0"), "do not go together"),
        (multiply("m64n8k16.f16.bf16.bf16", registers("r", 2), scale="p, 1, 1, 0, 0"), "into .f16"),
        (multiply("m64n8k8.f32.tf32.tf32", scale="p, 1, 1, 0, 0"), "2 constants"),
        (multiply("m64n8k32.f32.e4m3.e5m2", scale="p, 1, 1, 0, 0"), "2 constants"),
        (multiply("m64n8k32.s32.s8.u8", WORDS), "0 constants must follow scale-d, not 2"),
        (multiply("m64n40k32.s32.s8.s8", registers("r", 20), scale="p"), "n=40 must be 8, 16, 24"),
        (multiply("m64n248k32.s32.s8.s8", registers("r", 124), scale="p"), "n=248 must be"),
        (multiply("m64n8k256.s32.b1.b1.xor.popc", WORDS, scale="p"), "does not model"),
        (
            "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 "
            f"{registers('f', 4)}, %d0, %d1, %r0, 0, p, 1, 1, 0, 0;",
            "sparse matrices",
        ),
        ("wgmma.wait_group.sync.aligned %r0;", "must be a constant from 0 up"),
        ("wgmma.commit_group.sync.aligned 0;", "takes none"),
    ],
)
def test_forms_that_there_are_not(text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        tilewright.emulate(PTX.format(target="sm_90a", text=text), "k", (1,), (128,), [])


def test_another_target_has_no_wgmma() -> None:
    text = PTX.format(target="sm_90", text="wgmma.fence.sync.aligned;")
    with pytest.raises(UnsupportedError, match=r"wgmma needs \.target sm_90a, not sm_90"):
        tilewright.emulate(text, "k", (1,), (128,), [])


@pytest.mark.parametrize(
    "rest", ["satfinite.s32.s8.s8", "s32.satfinite.s8.s8", "s32.s8.s8.satfinite"]
)
def test_satfinite_stands_where_ptxas_takes_it(rest: str) -> None:
    text = "mov.b64 %d0, 0; mov.b64 %d1, 0; setp.ne.b32 p, 0, 0;"
    text += multiply(f"m64n8k32.{rest}", WORDS, scale="p")
    tilewright.emulate(PTX.format(target="sm_90a", text=text), "k", (1,), (128,), [], checks=False)

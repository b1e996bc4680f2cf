"""ldmatrix, stmatrix and mma against per-lane definitions written out from the PTX ISA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]

REGS = ["%r20", "%r21", "%r22", "%r23"]


def group(names: list[str]) -> str:
    return "{" + ", ".join(names) + "}"


def fragment_element(register: int, half: int, lane: int, transposed: bool) -> tuple[int, int, int]:
    """PTX ISA, ldmatrix: (matrix, row, column) of a half of a lane's register.

    Register i belongs to matrix i; lane l holds row l / 4, columns 2·(l % 4) and the next one,
    and with .trans the same places of the transposed matrix.
    """
    row, column = lane // 4, 2 * (lane % 4) + half
    return (register, column, row) if transposed else (register, row, column)


def scattered_rows(rng: np.random.Generator, rows: int) -> np.ndarray[Any, Any]:
    """Byte offsets of so many 16-byte rows inside 4 KiB, in no order and none twice."""
    return rng.choice(256, rows, replace=False).astype("u4") * 16


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(execute: Execute, count: int, transposed: bool) -> None:
    rng = np.random.default_rng(count)
    memory = rng.integers(0, 1 << 16, (3, 2048)).astype("u2")
    rows = scattered_rows(rng, 96)
    out = np.zeros((3, 32, 4), "u4")
    trans = ".trans" if transposed else ""
    load = f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {group(REGS[:count])}, [%r5];"
    body = f"""
      .shared .align 16 .b8 s[4096];
      mov.u32 %r1, %ctaid.x; mov.u32 %r2, s;
      mul.wide.u32 %d4, %r1, 4096; add.s64 %d4, %d0, %d4; mov.u32 %r3, %r99;
      FILL: mul.wide.u32 %d5, %r3, 4; add.s64 %d5, %d4, %d5; ld.global.u32 %r4, [%d5];
      mad.lo.u32 %r5, %r3, 4, %r2; st.shared.u32 [%r5], %r4; add.u32 %r3, %r3, 32;
      setp.lt.u32 %p1, %r3, 1024; @%p1 bra FILL;
      bar.sync 0;
      mad.lo.u32 %r6, %r1, 32, %r99; mul.wide.u32 %d6, %r6, 4; add.s64 %d6, %d1, %d6;
      ld.global.u32 %r5, [%d6]; add.u32 %r5, %r5, %r2;
      {load}
      mul.wide.u32 %d7, %r6, 16; add.s64 %d7, %d2, %d7;
      st.global.v4.u32 [%d7], {group(REGS)}; ret;
    """
    assert execute(body, memory, rows, out, grid=(3,)).findings == []
    for block in range(3):
        starts = rows[32 * block :][:32] // 2  # lane 8·i + r names row r of matrix i
        for register in range(count):
            for lane in range(32):
                halves = []
                for half in range(2):
                    i, row, column = fragment_element(register, half, lane, transposed)
                    halves.append(int(memory[block, starts[8 * i + row] + column]))
                assert out[block, lane, register] == halves[0] | halves[1] << 16


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix(execute: Execute, count: int, transposed: bool) -> None:
    rng = np.random.default_rng(count)
    registers = rng.integers(0, 1 << 32, (32, 4)).astype("u4")
    rows = scattered_rows(rng, 32)
    out = np.zeros(2048, "u2")
    trans = ".trans" if transposed else ""
    store = f"stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r5], {group(REGS[:count])};"
    body = f"""
      .shared .align 16 .b8 s[4096];
      mov.u32 %r2, s; add.s64 %d1, %d1, %d99; ld.global.u32 %r5, [%d1]; add.u32 %r5, %r5, %r2;
      mul.wide.u32 %d4, %r99, 16; add.s64 %d4, %d0, %d4; ld.global.v4.u32 {group(REGS)}, [%d4];
      {store}
      mov.u32 %r3, %r99;
      COPY: mad.lo.u32 %r6, %r3, 4, %r2; ld.shared.u32 %r4, [%r6];
      mul.wide.u32 %d5, %r3, 4; add.s64 %d5, %d2, %d5; st.global.u32 [%d5], %r4;
      add.u32 %r3, %r3, 32; setp.lt.u32 %p1, %r3, 1024; @%p1 bra COPY; ret;
    """
    assert execute(body, registers, rows, out).findings == []
    want = np.full(2048, 0xFFFF, "u2")
    for register in range(count):
        for lane in range(32):
            for half in range(2):
                i, row, column = fragment_element(register, half, lane, transposed)
                value = int(registers[lane, register]) >> 16 * half & 0xFFFF
                want[rows[8 * i + row] // 2 + column] = value
    np.testing.assert_array_equal(out, want)


def test_only_the_lanes_that_name_rows_need_an_address(execute: Execute) -> None:
    body = """
      .shared .align 16 .b8 s[128];
      mov.u32 %r1, s; mad.lo.u32 %r1, %r99, 16, %r1;
      ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r1];
      ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%r20, %r21}, [%r1]; ret;
    """
    (finding,) = execute(body).findings
    assert (finding.lane, finding.address) == (8, 128)


def test_a_generic_address_must_be_of_shared_memory(execute: Execute) -> None:
    data, out = np.arange(64).astype("u2"), np.zeros(64, "u2")
    body = """
      .shared .align 16 .b8 s[128];
      mov.u64 %d4, s; cvta.shared.u64 %d4, %d4; add.s64 %d5, %d0, %d99; ld.global.u32 %r1, [%d5];
      mul.wide.u32 %d6, %r99, 16; add.s64 %d6, %d4, %d6;
      stmatrix.sync.aligned.m8n8.x1.b16 [%d6], {%r1};
      ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%d6];
      add.s64 %d1, %d1, %d99; st.global.u32 [%d1], %r2;
      ldmatrix.sync.aligned.m8n8.x1.b16 {%r2}, [%d0]; ret;
    """
    found = execute(body, data, out).findings
    np.testing.assert_array_equal(out, data)
    assert [finding.kind for finding in found] == ["out-of-bounds"]


def test_a_misaligned_row_gives_poison_and_the_others_do_not(execute: Execute) -> None:
    out = np.zeros(32, "u4")
    body = """
      .shared .align 16 .b8 s[256];
      mov.u32 %r1, s; mad.lo.u32 %r1, %r99, 16, %r1; st.shared.v4.u32 [%r1], {1, 2, 3, 4};
      setp.eq.u32 %p1, %r99, 3; selp.b32 %r2, 8, 0, %p1; add.u32 %r1, %r1, %r2;
      ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r1];
      add.s64 %d0, %d0, %d99; st.global.u32 [%d0], %r20; ret;
    """
    report = execute(body, out, block=(16,))
    assert [(f.kind, f.lane) for f in report.findings] == [("misaligned", 3)]
    assert out[:16].tolist() == [*[1, 2, 3, 4] * 3, *[0xFFFF_FFFF] * 4]


# --- mma --------------------------------------------------------------------------------


def bits_of(values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """16-bit patterns of numbers that the format holds exactly."""
    if kind == "f16":
        return values.astype("f2").view("u2")
    return (values.astype("f4").view("u4") >> 16).astype("u2")


def a_cell(i: int, lane: int) -> tuple[int, int]:
    g, t = lane >> 2, lane & 3
    return (g if i in (0, 1, 4, 5) else g + 8), 2 * t + (i & 1) + (8 if i >= 4 else 0)


def b_cell(i: int, lane: int) -> tuple[int, int]:
    g, t = lane >> 2, lane & 3
    return 2 * t + (i & 1) + (8 if i >= 2 else 0), g


def c_cell(i: int, lane: int) -> tuple[int, int]:
    g, t = lane >> 2, lane & 3
    return g + 8 * (i >> 1), 2 * t + (i & 1)


def gathered(matrix: np.ndarray[Any, Any], cell: Any, count: int) -> np.ndarray[Any, Any]:
    """[32, count]: what every lane holds of a matrix."""
    return np.array([[matrix[cell(i, lane)] for i in range(count)] for lane in range(32)])


def mma_body(kind: str, guard: str = "", repeat: int = 1) -> str:
    """Loads fragments of 64 threads (or 32), multiplies, writes the accumulators over C."""
    return f"""
      mul.wide.u32 %d4, %r99, 16; mul.wide.u32 %d5, %r99, 8;
      add.s64 %d0, %d0, %d4; add.s64 %d1, %d1, %d5; add.s64 %d2, %d2, %d4;
      ld.global.v4.u32 {{%r1, %r2, %r3, %r4}}, [%d0]; ld.global.v2.u32 {{%r5, %r6}}, [%d1];
      ld.global.v4.f32 {{%f1, %f2, %f3, %f4}}, [%d2];
      {guard}
      {
        f'''mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32
        {{%f1, %f2, %f3, %f4}}, {{%r1, %r2, %r3, %r4}}, {{%r5, %r6}}, {{%f1, %f2, %f3, %f4}};
      '''
        * repeat
    }
      SKIP: st.global.v4.f32 [%d2], {{%f1, %f2, %f3, %f4}}; ret;"""


Matrices = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]


def run_mma(execute: Execute, kind: str, warps: list[Matrices], body: str) -> np.ndarray[Any, Any]:
    """[warps, 32, 4] accumulators."""
    a = np.stack([gathered(bits_of(x, kind), a_cell, 8) for x, _, _ in warps]).astype("u2")
    b = np.stack([gathered(bits_of(x, kind), b_cell, 4) for _, x, _ in warps]).astype("u2")
    c = np.stack([gathered(x, c_cell, 4) for _, _, x in warps]).astype("f4")
    assert execute(body, a, b, c, block=(32 * len(warps),)).findings == []
    return c


def small(rng: np.random.Generator) -> Matrices:
    """Integers, whose products and sums are exact in fp32 in any order."""
    a, b = rng.integers(-8, 9, (16, 16)), rng.integers(-8, 9, (16, 8))
    return a.astype("f4"), b.astype("f4"), rng.integers(-99, 100, (16, 8)).astype("f4")


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_mma_of_two_warps(execute: Execute, kind: str) -> None:
    rng = np.random.default_rng(4)
    warps = [small(rng), small(rng)]
    got = run_mma(execute, kind, warps, mma_body(kind))
    for warp, (a, b, c) in enumerate(warps):
        np.testing.assert_array_equal(got[warp], gathered(a @ b + c, c_cell, 4))


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_a_chain_of_mma_accumulates(execute: Execute, kind: str) -> None:
    a, b, c = small(np.random.default_rng(6))
    got = run_mma(execute, kind, [(a, b, c)], mma_body(kind, repeat=5))
    np.testing.assert_array_equal(got[0], gathered(5 * (a @ b) + c, c_cell, 4))


def test_mma_of_one_warp_only(execute: Execute) -> None:
    rng = np.random.default_rng(7)
    warps = [small(rng), small(rng), small(rng)]
    guard = "shr.u32 %r9, %r99, 5; setp.ne.u32 %p1, %r9, 1; @%p1 bra SKIP;"
    got = run_mma(execute, "bf16", warps, mma_body("bf16", guard, repeat=2))
    for warp, (a, b, c) in enumerate(warps):
        want = 2 * (a @ b) + c if warp == 1 else c
        np.testing.assert_array_equal(got[warp], gathered(want, c_cell, 4))


def test_accumulators_changed_between_two_mma(execute: Execute) -> None:
    a, b, c = small(np.random.default_rng(8))
    text = mma_body("f16", repeat=2)
    first = text.index("mma.sync", text.index("mma.sync") + 1)
    body = text[:first] + "add.f32 %f2, %f2, 0f3F800000; mov.f32 %f3, %f1;" + text[first:]
    got = run_mma(execute, "f16", [(a, b, c)], body)
    lanes = gathered(a @ b + c, c_cell, 4)
    lanes[:, 1] += 1
    lanes[:, 2] = lanes[:, 0]
    np.testing.assert_array_equal(got[0], lanes + gathered(a @ b, c_cell, 4))


def test_the_same_registers_read_as_both_types(execute: Execute) -> None:
    """0x3C00 is 1 in fp16 and 2**-7 in bf16."""
    ones = np.ones((16, 16), "f4"), np.ones((16, 8), "f4"), np.zeros((16, 8), "f4")
    body = mma_body("f16")
    mma = next(part for part in body.split(";") if "mma.sync" in part)
    body = body.replace("SKIP:", mma.replace("f16", "bf16") + "; SKIP:")
    got = run_mma(execute, "f16", [ones], body)
    assert (got == 16 + 16 * 2.0**-14).all()


def test_a_forum_example_with_equal_lanes(execute: Execute) -> None:
    """bf16 all 0.2 (0x3E4D), so 16 products of 0.20019531 squared; c differs by register."""
    value = float(np.array(0x3E4D_0000, "u4").view("f4"))
    c = np.empty((16, 8), "f4")
    for lane in range(32):
        for i, start in enumerate((2.0, 4.0, 8.0, 1.5)):
            c[c_cell(i, lane)] = start
    full = np.full((16, 16), value, "f4"), np.full((16, 8), value, "f4"), c
    got = run_mma(execute, "bf16", [full], mma_body("bf16"))
    np.testing.assert_allclose(got[0, 9], 16 * value**2 + np.array([2, 4, 8, 1.5]), rtol=1e-6)


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_infinities_and_nan_stay_in_their_rows_and_columns(execute: Execute, kind: str) -> None:
    a, b, c = (np.ones(shape, "f4") for shape in ((16, 16), (16, 8), (16, 8)))
    a[3, 5], a[9, 0], b[7, 2], c[0, 0], c[3, 1] = np.inf, np.nan, -np.inf, np.inf, -np.inf
    b[5, 4] = 0
    got = run_mma(execute, kind, [(a, b, c)], mma_body(kind))
    with np.errstate(all="ignore"):
        want = np.array([[sum(a[i] * b[:, j]) + c[i, j] for j in range(8)] for i in range(16)])
    np.testing.assert_array_equal(got[0], gathered(want, c_cell, 4))
    assert np.isnan(want[3, 4])
    assert np.isnan(want[3, 1])


def test_every_cell_has_one_place_in_the_fragments() -> None:
    for cell, count, shape in ((a_cell, 8, (16, 16)), (b_cell, 4, (16, 8)), (c_cell, 4, (16, 8))):
        cells = {cell(i, lane) for i in range(count) for lane in range(32)}
        assert len(cells) == shape[0] * shape[1] == 32 * count


# --- mma of other shapes and types ------------------------------------------------------


def ones(kind: str, k: int) -> tuple[int, int]:
    """A register of ones of this type, and how many of them a thread's share of 16 x k takes."""
    word = {
        **{"f16": 0x3C003C00, "tf32": 0x3F800000, "s8": 0x01010101, "u4": 0x11111111},
        **{"bf16": 0x3F803F80, "e4m3": 0x38383838, "e5m2": 0x3C3C3C3C},
    }[kind]
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "e4m3": 8, "e5m2": 8, "u4": 4}[kind]
    return word, k * 16 * bits // (32 * 32)


@pytest.mark.parametrize(
    ("kind", "k", "c"),
    [
        *(("f16", 8, "f32"), ("bf16", 8, "f32"), ("tf32", 4, "f32"), ("tf32", 8, "f32")),
        *(("s8", 16, "s32"), ("s8", 32, "s32"), ("u4", 32, "s32"), ("u4", 64, "s32")),
        *(("e4m3", 16, "f32"), ("e4m3", 32, "f32"), ("e5m2", 32, "f32")),
    ],
)
def test_ones_times_ones(execute: Execute, kind: str, k: int, c: str) -> None:
    """k in every element, and k more from the second of two; test_silicon has the rest."""
    word, count = ones(kind, k)
    letter = "f" if c == "f32" else "r"
    a, b = group(["%r1"] * count), group(["%r1"] * (count // 2))
    d = group([f"%{letter}{10 + i}" for i in range(4)])
    instruction = f"mma.sync.aligned.m16n8k{k}.row.col.{c}.{kind}.{kind}.{c} {d}, {a}, {b}, {d};"
    out = np.zeros((32, 4), "f4" if c == "f32" else "i4")
    body = f"""mov.u32 %r1, {word};
      {"".join(f"mov.b32 %{letter}{10 + i}, 0;" for i in range(4))} {instruction * 2}
      mul.wide.u32 %d4, %r99, 16; add.s64 %d0, %d0, %d4; st.global.v4.b32 [%d0], {d}; ret;"""
    assert execute(body, out).findings == []
    assert (out == 2 * k).all()


@pytest.mark.parametrize(("m", "k"), [(8, 128), (16, 128), (16, 256)])
@pytest.mark.parametrize("how", ["xor", "and"])
def test_bits(execute: Execute, m: int, k: int, how: str) -> None:
    """Lane l holds 32 columns of A from 32·(l % 4) on of row l / 4, then 8 rows and 128 below."""
    rng = np.random.default_rng(m + k)
    a, b = rng.integers(0, 2, (m, k)), rng.integers(0, 2, (k, 8))
    c = rng.integers(-9, 9, (32, m // 4), "i4")
    weights = 1 << np.arange(32, dtype="u8")
    left, right = [], []
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for i in range(m * k // 1024):
            first = 32 * t + 128 * (i // (m // 8))
            left.append(a[g + 8 * (i % (m // 8)), first : first + 32] @ weights)
        for i in range(k // 128):
            first = 32 * t + 128 * i
            right.append(b[first : first + 32, g] @ weights)
    counts = [m * k // 1024, k // 128, m // 4]
    names = [[f"%r{10 * j + i}" for i in range(count)] for j, count in enumerate(counts, 1)]
    loads = "".join(
        f"mad.wide.u32 %d5, %r99, {4 * count}, %d{j};"
        + "".join(f"ld.global.u32 {name}, [%d5+{4 * i}];" for i, name in enumerate(names[j]))
        for j, count in enumerate(counts)
    )
    stores = "".join(f"st.global.u32 [%d5+{4 * i}], {it};" for i, it in enumerate(names[2]))
    form = f"mma.sync.aligned.m{m}n8k{k}.row.col.s32.b1.b1.s32.{how}.popc"
    body = f"""{loads} {form} {group(names[2])}, {group(names[0])}, {group(names[1])},
      {group(names[2])}; {stores} ret;"""
    before = c.copy()
    args = np.array(left, "u4"), np.array(right, "u4"), c
    assert execute(body, *args).findings == []
    both = a @ b
    differ = a.sum(1)[:, None] + b.sum(0) - 2 * both
    expected = gathered(differ if how == "xor" else both, c_cell, m // 4) + before
    np.testing.assert_array_equal(c, expected)


def test_movmatrix(execute: Execute) -> None:
    matrix, out = np.arange(64).reshape(8, 8).astype("u2"), np.zeros((8, 8), "u2")
    body = """add.s64 %d0, %d0, %d99; ld.global.u32 %r1, [%d0];
      movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
      add.s64 %d1, %d1, %d99; st.global.u32 [%d1], %r2; ret;"""
    assert execute(body, matrix, out).findings == []
    np.testing.assert_array_equal(out, matrix.T)


@pytest.mark.parametrize(
    "text",
    [
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r5];",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1, %r2, %r3}, [%r5];",
        "ldmatrix.sync.aligned.m8n8.x1.global.b16 {%r1}, [%d5];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r1}, [%r5];",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r5], {%r1};",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r1}, {%f1};",
        "mma.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r1}, {%f1};",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16 {%r1}, {%r1}, {%r1}, {%r1};",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f16 {%f1}, {%r1}, {%r1}, {%r1};",
        "mma.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 {%r1}, {%r1}, {%r1}, {%r1};",
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s4.s32 {%r1}, {%r1}, {%r1}, {%r1};",
        "mma.sync.aligned.m16n8k32.col.col.s32.s8.s8.s32 {%r1}, {%r1}, {%r1}, {%r1};",
        "mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.xor.popc {%r1}, {%r1}, {%r1}, {%r1};",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.satfinite {%f1}, {%r1}, {%r1}, {%f1};",
        "mma.sync.aligned.m8n8k4.row.col.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r1}, {%f1};",
        "wgmma.fence.sync.aligned;",
    ],
)
def test_other_forms_stop(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError, match=text.split()[0].rstrip(";")):
        execute(text)

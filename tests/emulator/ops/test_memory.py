"""ld and st: every width and vector form, extension into wider registers, faults."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]
Text = Callable[..., str]

TYPES = [sign + bits for sign in "bus" for bits in ("8", "16", "32", "64")] + ["f32", "f64"]
FORMS = [
    (kind, count) for kind, count in product(TYPES, (1, 2, 4)) if int(kind[1:]) // 8 * count <= 16
]
REGISTER = {"8": "h", "16": "h", "32": "r", "64": "d", "f32": "f", "f64": "g"}


def registers(kind: str, count: int) -> str:
    """%h10 or {%h10, %h11}: of the type's width, or of 16 bits for a byte."""
    letter = REGISTER.get(kind) or REGISTER[kind[1:]]
    names = [f"%{letter}{10 + i}" for i in range(count)]
    return names[0] if count == 1 else "{" + ", ".join(names) + "}"


def form(kind: str, count: int) -> str:
    return f".{kind}" if count == 1 else f".v{count}.{kind}"


@pytest.mark.parametrize(("kind", "count"), FORMS)
def test_every_width_through_global_and_shared_memory(
    execute: Execute, kind: str, count: int
) -> None:
    width = int(kind[1:]) // 8 * count
    rng = np.random.default_rng(width)
    source = rng.integers(0, 256, 64 * width, dtype=np.uint8)
    target = np.zeros_like(source)
    regs, suffix = registers(kind, count), form(kind, count)
    body = f"""
      .shared .align 16 .b8 s[{64 * width}];
      mad.lo.u32 %r1, %r99, {width}, 0; cvt.u64.u32 %d2, %r1;
      add.s64 %d0, %d0, %d2; add.s64 %d1, %d1, %d2; mov.u32 %r2, s; add.u32 %r2, %r2, %r1;
      ld.global{suffix} {regs}, [%d0]; st.shared{suffix} [%r2], {regs};
      xor.b32 %r2, %r2, 0; ld.shared{suffix} {regs}, [%r2]; st.global{suffix} [%d1], {regs}; ret;
    """
    report = execute(body, source, target, block=(64,))
    assert report.findings == []
    np.testing.assert_array_equal(source, target)
    assert [row.bytes for row in report.accesses] == [64 * width] * 4
    assert [row.requests for row in report.accesses] == [2] * 4


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("kind", ["b8", "u8", "s8", "b16", "u16", "s16"])
def test_small_loads_extend_into_wider_registers(execute: Execute, space: str, kind: str) -> None:
    source = np.array([0x80, 0x7F, 0xFF, 0x01, 0x80, 0x80, 0xFF, 0x7F], "u1")
    out = np.zeros((3, 8), "u8")
    step = int(kind[1:]) // 8
    loads = "".join(
        f"ld.{space}.{kind} %d3, [{base}+{i * step}]; ld.{space}.{kind} %r3, [{base}+{i * step}];"
        f"cvt.u64.u32 %d4, %r3; ld.{space}.{kind} %h3, [{base}+{i * step}]; cvt.u64.u16 %d5, %h3;"
        f"st.global.u64 [%d1+{8 * i}], %d3; st.global.u64 [%d1+{64 + 8 * i}], %d4;"
        f"st.global.u64 [%d1+{128 + 8 * i}], %d5;"
        for i in range(8 // step)
        for base in [{"global": "%d0", "shared": "s"}[space]]
    )
    copy = ".shared .align 8 .b8 s[8]; ld.global.u64 %d2, [%d0]; st.shared.u64 [s], %d2;"
    execute(copy + loads + "ret;", source, out, block=(1,))
    want = source.view(f"{'i' if kind[0] == 's' else 'u'}{step}").astype("i8")
    for row, bits in zip(out, (64, 32, 16), strict=True):
        mask = (1 << bits) - 1
        assert row[: want.size].tolist() == [int(x) & mask for x in want]


def test_small_stores_write_the_low_bytes_only(execute: Execute) -> None:
    out = np.full(8, 0xEE, "u1")
    body = """
      mov.u32 %r1, 0x11223344; mov.u64 %d1, 0x5566778899AABBCC;
      st.global.u8 [%d0], %r1; st.global.b16 [%d0+2], %r1; st.global.s8 [%d0+5], %d1;
      st.global.u16 [%d0+6], %d1; ret;
    """
    execute(body, out, block=(1,))
    assert [hex(x) for x in out.tolist()] == [
        *("0x44", "0xee", "0x44", "0x33", "0xee", "0xcc", "0xcc", "0xbb")
    ]


def test_sinks_and_immediates_in_vectors(execute: Execute) -> None:
    source, out = np.arange(4, dtype="u4"), np.zeros(4, "u4")
    body = """
      ld.global.v4.u32 {%r1, _, _, %r4}, [%d0];
      st.global.v4.u32 [%d1], {%r4, 7, 0x10, %r1}; ret;
    """
    execute(body, source, out, block=(1,))
    assert out.tolist() == [3, 7, 16, 0]


def test_a_load_into_its_own_address(execute: Execute) -> None:
    source, out = np.arange(64, dtype="u8") + 100, np.zeros(1, "u8")
    execute("ld.global.v2.u64 {%d0, %d3}, [%d0+16]; st.global.u64 [%d1], %d3; ret;", source, out)
    assert out == [103]


@pytest.mark.parametrize(
    "opcode",
    [
        "ld.global.nc.u32",
        "ld.global.nc.L1::no_allocate.L2::128B.u32",
        "ld.volatile.global.u32",
        "ld.global.ca.u32",
        "ld.global.cg.b32",
        "ld.weak.global.u32",
        "ld.global.L2::64B.u32",
    ],
)
def test_cache_hints_change_nothing(execute: Execute, opcode: str) -> None:
    source, out = np.array([9], "u4"), np.zeros(1, "u4")
    execute(f"{opcode} %r1, [%d0]; st.global.wt.u32 [%d1], %r1; ret;", source, out)
    assert out == [9]


# --- Addresses --------------------------------------------------------------------------


def test_negative_and_large_offsets(execute: Execute) -> None:
    source, out = np.arange(8, dtype="u4"), np.zeros(8, "u4")
    body = """
      .shared .align 4 .b32 s[8];
      add.s64 %d3, %d0, 16; mov.u32 %r9, s; add.u32 %r9, %r9, 16;
      ld.global.u32 %r1, [%d3+-4]; ld.global.u32 %r2, [%d3 + -8]; ld.global.u32 %r3, [%d3-12];
      ld.global.u32 %r4, [%d3+0xC];
      st.shared.u32 [%r9+-16], %r1; ld.shared.u32 %r5, [s];
      st.shared.u32 [s+4], %r2; ld.shared.u32 %r6, [%r9-12];
      st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%d1+16], {%r5, %r6}; ret;
    """
    assert execute(body, source, out, block=(1,)).findings == []
    assert out.tolist() == [3, 2, 1, 7, 3, 2, 0, 0]


def test_shared_memory_at_a_constant_address(execute: Execute) -> None:
    out = np.zeros(1, "u4")
    body = "st.shared.u32 [8], 5; ld.shared.u32 %r1, [4+4]; st.global.u32 [%d0], %r1; ret;"
    execute(body, out, shared_bytes=16)
    assert out == [5]


FAULTS = [
    ("ld.global.u32 %r1, [%d0+128];", "out-of-bounds", 128, "p0"),
    ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0+124];", "out-of-bounds", 124, "p0"),
    ("ld.global.u32 %r1, [%d0+-4];", "out-of-bounds", -4, "p0"),
    ("st.global.u32 [%d0+0x1000000], %r1;", "out-of-bounds", 0x1000000, "p0"),
    ("ld.global.u32 %r1, [%d0+2];", "misaligned", 2, "p0"),
    ("st.global.v2.u32 [%d0+4], {%r1, %r2};", "misaligned", 4, "p0"),
]


@pytest.mark.parametrize(("access", "kind", "offset", "array"), FAULTS)
def test_a_faulty_global_access_is_found_and_dropped(
    execute: Execute, access: str, kind: str, offset: int, array: str
) -> None:
    data = np.arange(32, dtype="u4")
    body = f"setp.ne.u32 %p1, %r99, 37; @%p1 bra END;\n{access}\n"
    body += "st.global.u32 [%d1], %r1; END: ret;"
    out = np.zeros(1, "u4")
    report = execute(body, data, out, block=(64,), grid=(2,))
    assert data.tolist() == list(range(32))
    (finding,) = report.findings
    assert (finding.kind, finding.block, finding.warp, finding.lane) == (kind, 0, 1, 5)
    assert finding.array == array
    assert finding.address is not None
    assert finding.address % 4096 == offset % 4096
    assert finding.file == "<ptx>"
    assert "and once more" in finding.message  # the second block
    if access.startswith("ld"):
        assert out == [0xFFFF_FFFF]
    assert report.completed


def test_the_null_pointer_and_a_wild_one(execute: Execute) -> None:
    body = "ld.global.u32 %r1, [%d0]; mov.u64 %d1, -1; st.global.u8 [%d1], %r1; ret;"
    report = execute(body, None)
    null, wild = report.findings
    assert (null.address, null.array) == (0, "no array")
    assert wild.kind == "out-of-bounds"
    assert "32 more" not in null.message
    assert "31 more times" in null.message


@pytest.mark.parametrize(
    "address", ["0x7FFFFFFFFFFFFFFF", "0x7FFFFFFFFFFFFFF0", "0x8000000000000000", "-16"]
)
def test_addresses_at_the_ends_of_the_number_range(execute: Execute, address: str) -> None:
    body = f"""
      .shared .align 16 .b8 s[64];
      mov.u64 %d5, {address}; ld.global.u8 %r1, [%d5+15]; ld.shared.u8 %r2, [%d5+15];
      st.shared.v4.u32 [%d5], {{%r1, %r1, %r1, %r1}}; ret;
    """
    assert {f.kind for f in execute(body).findings} == {"out-of-bounds"}


def test_shared_memory_has_an_end(execute: Execute) -> None:
    out = np.zeros((32, 2), "u4")
    body = """
      .shared .align 4 .b8 s[124];
      mul.wide.u32 %d2, %r99, 8; add.s64 %d0, %d0, %d2;
      mov.u32 %r1, s; mad.lo.u32 %r1, %r99, 4, %r1; st.shared.u32 [%r1], %r99;
      ld.shared.u32 %r2, [%r1]; ld.shared.u32 %r3, [%r1+-4];
      st.global.v2.u32 [%d0], {%r2, %r3}; ret;
    """
    report = execute(body, out)
    poison = 0xFFFF_FFFF
    assert out[:, 0].tolist() == [*range(31), poison]
    assert out[:, 1].tolist() == [poison, *range(31)]
    assert [(f.kind, f.lane, f.address, f.array) for f in report.findings] == [
        ("out-of-bounds", 31, 124, None),
        ("out-of-bounds", 31, 124, None),
        ("out-of-bounds", 0, -4, None),
    ]


def test_a_sixteen_byte_access_at_0x10a8_is_misaligned(execute: Execute) -> None:
    body = """
      mov.u32 %r1, 0x10a8; ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];
      st.shared.v4.u32 [%r1], {%r2, %r3, %r4, %r5}; ld.shared.v2.u32 {%r2, %r3}, [%r1]; ret;
    """
    report = execute(body, shared_bytes=0x2000)
    assert [f.kind for f in report.findings] == ["misaligned"] * 2
    assert all(f.address == 0x10A8 for f in report.findings)
    assert "no multiple of 16" in report.findings[0].message
    assert "0x10a8" in report.findings[0].message


def test_findings_carry_the_source_line(execute: Execute, kernel_text: Text) -> None:
    import tilewright

    text = kernel_text(".loc 1 12 3\nld.global.u32 %r1, [%d0+4];\n.loc 1 13 3\nret;", ["u64"])
    text = text.replace(".visible", '.file 1 "/src/mine.cu"\n.visible')
    report = tilewright.emulate(text, "k", (1,), (1,), [np.zeros(1, "u4")])
    (finding,) = report.findings
    assert (finding.file, finding.line) == ("/src/mine.cu", 12)


# --- Parameters -------------------------------------------------------------------------


def test_parameters_of_every_size(kernel_text: Text) -> None:
    import tilewright

    body = """
      ld.param.u64 %d0, [p0]; ld.param.s8 %r1, [a]; ld.param.u16 %r2, [b]; ld.param.f32 %f1, [c];
      ld.param.v2.u32 {%r3, %r4}, [s]; ld.param.u8 %r5, [s+9]; mov.b64 %d2, s;
      ld.param.u32 %r6, [%d2+4]; mov.b32 %r7, %f1;
      st.global.v4.u32 [%d0], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%d0+16], {%r5, %r6};
      st.global.u32 [%d0+24], %r7; ret;
    """
    text = kernel_text(body, ["u64"]).replace(
        "p0)", "p0, .param .s8 a, .param .u16 b, .param .f32 c, .param .align 8 .b8 s[12])", 1
    )
    out = np.zeros(7, "u4")
    struct = np.array([(1, 2, 0x0400)], "u4,u4,u4")[0]
    tilewright.emulate(text, "k", (1,), (1,), [out, -3, 65535, 1.5, struct])
    assert out.tolist() == [2**32 - 3, 65535, 1, 2, 4, 2, 0x3FC0_0000]


def test_a_load_behind_the_parameters_is_found(execute: Execute) -> None:
    out = np.zeros(32, "u4")
    body = """
      mov.b64 %d1, p0; add.s64 %d1, %d1, %d99; ld.param.u32 %r1, [%d1+-4];
      add.s64 %d0, %d0, %d99; st.global.u32 [%d0], %r1; ret;
    """
    report = execute(body, out)
    assert out[[0, *range(3, 32)]].tolist() == [0xFFFF_FFFF] * 30
    (finding,) = report.findings
    assert (finding.kind, finding.lane, finding.address) == ("out-of-bounds", 0, -4)
    assert "29 more times" in finding.message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ld.global.v4.u32 {%r1, %r2}, [%d0];", "2 registers for 4 elements"),
        ("ld.global.u32 {%r1, %r2}, [%d0];", "2 registers for 1 elements"),
        ("ld.global.v4.u64 {%d1, %d2, %d3, %d4}, [%d0];", "32 bytes is wider than 16"),
        ("st.shared.v2.u32 [%r1], {%r1, %r2, %r3};", "3 registers for 2 elements"),
        ("ld.global.u64 %r1, [%d0];", "%r1 is a .b32 register"),
        ("ld.global.u32 %r1, [%h0];", "%h0 is a .b16 register"),
        ("ld.global.u32 %r1, %d0;", "not an address"),
        ("ld.global.u32 %r1, [nowhere];", "nowhere is not declared"),
        ("ld.global.u32 %r1, [%d77777];", "%d77777 is not declared"),
        ("ld.global.u32.x %r1, [%d0];", "does not model"),
        ("st.global.pred [%d0], %p1;", "does not model"),
        ("st.shared.u32 [%r1];", "not understood"),
    ],
)
def test_what_is_no_access_stops(execute: Execute, text: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        execute(text, np.zeros(1, "u4"))


@pytest.mark.parametrize(
    "words",
    ["acquire.gpu.global", "global.acquire.gpu", "acquire.global.gpu", "gpu.acquire.global"],
)
def test_order_scope_and_space_in_any_order(execute: Execute, words: str) -> None:
    """As ptxas takes them."""
    out = np.array([5, 0, 1], "u4")
    release, relaxed = words.replace("acquire", "release"), words.replace("acquire", "relaxed")
    body = (
        f"ld.{words}.b32 %r1, [%d0]; st.{release}.b32 [%d0+4], %r1;\n"
        f"red.{release}.add.u32 [%d0+4], 2; atom.{relaxed}.add.u32 %r2, [%d0+8], %r1;\n"
        "st.global.volatile.u32 [%d0], %r2; ret;"
    )
    report = execute(body, out, block=(1,))
    assert (report.findings, out.tolist()) == ([], [1, 7, 6])
    assert [row.opcode.split(".")[0] for row in report.accesses] == [
        "ld",
        "st",
        "red",
        "atom",
        "st",
    ]


@pytest.mark.parametrize("words", ["global.acquire.acquire.gpu", "global.b32.acquire.gpu"])
def test_words_that_no_order_makes_right(execute: Execute, words: str) -> None:
    with pytest.raises(UnsupportedError, match="does not model"):
        execute(f"ld.{words}.b32 %r1, [%d0];", np.zeros(1, "u4"))


def test_an_address_of_32_bits_wraps(execute: Execute) -> None:
    """Compilers fold a loop's start into the register and add it back as an offset."""
    body = """.shared .align 4 .b32 s[4]; .reg .b32 %base; mov.u32 %r5, 7; mov.u32 %base, s;
      st.shared.u32 [%base+8], %r5; add.u32 %r6, %base, -1024; ld.shared.u32 %r7, [%r6+1032];
      st.global.u32 [%d0], %r7; ret;"""
    out = np.zeros(1, "u4")
    assert execute(body, out).findings == []
    assert out == [7]

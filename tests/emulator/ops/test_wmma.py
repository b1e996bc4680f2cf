"""wmma against matrix products, in every space; the fragments are held by test_silicon."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.emulator.ops.wmma import fragment
from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]
Array = np.ndarray[Any, Any]

STRIDES = {"a": 40, "b": 32, "c": 40}  # elements; every row starts at a multiple of 16 bytes


def tile(values: Array, order: str, stride: int) -> Array:
    """The matrix in memory, its rows (or columns) `stride` elements apart."""
    lines = values if order == "row" else values.T
    memory = np.zeros((lines.shape[0], stride), values.dtype)
    memory[:, : lines.shape[1]] = lines
    return memory


def group(letter: str, first: int, count: int) -> str:
    return "{" + ", ".join(f"%{letter}{first + i}" for i in range(count)) + "}"


def body(shape: str, space: str, orders: tuple[str, str, str], strides: bool = True) -> str:
    """d = a·b + c of fp16 in fp32, written over c. Bases %d0-%d2, or shared memory at %r1-%r3."""
    a, b, c = orders
    registers = {"a": group("r", 20, 8), "b": group("r", 30, 8), "c": group("f", 20, 8)}
    base = {"a": "%d0", "b": "%d1", "c": "%d2"}
    order = {"a": a, "b": b, "c": c}
    kind = {"a": "f16", "b": "f16", "c": "f32"}
    lines = [
        f"wmma.load.{x}.sync.aligned.{order[x]}.{shape}{space}.{kind[x]} {registers[x]}, "
        f"[{base[x]}]{f', {STRIDES[x]}' if strides else ''};"
        for x in "abc"
    ]
    lines.append(
        f"wmma.mma.sync.aligned.{a}.{b}.{shape}.f32.f32 {group('f', 30, 8)}, "
        f"{registers['a']}, {registers['b']}, {registers['c']};"
    )
    stride = f", {STRIDES['c']}" if strides else ""
    lines.append(
        f"wmma.store.d.sync.aligned.{c}.{shape}{space}.f32 [%d2], {group('f', 30, 8)}{stride};"
    )
    return "\n".join(lines)


def numbers(shape: str) -> tuple[Array, Array, Array]:
    m, n, k = (int(x) for x in shape[1:].replace("n", "k").split("k"))
    rng = np.random.default_rng(m)
    a, b = rng.integers(-9, 10, (m, k)).astype("f2"), rng.integers(-9, 10, (k, n)).astype("f2")
    return a, b, rng.integers(-99, 100, (m, n)).astype("f4")


SHAPES = ("m16n16k16", "m32n8k16", "m8n32k16")
ORDERS = [("row", "col", "row"), ("col", "row", "col"), ("row", "row", "col")]


@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("space", [".global", ""])
@pytest.mark.parametrize("shape", SHAPES)
def test_global_and_generic(
    execute: Execute, shape: str, space: str, orders: tuple[str, str, str]
) -> None:
    a, b, c = numbers(shape)
    want = a.astype("f4") @ b.astype("f4") + c
    memory = [
        tile(x, order, STRIDES[name])
        for x, order, name in zip((a, b, c), orders, "abc", strict=True)
    ]
    report = execute(body(shape, space, orders) + "ret;", *memory)
    assert report.findings == []
    np.testing.assert_array_equal(memory[2], tile(want, orders[2], STRIDES["c"]))


def test_no_stride_means_tight_rows(execute: Execute) -> None:
    a, b, c = numbers("m32n8k16")
    want = a.astype("f4") @ b.astype("f4") + c
    orders = ("row", "col", "row")
    memory = [tile(a, "row", 16), tile(b, "col", 16), tile(c, "row", 8)]
    execute(body("m32n8k16", ".global", orders, strides=False) + "ret;", *memory)
    np.testing.assert_array_equal(memory[2], want)


COPY = """
  .shared .align 128 .b8 s[1024];
  mul.wide.u32 %d4, %r99, 32; add.s64 %d5, %d0, %d4;
  mov.u32 %r1, s; mad.lo.u32 %r2, %r99, 32, %r1;
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d5]; st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7};
  ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d5+16];
  st.shared.v4.u32 [%r2+16], {%r4, %r5, %r6, %r7};
  cvt.u64.u32 %d6, %r1; cvta.shared.u64 %d7, %d6; mov.u32 %r3, 16;
"""


@pytest.mark.parametrize("address", [".shared [%r1]", " [%d7]"])
def test_shared_memory_counts_its_accesses(execute: Execute, address: str) -> None:
    """An accumulator fragment of fp16 goes through."""
    space, where = address.split(" ")
    data = np.random.default_rng(1).integers(0, 1 << 16, (32, 16)).astype("u2")
    out = np.zeros((16, 16), "u2")
    text = f"""{COPY}
      wmma.load.c.sync.aligned.row.m16n16k16{space}.f16 {group("r", 20, 4)}, {where}, %r3;
      wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%d1], {group("r", 20, 4)}, %r3; ret;
    """
    report = execute(text, data, out)
    assert report.findings == []
    np.testing.assert_array_equal(out, data[:16])
    load, store = (row for row in report.accesses if row.opcode.startswith("wmma"))
    assert (load.requests, load.bytes) == (4, 512)
    assert load.wavefronts == 8  # 8 rows of 32 bytes: rows 4 apart meet in the same banks
    assert (store.requests, store.bytes, store.sectors) == (4, 512, 32)


def test_rows_out_of_bounds_are_found(execute: Execute) -> None:
    out = np.zeros((15, 16), "f4")
    zeros = ", ".join(["%f1"] * 8)
    text = f"""mov.f32 %f1, 0f00000000;
      wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d0], {{{zeros}}}, 16; ret;"""
    found = execute(text, out).findings
    assert {finding.kind for finding in found} == {"out-of-bounds"}


def test_fragments_repeat_only_for_fp16() -> None:
    for shape in SHAPES:
        for which in "ab":
            assert fragment(which, shape, "f16").registers == 8
            form = fragment(which, shape, "bf16")
            assert form.cell.size == form.rows * form.columns


@pytest.mark.parametrize(
    "text",
    [
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2}, [%d0];",
        "wmma.load.a.sync.aligned.row.m16n16k8.global.f16 {%r1, %r2}, [%d0];",
        "wmma.load.c.sync.aligned.row.m8n8k4.global.f32 {%f1, %f2}, [%d0];",
        "wmma.load.a.sync.aligned.row.m8n8k32.global.s4 {%r1}, [%d0];",
        "wmma.mma.sync.aligned.row.col.m16n16k8.f32.bf16.bf16.f32 {%f1}, {%r1}, {%r1}, {%f1};",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32.satfinite {%f1}, {%r1}, {%r1}, {%f1};",
    ],
)
def test_other_forms_stop(execute: Execute, text: str) -> None:
    with pytest.raises(UnsupportedError, match="wmma"):
        execute(text)


# --- counts -----------------------------------------------------------------------------

COUNTS = json.loads((Path(__file__).parents[2] / "data" / "wmma_counts_h200.json").read_text())
PITCH = {"f64": 8, "s8": 48, "u8": 48}  # elements from line to line, 40 for others


def alone(opcode: str) -> str:
    """The kernel that was measured: a load and its registers to an array, or the reverse."""
    _, verb, which, _, _, _, shape, space, kind = opcode.split(".")
    count = fragment("c" if which == "d" else which, shape, kind).registers
    letter, word = {"f32": ("f", "f32"), "f64": ("g", "f64")}.get(kind, ("r", "b32"))
    size, where = 8 if word == "f64" else 4, "%r98" if space == "shared" else "%d0"
    registers, pitch = [f"%{letter}{i}" for i in range(count)], PITCH.get(kind, 40)
    lines = [f".shared .align 128 .b8 s[32768]; mov.u32 %r98, s; mul.wide.u32 %d9, %r99, {size};"]
    if verb == "load":
        lines += [
            "add.s64 %d9, %d1, %d9;",
            f"{opcode} {{{', '.join(registers)}}}, [{where}], {pitch};",
        ]
        lines += [f"st.global.{word} [%d9+{i * 32 * size}], {r};" for i, r in enumerate(registers)]
        return "\n".join(lines)
    lines += ["mul.wide.u32 %d9, %r99, 8; add.s64 %d9, %d1, %d9;"]
    lines += [f"ld.global.{word} {r}, [%d9+{i * 256}];" for i, r in enumerate(registers)]
    lines += [f"{opcode} [{where}], {{{', '.join(registers)}}}, {pitch};"]
    if space == "shared":
        lines += ["bar.sync 0; ld.shared.u32 %r97, [s+16]; st.global.u32 [%d9], %r97;"]
    return "\n".join(lines)


@pytest.mark.parametrize("opcode", COUNTS["counts"])
def test_counts_are_an_h200s(execute: Execute, opcode: str) -> None:
    report = execute(alone(opcode) + "\nret;", np.zeros(16384, "u4"), np.zeros(16384, "u4"))
    totals = report.totals
    assert [
        totals["shared_wavefronts"],
        totals["shared_wavefronts_ideal"],
        totals["global_sectors"],
    ] == COUNTS["counts"][opcode]

"""Fragment maps: those of the PTX ISA's figures, and the emulator's for every shape."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tilewright.emulator import fragments as emulated
from tilewright.errors import InputError
from tilewright.model.fragments import Fragment, Ldmatrix, fragment, mma_named

NAMES = [
    *(f"m16n8k{k}.{t}" for k in (8, 16) for t in ("bf16", "f16")),
    *(f"m16n8k{k}.tf32" for k in (4, 8)),
    *(f"m16n8k{k}.{t}" for k in (16, 32) for t in ("e4m3", "e5m2", "s8", "u8")),
    *(f"m16n8k{k}.{t}" for k in (32, 64) for t in ("s4", "u4")),
    *(f"m16n8k{k}.f64" for k in (4, 8, 16)),
    "m8n8k4.f64",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operand", ["A", "B", "C"])
def test_they_are_the_emulators(name: str, operand: str) -> None:
    mma = mma_named(name)
    found = fragment(mma, operand)
    sums = 64 if mma.dtype == "f64" else 32
    form = {
        "A": lambda: emulated.mma_a(mma.m, mma.k, mma.bits),
        "B": lambda: emulated.mma_b(mma.k, mma.bits),
        "C": lambda: emulated.mma_c(mma.m, sums),
    }[operand]()
    assert (found.registers, found.rows, found.columns) == (form.registers, form.rows, form.columns)
    for holder in found.holders:
        cell = holder.row * found.columns + holder.column
        assert form.cell[holder.register, holder.lane, holder.part] == cell


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("operand", ["A", "B", "C"])
def test_every_element_is_held_once(name: str, operand: str) -> None:
    found = fragment(mma_named(name), operand)
    cells = {(holder.row, holder.column) for holder in found.holders}
    assert len(cells) == len(found.holders) == found.rows * found.columns


def held(found: Fragment, lane: int) -> list[tuple[int, int]]:
    return [(holder.row, holder.column) for holder in found.of_lane(lane)]


def test_the_figures_of_m16n8k16() -> None:
    """A a0..a7, B b0..b3, C c0..c3 of lane 5: g = 1, t = 1."""
    mma = mma_named("mma.m16n8k16.bf16")
    a, b, c = (held(fragment(mma, operand), 5) for operand in "ABC")
    assert a == [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)]
    assert b == [(2, 1), (3, 1), (10, 1), (11, 1)]
    assert c == [(1, 2), (1, 3), (9, 2), (9, 3)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.m16n8k16.bf16"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", "mma.m16n8k32.u8"),
        ("m8n8k4.row.col.f64.f64.f64.f64", "mma.m8n8k4.f64"),
        ("M16N8K8.TF32", "mma.m16n8k8.tf32"),
        ("m16n8k8.half", "mma.m16n8k8.f16"),
    ],
)
def test_names(text: str, name: str) -> None:
    assert mma_named(text).name == name


def test_the_figure_of_m16n8k8_tf32() -> None:
    assert held(fragment(mma_named("m16n8k8.tf32"), "A"), 6) == [(1, 2), (9, 2), (1, 6), (9, 6)]


def test_c_is_a_mixed_radix_number() -> None:
    for holder in fragment(mma_named("m16n8k16.f16"), "D").holders:
        g, t, i = holder.lane >> 2, holder.lane & 3, holder.register
        offset = (i & 1) + t * 2 + g * 8 + (i >> 1) * 64
        assert holder.row * 8 + holder.column == offset


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("m16n8k16.tf32", "of tf32 there are m16n8k4, m16n8k8"),
        ("m8n8k4.f16", "of f16 there are m16n8k8, m16n8k16"),
        ("m16n8k16.f32", "f32 is not known; use f64, tf32"),
        ("wgmma", "is not read; write the shape and the type, as in mma.m16n8k16.bf16"),
    ],
)
def test_what_the_hardware_has_not(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        mma_named(name)


def test_an_operand_that_there_is_not() -> None:
    with pytest.raises(InputError, match=r"operand='E' must be A, B or C \(D lies as C\)\."):
        fragment(mma_named("m16n8k8.bf16"), "E")


@pytest.mark.parametrize("many", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.usefixtures("compiler")
def test_ldmatrix_delivers_what_the_emulator_does(many: int, trans: bool) -> None:
    """Each element holds its own number; the kernel stores the registers of every lane."""
    names = ", ".join(f"%{at}" for at in range(many))
    outs = ", ".join(f'"=r"(r[{at}])' for at in range(many))
    source = f"""
    extern "C" __global__ void load(const unsigned short* in, unsigned* out) {{
      __shared__ __align__(128) unsigned short tile[{many} * 64];
      for (int i = threadIdx.x; i < {many} * 64; i += 32) tile[i] = in[i];
      __syncthreads();
      unsigned r[{many}];
      unsigned at = __cvta_generic_to_shared(tile) + threadIdx.x % {8 * many} * 16;
      asm volatile("ldmatrix.sync.aligned.m8n8.x{many}{".trans" * trans}.shared.b16 {{{names}}}, "
                   "[%{many}];" : {outs} : "r"(at));
      for (int j = 0; j < {many}; ++j) out[threadIdx.x * {many} + j] = r[j];
    }}
    """
    numbers = np.arange(64 * many, dtype=np.uint16)
    out = np.zeros((32, many), np.uint32)
    report = tilewright.emulate(source, "load", (1,), (32,), [numbers, out])
    assert report.clean
    for holder in Ldmatrix(many, trans).fragment().holders:
        element = int(out[holder.lane, holder.register]) >> 16 * holder.part & 0xFFFF
        assert element == 8 * holder.row + holder.column

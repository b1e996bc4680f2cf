"""Operands, registers, variables and their layout, errors with place and text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.barrier_forms import Barrier
from tilewright.emulator.compiler import compile_kernel
from tilewright.emulator.parse import parse
from tilewright.errors import UnsupportedError

Execute = Callable[..., Any]
Text = Callable[..., str]


def compiled(text: str) -> Any:
    module = parse(text)
    return compile_kernel(module, module.kernels["k"])


def test_basic_blocks_start_at_labels_and_end_at_branches(kernel_text: Text) -> None:
    text = kernel_text("mov.u32 %r1, 0; L: bar.sync 0; @%p1 bra L; M: N: @%p1 ret; ret;", [])
    head = compiled(text).blocks[0].last  # the fixture's own instructions and the mov
    ends = [(b.first - head, b.last - head) for b in compiled(text).blocks[1:]]
    assert ends == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert compiled(text).blocks[1].barrier == Barrier(0, None)
    assert compiled(text).blocks[2].target == 1


def test_registers_hold_poison_before_they_are_written(execute: Execute) -> None:
    out = np.zeros(4, "u4")
    body = "mov.b32 %r2, %f1; selp.b32 %r3, 1, 0, %p1; st.global.v4.u32 [%d0], {%r1, %r2, %r3, 5};"
    execute(body, out, block=(1,))
    assert out.tolist() == [0xFFFF_FFFF, 0xFFFF_FFFF, 0, 5]


def test_lanes_that_are_off_keep_their_registers(execute: Execute) -> None:
    out = np.zeros(32, "u4")
    body = """mov.u32 %r1, 7; mov.u32 %r2, 9; setp.lt.u32 %p1, %r99, 10;
      @%p1 mov.u32 %r1, 1; @!%p1 add.u32 %r1, %r1, %r2; @%p3 mov.u32 %r1, 1000;
      add.s64 %d0, %d0, %d99; st.global.u32 [%d0], %r1; ret;"""
    execute(body, out)
    assert out.tolist() == [1] * 10 + [16] * 22


def test_shared_variables_are_laid_out_in_order_and_the_dynamic_ones_last(
    kernel_text: Text,
) -> None:
    body = """.shared .align 4 .b8 a[6]; .shared .align 16 .b8 b[20];
      mov.u32 %r1, a; mov.u32 %r2, b; mov.u32 %r3, dyn; mov.u32 %r4, dyn2; mov.u32 %r5, m; ret;"""
    module = ".extern .shared .align 128 .b8 dyn[];\n.extern .shared .f32 dyn2[];\n"
    module += ".shared .b32 m;\n.shared .b8 others[4096];\n"
    program = compiled(kernel_text(body, [], module))
    assert program.shared_offsets == {"m": 0, "a": 4, "b": 16, "dyn": 1024, "dyn2": 1024}
    assert program.static_shared_bytes == 1024


def test_without_static_ones_dynamic_shared_memory_starts_at_zero(kernel_text: Text) -> None:
    program = compiled(
        kernel_text("mov.u32 %r3, dyn; ret;", [], ".extern .shared .align 16 .b8 dyn[];\n")
    )
    assert (program.shared_offsets, program.static_shared_bytes) == ({"dyn": 0}, 0)


def test_module_variables_keep_their_values_between_blocks(execute: Execute) -> None:
    out = np.zeros((600, 4), "u4")
    module = """.global .align 4 .u32 counter;
      .const .align 4 .b8 table[8] = {1, 0, 0, 0, 2};
      .global .align 4 .f32 half = 0f3F000000;"""
    body = """mov.u64 %d1, counter; ld.global.u32 %r1, [%d1]; ld.global.u32 %r2, [table+4];
      ld.global.u32 %r3, [half]; add.u32 %r4, %r1, %r2; st.global.u32 [counter], %r4;
      mov.u32 %r5, %ctaid.x; mul.wide.u32 %d2, %r5, 16; add.s64 %d0, %d0, %d2;
      st.global.v4.u32 [%d0], {%r1, %r2, %r3, 0}; ret;"""
    assert execute(body, out, grid=(600,), block=(1,), module=module).findings == []
    assert out[0].tolist() == [0, 2, 0x3F00_0000, 0]
    assert out[-1, 0] == 2  # the second chunk of blocks sees what the first one wrote


def test_variables_are_found_by_name_in_findings(execute: Execute) -> None:
    report = execute("ld.global.u32 %r1, [x+8]; ret;", module=".global .align 8 .b8 x[8];")
    assert [f.array for f in report.findings] == ["x"]


def test_an_error_has_the_place_the_text_and_the_ptx_line(kernel_text: Text) -> None:
    body = ".loc 1 77 2\n// more\nnonsense.sync.u32\n   %r1 , %r2;"
    text = kernel_text(body, []).replace(".visible", '.file 1 "a/b.cu"\n.visible')
    with pytest.raises(UnsupportedError) as caught:
        tilewright.emulate(text, "k", (1,), (1,), [])
    line = text.splitlines().index("nonsense.sync.u32") + 1
    assert str(caught.value) == (
        f"a/b.cu:77: 'nonsense.sync.u32 %r1 , %r2' (PTX line {line}): "
        "the emulator does not model this opcode with these modifiers; "
        "run it on a GPU with --engine gpu; docs/emulator.md lists what is modelled."
    )


def test_an_unknown_modifier_stops_before_anything_runs(execute: Execute) -> None:
    out = np.zeros(1, "u4")
    with pytest.raises(UnsupportedError, match=r"'add\.sat\.u32 %r1, %r1, 1'"):
        execute("st.global.u32 [%d0], 1; add.sat.u32 %r1, %r1, 1; ret;", out)
    assert out == [0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cvt.u16.u32 %r1, %d3;", None),  # a wider register gives its low bits
        ("add.u32 %r1, %d2, %r3;", "%d2 is a .b64 register, and add.u32 takes an integer of 32"),
        ("add.u64 %d1, %d2, %r3;", "%r3 is a .b32 register"),
        ("add.u32 %h1, %r2, %r3;", "%h1 is a .b16 register"),
        ("add.u32 %p1, %r2, %r3;", "%p1 is a .pred register"),
        ("add.u32 %r1, %p2, %r3;", "%p2 is a .pred register"),
        ("add.u32 %r1, {%r2, %r3}, 4;", "not a source"),
        ("add.u32 %r1, [%r2], 4;", "not a source"),
        ("add.u32 %r1|%r2, %r2, 4;", "not a destination"),
        ("add.u32 %r1, %r2;", "not understood"),
        ("add.u32 %r1, %r2, %r3, %r4;", "not understood"),
        ("add.u32;", "add takes 3 operands, not 0"),
        ("add.u32 %r77777, %r2, 1;", "%r77777 is not declared"),
        ("mov.b32 5, %r2;", "5 is not a destination"),
        ("ret 5;", "ret takes none"),
        ("add.u32 %r1, %r2, %lanemask_no;", "%lanemask_no is not modelled"),
        ("mov.u32 %r1, %envreg3;", "%envreg3 is not modelled"),
        ("mov.u32 %r1, %reserved_smem_offset_1;", "%reserved_smem_offset_1 is not modelled"),
        ("add.u32 %r1, %r2, L;", "L is not declared"),
        ("mov.u64 %q, 1;", "%q is a .b128 register, not modelled"),
        ("bar.sync 16;", "barrier 16 must be 0 to 15"),
        ("bar.sync -1;", "barrier -1"),
        ("bar.sync 0, 33;", "multiple of 32"),
        ("bar.sync 0, 0;", "multiple of 32"),
        ("bar.sync;", "a number and perhaps a count"),
        ("bar.sync 0, 32, 1;", "a number and perhaps a count"),
        ("bar.sync %r1, 33;", "multiple of 32"),
        ("bar.sync %p1;", "%p1 is a .pred register"),
        ("bar.sync.aligned 0;", "does not model"),
        ("bar.arrive 0;", "a number and a count"),
        ("bar.arrive 0, 31;", "multiple of 32"),
        ("bar.red.popc.u32 %r1, %p1;", "a destination, a number"),
        ("bar.red.popc.u32 %p1, 0, %p1;", "%p1 is a .pred register"),
        ("bar.red.and.u32 %r1, 0, %p1;", "does not model"),
        ("barrier.cluster.sync;", "does not model"),
        ("bar.sync.x 0;", "does not model"),
        ("ret.x;", "does not model"),
        ("brkpt;", "does not model"),
        ("atom.global.add.u64x2 %r1, [%d1], 1;", "does not model"),
    ],
)
def test_operands_are_checked(execute: Execute, text: str, why: str | None) -> None:
    body = f".reg .b128 %q; .local .b8 l[4]; L: {text} ret;"
    if why is None:
        assert execute(body).completed
        return
    with pytest.raises(UnsupportedError, match=why):
        execute(body)

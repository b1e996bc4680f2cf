"""Constructs of PTX that compilers seldom make and people write by hand; ptxas takes them all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.errors import TilewrightError, UnsupportedError

Execute = Callable[..., Any]
KernelText = Callable[..., str]


def result(text: str, count: int = 1, block: int = 1) -> list[int]:
    out = np.zeros(count, "u4")
    report = tilewright.emulate(text, "k", (1,), (block,), [out])
    assert report.findings == []
    assert report.completed
    found: list[int] = out.tolist()
    return found


def test_vectors_of_registers(kernel_text: KernelText) -> None:
    body = """.reg .v4 .b32 v, w; .reg .v2 .f32 f;
      mov.b32 v.x, 1; add.u32 v.y, v.x, 1; add.u32 v.b, v.y, 1; add.u32 v.a, v.z, 1;
      { .reg .v2 .b32 v; mov.b32 v.x, 99; mov.b32 v.g, 98; }
      st.global.v4.b32 [%d0], v; ld.global.v4.b32 w, [%d0]; add.u32 w.x, w.w, w.z;
      mov.f32 f.r, 0f3F800000; mov.f32 f.g, f.x; st.global.b32 [%d0], w.r;
      st.global.v2.f32 [%d0+8], f; ret;"""
    assert result(kernel_text(body, ["u64"]), 4) == [7, 2, 0x3F80_0000, 0x3F80_0000]
    with pytest.raises(UnsupportedError, match=r"v has no element \.z"):
        result(kernel_text(".reg .v2 .b32 v; mov.b32 v.z, 1;", ["u64"]))


@pytest.mark.parametrize("guard", ["", "@%p1 ", "@!%p2 "])
def test_branches_by_an_index(kernel_text: KernelText, guard: str) -> None:
    """Where the guard does not hold, in lane 3, it goes on."""
    body = f"""mov.u32 %r2, 7; setp.ne.u32 %p1, %r99, 3; setp.eq.u32 %p2, %r99, 3;
      targets: .branchtargets A, B, C;
      {"@%p2 bra END;" if not guard else ""} {guard}brx.idx %r99, targets;
      bra END;
      A: mov.u32 %r2, 10; bra END; B: mov.u32 %r2, 11; bra END; C: mov.u32 %r2, 12;
      END: add.u64 %d0, %d0, %d99; st.global.u32 [%d0], %r2; ret;"""
    assert result(kernel_text(body, ["u64"]), 4, 4) == [10, 11, 12, 7]


@pytest.mark.parametrize(
    "body",
    [
        "brx.idx %r1, nowhere; ret;",
        "brx.idx %r1; ret;",
        ".branchtargets A; A: ret;",
        "ts: .branchtargets A; brx.whatever %r1, ts; A: ret;",
        "ts: .branchtargets NONE; brx.idx %r1, ts; ret;",
    ],
)
def test_branches_that_lead_nowhere(kernel_text: KernelText, body: str) -> None:
    with pytest.raises(UnsupportedError):
        result(kernel_text(body, ["u64"]))


STORE = "st.global.u32 [%d0], %r1; ret;"


@pytest.mark.parametrize(
    ("function", "call", "value"),
    [
        (
            ".func (.reg .u32 r) f(.reg .u32 a) { add.u32 r, a, 1; ret; }",
            "call (%r1), f, (41);",
            42,
        ),
        (
            ".func (.reg .u32 r) f(.reg .u32 a, .reg .u32 b) { sub.u32 r, a, b; ret; }",
            "mov.u32 %r1, 50; mov.u32 %r2, 8; call.uni (%r1), f, (%r1, %r2);",
            42,
        ),
        (
            ".func (.param .u32 r) f(.param .u32 a, .param .b8 b[8]) { .reg .u32 x, y;"
            " ld.param.u32 x, [a]; ld.param.u32 y, [b+4]; add.u32 x, x, y;"
            " st.param.u32 [r], x; ret; }",
            "{ .param .b8 t[8]; .param .u32 r; st.param.v2.u32 [t], {1, 2};"
            " call (r), f, (40, t); ld.param.u32 %r1, [r]; }",
            42,
        ),
        (
            ".func (.param .u32 r, .param .u32 q) f() { st.param.u32 [r], 40;"
            " st.param.u32 [q], 2; ret; }",
            "call (%r1, %r2), f, (); add.u32 %r1, %r1, %r2;",
            42,
        ),
        (
            ".func (.param .u32 r) g(); .alias g, f;"
            " .func (.param .u32 r) f() { st.param.u32 [r], 42; ret; }",
            "call (%r1), g;",
            42,
        ),
        (
            ".weak .func (.reg .u32 r) f(.reg .u32 a); .extern .func unused;"
            " .weak .func (.reg .u32 r) f(.reg .u32 a) .noreturn { add.u32 r, a, 2; ret; }",
            "setp.eq.u32 %p1, %r99, 0; mov.u32 %r1, 3; @!%p1 call (%r1), f, (1);"
            " @%p1 call (%r1), f, (40);",
            42,
        ),
    ],
)
def test_functions(kernel_text: KernelText, function: str, call: str, value: int) -> None:
    assert result(kernel_text(call + STORE, ["u64"], function)) == [value]


def test_a_call_with_another_number_of_values(kernel_text: KernelText) -> None:
    function = ".func (.reg .u32 r) f(.reg .u32 a) { ret; }"
    with pytest.raises(UnsupportedError, match="f takes 1 values and gives 1, not 2 and 1"):
        result(kernel_text(f"call (%r1), f, (1, 2); {STORE}", ["u64"], function))


def test_chains_of_calls_end(kernel_text: KernelText) -> None:
    chain = "".join(f".func f{i}() {{ call f{i - 1}; ret; }} " for i in range(1, 3000))
    text = kernel_text(
        "call f150; st.global.u32 [%d0], 1; ret;", ["u64"], ".func f0() { ret; }" + chain
    )
    assert result(text) == [1]
    with pytest.raises(UnsupportedError, match="more than 200 calls within each other"):
        result(text.replace("call f150", "call f2999"))


def test_what_debuggers_and_compilers_add(kernel_text: KernelText) -> None:
    """Sections, pragmas, .loc with a function's name, comments between an instruction's words."""
    text = kernel_text(
        """.pragma "nounroll"; .loc 1 3 0, function_name info, inlined_at 1 4 0
        add.u32 /* ; } */ %r1, // ,
          40, 2; $L__1: .pragma "used_bytes_mask 0xff;{";
        bra.uni $L$2; trap; $L$2: st.global.u32 [%d0], %r1; ret;""",
        ["u64"],
        '.file 1 "a.cu"\n.pragma "nounroll";\n.extern .func (.param .b32 r) g(.param .b64 a);\n',
    )
    text += """.section .debug_str
    {
    info_string0:
    .b8 95,90
    .b32 .debug_loc
    .b64 info_string0 }
    .section .debug_info { .b32 5
     .b8 1 }\n"""
    assert result(text) == [42]
    assert result(text.replace("\n", "\r\n")) == [42]
    assert result(text.replace(" ", "\t")) == [42]


def test_a_call_of_a_function_without_a_body_says_what_to_do(kernel_text: KernelText) -> None:
    extern = ".extern .func cudaLaunchDevice; .extern .func other;"
    with pytest.raises(UnsupportedError, match=r"'call other'.*into one PTX text"):
        result(kernel_text("call other; ret;", ["u64"], extern))
    with pytest.raises(UnsupportedError, match=r"'call cudaLaunchDevice'.*the child by itself"):
        result(kernel_text("call cudaLaunchDevice; ret;", ["u64"], extern))


@pytest.mark.parametrize(
    ("body", "way_out"),
    [
        ("tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%d1, {%f1, %f2}];", "a plain array"),
        ("suld.b.2d.b32.trap {%r1}, [%d1, {%r1, %r2}];", "a plain array"),
        ("tcgen05.wait::ld.sync.aligned;", "sm_80 build"),
        ("multimem.ld_reduce.global.add.f32 %f1, [%d1];", "sm_80 build"),
        ("alloca.u64 %d1, 8;", "--engine gpu"),
    ],
)
def test_what_is_not_modelled_names_a_way_out(
    kernel_text: KernelText, body: str, way_out: str
) -> None:
    text = kernel_text(body + " ret;", ["u64"])
    line = text[: text.index(body)].count("\n") + 1
    with pytest.raises(UnsupportedError) as caught:
        result(text)
    assert str(caught.value).startswith(f"<ptx>:{line}: '{body.rstrip(';')}'")
    assert "does not model" in str(caught.value)
    assert way_out in str(caught.value)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (".reqntid 0", "must be 1 or more"),
        (".maxntid 8, 0", "must be 1 or more"),
        (".reqntid 64", r"block=\(1, 1, 1\): k needs \(64, 1, 1\)"),
    ],
)
def test_launch_bounds(limits: str, why: str) -> None:
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {limits} {{ ret; }}"
    with pytest.raises(TilewrightError, match=why):
        tilewright.emulate(text, "k", (1,), (1,), [])

"""PTX text → Module."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.ir import Address, Immediate, Pair, Place, Register, Sink, Symbol, Vector
from tilewright.emulator.parse import parse
from tilewright.errors import TilewrightError, UnsupportedError

Execute = Callable[..., Any]
HEAD = ".version 8.3\n.target sm_90a, debug\n.address_size 64\n"


def entry(body: str, rest: str = "(.param .u64 p)") -> str:
    return f"{HEAD}.visible .entry k{rest}\n{{\n.reg .b32 %r<9>; .reg .pred %p<3>;\n{body}\n}}\n"


def operands(text: str) -> Any:
    kernel = parse(entry(text)).kernels["k"]
    assert kernel.problem is None, kernel.problem
    return kernel.instructions[0].operands


def test_the_module() -> None:
    module = parse(HEAD + ".global .b8 x[4];\n.extern .func f;\n" + entry("ret;")[len(HEAD) :])
    assert (module.version, module.target) == ("8.3", "sm_90a")
    assert list(module.kernels) == ["k"]
    assert list(module.variables) == ["x"]


def test_operands() -> None:
    assert operands("add.u32 %r1, %r2, -3;") == (Register("%r1"), Register("%r2"), Immediate(-3))
    assert operands("ld.param.u64 _, [p+8];") == (Sink(), Address(Symbol("p"), 8))
    assert operands("ld.u32 %r1,[ %r2 - 4 ];")[1] == Address(Register("%r2"), -4)
    assert operands("ld.u32 %r1, [%r2+-0x10];")[1] == Address(Register("%r2"), -16)
    assert operands("ld.u32 %r1, [0x20];")[1] == Address(Immediate(32))
    assert operands("mov.b64 {%r1,_}, %r2;")[0] == Vector((Register("%r1"), Sink()))
    assert operands("x %p1 | %p2, !%p1;") == (
        Pair(Register("%p1"), Register("%p2")),
        Register("%p1", negated=True),
    )


@pytest.mark.parametrize("guard", ["@%p1", "@ %p1", "@%p1 ", "@%p1\n", "@%p1/*c*/", "@\t%p1\t"])
def test_guards(guard: str) -> None:
    (instruction,) = parse(entry(f"{guard} ret;")).kernels["k"].instructions
    assert instruction.guard == Register("%p1")
    (instruction,) = parse(entry(guard.replace("%", "!%") + " ret;")).kernels["k"].instructions
    assert instruction.guard == Register("%p1", negated=True)


def test_parameters_lie_at_their_natural_offsets() -> None:
    rest = """(
      .param .u32 a, // first
      .param .u64 .ptr .align 1 b,
      .param .align 2 .b8 c[3], .param .f64 d, .param .u8 e
    ) .maxntid 128, 2, 1 .minnctapersm 2"""
    kernel = parse(entry("ret;", rest)).kernels["k"]
    found = [(p.name, p.offset, p.nbytes) for p in kernel.params]
    assert found == [("a", 0, 4), ("b", 8, 8), ("c", 16, 3), ("d", 24, 8), ("e", 32, 1)]
    assert (kernel.most_threads, kernel.required_threads) == (256, None)
    kernel = parse(entry("ret;", ".reqntid 8, 4")).kernels["k"]
    assert (kernel.params, kernel.required_threads) == ([], (8, 4, 1))


def test_names_of_a_scope_stay_apart(execute: Execute) -> None:
    out = np.zeros(4, "u4")
    body = """
      .reg .b32 t; mov.u32 t, 1;
      { .reg .b64 t; .reg .b32 %x<2>; mov.u64 t, 0x500000002; cvt.u32.u64 %x1, t; mov.u32 %r1, %x1;
        { .reg .b16 t, %x<3>; mov.u16 t, 3; cvt.u32.u16 %r2, t; } shr.u64 t, t, 32;
        cvt.u32.u64 %r3, t; }
      { .reg .f32 %x<2>; mov.f32 %x1, 0f3F800000; mov.b32 %r4, %x1; }
      { .shared .b32 s; st.shared.u32 [s], 8; } { .shared .b32 s; st.shared.u32 [s], 9;
        ld.shared.u32 %r5, [s+-4]; }
      st.global.v4.u32 [%d0], {t, %r1, %r2, %r3};
      setp.ne.u32 %p1, %r4, 0x3F800000; @%p1 trap; setp.ne.u32 %p1, %r5, 8; @%p1 trap; ret;
    """
    report = execute(body, out)
    assert report.completed
    assert out.tolist() == [1, 2, 3, 5]


def test_labels_repeat_in_their_scopes_forward_and_backward(execute: Execute) -> None:
    out = np.zeros(1, "u4")
    once = """{ .reg .pred P1; .reg .b32 n; mov.u32 n, 0;
      LAB_WAIT: add.u32 n, n, 1; setp.lt.u32 P1, n, 3; @P1 bra LAB_WAIT; bra.uni DONE;
      add.u32 %r1, %r1, 1000; DONE: add.u32 %r1, %r1, n; }\n"""
    nested = """{ LAB_WAIT: add.u32 %r1, %r1, 10;
      { bra LAB_WAIT; add.u32 %r1, %r1, 1000; LAB_WAIT: add.u32 %r1, %r1, 100;
        { bra DONE; trap; } } DONE: }\n"""
    body = f"mov.u32 %r1, 0; {once} {once} {nested} st.global.u32 [%d0], %r1; bra DONE; DONE: ret;"
    assert execute(body, out).completed
    assert out == [116]


def test_odd_names(kernel_text: Callable[..., str]) -> None:
    body = """.reg .b32 $a, _b1, %c$d, r, e5, U1, %x<2>, x<2>; .reg .u32 ld;
      mov.u32 $a, 1; add.u32 _b1, $a, 1; add.u32 %c$d, _b1, $a; add.u32 r, %c$d, 1;
      add.u32 e5, r, 1; add.u32 U1, e5, 1; add.u32 %x0, U1, 0; add.u32 x0, %x0, 0; mov.u32 ld, x0;
      st.global.u32 [%d0], ld; $L__BB0_1: bra $END$; trap; $END$: ret;"""
    out = np.zeros(1, "u4")
    report = tilewright.emulate(kernel_text(body, ["u64"]), "k", (1,), (1,), [out])
    assert report.completed
    assert out == [6]


def test_spacing_and_comments_anywhere() -> None:
    text = (
        "/* .version 1.0 */ // x\n\t.version\t8.0\n.target sm_80\n.address_size 64\n"
        ".visible\n.entry\nk\n(\n.param\n.u64\np\n)\n{ // {\n.reg\n.b64\n%rd\n<3>\n;"
        ".reg.b32 %r , %q ;ld.param.u64/*;*/%rd1,[p];mov.u32 %r , /* } */ 5\n;\n"
        "st.global.u32 [ %rd1\n+ 4 ],%r;;ret;}"
    )
    out = np.zeros(2, "u4")
    tilewright.emulate(text, "k", (1,), (1,), [out])
    assert out.tolist() == [0, 5]


def test_places_lead_from_the_inlined_line_to_the_users() -> None:
    body = """.loc 1 196 17
mov.u32 %r1, 1;
.loc 2 629 5, function_name $L__info_string0, inlined_at 1 196 17
mov.u32 %r1, 2;
.loc 3 10 1, function_name $L__info_string1+5, inlined_at 2 629 5
mov.u32 %r1, 3;
.loc 2 629 5
mov.u32 %r1, 4;
.loc 3 11 1, function_name $L__info_string1, inlined_at 3 11 1
mov.u32 %r1, 5;"""
    files = '.file 1 "k.cu"\n.file 2 "a.cuh"\n'
    places = [i.places for i in parse(files + entry(body)).kernels["k"].instructions]
    user, middle = Place("k.cu", 196), Place("a.cuh", 629)
    assert places == [
        (user,),
        (middle, user),
        (Place("<file 3>", 10), middle, user),
        (middle,),
        (Place("<file 3>", 11),),
    ]


def test_sections_functions_and_strings_are_passed_over() -> None:
    text = (
        HEAD
        + ".func (.param .b32 r) f (.param .b32 a)\n{\n{ mov.u32 %r1, nonsense|; }\nL: ret;\n}\n"
        + entry('.pragma "nounroll; }";\nret;')[len(HEAD) :]
        + ".section .debug_str\n{\n$L__info_string0:\n.b8 95,90\n.b8 0\n}\n"
    )
    module = parse(text)
    assert [i.opcode for i in module.kernels["k"].instructions] == ["ret"]


def test_another_kernels_problem_is_not_ours() -> None:
    bad = entry("mov.u32 %r1, %r2 %r3; ld.global.u32 %r1,, [%r2];").replace(" k(", " bad(")
    text = bad + entry("ret;")[len(HEAD) :]
    assert tilewright.emulate(text, "k", (1,), (1,), [None]).completed
    with pytest.raises(UnsupportedError, match=r"PTX line 7: 'mov.u32 %r1, %r2 %r3': the operand"):
        tilewright.emulate(text, "bad", (1,), (1,), [None])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("add.u32 %r1,, %r2;", "comma"),
        ("add.u32 %r1, %r2", "no semicolon"),
        ("ADD.u32 %r1, %r2, 1;", "not an instruction"),
        ("5;", "not an instruction"),
        ("@%p1;", "not an instruction"),
        ("mov.u32 %r1, a b;", "not understood"),
        ("mov.u32 %r1, %p1|;", "not understood"),
        ("mov.u32 %r1, |%p1|%p2;", "not understood"),
        ("mov.u32 %r1, {;", "stops inside"),
        ("mov.b64 " + "{" * 3000 + "%r1" + "}" * 3000 + ", %r1;", "holds no vectors"),
        ("mov.b64 %r1, " + "[" * 3000 + "%r1" + "]" * 3000 + ";", "holds no addresses"),
        ("mov.u32 %r1, [;", "not understood"),
        ("mov.u32 %r1, ];", "not understood"),
        ("mov.u32 %r1, [];", "not understood"),
        ("mov.b64 {}, %r1;", "parts do not make"),
        ("mov.u32 %r1, %r2+4;", "adds to a register"),
        ("ld.global.u32 %r1, [%r2+x];", "not a constant offset"),
        ("ld.global.u32 %r1, [%r2+%r3];", "not understood"),
        ("ld.global.u32 %r1, [%r2*2];", "not understood"),
        ("mov.u32 %r1, \u0434;", "not"),
        (".reg .b32 %r<3>;", "declared twice"),
        (".reg .v3 .f32 %v;", "not modelled"),
        (".reg .b32;", "not modelled"),
        (".reg %x;", "not modelled"),
        (".reg .b32 %x<99999999999>;", "are more than"),
        ("L: L: ret;", "declared twice"),
        (".whatever x;", "not understood"),
        ("call.uni (r), f, (a, b);", "the body of f is not in the module"),
        ("bra;", "not a label"),
        ("bra NOWHERE;", "not a label"),
        ("bra %r1;", "not a label"),
        ("bra.div L; L: ret;", "does not model"),
        ("{ L: ret; } bra L;", "not a label"),
        ("ret 1;", "takes none"),
        ("@%q ret;", "%q is not declared"),
        ("@%q mov.u32 %r1, 1;", "%q is not declared"),
        ("@%r1 mov.u32 %r1, 1;", "%r1 is a .b32 register"),
        ("@%p1 bar.sync;", "a number and perhaps a count"),
        ("nothing.at.all %r1;", "does not model"),
        ("mov.u32 %r1, 1 }", "a } has no {"),
        ("} }", "a } has no {"),
        ("{", "has no }"),
    ],
)
def test_malformed_text_is_told_with_its_line(body: str, why: str) -> None:
    text = entry("mov.u32 %r1, 0;\n" + body)
    with pytest.raises(UnsupportedError, match=why) as caught:
        tilewright.emulate(text, "k", (1,), (1,), [None])
    assert "line " in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "L: ret;",
        "}",
        ".entry {ret;}",
        ".entry k(.param .texref t) { ret; }",
        ".entry k(.param .u64 a,) { ret; }",
        ".entry k(.param .u64 p { ret; }",
        ".global .b8 x[2][];",
        ".entry k() { ret;",
    ],
)
def test_malformed_modules(text: str) -> None:
    with pytest.raises(UnsupportedError, match="PTX line"):
        parse(HEAD + text)


def test_random_cuts_raise_nothing_else(kernel_text: Callable[..., str]) -> None:
    """Whatever is missing from a text, the error is one of ours."""
    body = """.shared .align 16 .b8 s[64]; mov.u32 %r1, s; @%p1 bra L;
      { .reg .b32 t; mov.u32 t, 1; } ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0+16];
      L: setp.lt.and.u32 %p1|%p2, %r1, 3, !%p3;
      shfl.sync.bfly.b32 %r1|%p1, %r1, 1, 31, -1; bar.sync 0, 32; fma.rn.f32 %f1, %f1, 0f3F800000,
      %f2; cp.async.ca.shared.global [%r1], [%d0], 16; ret;"""
    text = kernel_text(body, ["u64"])
    rng = np.random.default_rng(0)
    out = np.zeros(64, "u4")
    start = text.index("// body")
    for _ in range(400):
        at, size = int(rng.integers(start, len(text))), int(rng.integers(1, 9))
        broken = text[:at] + str(rng.choice(["", ";", "{", "}", "[", ","])) + text[at + size :]
        with suppress(TilewrightError):
            tilewright.emulate(broken, "k", (1,), (32,), [out])

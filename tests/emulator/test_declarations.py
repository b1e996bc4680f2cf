"""Declarations, and what variables hold at first."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest

import tilewright
from tilewright.emulator.declarations import declared_name, parameters, variables
from tilewright.emulator.ir import Link
from tilewright.emulator.parse import parse
from tilewright.errors import InputError, UnsupportedError

KernelText = Callable[..., str]


@pytest.mark.parametrize(
    ("text", "space", "name", "nbytes", "align"),
    [
        (".shared .align 16 .b8 s[1024]", "shared", "s", 1024, 16),
        (".extern .shared .align 128 .b8 dyn[]", "shared", "dyn", 0, 128),
        (".shared .f32 tile[4][ 33 ]", "shared", "tile", 528, 4),
        (".shared .v4 .f32 quad[2]", "shared", "quad", 32, 16),
        (".visible .global .align 4 .u32 counter", "global", "counter", 4, 4),
        (".local .align 8 .b8 __local_depot0[24]", "local", "__local_depot0", 24, 8),
        (".param .u64 .ptr .global .align 1 p", "param", "p", 8, 8),
        (".param .u64 .ptr .align 256 p", "param", "p", 8, 8),
        (".param .align 8 .b8 args[40]", "param", "args", 40, 8),
        (".const .b32 %odd$name", "const", "%odd$name", 4, 4),
        (".shared .b8 x[0x20]", "shared", "x", 32, 1),
    ],
)
def test_variable(text: str, space: str, name: str, nbytes: int, align: int) -> None:
    (found,) = variables(text)
    assert (found.space, found.name, found.nbytes, found.align) == (space, name, nbytes, align)


@pytest.mark.parametrize(
    ("text", "data"),
    [
        (".const .align 4 .b8 c[4] = {1, 2, 0xFF, -1}", b"\x01\x02\xff\xff"),
        (".global .u16 h = 515", b"\x03\x02"),
        (".global .f32 f = 0f3FC00000", b"\0\0\xc0\x3f"),
        (".global .f32 f[2] = {1.5, 0}", b"\0\0\xc0\x3f\0\0\0\0"),
        (".global .f64 f = 1.5", b"\0\0\0\0\0\0\xf8\x3f"),
        (".global .u8 x[2][2] = {{1}, {3, 4}}", b"\1\0\3\4"),
        (".global .u8 x[][2] = {{1, 2}, {3}}", b"\1\2\3\0"),
        (".const .u8 x[2] = {3*4, WARP_SZ-1}", b"\x0c\x1f"),
    ],
)
def test_initial_values(text: str, data: bytes) -> None:
    assert variables(text)[0].data == data


@pytest.mark.parametrize(
    "text",
    [
        ".shared .b8",
        ".global .texref t",
        ".shared .b8 x[n]",
        ".global .u64 p = 8*x",
        ".global .u64 p = generic(x",
        ".global .u64 p = x + y",
    ],
)
def test_declarations_that_are_not_understood(text: str) -> None:
    with pytest.raises(UnsupportedError):
        variables(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (".shared .u32 a = 3", "no initial value"),
        (".global .u32 a[2] = {1, 2, 3}", "do not fit"),
        (".global .u32 a[2][2] = {1, 2, 3}", "do not fit"),
        (".global .u32 a = {5}", "not one number"),
        (".global .u32 a[2] = 5", "not in braces"),
        (".global .u32 a = 2.5", "float"),
        (".global .align 3 .b32 a", "power of two"),
        (".global .align 0 .b32 a", "power of two"),
        (".global .b8 a[99999999999]", "more than"),
        (".global .b8 a[2][]", "extents"),
    ],
)
def test_what_ptxas_refuses_too(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        variables(text)


def test_several_variables_of_one_type() -> None:
    found = variables(".global .align 8 .u16 a, b[4] = {1, 2}, c = 7")
    assert [(it.name, it.nbytes, it.align) for it in found] == [
        ("a", 2, 8),
        ("b", 8, 8),
        ("c", 2, 8),
    ]
    assert [it.data for it in found] == [None, b"\1\0\2\0", b"\7\0"]


def test_parameters_in_registers_take_no_room() -> None:
    found = parameters(".param .u8 a, .reg .u32 b, .param .u64 c")
    assert [(it.name, it.offset, it.is_register) for it in found] == [
        ("a", 0, False),
        ("b", 0, True),
        ("c", 8, False),
    ]
    with pytest.raises(ValueError, match="declared twice"):
        parameters(".param .u32 a, .param .u32 a")


def test_addresses_as_initial_values() -> None:
    (found,) = variables(".global .u64 p[4] = {f, x+8, 7, generic(x)-4}")
    assert found.links == (Link(0, 8, "f", 0), Link(8, 8, "x", 8), Link(24, 8, "x", -4))
    assert found.data == bytes(16) + struct.pack("<QQ", 7, 0)
    (bytewise,) = variables(".global .u8 p[2] = {0xff(x), 0xff00(generic(x)+1)}")
    assert bytewise.links == (Link(0, 1, "x", 0, 0), Link(1, 1, "x", 1, 8))


@pytest.mark.parametrize(
    "text", [".global .texref t", ".global .align 4 .texref t [2]", ".x t = {1, y}"]
)
def test_the_name_in_a_declaration_that_is_not_understood(text: str) -> None:
    assert declared_name(text) == "t"


def test_addresses_lead_to_what_they_name(kernel_text: KernelText) -> None:
    """A ring of two, an array by its middle, and the bytes of an address put together again."""
    bytewise = ", ".join(f"0xff{'00' * i}(x)" for i in range(8))
    module = f"""
      .global .u32 x[4] = {{10, 20, 30, 40}};
      .global .u64 one[2] = {{generic(two), 1}}; .global .u64 two[2] = {{generic(one), 2}};
      .const .u64 middle = x+8; .global .u8 spread[8] = {{{bytewise}}};
    """
    body = """
      ld.global.u64 %d1, [one]; ld.u64 %d2, [%d1]; ld.u64 %d3, [%d2+8]; ld.u64 %d4, [%d1+8];
      ld.const.u64 %d5, [middle]; ld.global.u32 %r1, [%d5]; cvt.u64.u32 %d5, %r1;
      ld.global.u64 %d6, [spread]; ld.global.u32 %r2, [%d6+4]; cvt.u64.u32 %d6, %r2;
      st.global.v2.u64 [%d0], {%d3, %d4}; st.global.v2.u64 [%d0+16], {%d5, %d6}; ret;"""
    out = np.zeros(4, "u8")
    report = tilewright.emulate(kernel_text(body, ["u64"], module), "k", (1,), (1,), [out])
    assert report.findings == []
    assert out.tolist() == [1, 2, 30, 20]


FUNCTIONS = """
  .func f() { ret; } .func g() { ret; }
  .global .u64 table[3] = {g, f, g};
"""


def test_tables_of_functions_stop_only_who_calls_through_them(kernel_text: KernelText) -> None:
    same = """ld.global.u64 %d1, [table]; ld.global.u64 %d2, [table+8]; mov.u64 %d3, g;
      setp.eq.u64 %p1, %d1, %d3; setp.ne.and.u64 %p1, %d1, %d2, %p1;
      selp.u32 %r1, 1, 0, %p1; st.global.u32 [%d0], %r1; ret;"""
    call = "ld.global.u64 %d1, [table]; { proto: .callprototype _; call %d1, proto; } ret;"
    text = kernel_text(same, ["u64"], FUNCTIONS)
    text += kernel_text(call, ["u64"], name="calls").partition(".address_size 64")[2]
    out = np.zeros(1, "u4")
    assert tilewright.emulate(text, "k", (1,), (1,), [out]).completed
    assert out == [1]
    with pytest.raises(UnsupportedError, match=r"'call %d1, proto'.*through a pointer.*--engine"):
        tilewright.emulate(text, "calls", (1,), (1,), [out])


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        (".global .texref v;", "declaration '.global .texref v' is not understood"),
        (".global .u64 v = generic(nothing);", "address of nothing"),
        (".shared .u32 s; .global .u64 v = s;", "address of s"),
        (".global .texref t; .global .u64 v = t;", "'.global .texref t'"),
    ],
)
def test_variables_that_are_not_modelled_stop_only_who_uses_them(
    kernel_text: KernelText, declared: str, why: str
) -> None:
    text = kernel_text("ret;", [], declared)
    assert tilewright.emulate(text, "k", (1,), (1,), []).completed
    text = kernel_text("mov.u64 %d1, v; ret;", [], declared)
    with pytest.raises(UnsupportedError, match=why):
        tilewright.emulate(text, "k", (1,), (1,), [])


@pytest.mark.parametrize(
    ("module", "body", "why"),
    [
        (".shared .b8 s[50000];", "mov.u32 %r1, s;", "50,000 bytes of static shared memory"),
        (".const .b8 c[65537];", "mov.u64 %d1, c;", "65,537 bytes of constant memory"),
        ("", ".local .b8 l[524304]; mov.u64 %d1, l;", "524,304 bytes of local memory"),
    ],
)
def test_memory_that_cuda_does_not_give(
    kernel_text: KernelText, module: str, body: str, why: str
) -> None:
    with pytest.raises(InputError, match=f"{why}.*allows"):
        tilewright.emulate(kernel_text(body + "ret;", [], module), "k", (1,), (1,), [])
    unused = kernel_text("ret;", [], module)
    assert tilewright.emulate(unused, "k", (1,), (1,), []).completed


def test_too_many_parameters() -> None:
    head = ".version 8.3\n.target sm_90\n.address_size 64\n"
    text = head + ".entry k(.param .b8 a[32768]) { ret; }"
    with pytest.raises(InputError, match="32,768 bytes of parameters"):
        tilewright.emulate(text, "k", (1,), (1,), [bytes(32768)])


@pytest.mark.parametrize("twice", [".global .u32 a;", ".entry k() { ret; }"])
def test_names_that_are_taken(twice: str) -> None:
    head = ".version 8.3\n.target sm_90\n.address_size 64\n"
    with pytest.raises(UnsupportedError, match="twice"):
        parse(head + twice + twice)
    again = parse(head + ".extern .global .u32 a; .global .u32 a = 3; .extern .global .u32 a;")
    assert again.variables["a"].data == b"\3\0\0\0"

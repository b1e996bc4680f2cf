"""Several findings of one line: what is one fault, and what is said of the others."""

from __future__ import annotations

import numpy as np

import tilewright
from tilewright.emulator.by_line import LineCounts, finding_sentences
from tilewright.emulator.findings import Finding
from tilewright.emulator.html import page

HEAD = "4 bytes outside every array:"


def said(*findings: Finding) -> list[tuple[str, str]]:
    return finding_sentences(LineCounts("k.cu", 4, findings=list(findings)))


def out(words: str, array: str | None = "x", kind: str = "out-of-bounds") -> Finding:
    return Finding(kind, f"{words}: address 0x10 (x), block 0", "k.cu", 4, array=array)


def test_other_sides_and_arrays_are_other_faults_and_writes_come_first() -> None:
    found = said(
        out(f"ld.global.f32 reads {HEAD} 4 bytes before x"),
        out(f"ld.global.f32 reads {HEAD} element 8 of x, right behind its end"),
        out(f"ld.global.f32 reads {HEAD} element 9 of x, 4 bytes past its end"),
        out(f"ld.global.f32 reads {HEAD} element 8 of z, right behind its end", "z"),
        out(f"st.global.f32 writes {HEAD} element 8 of x, right behind its end"),
    )
    assert [sentence for _, sentence in found] == [
        f"st.global.f32 writes {HEAD} element 8 of x, right behind its end: "
        "address 0x10 (x), block 0",
        f"also ld.global.f32 reads {HEAD} 4 bytes before x",
        f"also ld.global.f32 reads {HEAD} element 8 of x, right behind its end (2 instructions)",
        f"also ld.global.f32 reads {HEAD} element 8 of z, right behind its end",
    ]
    assert {kind for kind, _ in found} == {"out-of-bounds"}


def test_one_fault_of_several_instructions_is_said_once() -> None:
    one = out(f"st.global.f32 writes {HEAD} element 8 of x, right behind its end")
    ((_, twice),) = said(one, one)
    ((_, thrice),) = said(one, one, one)
    assert twice.endswith("block 0; so does another instruction of this line")
    assert thrice.endswith("block 0; so do 2 more instructions of this line")


def test_shared_variables_are_arrays_too() -> None:
    words = "ld.shared.f32 reads shared memory that nobody wrote: address 0x0 ({}, byte 0), block 0"
    found = said(
        *(Finding("uninitialised", words.format(name), "k.cu", 4) for name in ("a", "b", "a"))
    )
    assert [sentence for _, sentence in found] == [
        words.format("a") + "; so does another instruction of this line",
        "also ld.shared.f32 reads shared memory that nobody wrote, in b",
    ]


def test_the_other_line_is_named_once() -> None:
    for message, named in (
        ("st.shared.f32 writes what warp 1 read at k.cu:25, with nothing", True),
        ("lanes wait at the barriers of lines 4 and 25 at once", True),
        ("writes what warp 25 read at k.cu:250", False),
    ):
        ((_, sentence),) = said(Finding("race", message, "k.cu", 4, other_line=25))
        assert sentence == message + ("" if named else " (the other line: 25)")


SOURCE = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
.reg .b64 %d<4>; .reg .b32 %r<4>;
ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y];
ld.global.u32 %r0, [%d0+-4]; ld.global.u32 %r1, [%d0+16]; st.global.u32 [%d1+16], %r0;
ret;
}
"""


def test_the_stencil_of_a_newcomer() -> None:
    arrays = [np.zeros(4, "u4"), np.zeros(4, "u4")]
    report = tilewright.emulate(SOURCE, "k", 1, 1, arrays, labels=["x", "y"])
    assert len(report.findings) == 3
    text = " ".join(str(report).split())
    write, before, behind = (
        text.index(words)
        for words in ("st.global.u32 writes", "4 bytes before x", "of x, right behind its end")
    )
    assert write < before < behind
    assert page(report).count("also ld.global.u32 reads") == 2 * 2  # in the list and the source

"""Registers of the wrong size or kind are refused as ptxas refuses them.

The lists are what ptxas of NVRTC 13 accepted and refused for sm_90, 2026-11-30.
"""

from __future__ import annotations

import pytest

from tilewright.emulator.compiler import compile_kernel
from tilewright.emulator.parse import parse
from tilewright.errors import UnsupportedError

TYPES = ("b16", "u16", "s16", "f16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64")
DECLARED = "".join(f".reg .{kind} {kind};" for kind in TYPES) + ".reg .pred p; .reg .b64 z;"
ACCEPTED = """
add.s32 s32, u32, b32;
add.f32 f32, f32, b32;
add.f32 b32, f32, f32;
ld.global.f32 b32, [z];
ld.global.u32 s64, [z];
ld.global.u32 b64, [z];
ld.global.f32 b64, [z];
ld.global.b32 f32, [z];
ld.global.b32 f64, [z];
st.global.u32 [z], u64;
st.global.f32 [z], b64;
cvt.u32.u8 u32, b64;
cvt.rn.f32.u32 b32, u32;
cvt.rn.f32.u32 b64, u32;
cvt.rn.f32.u16 f32, u32;
cvt.u16.u32 u16, u64;
cvt.f32.f16 f32, b16;
cvt.f32.f16 f32, b32;
cvt.f32.f16 f32, f16;
and.b32 f32, f32, 1;
mov.b32 f32, u32;
mov.b64 f64, u64;
mov.u16 u16, %tid.x;
mov.b32 {u16, s16}, f32;
mov.b32 {f16, b16}, b32;
shl.b64 u64, u64, u32;
setp.eq.b32 p, f32, f32;
selp.b32 f32, f32, f32, p;
selp.f32 b32, b32, f32, p;
mul.wide.u32 u64, u32, u32;
mul.wide.u32 b64, b32, s32;
add.f16 b16, f16, b16;
add.u16 b16, u16, u16;
atom.global.exch.b32 f32, [z], f32;
red.global.add.f32 [z], b32;
ld.shared.u32 u32, [u64];
ld.global.u32 u32, [s64];
shfl.sync.bfly.b32 f32, f32, 1, 31, -1;
popc.b32 u32, f32;
popc.b64 u32, u64;
brev.b32 f32, f32;
prmt.b32 f32, u32, s32, b32;
lop3.b32 f32, u32, s32, b32, 1;
ex2.approx.f32 b32, b32;
vote.sync.ballot.b32 f32, p, -1;
activemask.b32 f32;
match.any.sync.b32 u32, f32, -1;
cvt.rzi.s32.f32 s32, b32;
cvt.rn.f16.f32 b32, f32;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {f32}, [u32];
"""
REFUSED = """
add.s32 s32, f32, 1;
add.s32 s32, s64, 1;
add.s32 f32, s32, 1;
add.f32 f32, f32, s32;
add.f32 u32, f32, f32;
ld.global.f32 u32, [z];
ld.global.u32 f32, [z];
ld.global.u32 f64, [z];
ld.global.f32 f64, [z];
ld.global.u8 f32, [z];
ld.global.u32 u16, [z];
st.global.u32 [z], f32;
st.global.f32 [z], u32;
st.global.u8 [z], f32;
cvt.u64.u32 u32, u32;
cvt.f32.u32 u32, u32;
cvt.f32.u32 f32, f32;
cvt.rn.f32.u32 f32, f32;
cvt.rn.f32.u32 u32, u32;
and.b32 b32, s32, b64;
mov.u32 f32, u32;
mov.f32 u32, f32;
mov.u32 u32, f32;
mov.u32 u64, u32;
mov.u32 u64, %tid.x;
shl.b32 u32, u32, u64;
shl.b32 u32, u32, u16;
shl.b32 u32, u32, f32;
shl.b64 u64, u64, u64;
setp.lt.s32 p, f32, 1;
setp.lt.f32 p, u32, f32;
selp.u32 f32, f32, f32, p;
selp.f32 u32, f32, f32, p;
mul.wide.u32 f64, b32, s32;
mul.wide.u32 u32, b32, s32;
add.u16 f16, u16, u16;
atom.global.add.f32 u32, [z], f32;
atom.global.add.u32 f32, [z], u32;
atom.global.add.u32 u32, [z], f32;
atom.global.add.u32 u32, [z], u64;
red.global.add.f32 [z], u32;
ld.global.u32 u32, [f64];
ld.shared.u32 u32, [f32];
shfl.sync.bfly.b32 f32, f32, u64, 31, -1;
popc.b64 u64, u64;
clz.b64 u64, u64;
bfe.u32 u32, f32, 1, 2;
bfe.u64 u64, u64, u64, u32;
ex2.approx.f32 u32, f32;
min.s32 u32, f32, s32;
dp4a.u32.u32 u32, u32, u32, f32;
vote.sync.ballot.b32 u64, p, -1;
redux.sync.add.u32 u32, f32, -1;
cvta.to.global.u64 f64, u64;
cvta.to.shared.u64 u32, u64;
nanosleep.u32 f32;
bar.sync f32;
bar.sync u16;
bar.sync u64;
mov.u32 p, 1;
add.s32 u32, p, 1;
selp.b32 u32, 1, 2, u32;
mad.lo.u32 u32, u32, f32, u32;
mad.wide.u32 u64, u32, u32, u32;
cvt.u32.u32 f32, u32;
cvt.u32.u32 b32, f32;
cvt.rzi.s32.f32 s32, u32;
cvt.rzi.s32.f32 f32, f32;
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {u64}, [u32];
add.cc.u32 u32, f32, u32;
neg.s32 f32, s32;
abs.s32 s32, f32;
tanh.approx.f32 u32, f32;
slct.f32.s32 f32, f32, f32, f32;
slct.u32.f32 u32, f32, u32, f32;
testp.finite.f32 p, u32;
copysign.f32 u32, f32, f32;
"""


def compiled(line: str) -> None:
    body = f".entry k(.param .u64 q) {{ {DECLARED} ld.param.u64 z, [q]; {line} ret; }}"
    module = parse(f".version 8.3\n.target sm_90\n.address_size 64\n{body}")
    compile_kernel(module, module.kernels["k"])


@pytest.mark.parametrize("line", ACCEPTED.strip().splitlines())
def test_accepted(line: str) -> None:
    compiled(line)


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_refused(line: str) -> None:
    with pytest.raises(UnsupportedError, match=r"is a \.\w+ register, and .* takes|opcode"):
        compiled(line)


def test_the_sentence() -> None:
    with pytest.raises(UnsupportedError, match=r"f32 is a \.f32 register, and add\.s32 takes an "):
        compiled("add.s32 s32, f32, 1;")
    with pytest.raises(UnsupportedError, match=r"takes a float of 64 bits there"):
        compiled("add.f64 f64, f64, s64;")
    with pytest.raises(UnsupportedError, match=r"takes a predicate there"):
        compiled("selp.b32 b32, 1, 2, b32;")

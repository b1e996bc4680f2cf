"""Machine instructions, from words that nvdisasm has named."""

from __future__ import annotations

import struct

import pytest

from tilewright.errors import InputError
from tilewright.model.machine_words import NONE, Word, decoded, kernel_words, loops

SELF = (0xFFFFFFFC00FC7947, 0x000FC0000383FFFF)  # BRA to itself, sm_90
SELF_80 = (0xFFFFFFF000007947, 0x000FC0000383FFFF)  # the same as sm_80 has it
NOP = (0x0000000000007918, 0x000FC00000000000)


def code(*words: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<QQ", low, high) for low, high in words)


def test_an_fma_has_its_registers_and_what_the_compiler_says_of_them() -> None:
    """FFMA R58, R108.reuse, R77, R65: the warp goes on after a clock."""
    low = 0x223 | 7 << 12 | 58 << 16 | 108 << 24 | 77 << 32
    word, _ = decoded(code((low, 65 | 1 << 41 | 7 << 46 | 7 << 49 | 1 << 58), SELF))
    assert word == Word("fma", 1, (), NONE, NONE, ((0, 108), (1, 77), (2, 65)), (0,))


def test_operands_that_are_no_registers_are_none() -> None:
    """FFMA R1, R2, c[0][0], RZ reads one register."""
    low = 0x223 & 0x1FF | 5 << 9 | 1 << 16 | 2 << 24
    word, _ = decoded(code((low, 255), SELF))
    assert word.sources == ((0, 2),)


def test_a_load_holds_a_counter_and_waits_for_others() -> None:
    """LDS.128 that waits for counters 0 and 5 and holds 2 until the data are there, 3 till read."""
    high = 6 << 9 | 4 << 41 | 2 << 46 | 3 << 49 | 0b100001 << 52
    word, _ = decoded(code((0x984, high), SELF))
    assert word == Word("ld.shared", 4, (0, 5), 2, 3, width=16)


@pytest.mark.parametrize(
    ("opcode", "kind"),
    [
        (0x388, "st.shared"), (0x83B, "ldmatrix"), (0x981, "ld.global"), (0x986, "st.global"),
        (0xFAE, "cp.async"), (0x9AF, "commit"), (0xB1D, "barrier"), (0x23C, "mma"),
        (0x221, "fma"), (0x210, "other"), (0x918, "other"),
    ],
)  # fmt: skip
def test_kinds(opcode: int, kind: str) -> None:
    word, _ = decoded(code((opcode, 0), SELF))
    assert (word.kind, word.stall) == (kind, 1)


def test_a_wait_says_how_many_groups_it_leaves() -> None:
    """DEPBAR.LE SB0, 0x1."""
    word, _ = decoded(code((0x91A | 1 << 38, 0), SELF))
    assert (word.kind, word.at_most) == ("wait", 1)


def test_branches_of_both_forms() -> None:
    """@P0 BRA 0x0f40 at 0x2320, 0x13f0 bytes back: as sm_90 writes it, and as sm_80 does."""
    back = (0xFFFFFFEC00040947, 0x000FEC000383FFFF)
    ahead = (0x0000001C001C8947, 0x000FEC0003800000)  # from 0x700 to 0x2380
    words = decoded(code(*[NOP] * 0x70, ahead, *[NOP] * 0x1C1, back, SELF))
    assert loops(words) == [(0xF4, 0x232)]
    assert words[0x70].target == 0x238
    old = (0xFFFFEC1000000947, 0x000FEC000383FFFF)
    assert loops(decoded(code(*[NOP] * 0x232, old, SELF_80))) == [(0xF4, 0x232)]


def test_a_uniform_branch_has_two_bits_between() -> None:
    """BRA.U UP0 of sm_120: bits 32 and 33 are no part of the distance."""
    low = 0x947 | 0xFC << 16 | 1 << 32 | (2**30 - 1) << 34
    assert decoded(code(NOP, (low, 0), SELF))[1].target == 1


def test_what_is_no_code() -> None:
    with pytest.raises(InputError, match="15 bytes are no whole instructions of 16 bytes"):
        decoded(b"0" * 15)
    with pytest.raises(InputError, match="no 64-bit ELF file"):
        kernel_words(b"PTX", "gemm")
    with pytest.raises(InputError, match="table of sections is broken"):
        kernel_words(b"\x7fELF\x02\x01" + b"\xff" * 80, "gemm")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_120"])
def test_the_words_of_a_cubin(arch: str, compiler: str) -> None:
    from tilewright.build import Source, build

    text = """extern "C" __global__ void sum(const float* a, float* out, int n) {
      __shared__ float s[32];
      float x = 0;
      #pragma unroll 1
      for (int i = 0; i < n; ++i) {
        s[threadIdx.x] = a[i * 32 + threadIdx.x];
        __syncthreads();
        x = x * s[31 - threadIdx.x] + 1.5f;
        __syncthreads();
      }
      out[threadIdx.x] = x;
    }"""
    cubin = build(Source("sum.cu", text), arch).cubin
    words = kernel_words(cubin, "sum")
    ((first, last),) = loops(words)
    kinds = [word.kind for word in words[first : last + 1] if word.kind != "other"]
    assert kinds == ["ld.global", "st.shared", "barrier", "ld.shared", "fma", "barrier", "branch"]
    with pytest.raises(InputError, match=r"no section \.text\.other"):
        kernel_words(cubin, "other")

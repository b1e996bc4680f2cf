"""Reports made by hand, for the tests of the views."""

from __future__ import annotations

import pytest

from tilewright.emulator.findings import Finding
from tilewright.emulator.report import Access, Report

TRANSPOSE = """\
extern "C" __global__ void transpose(float* out, const float* in, int n, int m) {
  __shared__ float tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x;
  int y = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8)
    tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * n + x];
  // one
  // two
  // three
  // four
  // five
  // six
  __syncthreads();
  for (int i = 0; i < 32; i += 8)
\tout[(y + i) * m + x] = tile[threadIdx.x][threadIdx.y + i];
}
"""

HOSTILE = "<script>alert('&\"')</script>"


@pytest.fixture
def transpose_report() -> Report:
    """Conflicts on line 15, a finding twice there and once in a header without text."""
    message = "st touches 4 bytes of global memory outside every array: address 0x7f0000004000"
    return Report(
        completed=True,
        accesses=[
            Access("ld.global.f32", "k.cu", 6, "global", 96, 0, 0, 384, 384, 12288),
            Access("st.shared.f32", "k.cu", 6, "shared", 96, 96, 96, 0, 0, 12288),
            Access("ld.shared.f32", "k.cu", 15, "shared", 96, 3072, 96, 0, 0, 12288),
            Access("ld.shared.f32", "k.cu", 15, "shared", 96, 3072, 96, 0, 0, 12288),
            Access("st.global.f32", "k.cu", 15, "global", 96, 0, 0, 600, 384, 12288),
            Access("ld.global.u32", "<ptx>", 70, "global", 123456, 0, 0, 123456, 61728, 8),
        ],
        instructions={"ld.global.f32": 96, "bar.sync": 48, "st.shared.f32": 96},
        findings=[
            Finding("out-of-bounds", message, "k.cu", 15, 3, 7, 31, 0x7F0000004000, "out"),
            Finding("out-of-bounds", message, "k.cu", 15, 3, 7, 31, 0x7F0000004080, "out"),
            Finding("race", "two warps write s[0]", "<ptx>", 70, 0, 1, 2, 0, None, 68),
        ],
        totals={
            "instructions": 240,
            "shared_wavefronts": 6240,
            "shared_wavefronts_ideal": 288,
            "global_sectors": 124440,
            "global_sectors_ideal": 62496,
        },
        kernel="transpose",
        grid=(3, 2, 1),
        block=(32, 8, 1),
        sources={"k.cu": TRANSPOSE},
        issues={"k.cu": {3: 48, 6: 576, 13: 48, 15: 600}, "<ptx>": {5: 1, 70: 9}},
    )


@pytest.fixture
def clean_report() -> Report:
    """Nothing wrong, nothing above its ideal, no text."""
    row = Access("ld.global.f32", "k.cu", 6, "global", 96, 0, 0, 384, 384, 12288)
    return Report(True, [row], {"ld.global.f32": 96}, kernel="copy")


@pytest.fixture
def hostile_report() -> Report:
    """Markup, control and bidirectional characters wherever a text comes from outside."""
    name = f"{HOSTILE}\x1b[31m\u202e\ud800.cu"
    return Report(
        completed=False,
        accesses=[Access(HOSTILE, name, 1, HOSTILE, 1, 9, 1, 9, 1, 4)],
        instructions={HOSTILE: 1},
        findings=[Finding(HOSTILE, f"{HOSTILE}\x00", name, 1, other_line=2)],
        totals={HOSTILE: 1},
        kernel=f"{HOSTILE}\x07",
        sources={name: f"{HOSTILE}\x1b]0;gone\x07\n]]>\ud800\n"},
        issues={name: {1: 3}},
    )

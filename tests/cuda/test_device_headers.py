"""Each device header alone: a kernel of a few lines, run from its compiled PTX."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tilewright
from tilewright.emulator.report import Report
from tilewright.model import swizzle
from tilewright.model.raster import order_named

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bf16 arrays need ml_dtypes")
pytestmark = pytest.mark.usefixtures("compiler")

Array = npt.NDArray[Any]


def run(body: str, includes: str, args: list[Any], params: str, block: int = 32) -> Report:
    lines = "".join(f'#include "{name}"\n' for name in includes.split())
    text = f'{lines}extern "C" __global__ void probe({params}) {{\n{body}\n}}\n'
    report = tilewright.emulate(text, "probe", (1,), (block,), args, arch="sm_90")
    assert report.completed
    assert report.findings == []
    return report


GRIDS = [(1, 1), (1, 5), (5, 1), (2, 2), (3, 8), (8, 3), (2, 9), (7, 17), (16, 16), (5, 23)]


@pytest.mark.parametrize(("word", "model"), [("raster", "panels"), ("serpentine", "serpentine")])
@pytest.mark.parametrize(("tiles_m", "tiles_n"), GRIDS)
def test_orders_are_the_models(tiles_m: int, tiles_n: int, word: str, model: str) -> None:
    total = tiles_m * tiles_n
    m, n = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
    body = f"""
      for (int id = threadIdx.x; id < tiles_m * tiles_n; id += 32) {{
        const tile::Tile at = tile::{word}<8>(id, tiles_m, tiles_n);
        m[id] = at.m; n[id] = at.n;
      }}"""
    run(
        body,
        f"tile/{word}.cuh",
        [m, n, tiles_m, tiles_n],
        "int* m, int* n, int tiles_m, int tiles_n",
    )
    assert list(zip(m.tolist(), n.tolist(), strict=True)) == [
        order_named(f"{model}:8").tile(id, tiles_m, tiles_n) for id in range(total)
    ]
    assert len(set(zip(m.tolist(), n.tolist(), strict=True))) == total


@pytest.mark.parametrize("name", ["swizzle_a", "swizzle_b", "swizzle_c", "swizzle_at"])
def test_swizzles_are_the_models(name: str) -> None:
    rows, cols = 32, 32 if name == "swizzle_a" else 128
    out = np.full((rows, cols), -1, np.int32)
    body = f"""
      for (int row = 0; row < {rows}; ++row)
        for (int col = threadIdx.x; col < {cols}; col += 32)
          out[row * {cols} + col] = tile::{name}(row, col);"""
    run(body, "tile/swizzle.cuh tile/swizzle_fp32.cuh", [out], "int* out")
    expected = [[getattr(swizzle, name)(row, col) for col in range(cols)] for row in range(rows)]
    assert out.tolist() == expected


def test_accumulator_map_covers_the_tile() -> None:
    """PTX ISA, m16n8k16: c0..c3 of lane l are rows l/4 (+8), columns 2·(l%4) (+1)."""
    out = np.full((32, 2), -1, np.int32)
    body = "out[2 * threadIdx.x] = tile::acc_row(threadIdx.x); "
    body += "out[2 * threadIdx.x + 1] = tile::acc_col(threadIdx.x);"
    run(body, "tile/fragment.cuh", [out], "int* out")
    cells = {(row + 8 * (i // 2), col + i % 2) for row, col in out.tolist() for i in range(4)}
    assert cells == {(row, col) for row in range(16) for col in range(8)}
    assert out[5].tolist() == [1, 2]
    assert out[31].tolist() == [7, 6]


_MULTIPLY = """
  __shared__ __align__(16) {T} A[16 * 16], B[16 * 8];
  for (int i = threadIdx.x; i < 256; i += 32) A[i].bits = a[i];
  for (int i = threadIdx.x; i < 128; i += 32) B[i].bits = b[i];
  __syncwarp();
  const int lane = threadIdx.x;
  unsigned fa[4], fb[2];
  float acc[4] = {1, 2, 3, 4};
  ptx::ldmatrix_x4(fa, &A[tile::ldmatrix_row(lane) * 16 + tile::ldmatrix_col(lane)]);
  ptx::ldmatrix_x2_trans(fb, &B[tile::ldmatrix_row(lane) * 8]);
  ptx::mma_m16n8k16<{T}>(acc, fa, fb);
  for (int i = 0; i < 4; ++i)
    c[(tile::acc_row(lane) + i / 2 * 8) * 8 + tile::acc_col(lane) + i % 2] = acc[i];
"""


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_ldmatrix_feeds_mma(name: str) -> None:
    """A[16, 16] · B[16, 8] through the wrappers and maps, on distinct values."""
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bf16" else np.float16)
    random = np.random.default_rng(7)
    a, b = (random.standard_normal(shape).astype(dtype) for shape in ((16, 16), (16, 8)))
    c = np.full((16, 8), np.nan, np.float32)
    run(
        _MULTIPLY.replace("{T}", name),
        "tile/fragment.cuh ptx/ldmatrix.cuh ptx/mma.cuh",
        [a.view(np.uint16), b.view(np.uint16), c],
        "const unsigned short* a, const unsigned short* b, float* c",
    )
    start = np.empty((16, 8))
    start[:8, 0::2], start[:8, 1::2], start[8:, 0::2], start[8:, 1::2] = 1, 2, 3, 4
    exact = a.astype(np.float64) @ b.astype(np.float64) + start
    magnitude = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + start
    assert (np.abs(c - exact) <= 17 * 2.0**-23 * magnitude).all()


def test_ldmatrix_x4_trans_is_two_of_x2() -> None:
    """Two fragments of B side by side, as two calls of ldmatrix_x2_trans give them."""
    b = np.arange(16 * 16, dtype=np.uint16)
    wide, narrow = np.zeros((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    body = """
      __shared__ __align__(16) unsigned short B[16 * 16];
      for (int i = threadIdx.x; i < 256; i += 32) B[i] = b[i];
      __syncwarp();
      const int lane = threadIdx.x, row = tile::ldmatrix_row(lane), col = tile::ldmatrix_col(lane);
      unsigned left[2], right[2], frag[2];
      ptx::ldmatrix_x4_trans(left, right, &B[row * 16 + col]);
      for (int i = 0; i < 2; ++i) {
        wide[lane * 4 + i] = left[i];
        wide[lane * 4 + 2 + i] = right[i];
        ptx::ldmatrix_x2_trans(frag, &B[row * 16 + i * 8]);
        narrow[lane * 4 + 2 * i] = frag[0];
        narrow[lane * 4 + 2 * i + 1] = frag[1];
      }"""
    run(
        body,
        "tile/fragment.cuh ptx/ldmatrix.cuh ptx/ldmatrix_x4_trans.cuh",
        [b, wide, narrow],
        "const unsigned short* b, unsigned* wide, unsigned* narrow",
    )
    assert wide.tolist() == narrow.tolist()
    assert len(set(wide.reshape(-1).tolist())) == 128


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_cvt_rounds_to_nearest_even_and_packs_low_first(name: str) -> None:
    dtype = np.dtype(ml_dtypes.bfloat16 if name == "bf16" else np.float16)
    ties = np.array(
        [1, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, -0.0, 1e-30, 0.1], np.float32
    )
    values = np.resize(ties, 64)
    out = np.zeros(64, np.uint16)
    run(
        f"out[threadIdx.x] = ptx::cvt_rn_x2<{name}>(x[2 * threadIdx.x], x[2 * threadIdx.x + 1]);",
        "ptx/cvt.cuh",
        [values, out.view(np.uint32)],
        "const float* x, unsigned* out",
    )
    assert out.tolist() == values.astype(dtype).view(np.uint16).tolist()


def test_cp_async_lands_after_its_wait() -> None:
    source = np.arange(256, dtype=np.uint32)
    out = np.zeros(256, np.uint32)
    body = """
      __shared__ __align__(16) unsigned s[256];
      for (int half = 0; half < 2; ++half) {
        const int i = half * 128 + threadIdx.x * 4;
        ptx::cp_async_cg_16(&s[i], &source[i]);
        ptx::cp_async_commit_group();
      }
      ptx::cp_async_wait_group<1>();
      for (int i = 0; i < 4; ++i) out[threadIdx.x * 4 + i] = s[threadIdx.x * 4 + i];
      ptx::cp_async_wait_group<0>();
      for (int i = 128; i < 132; ++i) out[threadIdx.x * 4 + i] = s[threadIdx.x * 4 + i];
    """
    report = run(body, "ptx/cp_async.cuh", [source, out], "const unsigned* source, unsigned* out")
    assert out.tolist() == source.tolist()
    copies = [access for access in report.accesses if access.space == "global>shared"]
    assert sum(access.bytes for access in copies) == 1024
    assert copies[0].file == "ptx/cp_async.cuh" or copies[0].file.endswith(".cu")


def test_copies_to_32_bit_addresses_land_after_their_wait() -> None:
    """4 bytes a lane in reverse, 16 bytes a lane in order, read back four elements at once."""
    source, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    body = """
      __shared__ __align__(16) float s[256];
      const unsigned at = ptx::shared_address(s);
      for (int i = threadIdx.x; i < 128; i += 32)
        ptx::cp_async_ca_4_at(at + 4 * (127 - i), &source[i]);
      ptx::cp_async_cg_16_at(at + 512 + 16 * threadIdx.x, &source[128 + 4 * threadIdx.x]);
      ptx::cp_async_commit_group();
      ptx::cp_async_wait_group<0>();
      __syncwarp();
      for (int half = 0; half < 2; ++half) {
        float four[4];
        ptx::ld_shared_v4(four, at + 512 * half + 16 * threadIdx.x);
        tile::copy_chunk(&out[128 * half + 4 * threadIdx.x], four);
      }
    """
    headers = "ptx/cp_async.cuh ptx/cp_async_at.cuh ptx/ld_shared.cuh tile/vector.cuh"
    report = run(body, headers, [source, out], "const float* source, float* out")
    assert out.tolist() == [*range(127, -1, -1), *range(128, 256)]
    opcodes = {access.opcode for access in report.accesses}
    assert {"ld.shared.v4.f32", "st.global.v4.f32"} <= opcodes


def test_a_struct_that_differs_from_the_hosts_does_not_compile() -> None:
    from tilewright.errors import CompileError

    with pytest.raises(CompileError, match="launch"):
        tilewright.emulate(
            '#include "tile/gemm_args.cuh"\nextern "C" __global__ void probe(GemmArgs g) {}',
            "probe",
            (1,),
            (32,),
            [bytes(40)],
            defines={"ELEMENT": "bf16", "GEMM_ARGS_BYTES": 48},
        )

"""Kernels in NVIDIA's CuTe DSL 4.8.1, and the PTX that it makes of them, beside this file.

`pip install nvidia-cutlass-dsl && python record.py` writes the .ptx files anew, without a GPU.
"""

# mypy: ignore-errors
# ruff: noqa: E402

import os
import re
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
DUMP = tempfile.mkdtemp()
os.environ.update(CUTE_DSL_KEEP_PTX="1", CUTE_DSL_DUMP_DIR=DUMP)
os.environ.setdefault("CUTE_DSL_ARCH", "sm_80")

import cutlass
import cutlass.utils
from cutlass import cute
from cutlass.cute.nvgpu import cpasync, warp
from cutlass.cute.runtime import make_fake_compact_tensor


class Gemm:
    """C[M, N] = A[M, K] · B[N, K]ᵀ by m16n8k16, a ring of cp.async and swizzled tiles."""

    def __init__(self, dtype, shape, tile, stages):
        self.dtype, self.shape, self.tile, self.stages = dtype, shape, tile, stages

    def layout(self, rows):
        """A ring of tiles whose rows of 64 elements are swizzled by their number."""
        atom = cute.make_composed_layout(
            cute.make_swizzle(3, 3, 3), 0, cute.make_layout((8, 64), stride=(64, 1))
        )
        return cute.tile_to_shape(atom, (rows, self.tile[2], self.stages), (0, 1, 2))

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        bm, bn, _ = self.tile
        into_a, into_b = self.layout(bm), self.layout(bn)
        copy_in = cute.make_tiled_copy_tv(
            cute.make_copy_atom(
                cpasync.CopyG2SOp(cache_mode=cpasync.LoadCacheMode.GLOBAL),
                self.dtype,
                num_bits_per_copy=128,
            ),
            cute.make_layout((16, 8), stride=(8, 1)),
            cute.make_layout((1, 8)),
        )
        mma = cute.make_tiled_mma(
            warp.MmaF16BF16Op(self.dtype, cutlass.Float32, (16, 8, 16)),
            cute.make_layout((2, 2, 1)),
            permutation_mnk=(32, 32, 16),
        )
        m, n, _ = self.shape
        self.kernel(a, b, c, into_a, into_b, copy_in, mma).launch(
            grid=[n // bn, m // bm, 1], block=[128, 1, 1]
        )

    @cute.kernel
    def kernel(
        self,
        a: cute.Tensor,
        b: cute.Tensor,
        c: cute.Tensor,
        layout_a: cute.ComposedLayout,
        layout_b: cute.ComposedLayout,
        copy_in: cute.TiledCopy,
        mma: cute.TiledMma,
    ):
        thread, _, _ = cute.arch.thread_idx()
        bx, by, _ = cute.arch.block_idx()
        bm, bn, bk = self.tile
        tile_a = cute.local_tile(a, (bm, bk), (by, None))
        tile_b = cute.local_tile(b, (bn, bk), (bx, None))
        tile_c = cute.local_tile(c, (bm, bn), (by, bx))
        memory = cutlass.utils.SmemAllocator()
        shared_a = memory.allocate_tensor(self.dtype, layout_a, 128)
        shared_b = memory.allocate_tensor(self.dtype, layout_b, 128)

        mine = copy_in.get_slice(thread)
        from_a, into_a = mine.partition_S(tile_a), mine.partition_D(shared_a)
        from_b, into_b = mine.partition_S(tile_b), mine.partition_D(shared_b)
        part = mma.get_slice(thread)
        out = part.partition_C(tile_c)
        frag_a = mma.make_fragment_A(part.partition_A(shared_a)[None, None, None, 0])
        frag_b = mma.make_fragment_B(part.partition_B(shared_b)[None, None, None, 0])
        acc = mma.make_fragment_C(out)
        acc.fill(0.0)
        matrices = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), self.dtype)
        read_a = cute.make_tiled_copy_A(matrices, mma)
        read_b = cute.make_tiled_copy_B(matrices, mma)
        slice_a, slice_b = read_a.get_slice(thread), read_b.get_slice(thread)
        rows_a, rows_b = slice_a.partition_S(shared_a), slice_b.partition_S(shared_b)
        view_a, view_b = slice_a.retile(frag_a), slice_b.retile(frag_b)

        steps = self.shape[2] // bk
        for step in cutlass.range_constexpr(self.stages - 1):
            if cutlass.const_expr(step < steps):
                cute.copy(copy_in, from_a[None, None, None, step], into_a[None, None, None, step])
                cute.copy(copy_in, from_b[None, None, None, step], into_b[None, None, None, step])
            cute.arch.cp_async_commit_group()
        for step in range(steps):
            cute.arch.cp_async_wait_group(self.stages - 2)
            cute.arch.sync_threads()
            ahead = step + self.stages - 1
            if ahead < steps:
                slot = ahead % self.stages
                cute.copy(copy_in, from_a[None, None, None, ahead], into_a[None, None, None, slot])
                cute.copy(copy_in, from_b[None, None, None, ahead], into_b[None, None, None, slot])
            cute.arch.cp_async_commit_group()
            slot = step % self.stages
            for inner in cutlass.range_constexpr(bk // 16):
                cute.copy(read_a, rows_a[None, None, inner, slot], view_a[None, None, inner])
                cute.copy(read_b, rows_b[None, None, inner, slot], view_b[None, None, inner])
                cute.gemm(mma, acc, frag_a[None, None, inner], frag_b[None, None, inner], acc)
        cute.autovec_copy(acc, out)


@cute.kernel
def softmax_kernel(x: cute.Tensor, y: cute.Tensor, columns: cutlass.Constexpr):
    """A row a block of 128 threads: shuffles within warps, shared memory between them."""
    thread, _, _ = cute.arch.thread_idx()
    row, _, _ = cute.arch.block_idx()
    memory = cutlass.utils.SmemAllocator()
    parts = memory.allocate_tensor(cutlass.Float32, cute.make_layout(8), 16)
    high = -cutlass.Float32.inf
    for column in range(thread, columns, 128):
        value = x[row, column]
        high = value if value > high else high
    high = cute.arch.warp_reduction_max(high)
    if thread % 32 == 0:
        parts[thread // 32] = high
    cute.arch.sync_threads()
    for i in cutlass.range_constexpr(4):
        high = parts[i] if parts[i] > high else high
    total = cutlass.Float32(0.0)
    for column in range(thread, columns, 128):
        total += cute.math.exp(x[row, column] - high)
    total = cute.arch.warp_reduction_sum(total)
    if thread % 32 == 0:
        parts[4 + thread // 32] = total
    cute.arch.sync_threads()
    total = parts[4] + parts[5] + parts[6] + parts[7]
    for column in range(thread, columns, 128):
        y[row, column] = cute.math.exp(x[row, column] - high) / total


@cute.jit
def softmax(x: cute.Tensor, y: cute.Tensor):
    softmax_kernel(x, y, x.shape[1]).launch(grid=[x.shape[0], 1, 1], block=[128, 1, 1])


@cute.kernel
def blend_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, alpha: cutlass.Float32):
    """Four elements a thread, by vector loads; the rest of the last block is left alone."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 64 + thread
    if i < cute.size(a, mode=[1]):
        left, right = a[None, i].load(), b[None, i].load()
        c[None, i].store((left * alpha + right * right).to(c.element_type))


@cute.jit
def blend(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, alpha: cutlass.Float32):
    parts = [cute.zipped_divide(it, (4,)) for it in (a, b, c)]
    blend_kernel(*parts, alpha).launch(
        grid=[cute.ceil_div(cute.size(parts[0], mode=[1]), 64), 1, 1], block=[64, 1, 1]
    )


def matrix(dtype, rows, columns):
    return make_fake_compact_tensor(dtype, (rows, columns), stride_order=(1, 0), assumed_align=16)


def product(dtype, shape, tile, stages):
    m, n, k = shape
    arrays = matrix(dtype, m, k), matrix(dtype, n, k), matrix(cutlass.Float32, m, n)
    return Gemm(dtype, shape, tile, stages), arrays


def vector(dtype):
    size = cute.sym_int(divisibility=4)
    return make_fake_compact_tensor(dtype, (size,), assumed_align=16)


F16, BF16, F32 = cutlass.Float16, cutlass.BFloat16, cutlass.Float32
KERNELS = {  # file: function and arguments
    "gemm_f16": product(F16, (64, 128, 320), (64, 64, 64), 3),
    "gemm_bf16": product(BF16, (96, 128, 192), (32, 64, 64), 2),
    "softmax": (softmax, (matrix(F32, 5, 201), matrix(F32, 5, 201))),
    "blend": (blend, (vector(F32), vector(F32), vector(F16), F32(0))),
}


def record(name, function, arguments):
    for old in Path(DUMP).glob("*.ptx"):
        old.unlink()
    cute.compile(function, *arguments)
    (file,) = Path(DUMP).glob("*.ptx")
    text = file.read_text(encoding="utf-8").rstrip("\0")
    kernel = re.search(r"\.entry (\w+)", text)[1]
    text = text.replace(kernel, "kernel")
    (HERE / f"{name}.ptx").write_text(text, encoding="utf-8")
    print(f"{name}.ptx: {len(text) / 1024:.0f} KB")


def main():
    for name, (function, arguments) in KERNELS.items():
        record(name, function, arguments)


if __name__ == "__main__":
    main()

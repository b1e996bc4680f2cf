"""Kernels for Hopper in NVIDIA's CuTe DSL 4.8.1, and the PTX that it makes of them.

`pip install nvidia-cutlass-dsl && python record_tma.py` writes the .ptx files anew, without a GPU.
"""

# mypy: ignore-errors
# ruff: noqa: I001

import os

os.environ["CUTE_DSL_ARCH"] = "sm_90a"

from record import BF16, F16, F32, matrix, record  # first: it says where the PTX goes

import cutlass
import cutlass.utils.hopper_helpers as hopper
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum, TensorMapManager, TensorMapUpdateMode

WARPS = 4  # that multiply; the one behind them copies


class Gemm:
    """C[M, N] = A[M, K] · B[N, K]ᵀ: a ring that a warp fills by TMA, and a warpgroup by wgmma."""

    def __init__(self, dtype, shape, tile, stages):
        self.dtype, self.shape, self.tile, self.stages = dtype, shape, tile, stages

    @cute.jit
    def __call__(self, a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
        bm, bn, bk = self.tile
        major = cute.nvgpu.OperandMajorMode.K
        mma = hopper.make_trivial_tiled_mma(
            self.dtype, self.dtype, major, major, F32, (1, 1, 1), (bm, bn)
        )
        rows = LayoutEnum.ROW_MAJOR
        layout_a = hopper.make_smem_layout_a(rows, self.tile, self.dtype, self.stages)
        layout_b = hopper.make_smem_layout_b(rows, self.tile, self.dtype, self.stages)
        layout_c = cute.make_layout((bm, bn), stride=(bn, 1))
        load, slot = cpasync.CopyBulkTensorTileG2SOp(), (None, None, 0)
        of_a = cpasync.make_tiled_tma_atom(load, a, cute.slice_(layout_a, slot), (bm, bk))
        of_b = cpasync.make_tiled_tma_atom(load, b, cute.slice_(layout_b, slot), (bn, bk))
        of_c = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), c, layout_c, (bm, bn))
        m, n, _ = self.shape
        self.kernel(*of_a, *of_b, *of_c, layout_a, layout_b, layout_c, mma).launch(
            grid=[cute.ceil_div(n, bn), cute.ceil_div(m, bm), 1], block=[32 * (WARPS + 1), 1, 1]
        )

    @cute.kernel
    def kernel(
        self,
        atom_a: cute.CopyAtom,
        a: cute.Tensor,
        atom_b: cute.CopyAtom,
        b: cute.Tensor,
        atom_c: cute.CopyAtom,
        c: cute.Tensor,
        layout_a: cute.ComposedLayout,
        layout_b: cute.ComposedLayout,
        layout_c: cute.Layout,
        mma: cute.TiledMma,
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        bx, by, _ = cute.arch.block_idx()
        bm, bn, bk = self.tile
        memory = SmemAllocator()
        barriers = memory.allocate_array(cutlass.Int64, 2 * self.stages)
        shared_a = memory.allocate_tensor(self.dtype, layout_a.outer, 1024, swizzle=layout_a.inner)
        shared_b = memory.allocate_tensor(self.dtype, layout_b.outer, 1024, swizzle=layout_b.inner)
        shared_c = memory.allocate_tensor(F32, layout_c, 128)
        threads = pipeline.CooperativeGroup(pipeline.Agent.Thread)
        ring = pipeline.PipelineTmaAsync.create(
            barrier_storage=barriers,
            num_stages=self.stages,
            producer_group=threads,
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, WARPS),
            tx_count=(bm + bn) * bk * self.dtype.width // 8,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )

        def parts(atom, shared, tile):
            one = cute.make_layout(1)
            shared, tile = cute.group_modes(shared, 0, 2), cute.group_modes(tile, 0, 2)
            return cpasync.tma_partition(atom, 0, one, shared, tile)

        into_a, from_a = parts(atom_a, shared_a, cute.local_tile(a, (bm, bk), (by, None)))
        into_b, from_b = parts(atom_b, shared_b, cute.local_tile(b, (bn, bk), (bx, None)))
        from_c, into_c = parts(atom_c, shared_c, cute.local_tile(c, (bm, bn), (by, bx)))
        steps = cute.size(from_a, mode=[1])
        if warp == WARPS:
            cpasync.prefetch_descriptor(atom_a)
            cpasync.prefetch_descriptor(atom_b)
            at = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, self.stages)
            for step in range(steps):
                ring.producer_acquire(at)
                full = ring.producer_get_barrier(at)
                cute.copy(atom_a, from_a[None, step], into_a[None, at.index], tma_bar_ptr=full)
                cute.copy(atom_b, from_b[None, step], into_b[None, at.index], tma_bar_ptr=full)
                ring.producer_commit(at)
                at.advance()
            ring.producer_tail(at)
        else:
            mine = mma.get_slice(thread)
            frag_a = mma.make_fragment_A(mine.partition_A(shared_a))
            frag_b = mma.make_fragment_B(mine.partition_B(shared_b))
            out = mine.partition_C(shared_c)
            acc = mma.make_fragment_C(out.shape)
            mma.set(warpgroup.Field.ACCUMULATE, False)
            at = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, self.stages)
            for _ in range(steps):
                ring.consumer_wait(at)
                warpgroup.fence()
                for inner in cutlass.range_constexpr(cute.size(frag_a, mode=[2])):
                    place = (None, None, inner, at.index)
                    cute.gemm(mma, acc, frag_a[place], frag_b[place], acc)
                    mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                ring.consumer_release(at)
                at.advance()
            cute.autovec_copy(acc, out)
            cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.barrier(barrier_id=1, number_of_threads=32 * WARPS)
            if warp == 0:
                cute.copy(atom_c, from_c, into_c)
                cute.arch.cp_async_bulk_commit_group()
                cute.arch.cp_async_bulk_wait_group(0, read=True)


class Rows:
    """Every block copies its own rows of x by a map that it makes of the host's one."""

    def __init__(self, rows, mode):
        self.rows, self.mode = rows, mode

    @cute.jit
    def __call__(self, x: cute.Tensor, y: cute.Tensor, maps: cute.Tensor):
        columns = x.shape[1]
        layout = cute.make_layout((self.rows, columns), stride=(columns, 1))
        atom, view = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(), x, layout, (self.rows, columns)
        )
        self.kernel(atom, view, x, y, maps, layout).launch(
            grid=[x.shape[0] // self.rows, 1, 1], block=[64, 1, 1]
        )

    @cute.kernel
    def kernel(
        self,
        atom: cute.CopyAtom,
        view: cute.Tensor,
        x: cute.Tensor,
        y: cute.Tensor,
        maps: cute.Tensor,
        layout: cute.Layout,
    ):
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        memory = SmemAllocator()
        full = memory.allocate_array(cutlass.Int64, 1)
        made = memory.allocate(128, 128)
        tile = memory.allocate_tensor(F32, layout, 128)
        manager = TensorMapManager(self.mode, 128)
        mine = manager.get_tensormap_ptr(maps[(block, None)].iterator)
        in_shared = self.mode == TensorMapUpdateMode.SMEM
        manager.init_tensormap_from_atom(atom, made if in_shared else mine, 0)
        manager.fence_tensormap_initialization()
        own = cute.local_tile(x, (self.rows, x.shape[1]), (block, 0))
        manager.update_tensormap((own,), (atom,), (mine,), 0, (made,))
        if thread == 0:
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        if thread < 32:
            manager.fence_tensormap_update(mine)
            into, source = cpasync.tma_partition(
                atom,
                0,
                cute.make_layout(1),
                cute.group_modes(tile, 0, 2),
                cute.group_modes(cute.local_tile(view, layout.shape, (0, 0)), 0, 2),
            )
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, cute.size_in_bytes(F32, layout))
            cute.copy(
                atom,
                source,
                into,
                tma_bar_ptr=full,
                tma_desc_ptr=manager.get_tensormap_ptr(mine, cute.AddressSpace.generic),
            )
        cute.arch.mbarrier_wait(full, 0)
        for place in range(thread, cute.size(layout), 64):
            row, column = place // x.shape[1], place % x.shape[1]
            y[block * self.rows + row, column] = 2.0 * tile[row, column]


def product(dtype, shape, tile, stages):
    m, n, k = shape
    arrays = matrix(dtype, m, k), matrix(dtype, n, k), matrix(F32, m, n)
    return Gemm(dtype, shape, tile, stages), arrays


def rows(mode):
    arrays = matrix(F32, 32, 64), matrix(F32, 32, 64), matrix(cutlass.Int64, 4, 16)
    return Rows(8, mode), arrays


KERNELS = {  # file: function and arguments
    "tma_gemm_f16": product(F16, (150, 112, 208), (64, 64, 64), 3),
    "tma_gemm_bf16": product(BF16, (128, 72, 96), (64, 32, 32), 2),
    "tma_maps_shared": rows(TensorMapUpdateMode.SMEM),
    "tma_maps_global": rows(TensorMapUpdateMode.GMEM),
}

if __name__ == "__main__":
    for name, (function, arguments) in KERNELS.items():
        record(name, function, arguments)

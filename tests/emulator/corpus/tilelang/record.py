"""Kernels in TileLang, and the PTX of the CUDA C++ that TileLang 0.1.15 makes of them.

    pip install tilelang nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl
    python record.py [NAME …]

writes the .ptx files anew with nvcc 13.5; neither needs a GPU.
"""

# mypy: ignore-errors
# ruff: noqa: N803, N812

import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import tilelang
import tilelang.language as T
from tilelang import tvm

HERE = Path(__file__).parent
PACKAGES = Path(sysconfig.get_paths()["purelib"])
CUDA = PACKAGES / "nvidia/cu13"
INCLUDE = [
    PACKAGES / "tilelang/src",
    PACKAGES / "tilelang/3rdparty/cutlass/include",
    CUDA / "include/cccl",
]


def matmul(M, N, K, BM, BN, BK, stages, dtype, out, sums, transposed):
    """C = A · B, or A · Bᵀ; M, N and K need not fill their tiles."""
    shape, tile = ((N, K), (BN, BK)) if transposed else ((K, N), (BK, BN))

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor(shape, dtype), C: T.Tensor((M, N), out)):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            a = T.alloc_shared((BM, BK), dtype)
            b = T.alloc_shared(tile, dtype)
            acc = T.alloc_fragment((BM, BN), sums)
            T.clear(acc)
            for step in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                T.copy(A[by * BM, step * BK], a)
                if transposed:
                    T.copy(B[bx * BN, step * BK], b)
                else:
                    T.copy(B[step * BK, bx * BN], b)
                T.gemm(a, b, acc, transpose_B=transposed)
            T.copy(acc, C[by * BM, bx * BN])

    return main


def attention(length, D, BM, BN, scale):
    """softmax(scale · Q · Kᵀ) · V of one head, by running maxima and sums."""
    dtype, sums = "float16", "float32"

    @T.prim_func
    def main(
        Q: T.Tensor((length, D), dtype),
        K: T.Tensor((length, D), dtype),
        V: T.Tensor((length, D), dtype),
        O: T.Tensor((length, D), sums),  # noqa: E741
    ):
        with T.Kernel(T.ceildiv(length, BM), threads=128) as bx:
            q = T.alloc_shared((BM, D), dtype)
            k = T.alloc_shared((BN, D), dtype)
            v = T.alloc_shared((BN, D), dtype)
            scores = T.alloc_fragment((BM, BN), sums)
            p = T.alloc_fragment((BM, BN), dtype)
            acc = T.alloc_fragment((BM, D), sums)
            high = T.alloc_fragment((BM,), sums)
            before = T.alloc_fragment((BM,), sums)
            fade = T.alloc_fragment((BM,), sums)
            row = T.alloc_fragment((BM,), sums)
            total = T.alloc_fragment((BM,), sums)
            T.copy(Q[bx * BM, 0], q)
            T.fill(acc, 0)
            T.fill(total, 0)
            T.fill(high, -T.infinity(sums))
            for step in T.Pipelined(T.ceildiv(length, BN), num_stages=2):
                T.copy(K[step * BN, 0], k)
                for i, j in T.Parallel(BM, BN):
                    scores[i, j] = T.if_then_else(
                        step * BN + j < length, 0, -T.infinity(scores.dtype)
                    )
                T.gemm(q, k, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(high, before)
                T.reduce_max(scores, high, dim=1, clear=False)
                for i in T.Parallel(BM):
                    fade[i] = T.exp2((before[i] - high[i]) * (scale * 1.4426950408889634))
                for i, j in T.Parallel(BM, BN):
                    scores[i, j] = T.exp2((scores[i, j] - high[i]) * (scale * 1.4426950408889634))
                T.reduce_sum(scores, row, dim=1)
                for i in T.Parallel(BM):
                    total[i] = total[i] * fade[i] + row[i]
                T.copy(scores, p)
                for i, j in T.Parallel(BM, D):
                    acc[i, j] *= fade[i]
                T.copy(V[step * BN, 0], v)
                T.gemm(p, v, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(BM, D):
                acc[i, j] /= total[i]
            T.copy(acc, O[bx * BM, 0])

    return main


def layer_norm(M, N):
    """Rows to mean 0 and variance 1, then gelu, by reductions between threads."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=64) as by:
            x = T.alloc_fragment((1, N), "float32")
            square = T.alloc_fragment((1, N), "float32")
            mean = T.alloc_fragment((1,), "float32")
            variance = T.alloc_fragment((1,), "float32")
            T.copy(X[by, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] -= mean[i] / N
            for i, j in T.Parallel(1, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, variance, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] *= T.rsqrt(variance[i] / N + 1e-5)
            for i, j in T.Parallel(1, N):
                x[i, j] = 0.5 * x[i, j] * (1 + T.erf(x[i, j] * 0.7071067811865476))
            T.copy(x, Y[by, 0])

    return main


def scan(M, N):
    """Running sums of rows."""

    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, 16), threads=64) as by:
            x = T.alloc_shared((16, N), "float32")
            T.copy(X[by * 16, 0], x)
            T.cumsum(x, dim=1)
            T.copy(x, Y[by * 16, 0])

    return main


F16, BF16, F32, I8, I32 = "float16", "bfloat16", "float32", "int8", "int32"
KERNELS = {  # file: function, compute capability
    "matmul_f16": (matmul(150, 112, 208, 64, 64, 32, 3, F16, F16, F32, False), 80),
    "matmul_bf16": (matmul(96, 80, 136, 32, 64, 64, 2, BF16, F32, F32, True), 89),
    "matmul_tf32": (matmul(128, 96, 160, 64, 32, 32, 2, F32, F32, F32, True), 80),
    "matmul_int8": (matmul(64, 128, 192, 64, 64, 64, 2, I8, I32, I32, True), 80),
    "attention": (attention(112, 64, 64, 32, 0.125), 80),
    "layer_norm": (layer_norm(5, 384), 80),
    "scan": (scan(40, 128), 80),
}


def record(name, function, chip):
    """CUDA C++ by TileLang, PTX by nvcc; names of this machine's folders are taken out."""
    target = {"kind": "cuda", "arch": f"sm_{chip}"}
    with tvm.target.Target(target):
        built = tilelang.lower(function, target=target, enable_device_compile=False)
    with tempfile.TemporaryDirectory() as folder:
        source, ptx = Path(folder) / f"{name}.cu", HERE / f"{name}.ptx"
        source.write_text(built.kernel_source, encoding="utf-8")
        options = ["-ptx", "-std=c++17", "--expt-relaxed-constexpr", f"-arch=sm_{chip}", "-w"]
        options += ["-DENABLE_BF16", "-O3", *(f"-I{path}" for path in INCLUDE)]
        command = [CUDA / "bin/nvcc", *options, source.name, "-o", ptx]
        subprocess.run(command, cwd=folder, check=True)
    lines = ptx.read_text().splitlines()
    text = "\n".join(line.rstrip() for line in lines if "_INTERNAL_" not in line) + "\n"
    ptx.write_text(text, encoding="utf-8")
    launch = re.search(r'"main_kernel", ([^)]*)', str(built.host_mod))[1]
    print(f"{ptx.name}: {len(text) / 1024:.0f} KB; arrays, grid, block, shared bytes: {launch}")


def main():
    for name in [it for it in sys.argv[1:] if it in KERNELS] or KERNELS:
        record(name, *KERNELS[name])


if __name__ == "__main__":
    main()

"""Users' kernels: the word, what is read from PTX and source, and runs in the emulator."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import pytest

from tilewright.bench.inputs import logical, operands
from tilewright.bench.user_kernel import CudaKernel, KernelPlan, describe, launch, parse, plan
from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import CompileError, InputError
from tilewright.gpus import gpu_named
from tilewright.include import cuda_headers
from tilewright.ladder.rungs import KERNELS
from tilewright.problem import Problem
from tilewright.verify import Verdict, judge, oracle

M, N, K = 48, 80, 32
ARCH = "sm_90"

NAIVE = """// gemm(float* not, int the, int list)
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#ifndef ELEMENT
#define ELEMENT __half
#endif
typedef ELEMENT T;
extern "C" __global__ void naive(const T* __restrict__ A, const T *__restrict__ B, T * C,
                                 int M, int N, int K /* the depth */) {
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  int col = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < M && col < N) {
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += float(A[row * K + k]) * float(B[k * N + col]);
    C[row * N + col] = T(sum);
  }
}
"""

TILED = """
#define BM 32
constexpr int BN = 16, BK = 8;
constexpr int THREADS = 128;
__global__ void __launch_bounds__(THREADS, 2) tiled(
    const float* a_ptr,  // [m, k]
    const float* b_ptr,  /* [k, n], not (n, k) */
    float* c_ptr,
    const unsigned m, const unsigned n, const unsigned k);

__global__ void __launch_bounds__(THREADS, 2)
tiled(const float* a_ptr, const float* b_ptr, float* c_ptr,
      const unsigned m, const unsigned n, const unsigned k)
{
  __shared__ float a[BM][BK], b[BK][BN];
  const unsigned m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, t = threadIdx.x;
  float acc[4] = {};
  for (unsigned k0 = 0; k0 < k; k0 += BK) {
    for (unsigned i = t; i < BM * BK; i += THREADS) {
      unsigned row = m0 + i / BK, col = k0 + i % BK;
      a[i / BK][i % BK] = row < m && col < k ? a_ptr[row * k + col] : 0.f;
    }
    for (unsigned i = t; i < BK * BN; i += THREADS) {
      unsigned row = k0 + i / BN, col = n0 + i % BN;
      b[i / BN][i % BN] = row < k && col < n ? b_ptr[row * n + col] : 0.f;
    }
    __syncthreads();
    for (unsigned x = 0; x < BK; ++x)
      for (unsigned i = 0; i < 4; ++i) acc[i] += a[t / BN + 8 * i][x] * b[x][t % BN];
    __syncthreads();
  }
  for (unsigned i = 0; i < 4; ++i) {
    unsigned row = m0 + t / BN + 8 * i, col = n0 + t % BN;
    if (row < m && col < n) c_ptr[row * n + col] = acc[i];
  }
}
"""

BLAS = """
namespace mine { namespace inner {
__global__ void blas(size_t M, size_t N, size_t K, float alpha, const float* d_A, long long lda,
                     const float* d_B, int ldb, double beta, float* d_C, int ldc) {
  size_t row = blockIdx.x * blockDim.x + threadIdx.x, col = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  float sum = 0;
  for (size_t k = 0; k < K; ++k) sum += d_A[A_AT(row, k)] * d_B[k * ldb + col];
  d_C[row * ldc + col] = alpha * sum + (beta == 0 ? 0.f : float(beta) * d_C[row * ldc + col]);
}
}}
"""

LINE = """
#include "ptx/cvt.cuh"
#include "mine.cuh"
template <typename T, int WIDTH>
__global__ void line(const T* A, const T* B, T out[], int M, int N, int K) {
  extern __shared__ float row_of_a[];
  const int cols = (N + WIDTH - 1) / WIDTH;
  const int row = blockIdx.x / cols, col = blockIdx.x % cols * WIDTH + threadIdx.x;
  for (int k = threadIdx.x; k < K; k += WIDTH) row_of_a[k] = A[row * K + k];
  __syncthreads();
  if (col >= N) return;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum = multiply_add(row_of_a[k], B[k * N + col], sum);
  out[row * N + col] = sum;
}
template __global__ void line<float, 32>(const float*, const float*, float*, int, int, int);
"""


def kernel_file(folder: Path, text: str, name: str = "k.cu") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def problem(dtype: DType = FP32, layout: str = "nn") -> Problem:
    return Problem(M, N, K, dtype, layout)


def run(made: KernelPlan) -> Verdict:
    """The kernel in the emulator, its output poisoned before; nothing may be found."""
    engine = EmulatorEngine(gpu_named("h200"))
    asked = made.problem
    a, b = operands(asked, "normal", 0)
    poison = np.empty((asked.m, asked.n), asked.dtype.numpy())
    poison.view(np.uint8).fill(made.poison_byte)
    out = engine.upload(poison)
    report = engine.launch(launch(made, engine.upload(a), engine.upload(b), out))
    assert (report.completed, report.findings) == (True, [])
    return judge(engine.download(out), oracle(*logical(asked, a, b), asked.dtype))


# --- Runs -------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "element"), [(FP16, "half"), (BF16, "__nv_bfloat16")])
def test_a_naive_kernel(compiler: str, tmp_path: Path, dtype: DType, element: str) -> None:
    needs_headers()
    path = kernel_file(tmp_path, NAIVE)
    made = plan(parse(f"{path}:naive,ELEMENT={element}"), problem(dtype), ARCH)
    assert describe(made) == (
        "naive: grid 5×3, block 16×16, tile 16×16 of C, arguments A, B, C, M, N, K"
    )
    assert run(made).correct
    wide = plan(parse(f"{path}:naive,block=32x4,ELEMENT={element}"), problem(dtype), ARCH)
    assert (wide.grid, wide.tile) == ((3, 12, 1), (4, 32))
    assert run(wide).correct


def needs_headers() -> None:
    if not cuda_headers():
        pytest.skip("the CUDA header wheels are not installed")


def test_launch_bounds_and_constants(compiler: str, tmp_path: Path) -> None:
    made = plan(parse(f"{kernel_file(tmp_path, TILED)}:tiled"), problem(), ARCH)
    assert (made.grid, made.block, made.tile) == ((5, 2, 1), (128, 1, 1), (32, 16))
    assert made.symbol.startswith("_Z5tiled")
    assert run(made).correct
    by_symbol = parse(f"{tmp_path / 'k.cu'}:{made.symbol}")
    assert run(plan(by_symbol, problem(), ARCH)).correct
    assert by_symbol.label == made.symbol


@pytest.mark.parametrize(("layout", "at"), [("nn", "(r)*lda+(c)"), ("tn", "(c)*lda+(r)")])
def test_strides_scales_and_size_t(compiler: str, tmp_path: Path, layout: str, at: str) -> None:
    text = f"#define A_AT(r, c) {at}\n{BLAS}"
    word = f"{kernel_file(tmp_path, text)}:blas,grid=mn,block=8x32"
    made = plan(parse(word), problem(layout=layout), ARCH)
    assert (made.grid, made.tile) == ((6, 3, 1), (8, 32))
    values = {argument.meaning: argument.raw for argument in made.arguments}
    assert [*values] == ["M", "N", "K", "alpha", "A", "lda", "B", "ldb", "beta", "C", "ldc"]
    assert values["lda"] == (K if layout == "nn" else M).to_bytes(8, "little")
    assert (values["alpha"], values["beta"]) == (np.float32(1).tobytes(), bytes(8))
    assert run(made).correct


def test_beta_times_c_reads_numbers_and_nothing_else_does(compiler: str, tmp_path: Path) -> None:
    always = BLAS.replace("(beta == 0 ? 0.f : float(beta) * d_C[row * ldc + col])",
                          "float(beta) * d_C[row * ldc + col]")  # fmt: skip
    assert always != BLAS
    path = kernel_file(tmp_path, f"#define A_AT(r, c) (r)*lda+(c)\n{always}")
    made = plan(parse(f"{path}:blas,grid=mn,block=8x32"), problem(), ARCH)
    assert np.isfinite(np.full(4, made.poison_byte, np.uint8).view(np.float32)).all()
    assert run(made).correct
    unwritten = always.replace("if (row >= M", "if (row == 3 || row >= M")
    kernel_file(tmp_path, f"#define A_AT(r, c) (r)*lda+(c)\n{unwritten}")
    assert not run(plan(parse(f"{path}:blas,grid=mn,block=8x32"), problem(), ARCH)).correct
    naive = plan(parse(f"{kernel_file(tmp_path, NAIVE)}:naive,ELEMENT=float"), problem(), ARCH)
    assert naive.poison_byte == 0xFF


def test_a_template_with_headers_beside_it(compiler: str, tmp_path: Path) -> None:
    header = "__device__ float multiply_add(float x, float y, float z) { return x * y + z; }\n"
    kernel_file(tmp_path, header, "mine.cuh")
    path = kernel_file(tmp_path, LINE, "line.cuh")
    word = f"{path}:line,block=32,tile=1x32,grid=flat,shared_bytes={4 * K}"
    made = plan(parse(word), problem(), ARCH)
    assert made.grid == (M * 3, 1, 1)
    assert describe(made) == (
        "line: grid 144, block 32, tile 1×32 of C, 128 bytes of dynamic shared memory, "
        "arguments A, B, C, M, N, K"
    )
    assert run(made).correct


def test_an_instance_of_a_template_by_its_cpp_name(compiler: str, tmp_path: Path) -> None:
    other = "template __global__ void line<double, 64>(const double*, const double*, double*, "
    text = LINE.replace('#include "mine.cuh"', "#define multiply_add(x, y, z) ((x) * (y) + (z))")
    text = text.replace("extern __shared__ float row_of_a[]", "__shared__ float row_of_a[256]")
    path = kernel_file(tmp_path, f"{text}{other}int, int, int);\n")
    made = plan(parse(f"{path}:line<float, 32>,block=32,tile=1x32,grid=flat"), problem(), ARCH)
    assert (made.label, made.symbol[:16]) == ("line<float,32>", "_Z4lineIfLi32EEv")
    assert run(made).correct
    with pytest.raises(InputError, match=r"not unique; it has: line<float, 32>\(.*line<double, 6"):
        plan(parse(f"{path}:line,block=32,tile=1x32,grid=flat"), problem(), ARCH)


def test_a_rung_of_the_ladder(compiler: str) -> None:
    rung, asked = KERNELS["hgemm_bcf_dbf"], Problem(128, 384, 96, BF16)
    macros = ",".join(f"{name}={value}" for name, value in rung.defines(BF16))
    with as_file(files("tilewright.ladder") / rung.file) as path:
        word = f"{path}:gemm,grid=flat,shared_bytes={rung.shared_bytes(BF16)},{macros}"
        made = plan(parse(word), asked, ARCH)
    assert (made.grid, made.block, made.tile) == ((3, 1, 1), (256, 1, 1), (128, 128))
    assert [argument.meaning for argument in made.arguments] == ["GemmArgs"]
    assert run(made).correct


# --- The word ---------------------------------------------------------------------------


def test_words(tmp_path: Path) -> None:
    path = kernel_file(tmp_path, NAIVE, "a,b:c.cu")
    assert parse(f"{path}:naive") == CudaKernel(f"{path}:naive", path, "naive")
    word = f"{path}:naive,block=256,tile=128x64,shared_bytes=0,grid=flat,BM=8,A_B="
    word += ",include_path=.,layout=nt"
    assert parse(word) == CudaKernel(
        word,
        path,
        "naive",
        (256, 1, 1),
        (128, 64),
        0,
        "flat",
        (("A_B", ""), ("BM", "8")),
        ".",
        "nt",
    )
    assert parse(f"{path}:naive").label == "naive"


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("", "must name a .cu or .cuh file and a kernel: kernel.cu:gemm,block"),
        ("{k}", "must name a .cu or .cuh file and a kernel"),
        ("{k}.ptx:gemm", "PTX has no names of parameters; give the CUDA source"),
        ("{k}:", "'' is not the name of a kernel"),
        ("{k}:gemm(float*)", "'gemm(float*)' is not the name of a kernel; give its C++ name"),
        ("{k}:gemm<1,block=8", "'gemm<1' is not the name of a kernel"),
        ("{k}:gemm,", "'' is not understood; give block=, tile=, shared_bytes=, grid="),
        ("{k}:gemm,threads=3", "'threads=3' is not understood; give block="),
        ("{k}:gemm,BM", "'BM' is not understood; give block="),
        ("{k}:gemm,BM=1,BM=2", "BM is given twice"),
        ("{k}:gemm,block=", "block= must look like 256 or 16x16"),
        ("{k}:gemm,block=0x3", "block=0x3 must look like 256 or 16x16"),
        ("{k}:gemm,block=-3", "block=-3 must look like"),
        ("{k}:gemm,block=64x32", "the block has 2048 threads; CUDA allows 1024"),
        ("{k}:gemm,block=1x1x65", "block.z=65 must be between 1 and 64"),
        ("{k}:gemm,tile=128", "tile=128 must look like 128x64, ROWSxCOLUMNS of C"),
        ("{k}:gemm,tile=1x2x3", "tile=1x2x3 must look like"),
        ("{k}:gemm,shared_bytes=4k", "shared_bytes=4k must look like 49152"),
        ("{k}:gemm,grid=xy", "grid=xy must be one of nm, mn, flat"),
        ("{k}:gemm,include_path={k}", "k.cu is no folder"),
        ("{k}:gemm,include_path=", "include_path= is no folder"),
        ("{k}x/k.cu:gemm", "No such file"),
        ("{folder}:gemm", "directory"),
        ("{binary}:gemm", "not a text file"),
        ("{empty}:gemm", "empty.cu is empty"),
    ],
)
def test_words_that_are_none(tmp_path: Path, word: str, why: str) -> None:
    paths = {name: tmp_path / f"{name}.cu" for name in ("k", "folder", "binary", "empty")}
    paths["k"].write_text(NAIVE)
    paths["folder"].mkdir()
    paths["binary"].write_bytes(b"\xff\xfe\x00")
    paths["empty"].touch()
    with pytest.raises(InputError) as error:
        parse(word.format(**paths))
    assert why in str(error.value)


def test_the_hash_is_of_code_headers_and_macros(tmp_path: Path) -> None:
    kernel_file(tmp_path, "int x;", "mine.cuh")
    path = kernel_file(tmp_path, '#include "mine.cuh"\n#include "ptx/mma.cuh"\nint y;')
    first = parse(f"{path}:k").source_hash
    kernel_file(tmp_path, '#include "mine.cuh"\n#include "ptx/mma.cuh"\nint y; // said')
    assert parse(f"{path}:k").source_hash == first
    assert parse(f"{path}:k,BM=2").source_hash != first
    assert "mma" in parse(f"{path}:k").code
    kernel_file(tmp_path, "int z;", "mine.cuh")
    assert parse(f"{path}:k").source_hash != first


# --- What a kernel does not say ------------------------------------------------------------

BODY = "{ A[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y)] = 0; }"
TAKES = "float* A, float* B, float* C"


@pytest.mark.parametrize(
    ("text", "options", "why"),
    [
        (
            f"__global__ void other({TAKES}) {BODY}",
            "",
            "it has: other(float*, float*, float*). Give one of",
        ),
        (f"template <int X> __global__ void gemm({TAKES}) {BODY}", "", "it is instantiated"),
        (
            f"__global__ void gemm({TAKES}) {BODY}\n__global__ void gemm({TAKES}, int M) {BODY}",
            "",
            "is not unique",
        ),
        (
            f"__global__ void __launch_bounds__(64) gemm({TAKES}) {BODY}",
            "",
            "gemm reads threadIdx.y and does not say how large its block is; give it, as block=",
        ),
        (
            f"__global__ void gemm({TAKES}) {{ A[threadIdx.x] = 0; }}",
            "",
            "gemm reads threadIdx.x alone and has no __launch_bounds__; give its threads",
        ),
        (
            f"__global__ void __launch_bounds__(64) gemm({TAKES}) {BODY}",
            ",block=16x16",
            "has 256 threads; the launch bounds of gemm allow 64",
        ),
        (f"__global__ void gemm({TAKES}) {BODY}", ",block=64", "give tile=ROWSxCOLUMNS"),
        (f"__global__ void gemm({TAKES}) {BODY}", ",BM=64", "give tile=ROWSxCOLUMNS"),
        (f"__global__ void gemm({TAKES}) {BODY}", ",BM=X,BN=4,block=4", "give tile=ROWSxCOLUMNS"),
        (
            f"const int BM = 4; const int BN = 2;\n#define BN 3\n"
            f"__global__ void gemm({TAKES}) {BODY}",
            "",
            "k.cu defines BN as 2 and 3; give tile=ROWSxCOLUMNS or BN=",
        ),
        (
            f"extern __shared__ float s[];\n__global__ void gemm({TAKES}) {{ s[int(*A)] = *B; "
            "__syncthreads(); *C = s[threadIdx.x + blockDim.x * threadIdx.y * blockDim.y]; }",
            "",
            "gemm uses extern __shared__ memory; give shared_bytes=BYTES",
        ),
        (
            f"__global__ void gemm({TAKES}) {BODY}",
            ",shared_bytes=232449",
            "shared_bytes=232449 must be at most 232448: a block on sm_90 has 232448 bytes",
        ),
        (
            f"#define LIST {TAKES}\n__global__ void gemm(LIST) {BODY}",
            "",
            "gemm(…) with 3 parameters is not found in the source; write its parameter list out",
        ),
        (
            f"#if 1\n__global__ void gemm({TAKES}) {BODY}\n#else\n"
            f"__global__ void gemm(float* A, float* C, float* B) {BODY}\n#endif",
            "",
            "several parameter lists",
        ),
    ],
)
def test_what_is_not_said(compiler: str, tmp_path: Path, text: str, options: str, why: str) -> None:
    kernel = parse(f"{kernel_file(tmp_path, text)}:gemm{options}")
    with pytest.raises(InputError) as error:
        plan(kernel, problem(), ARCH)
    assert why in str(error.value)


def test_a_grid_beyond_the_limits(compiler: str, tmp_path: Path) -> None:
    kernel = parse(f"{kernel_file(tmp_path, f'__global__ void k({TAKES}) {BODY}')}:k")
    tall = Problem(2**21, 16, 16, FP32)
    with pytest.raises(InputError, match=r"k: grid\.y=131072 .* Give a larger tile, or another"):
        plan(kernel, tall, ARCH)
    assert plan(replace(kernel, grid="flat"), tall, ARCH).grid == (131072, 1, 1)


def test_a_header_that_is_missing(compiler: str, tmp_path: Path) -> None:
    kernel = parse(f"{kernel_file(tmp_path, '#include <nowhere.h>')}:k")
    with pytest.raises(CompileError, match=r"the folder of nowhere\.h in include_path"):
        plan(kernel, problem(), ARCH)
    (tmp_path / "more").mkdir()
    kernel_file(tmp_path / "more", f"__global__ void k({TAKES}) {BODY}", "nowhere.h")
    kernel = replace(kernel, include_path=str(tmp_path / "more"))
    assert plan(kernel, problem(), ARCH).block == (16, 16, 1)
    assert "void k(" in kernel.code


# --- Parameters ---------------------------------------------------------------------------


def planned(
    folder: Path, parameters: str, before: str = "", dtype: DType = FP32, square: bool = False
) -> KernelPlan:
    text = f"{before}\n__global__ void k({parameters}) {{}}"
    asked = Problem(M, M, M, dtype) if square else problem(dtype)
    return plan(parse(f"{kernel_file(folder, text)}:k"), asked, ARCH)


@pytest.mark.parametrize(
    ("parameters", "meanings"),
    [
        ("float* a, float* b, float* c, int m, int n, int k", "A B C M N K"),
        ("float *dA, float *dB, float *dC, int ldA, int ldb, int ldC", "A B C lda ldb ldc"),
        ("const float* d_a, const float* __restrict__ d_b, float* out", "A B C"),
        ("float* Aptr, float* b_ptr, float* c_out, float ALPHA, int beta", "A B C alpha beta"),
        ("float* A_d, float* matB, float const *C, float* D, int ldd", "A B C C ldd"),
        ("float A[], float B[16], void* C", "A B C"),
        ("int M_, unsigned long long dim_n, float* A,\n// x,\nfloat* B, float* C", "M N A B C"),
    ],
)
def test_names(compiler: str, tmp_path: Path, parameters: str, meanings: str) -> None:
    made = planned(tmp_path, parameters, square=True)
    assert [argument.meaning for argument in made.arguments] == meanings.split()


def test_a_kernel_for_squares_takes_no_other(compiler: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"k takes only N of M, N and K: a kernel for square .*"):
        planned(tmp_path, f"{TAKES}, int n")


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        (f"{TAKES}, int bias", "k: the parameter 'int bias' has no meaning here; known are A, B,"),
        (f"{TAKES}, int", "k: the parameter 'int' has no meaning here"),
        (f"{TAKES}, float*", "k: the parameter 'float*' has no meaning here"),
        ("float* A, float* C", "k has no parameter for B; known are A, B, C"),
        ("", "k has no parameter for A"),
        (f"{TAKES}, float* dA", "k: A and dA both read as A; rename one"),
        (f"{TAKES}, int M, int m", "k: M and m both read as M"),
        ("int A, float* B, float* C", "'int A' must be a pointer to the elements"),
        ("double* A, float* B, float* C", "points to fp64 elements, and the problem's are fp32"),
        (f"{TAKES}, const int* M", "'int* M' is a pointer; take the number itself"),
        (f"{TAKES}, const float* alpha", "'float* alpha' is a pointer"),
        (f"{TAKES}, float K", "'float K' must be an integer of 4 or 8 bytes"),
        (f"{TAKES}, short lda", "'short lda' must be an integer of 4 or 8 bytes"),
        (f"{TAKES}, char alpha", "'char alpha' must be a float, double"),
        ("GemmArgs g", "'GemmArgs g' has 4 bytes, and the package's GemmArgs has 40"),
    ],
)
def test_parameters_without_meaning(
    compiler: str, tmp_path: Path, parameters: str, why: str
) -> None:
    with pytest.raises(InputError) as error:
        planned(tmp_path, parameters, "struct GemmArgs { int x; };")
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("declared", "dtype", "one"),
    [
        ("float", FP16, np.float32(1).tobytes()),
        ("double", FP16, np.float64(1).tobytes()),
        ("int", FP16, b"\1\0\0\0"),
        ("half", BF16, b"\0\x3c"),
        ("__nv_bfloat16", FP16, b"\x80\x3f"),
        ("T", FP16, b"\0\x3c"),
        ("bf16", FP16, b"\x80\x3f"),
    ],
)
def test_alpha_is_one_in_its_type(
    compiler: str, tmp_path: Path, declared: str, dtype: DType, one: bytes
) -> None:
    needs_headers()
    names = ("<cuda_fp16.h>", "<cuda_bf16.h>", '"ptx/element.cuh"')
    before = "".join(f"#include {name}\n" for name in names) + "using T = half;"
    parameters = f"T* A, T* B, T* C, const {declared} alpha, {declared} beta"
    arguments = planned(tmp_path, parameters, before, dtype).arguments
    assert (arguments[3].raw, arguments[4].raw) == (one, bytes(len(one)))

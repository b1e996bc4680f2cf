"""`tilewright.emulate` and the emulator as an engine: sources, names, arguments, CUDA C++."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.artifact import Artifact
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import CompileError, InputError
from tilewright.gpus import gpu_named
from tilewright.launch import Launch

PTX = """.version 8.0
.target sm_80
.address_size 64
.global .align 4 .u32 runs;
.visible .entry fill(.param .u64 out, .param .u32 value, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>;
  ld.param.u64 %d0, [out]; ld.param.u32 %r0, [value]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; setp.ge.u32 %p, %r2, %r1; @%p ret;
  mul.wide.u32 %d1, %r2, 4; add.s64 %d1, %d0, %d1; st.global.u32 [%d1], %r0; ret;
}
.visible .entry count(.param .u64 out)
{
  .reg .b32 %r<2>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [out]; ld.global.u32 %r0, [runs]; add.u32 %r0, %r0, 1;
  st.global.u32 [runs], %r0; st.global.u32 [%d0], %r0; ret;
}
.visible .entry _Z6fill_2Pf() { ret; }
.visible .entry _Z4dualILi1EEvPf() { ret; }
.visible .entry _Z4dualILi2EEvPf() { ret; }
.visible .entry _ZN2ns5innerEPf() { ret; }
.visible .entry _Z5outerP4fake() { ret; }
.visible .entry bounded() .maxntid 64, 2, 1 { ret; }
.visible .entry exact() .reqntid 8, 4 { ret; }
.extern .shared .align 16 .b8 dynamic[];
.visible .entry shared() { .reg .b32 %r; .shared .b8 s[1000]; mov.u32 %r, s; ret; }
"""

Arguments = dict[str, Any]


def emulate(kernel: Any = "fill", args: Any = None, **other: Any) -> Any:
    values: Arguments = {"source": PTX, "grid": (1,), "block": (32,)} | other
    args = [np.zeros(32, "u4"), 5, 9] if args is None else args
    return tilewright.emulate(
        values.pop("source"), kernel, values.pop("grid"), values.pop("block"), args, **values
    )


# --- Sources ----------------------------------------------------------------------------


def test_ptx_as_text_and_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels.ptx"
    path.write_text("// the first line is a comment\n" + PTX)
    for source in (PTX, path, str(path)):
        out = np.zeros(32, "u4")
        report = emulate(args=[out, 7, 20], source=source)
        assert out.tolist() == [7] * 20 + [0] * 12
        assert report.completed


def test_ptx_on_one_line() -> None:
    text = ".version 8.0\n.target sm_80\n.entry k() { ret; }"
    assert emulate("k", [], source=text).completed


def test_a_comment_does_not_decide_what_a_text_is(compiler: str) -> None:
    text = '/*\n.version 8.0\n*/\nextern "C" __global__ void k() {}\n'
    assert emulate("k", [], source=text).completed


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("/nonexistent/kernel.ptx", "No such file"),
        ("", "source is empty; give the text"),
        (" ", "source is empty"),
        ("a\0b", "not a text file"),
        ("x" * 5000, "name too long"),
        (5, "a int; give text or a path"),
        (None, "give text or a path"),
        (b".version 8.0\n", "a bytes"),
    ],
)
def test_sources_that_are_none(source: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        emulate(source=source)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        emulate(source=tmp_path / "k.ptx")


def read_only(size: int) -> np.ndarray[Any, Any]:
    array = np.arange(size, dtype="f4")
    array.flags.writeable = False
    return array


# --- Names ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["fill_2", "_Z6fill_2Pf", "inner", "outer", "_ZN2ns5innerEPf", "dual<2>"]
)
def test_a_kernel_is_found_by_its_symbol_or_its_cpp_name(name: str) -> None:
    assert emulate(name, []).completed


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("dual", r"is not unique; it has: dual<1>\(float\*\), dual<2>\(float\*\)"),
        ("fil", "is not in the module; it has: fill, "),
        ("fake", "is not in the module"),
        ("", "is not in the module"),
        (None, "must be a kernel's name"),
        (["fill"], "must be a kernel's name"),
    ],
)
def test_names_that_lead_nowhere(name: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        emulate(name, [])


def test_a_module_without_kernels() -> None:
    with pytest.raises(InputError, match="it has: none"):
        emulate("k", [], source=".version 8.0\n.target sm_80\n")


# --- Shapes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"grid": ()}, "1 to 3 extents"),
        ({"grid": (1, 1, 1, 1)}, "1 to 3 extents"),
        ({"grid": (0,)}, r"grid\.x=0"),
        ({"grid": (1, 65536)}, r"grid\.y=65536"),
        ({"grid": 1.5}, "grid=1.5 must be 1 to 3 integers"),
        ({"grid": None}, "must be 1 to 3 integers"),
        ({"grid": (1.5,)}, "must be 1 to 3 integers"),
        ({"block": "32"}, "must be 1 to 3 integers"),
        ({"block": (-32,)}, r"block\.x=-32"),
        ({"block": (1, 1, 65)}, r"block\.z=65"),
        ({"block": (32, 33)}, "1056 threads; CUDA allows 1024"),
        ({"shared_bytes": -1}, "shared_bytes=-1 must be 0 to 232448"),
        ({"shared_bytes": 10**12}, "must be 0 to 232448"),
        ({"shared_bytes": 1.0}, "must be 0 to"),
        ({"shared_bytes": None}, "must be 0 to"),
        ({"args": [np.zeros(1), 5]}, "args has 2 values; fill takes 3"),
        ({"args": []}, "args has 0 values"),
        ({"args": np.zeros(3)}, "args is a ndarray"),
        ({"args": "abc"}, "args is a str"),
        ({"args": 7}, "args is a int"),
        (
            {"args": [np.zeros(1), 1.5, 1]},
            r"argument 2 \(value\) is an integer of 4 bytes, not 1\.5",
        ),
        ({"args": [[1, 2], 1, 1]}, r"argument 1 \(out\) is a pointer or an integer"),
        ({"args": [read_only(3), 1, 3]}, r"the array for argument 1 \(out\) is read-only"),
        ({"source": "void f() {}", "defines": 5}, "defines=5"),
        ({"source": "void f() {}", "include_path": "/usr"}, "must be a list of folders"),
    ],
)
def test_arguments_that_do_not_fit(changed: Arguments, why: str) -> None:
    with pytest.raises(InputError, match=why):
        emulate(**changed)


def test_a_read_only_array_may_be_read() -> None:
    copy = """.version 8.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 out, .param .u64 in)
{
  .reg .b32 %r; .reg .f32 %f; .reg .b64 %d<4>;
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in]; mov.u32 %r, %tid.x;
  mul.wide.u32 %d2, %r, 4; add.s64 %d1, %d1, %d2; ld.global.f32 %f, [%d1];
  add.s64 %d0, %d0, %d2; st.global.f32 [%d0], %f; ret;
}
"""
    out = np.full(32, np.nan, "f4")
    report = tilewright.emulate(copy, "copy", (1,), (32,), [out, read_only(32)])
    assert report.clean
    assert out.tolist() == list(range(32))


def test_an_integer_for_a_pointer_is_no_array() -> None:
    report = emulate(args=[0x1234_5678_0000, 7, 3])
    (finding,) = report.findings
    assert finding.kind == "out-of-bounds"
    assert "no array" in finding.message


def test_numpy_integers_are_integers() -> None:
    out = np.zeros(32, "u4")
    grid = np.array([1, 1])
    emulate(args=(out, np.uint32(7), np.int8(3)), grid=grid, block=[np.int64(32)])
    assert out.tolist() == [7] * 3 + [0] * 29


def test_launch_bounds_hold_as_on_a_gpu() -> None:
    assert emulate("bounded", [], block=(16, 8)).completed
    with pytest.raises(InputError, match="the launch bounds of bounded allow 128"):
        emulate("bounded", [], block=(129,))
    assert emulate("exact", [], block=(8, 4)).completed
    with pytest.raises(InputError, match=r"exact needs \(8, 4, 1\)"):
        emulate("exact", [], block=(32,))


def test_static_shared_memory_counts_against_the_limit() -> None:
    assert emulate("shared", [], shared_bytes=232448 - 1000).completed
    with pytest.raises(InputError, match="own variables take 1000"):
        emulate("shared", [], shared_bytes=232448 - 999)


# --- The engine -------------------------------------------------------------------------


def artifact(ptx: str = PTX, key: str = "one") -> Artifact:
    return Artifact("k.cu", "sm_80", ptx, b"", "", "NVRTC", {}, key)


@pytest.fixture
def engine() -> EmulatorEngine:
    return EmulatorEngine(gpu_named("a100"))


def launch(kernel: str, *params: bytes, **other: Any) -> Launch:
    values: Arguments = {"artifact": artifact(), "grid": (1, 1, 1), "block": (32, 1, 1)} | other
    return Launch(
        values.pop("artifact"), kernel, values.pop("grid"), values.pop("block"), params, **values
    )


def pointer(buffer: Any) -> bytes:
    address: int = buffer.address
    return address.to_bytes(8, "little")


def word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def test_upload_launch_download(engine: EmulatorEngine) -> None:
    source = np.arange(64, dtype="u4").reshape(8, 8)
    buffer = engine.upload(source.T)
    assert (buffer.shape, buffer.dtype, buffer.address % 256) == ((8, 8), np.dtype("u4"), 0)
    report = engine.launch(launch("fill", pointer(buffer), word(3), word(2)))
    result = engine.download(buffer)
    assert result.ravel()[:4].tolist() == [3, 3, 16, 24]
    assert source[0, 0] == 0
    assert report.completed
    result[:] = 0
    assert engine.download(buffer)[0, 0] == 3


def test_empty_memory_is_nan(engine: EmulatorEngine) -> None:
    for dtype in ("f2", "f4", "f8"):
        assert np.isnan(engine.download(engine.empty((3, 4), np.dtype(dtype)))).all()
    assert engine.download(engine.empty((0, 4), np.dtype("f4"))).shape == (0, 4)


def test_kernels_of_one_artifact_share_its_variables(engine: EmulatorEngine) -> None:
    out = engine.empty((1,), np.dtype("u4"))
    for _ in range(3):
        engine.launch(launch("count", pointer(out)))
    assert engine.download(out) == [3]
    other = artifact(PTX.replace(".u32 runs;", ".u32 runs = 10;"), "two")
    engine.launch(launch("count", pointer(out), artifact=other))
    assert engine.download(out) == [11]


def test_what_a_launch_cannot_be(engine: EmulatorEngine) -> None:
    with pytest.raises(InputError, match=r"grid\.x=3 must be a multiple of cluster\.x=2"):
        engine.launch(launch("bounded", grid=(3, 1, 1), cluster=(2, 1, 1)))
    with pytest.raises(InputError, match="fill takes 3 parameters, not 1"):
        engine.launch(launch("fill", word(1)))
    with pytest.raises(InputError, match="out takes 8 bytes, not 4"):
        engine.launch(launch("fill", word(1), word(1), word(1)))
    with pytest.raises(InputError, match="launch bounds"):
        engine.launch(launch("bounded", block=(256, 1, 1)))
    with pytest.raises(InputError, match="shared_bytes"):
        engine.launch(launch("shared", shared_bytes=1 << 20))
    with pytest.raises(InputError, match="upload it"):
        engine.download(np.zeros(4))  # type: ignore[arg-type]


# --- CUDA C++ ---------------------------------------------------------------------------

CUDA = r"""
struct Args { const float* x; float* y; int n; };

__global__ void affine(Args g, float scale, int shift) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < g.n) g.y[i] = scale * g.x[i] + shift;
}

__global__ void transpose(const float* x, float* y, int n) {
  __shared__ float tile[32][32 + PAD];
  const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  for (int r = 0; r < 32; r += 8) tile[threadIdx.y + r][threadIdx.x] = x[(row + r) * n + column];
  __syncthreads();
  const int to = blockIdx.y * 32 + threadIdx.x, line = blockIdx.x * 32 + threadIdx.y;
  for (int r = 0; r < 32; r += 8) y[(line + r) * n + to] = tile[threadIdx.x][threadIdx.y + r];
}

__global__ void sums(const int* x, int* y, int n) {
  extern __shared__ int part[];
  int sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] % 7 - x[i] / 3;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  for (int w = 1; w < (blockDim.x + 31) / 32; ++w) sum += part[w];
  *y = sum;
}

__global__ void collatz(const unsigned* x, unsigned* y) {
  unsigned n = x[threadIdx.x], steps = 0;
  while (n != 1 && steps < 1000) { n = n & 1 ? 3 * n + 1 : n >> 1; ++steps; }
  y[threadIdx.x] = steps;
}
"""


def run_cuda(
    kernel: str, grid: Any, block: Any, args: list[Any], pad: int = 1, **other: Any
) -> Any:
    report = tilewright.emulate(CUDA, kernel, grid, block, args, defines={"PAD": pad}, **other)
    assert (report.completed, report.findings) == (True, [])
    return report


def test_a_struct_by_value(compiler: str) -> None:
    """Pointers in a struct are addresses of arrays that are passed as well; here null is enough."""
    record = np.zeros((), np.dtype([("x", "u8"), ("y", "u8"), ("n", "i4")], align=True))
    run_cuda("affine", (2,), (48,), [record, 2.0, 1])
    record["n"] = 3
    report = tilewright.emulate(
        CUDA, "affine", (1,), (32,), [record.tobytes(), 2.0, 1], defines={"PAD": 0}
    )
    (load, store) = report.findings
    assert (load.kind, load.lane, load.file, load.line) == ("out-of-bounds", 0, "kernel.cu", 6)
    assert "and 2 more times" in store.message


@pytest.mark.parametrize(("pad", "conflicts"), [(0, 31), (1, 0)])
def test_a_transpose_with_and_without_padding(compiler: str, pad: int, conflicts: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 64)).astype("f4"), np.zeros((64, 64), "f4")
    report = run_cuda("transpose", (2, 2), (32, 8), [x, y, 64], pad)
    np.testing.assert_array_equal(y, x.T)
    warps = 4 * 8 * 4
    assert report.totals["bank_conflicts"] == warps * conflicts
    assert report.totals["global_sectors"] == report.totals["global_sectors_ideal"] == 2 * 4 * warps
    assert all(row.file == "kernel.cu" for row in report.accesses)


@pytest.mark.parametrize("threads", [32, 96, 256])
def test_a_reduction_with_shuffles(compiler: str, threads: int) -> None:
    rng = np.random.default_rng(threads)
    x, y = rng.integers(-(2**20), 2**20, 1000).astype("i4"), np.zeros(1, "i4")
    run_cuda("sums", (1,), (threads,), [x, y, 1000], shared_bytes=threads // 32 * 4)
    assert y == [sum(int(np.fmod(v, 7)) - int(v / 3) for v in x.tolist())]


def test_loops_of_every_length(compiler: str) -> None:
    x, y = np.arange(1, 201, dtype="u4"), np.zeros(200, "u4")
    run_cuda("collatz", (1,), (200,), [x, y])

    def steps(n: int) -> int:
        return 0 if n == 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    assert y.tolist() == [steps(n) for n in range(1, 201)]


def test_a_source_file_and_an_include_path(compiler: str, tmp_path: Path) -> None:
    (tmp_path / "answer.cuh").write_text("#pragma once\nconstexpr int answer = 42;\n")
    source = '#include "answer.cuh"\nextern "C" __global__ void k(int* y) { *y = answer + N; }\n'
    (tmp_path / "k.cu").write_text(source)
    y = np.zeros(1, "i4")
    report = tilewright.emulate(
        tmp_path / "k.cu", "k", (1,), (1,), [y], defines={"N": 1}, include_path=[str(tmp_path)]
    )
    assert y == [43]
    assert (report.accesses[0].file, report.accesses[0].line) == ("k.cu", 2)


def test_a_source_that_does_not_compile(compiler: str) -> None:
    with pytest.raises(CompileError, match=r"kernel\.cu"):
        tilewright.emulate("__global__ void k() { nonsense; }\n", "k", (1,), (1,), [])


# --- Names ------------------------------------------------------------------------------

ONE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry _Z1kPf(.param .u64 _Z1kPf_param_0)
{
.reg .b64 %d<4>; .reg .b32 %r<2>;
ld.param.u64 %d0, [_Z1kPf_param_0]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4;
add.s64 %d2, %d0, %d1; st.global.u32 [%d2], %r0; ret;
}
"""


@pytest.mark.parametrize("block", [32, (32,), [32, 1], np.int64(32), np.array([32, 1, 1])])
def test_a_number_is_one_extent(block: Any) -> None:
    report = tilewright.emulate(ONE, None, 1, block, [np.zeros(32, np.float32)])
    assert (report.grid, report.block) == ((1, 1, 1), (32, 1, 1))


def test_arguments_are_called_by_labels_and_kernels_by_their_cpp_names() -> None:
    out = np.zeros(31, np.float32)
    report = tilewright.emulate(ONE, None, 1, 32, [out])
    (finding,) = report.findings
    assert (report.kernel, report.symbol, finding.array) == ("k", "_Z1kPf", "k_param_0")
    report = tilewright.emulate(ONE, None, 1, 32, [out], labels=["out"])
    (finding,) = report.findings
    assert finding.array == "out"
    assert "(out)" in finding.message
    for labels in ([], ["a", "b"], "a"):
        with pytest.raises(InputError, match="must be one word a parameter; k has 1"):
            tilewright.emulate(ONE, None, 1, 32, [out], labels=labels)


def test_unwritten_elements_are_of_a_label() -> None:
    out = np.full(40, np.nan, np.float32)
    (finding,) = tilewright.emulate(ONE, None, 1, 32, [out], labels=["out"]).findings
    assert finding.message.startswith("8 of 40 elements of out are never written")


@pytest.mark.parametrize(("blocks", "count"), [("first:2", 2), ([3, 1], 2), ("sample:3", 3)])
def test_a_part_of_the_grid_is_told(blocks: Any, count: int) -> None:
    report = tilewright.emulate(ONE, None, 4, 32, [np.zeros(32, "f4")], blocks=blocks)
    assert report.part is not None
    assert (report.part.count, report.part.total) == (count, 4)


@pytest.mark.parametrize("blocks", [None, "first:4", "sample:9", [3, 1, 0, 2]])
def test_all_blocks_are_no_part(blocks: Any) -> None:
    report = tilewright.emulate(ONE, None, 4, 32, [np.full(40, np.nan, "f4")], blocks=blocks)
    assert report.part is None
    assert "unwritten" in {finding.kind for finding in report.findings}


def test_a_ptx_file_is_shown_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "k.ptx").write_text(ONE)
    for path in ("a/k.ptx", tmp_path / "a" / "k.ptx"):
        report = tilewright.emulate(path, None, 1, 32, [np.zeros(32, "f4")])
        assert [(access.file, access.line) for access in report.accesses] == [("k.ptx", 8)]
        assert report.sources == {"k.ptx": ONE}
        assert report.paths == {"k.ptx": "a/k.ptx"}
    assert tilewright.emulate(ONE, None, 1, 32, [np.zeros(32, "f4")]).paths == {}

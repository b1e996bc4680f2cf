"""NVRTC: what it says when it is missing or refuses, and how its log and PTX are read."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tilewright import nvrtc
from tilewright.build import Resources, Source, build
from tilewright.cache import Cache
from tilewright.errors import CompileError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable

needs_nvrtc = pytest.mark.usefixtures("compiler")

SCALE = Source(
    "mine/scale.cu",
    'extern "C" __global__ void gemm(float* x) { x[threadIdx.x] *= FACTOR; }\n',
    (("FACTOR", "3"),),
)

# --- errors -------------------------------------------------------------------------------


def _kernel(body: str) -> str:
    return f'\nextern "C" __global__ void gemm(int* x) {{ {body} }}\n'


@needs_nvrtc
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_kernel("*x = nothere;") + "int y = z;", r'^bad/k\.cu\(2\): error: .*"nothere" is undef'),
        ("#include <mine.h>\n", r"^bad/k\.cu\(1\): .*mine\.h.*give the folder of mine\.h"),
        ('#error "error : not this"\n', r'^bad/k\.cu\(1\): catas.*"error : not this"$'),
        (_kernel('asm("foo.bar;");'), r"^bad/k\.cu: ptxas .*line \d+; error: "),
        (
            "struct N { N* p; }; extern __device__ N n; __device__ N n = {&n};"
            + _kernel("*x = n.p == &n;"),
            r"^bad/k\.cu: error: Circular dependency",
        ),
        (_kernel('asm("barrier.cluster.arrive;");'), r"compile for sm_90: arch='sm_90', or --arch"),
        (
            _kernel('asm("wgmma.fence.sync.aligned;");'),
            "for sm_90a: arch='sm_90a', or --arch sm_90a",
        ),
        (_kernel("__shared__ int s[65536]; s[*x] = 1; __syncthreads(); *x = s[1];"), "too much sh"),
    ],
)
def test_the_message_is_the_first_error_line(text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message) as caught:
        build(Source("bad/k.cu", text), "sm_80", cache=None)
    assert "\n" not in str(caught.value)
    assert "error" in caught.value.log


@needs_nvrtc
def test_an_error_in_a_packages_header_names_that_file() -> None:
    defines = (("ELEMENT", "bf16"), ("GEMM_ARGS_BYTES", "44"))
    with pytest.raises(CompileError, match=r"^tile/gemm_args\.cuh\(\d+\): error: static assertion"):
        build(Source("k.cu", '#include "tile/gemm_args.cuh"\n', defines), "sm_90", cache=None)


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_30", "sm_999", "sm_45a"])
def test_an_arch_that_nvrtc_does_not_know(arch: str) -> None:
    with pytest.raises(ToolchainError) as caught:
        build(SCALE, arch, cache=None)
    for part in (arch, nvrtc.compiler(), f"sm_{nvrtc.archs()[-1]}", "tilewright[cu13]"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("arch", "words"),
    [
        ("sm_70", "sm_75, sm_80, sm_90 and sm_120: choose one of those or another NVRTC, "),
        ("sm_70", 'pip install "tilewright[cu12]"'),
        ("sm_35", 'or another NVRTC, pip install "tilewright[cu13]"'),
        ("sm_100", 'or another NVRTC, pip install "tilewright[cu13]"'),
        ("sm_121a", 'or a newer NVRTC, pip install "tilewright[cu13]"'),
        ("sm_80a", "there are from sm_90a on; give sm_80"),
        ("sm_90f", "there are from sm_100f on; give sm_90"),
    ],
)
def test_the_archs_are_told(monkeypatch: pytest.MonkeyPatch, arch: str, words: str) -> None:
    monkeypatch.setattr(nvrtc, "_loaded", lambda: (None, "13.5.37", (75, 80, 90, 120)))
    with pytest.raises(ToolchainError) as caught:
        nvrtc.check_arch(arch)
    assert words in str(caught.value)
    for fine in ("sm_75", "sm_80", "sm_90", "sm_90a", "sm_120a", "sm_120f"):
        nvrtc.check_arch(fine)


@pytest.fixture
def fresh_nvrtc(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Puts something in the place of cuda.bindings.nvrtc: a module, or an exception to raise."""

    def install(stand_in: Any) -> None:
        def load(name: str) -> Any:
            if isinstance(stand_in, Exception):
                raise stand_in
            return stand_in

        uncached = nvrtc._loaded.__wrapped__
        monkeypatch.setattr(nvrtc, "_loaded", uncached)
        monkeypatch.setattr(importlib, "import_module", load)

    return install


class _FirstCallFails:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def nvrtcVersion(self) -> None:  # noqa: N802
        raise self.error


@pytest.mark.parametrize(
    "stand_in",
    [
        ModuleNotFoundError("No module named 'cuda'"),
        ImportError("libstdc++.so.6: cannot open shared object file"),
        OSError("invalid ELF header"),
        _FirstCallFails(RuntimeError('Failure finding "libnvrtc.so"\nlistdir(...)')),
        _FirstCallFails(RuntimeError("")),
        SimpleNamespace(nvrtcVersion=lambda: (1,)),
        SimpleNamespace(),
    ],
    ids=["no package", "no part", "broken", "no library", "silent", "failing", "foreign"],
)
def test_without_nvrtc_one_sentence_says_what_to_install(
    fresh_nvrtc: Callable[[Any], None], stand_in: Any
) -> None:
    fresh_nvrtc(stand_in)
    with pytest.raises(ToolchainError) as caught:
        build(SCALE, "sm_90", cache=None)
    assert not isinstance(caught.value, CompileError)
    assert "\n" not in str(caught.value)
    assert "NVRTC" in str(caught.value)
    assert 'pip install "tilewright[cu13]"' in str(caught.value)


class _Compiler:
    """A stand-in for cuda.bindings.nvrtc that gives what it is told to."""

    def __init__(self, ptx: bytes, cubin: bytes, log: bytes = b"") -> None:
        self.outputs = {"PTX": ptx, "CUBIN": cubin, "ProgramLog": log}
        self.options: list[bytes] = []

    def nvrtcCompileProgram(self, _: object, count: int, options: list[bytes]) -> tuple[int]:  # noqa: N802
        assert count == len(options)
        self.options = options
        return (0,)

    def __getattr__(self, name: str) -> Callable[..., tuple[Any, ...]]:
        return lambda *_: (0, object())


@pytest.mark.parametrize(("ptx", "cubin", "what"), [(b"", b"x", "PTX"), (b"x", b"", "cubin")])
def test_an_empty_result_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ptx: bytes, cubin: bytes, what: str
) -> None:
    api = _Compiler(ptx, cubin)
    monkeypatch.setattr(nvrtc, "_loaded", lambda: (api, "13.5", (80, 90)))
    monkeypatch.setattr(nvrtc, "_read", lambda api, _, what: api.outputs[what])
    with pytest.raises(CompileError, match=f"empty {what}"):
        build(SCALE, "sm_90", cache=Cache(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("version", "off"),
    [("12.4.127", False), ("12.8.93", False), ("12.9.86", True), ("13.0.88", True), ("13.5", True)],
)
def test_nvrtcs_own_cache_is_off_where_it_has_one(
    monkeypatch: pytest.MonkeyPatch, version: str, off: bool
) -> None:
    """Its hits come without ptxas's log, so that a second build had no registers to tell."""
    api = _Compiler(b"ptx", b"cubin")
    monkeypatch.setattr(nvrtc, "_loaded", lambda: (api, version, (80, 90)))
    monkeypatch.setattr(nvrtc, "_read", lambda api, _, what: api.outputs[what])
    build(SCALE, "sm_90", cache=None)
    assert (b"--no-cache" in api.options) == off
    assert b"--gpu-architecture=sm_90" in api.options


@needs_nvrtc
def test_a_second_build_tells_its_resources_too() -> None:
    first, second = (build(SCALE, "sm_80", cache=None) for _ in range(2))
    assert first.resources == second.resources != {}


# --- reading ptxas's log ------------------------------------------------------------------

_PTX = ".visible .entry gemm(\n.entry helper_kernel(\n"
_LOG = """ptxas info    : Compiling entry function 'gemm' for 'sm_90'
ptxas info    : Function properties for gemm
{prefix}    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 168 registers{barriers}, 16 bytes cumulative stack size, {shared}
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : Compiling entry function 'helper_kernel' for 'sm_90'
ptxas info    : Function properties for helper_kernel
{prefix}    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers{barriers}
"""


@pytest.mark.parametrize("prefix", ["ptxas         .", ""])
@pytest.mark.parametrize("barriers", ["", ", used 1 barriers"])
@pytest.mark.parametrize("shared", ["128 bytes smem, 360 bytes cmem[0]", "96+32 bytes smem"])
def test_the_log_is_read_in_all_its_styles(prefix: str, barriers: str, shared: str) -> None:
    log = _LOG.format(prefix=prefix, barriers=barriers, shared=shared)
    assert nvrtc.resources_of("k.cu", _PTX, log) == {
        "gemm": Resources(168, 20, 16, 128),
        "helper_kernel": Resources(8, 0, 0, 0),
    }


def test_spills_of_a_function_that_was_not_inlined_are_not_overlooked() -> None:
    log = _LOG.format(prefix="", barriers="", shared="0 bytes smem") + (
        "ptxas info    : Function properties for _Z1fPii\n"
        "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
    )
    found = nvrtc.resources_of("k.cu", _PTX, log)
    assert [found[name].spill_bytes for name in ("gemm", "helper_kernel")] == [28, 8]


@needs_nvrtc
def test_a_kernel_without_figures_is_an_error() -> None:
    with pytest.raises(ToolchainError, match="did not report the registers of gemm"):
        nvrtc.resources_of("k.cu", _PTX, "ptxas info : nothing of use\n")


def test_file_lines_of_windows_and_of_other_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    ptx = (
        '\t.file\t1 "C:\\\\work\\\\hgemm\\\\k.cu"\n\t.file\t2 "/w/ptx/mma.cuh", 17, 4\n'
        '\t.file\t3 "/w/other.h"\n\t.file\t4 "/usr/include/x.h"\n.loc 1 2 3 "/w/ptx/mma.cuh"\n'
    )
    monkeypatch.setattr(os, "getcwd", lambda: "/w")
    assert nvrtc.relative_files(ptx, ["k.cu", "hgemm/k.cu", "mma.cuh", "ptx/mma.cuh"]) == (
        '\t.file\t1 "hgemm/k.cu"\n\t.file\t2 "ptx/mma.cuh", 17, 4\n'
        '\t.file\t3 "other.h"\n\t.file\t4 "/usr/include/x.h"\n.loc 1 2 3 "/w/ptx/mma.cuh"\n'
    )

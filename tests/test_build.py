"""Source → Artifact. Those that compile run wherever NVRTC is installed: no GPU, no driver."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tilewright import nvrtc
from tilewright.build import Artifact, Source, build, headers, key
from tilewright.cache import Cache
from tilewright.errors import CompileError, InputError

PACKAGE = Path(tilewright.__file__).parent

needs_nvrtc = pytest.mark.usefixtures("compiler")

SCALE = Source(
    "mine/scale.cu",
    'extern "C" __global__ void gemm(float* x) { x[threadIdx.x] *= FACTOR; }\n',
    (("FACTOR", "3"),),
)
RUNG = Source(
    "hgemm/10_hgemm_naive.cu",
    (PACKAGE / "ladder/hgemm/10_hgemm_naive.cu").read_text(encoding="utf-8"),
    (
        ("BM", "128"),
        ("BN", "128"),
        ("BK", "32"),
        ("ELEMENT", "bf16"),
        ("SMEM_BYTES", "16384"),
        ("GEMM_ARGS_BYTES", "40"),
    ),
)


# --- what the nouns refuse ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "must be a file name"),
        ({"name": 'a".cu'}, "must be a file name"),
        ({"name": "a\n.cu"}, "must be a file name"),
        ({"defines": (("B M", "1"),)}, "'B M' is not the name of a macro"),
        ({"defines": (("BM=1", ""),)}, "is not the name of a macro"),
        ({"defines": (("BM", "1"), ("BM", "2"))}, "BM is given twice"),
    ],
)
def test_a_source_that_no_compiler_accepts(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(SCALE, **change)


@pytest.mark.parametrize("arch", ["", "90", "compute_90", "sm_9", "sm_90x", "sm_90\n", "sm_90 -G"])
def test_an_arch_that_is_none(arch: str) -> None:
    with pytest.raises(InputError, match='must look like "sm_90"'):
        build(SCALE, arch, cache=None)


# --- the key ------------------------------------------------------------------------------


def test_the_key_depends_on_all_that_decides_the_result() -> None:
    base = key(SCALE, "sm_90", "NVRTC 13.5.37")
    assert re.fullmatch("[0-9a-f]{64}", base)
    assert base == key(replace(SCALE), "sm_90", "NVRTC 13.5.37")
    others = [
        key(SCALE, "sm_90a", "NVRTC 13.5.37"),
        key(SCALE, "sm_90", "NVRTC 13.5.38"),
        key(replace(SCALE, text=SCALE.text + " "), "sm_90", "NVRTC 13.5.37"),
        key(replace(SCALE, name="mine/other.cu"), "sm_90", "NVRTC 13.5.37"),
        key(replace(SCALE, defines=(("FACTOR", "4"),)), "sm_90", "NVRTC 13.5.37"),
        key(replace(SCALE, defines=()), "sm_90", "NVRTC 13.5.37"),
        key(replace(SCALE, defines=(("FACTO", "R3"),)), "sm_90", "NVRTC 13.5.37"),
    ]
    assert len({base, *others}) == len(others) + 1


def test_the_order_of_macros_does_not_matter() -> None:
    turned = replace(RUNG, defines=RUNG.defines[::-1])
    assert key(turned, "sm_90", "c") == key(RUNG, "sm_90", "c")


@pytest.mark.parametrize("part", ["_OPTIONS", "_SCHEMA"])
def test_the_key_depends_on_options_and_schema(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    module = importlib.import_module("tilewright.build")
    base = key(SCALE, "sm_90", "c")
    monkeypatch.setattr(module, part, "another")
    assert key(SCALE, "sm_90", "c") != base


def test_the_key_depends_on_the_packages_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("tilewright.build")
    base = key(SCALE, "sm_90", "c")
    edited = dict(headers()) | {"ptx/mma.cuh": headers()["ptx/mma.cuh"] + "\n"}
    module._headers_digest.cache_clear()
    monkeypatch.setattr(module, "headers", lambda: edited)
    assert key(SCALE, "sm_90", "c") != base
    module._headers_digest.cache_clear()


def _with_headers(folder: Path) -> Source:
    (folder / "deep").mkdir(parents=True)
    (folder / "top.cuh").write_text('#pragma once\n#  include "deep/middle.cuh"\n')
    (folder / "deep" / "middle.cuh").write_text('#include "leaf.cuh"\n#include <leaf.cuh>\n')
    (folder / "deep" / "leaf.cuh").write_text("#pragma once\n#define LEAF 5\n")
    (folder / "unused.cuh").write_text("")
    text = (
        '#include "top.cuh"\n#if __has_include("extra.cuh")\n#define MORE 1\n#else\n'
        '#define MORE 0\n#endif\nextern "C" __global__ void gemm(int* x) { *x = LEAF + MORE; }\n'
    )
    return Source("k.cu", text, include_path=(str(folder),))


def test_a_users_headers_count_by_contents(tmp_path: Path) -> None:
    source = _with_headers(tmp_path / "a")
    base = key(source, "sm_90", "c")
    elsewhere = _with_headers(tmp_path / "b")
    assert key(elsewhere, "sm_90", "c") == base, "where the folder lies must not matter"
    for path in (tmp_path / "a").rglob("*.cuh"):
        os.utime(path, (1, 1))
    (tmp_path / "a" / "unused.cuh").write_text("edited")
    assert key(source, "sm_90", "c") == base, "neither may times or files that are not reached"
    for name in ("top.cuh", "deep/middle.cuh", "deep/leaf.cuh"):
        path = tmp_path / "a" / name
        before = path.read_text()
        path.write_text(before + "// edited\n")
        assert key(source, "sm_90", "c") != base, name
        path.write_text(before)
    (tmp_path / "a" / "extra.cuh").write_text("")
    assert key(source, "sm_90", "c") != base, "a file that appeared"


def test_headers_named_by_macros_count(tmp_path: Path) -> None:
    (tmp_path / "h.cuh").write_text("#define X 1\n")
    folder = (str(tmp_path),)
    sources = [
        Source("k.cu", '#define H "h.cuh"\n#include H\n', include_path=folder),
        Source("k.cu", "#include H\n", (("H", '"h.cuh"'),), folder),
        Source("k.cu", "#include H\n", (("H", "<h.cuh>"),), folder),
        Source("k.cu", f'#include "{tmp_path.as_posix()}/h.cuh"\n'),
    ]
    before = [key(source, "sm_90", "c") for source in sources]
    (tmp_path / "h.cuh").write_text("#define X 2\n")
    after = [key(source, "sm_90", "c") for source in sources]
    assert all(a != b for a, b in zip(before, after, strict=True))


def test_unreadable_include_folders_are_the_compilers_to_refuse(tmp_path: Path) -> None:
    source = Source("k.cu", '#include "k\0.cuh"\n', include_path=(str(tmp_path / "none"), "\0"))
    assert re.fullmatch("[0-9a-f]{64}", key(source, "sm_90", "c"))


# --- the package's headers ----------------------------------------------------------------


def test_headers_are_read_by_include_name_and_need_nothing_else() -> None:
    assert {"ptx/mma.cuh", "tile/gemm_args.cuh"} <= set(headers())
    for name, text in headers().items():
        for included in re.findall(r"^\s*#\s*include\s*(\S+)", text, re.MULTILINE):
            assert included.strip('"') in headers(), f"{name} includes {included}"
            assert included.startswith('"'), f"{name} includes a system header, {included}"


# --- compiling ----------------------------------------------------------------------------


@needs_nvrtc
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120"])
def test_a_rung_compiles_for_each_arch_with_ptx_cubin_and_resources(arch: str) -> None:
    if int(re.sub(r"\D", "", arch)) not in nvrtc.archs():
        pytest.skip(f"{nvrtc.compiler()} does not know {arch}")
    made = build(RUNG, arch)
    assert re.search(rf"^\.target {arch}\b", made.ptx, re.MULTILINE)
    assert ".entry gemm(" in made.ptx
    assert made.cubin.startswith(b"\x7fELF")
    assert list(made.resources) == ["gemm"]
    assert 32 <= made.resources["gemm"].registers <= 255
    assert made.resources["gemm"].static_shared_bytes == 0
    assert (made.name, made.arch, made.compiler) == (RUNG.name, arch, nvrtc.compiler())
    assert made.key == key(RUNG, arch, nvrtc.compiler())
    assert "ptxas info" in made.log


def _files(made: Artifact) -> list[str]:
    return re.findall(r'^\s*\.file\s+\d+\s+"([^"]*)"', made.ptx, re.MULTILINE)


@needs_nvrtc
def test_the_ptx_is_the_same_from_any_folder_and_names_files_by_include_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = build(RUNG, "sm_90", cache=None)
    (tmp_path / "hgemm" / "ptx").mkdir(parents=True)
    (tmp_path / "ptx").mkdir()
    for shadow in ("ptx/mma.cuh", "hgemm/ptx/mma.cuh"):
        (tmp_path / shadow).write_text("#error a file of the working folder was taken\n")
    monkeypatch.chdir(tmp_path)
    there = build(RUNG, "sm_90", cache=None)
    assert there.ptx == here.ptx
    assert set(_files(here)) <= {RUNG.name, *headers()}
    assert {RUNG.name, "ptx/mma.cuh"} <= set(_files(here))
    assert str(Path.cwd()) not in there.ptx


@needs_nvrtc
def test_a_users_headers_are_found_and_named_by_include_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '#include "deep/twice.cuh"\nextern "C" __global__ void gemm(int* x) { *x = twice(*x); }'
    body = "__device__ int once(int x) { return x * VALUE; }\n"
    for folder in ("a", "b"):
        (tmp_path / folder / "deep").mkdir(parents=True)
        (tmp_path / folder / "deep" / "once.cuh").write_text(body)
        (tmp_path / folder / "deep" / "twice.cuh").write_text(
            '#include "once.cuh"\n__device__ int twice(int x) { return once(x) + once(x + 1); }\n'
        )
    monkeypatch.chdir(tmp_path)
    sources = [
        Source("k.cu", text, (("VALUE", "7"),), (str(folder),)) for folder in (tmp_path / "a", "b")
    ]
    first, second = (build(source, "sm_80", cache=None) for source in sources)
    assert first.ptx == second.ptx
    assert "deep/twice.cuh" in _files(first)
    assert all("/" not in name or name.startswith("deep/") for name in _files(first))


@needs_nvrtc
def test_a_file_beside_the_source_is_not_taken_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h.cuh").write_text("")
    monkeypatch.chdir(tmp_path)
    source = Source("k.cu", '#include "h.cuh"\n__global__ void gemm() {}\n')
    with pytest.raises(CompileError, match=r"h\.cuh"):
        build(source, "sm_80", cache=None)
    assert build(replace(source, include_path=(".",)), "sm_80", cache=None).cubin


@needs_nvrtc
def test_editing_a_users_header_is_seen(tmp_path: Path) -> None:
    source = _with_headers(tmp_path / "inc")
    store = Cache(tmp_path / "cache")
    first = build(source, "sm_80", cache=store)
    assert build(source, "sm_80", cache=store) is first
    (tmp_path / "inc" / "deep" / "leaf.cuh").write_text("#pragma once\n#define LEAF 77\n")
    second = build(source, "sm_80", cache=store)
    assert second.ptx != first.ptx
    assert len(store.entries()) == 2


@needs_nvrtc
def test_kernels_are_found_by_name_mangled_ones_too() -> None:
    text = """
    __device__ __noinline__ int helper(int* x, int n) { return x[n] + x[n * 3]; }
    template <class T> __global__ void fill(T* x) { *x = 2; }
    template __global__ void fill<int>(int*);
    extern "C" __global__ void gemm(int* x) {
      __shared__ int s[96];
      s[threadIdx.x] = helper(x, *x);
      __syncthreads();
      *x = s[threadIdx.x ^ 3];
    }
    """
    made = build(Source("two.cu", text), "sm_80", cache=None)
    assert set(made.resources) == {"gemm", "_Z4fillIiEvPT_"}
    assert made.resources["gemm"].static_shared_bytes == 384
    assert made.resources["gemm"].spill_bytes == 0


@needs_nvrtc
def test_spills_and_stack_are_seen() -> None:
    text = """extern "C" __global__ __launch_bounds__(1024, 2) void gemm(float* p) {
      float a[64];
      #pragma unroll
      for (int i = 0; i < 64; i++) a[i] = p[i * 32];
      __syncthreads();
      #pragma unroll
      for (int i = 0; i < 64; i++) p[i * 33] = a[i] * a[(i * 7) % 64];
    }"""
    found = build(Source("spill.cu", text), "sm_80", cache=None).resources["gemm"]
    assert found.registers <= 32
    assert found.spill_bytes > 100
    assert found.stack_bytes > 0


# --- many processes, poor surroundings ----------------------------------------------------


@needs_nvrtc
def test_a_failed_build_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    for _ in range(2):
        with pytest.raises(CompileError):
            build(Source("k.cu", "int"), "sm_80", cache=store)
    assert list(tmp_path.iterdir()) == []


_BUILDER = """
import hashlib, json, sys, time, pathlib
from tilewright.build import Source, build
go = pathlib.Path(sys.argv[1])
while not go.exists():
    time.sleep(0.001)
made = [build(Source(**json.loads(text)), "sm_80") for text in sys.argv[2:]]
print(json.dumps([[m.key, hashlib.sha256(m.ptx.encode()).hexdigest(), len(m.cubin)] for m in made]))
"""


def _run_builder(go: Path, env: dict[str, str], cwd: Path) -> subprocess.Popen[str]:
    texts = [
        json.dumps({"name": s.name, "text": s.text, "defines": s.defines}) for s in (SCALE, RUNG)
    ]
    return subprocess.Popen(
        [sys.executable, "-c", _BUILDER, str(go), *texts],
        env=env | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@needs_nvrtc
def test_eight_processes_on_a_cold_shared_cache(tmp_path: Path) -> None:
    root, go = tmp_path / "not" / "there yet", tmp_path / "go"
    env = os.environ | {"TILEWRIGHT_CACHE_DIR": str(root)}
    runs = [_run_builder(go, env, tmp_path) for _ in range(8)]
    go.touch()
    outputs = [run.communicate(timeout=120) for run in runs]
    assert [(run.returncode, err) for run, (_, err) in zip(runs, outputs, strict=True)] == [
        (0, "")
    ] * 8
    results = [json.loads(out) for out, _ in outputs]
    assert all(result == results[0] for result in results)
    store = Cache(root)
    assert sorted(path.name for path in root.iterdir()) == sorted(
        f"{made[0]}.tilewright" for made in results[0]
    )
    for digest, _, _ in results[0]:
        assert store.get(digest) is not None


@needs_nvrtc
@pytest.mark.parametrize("cache", ["/proc/nothing/here", ""])
def test_neither_tools_nor_home_nor_a_folder_are_needed(tmp_path: Path, cache: str) -> None:
    """No nvcc or gcc on the path, no HOME, a CUDA_HOME that came from a careless prepend."""
    go = tmp_path / "go"
    go.touch()
    keep = {k: v for k, v in os.environ.items() if k in ("LD_LIBRARY_PATH", "SYSTEMROOT")}
    env = keep | {"PATH": "", "CUDA_HOME": ":/usr/local/cuda", "TILEWRIGHT_CACHE_DIR": cache}
    env["XDG_CACHE_HOME"] = str(tmp_path / "xdg")  # without HOME the user's real one would do
    run = _run_builder(go, env, tmp_path)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert len(json.loads(out)) == 2
    assert err.count("TILEWRIGHT_CACHE_DIR") == (1 if cache else 0)
    assert "Traceback" not in err


@needs_nvrtc
def test_losing_the_rename_keeps_the_own_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    store = Cache(tmp_path)
    made = build(SCALE, "sm_80", cache=store)
    assert build(SCALE, "sm_80", cache=store) is made
    assert list(tmp_path.iterdir()) == []


@needs_nvrtc
def test_a_damaged_entry_is_built_again(tmp_path: Path) -> None:
    made = build(SCALE, "sm_80", cache=Cache(tmp_path))
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    again = build(SCALE, "sm_80", cache=Cache(tmp_path))
    assert (again.ptx, again.cubin) == (made.ptx, made.cubin)
    assert Cache(tmp_path).get(made.key) == again


def test_the_tests_keep_out_of_the_users_cache(shared_cache: Path) -> None:
    from tilewright.cache import default_cache

    assert default_cache().root == shared_cache

"""A whole kernel around wgmma: roles, a ring with mbarriers, setmaxnreg, named barriers, elect.

Right as it is under every schedule; each mutant leaves out or misplaces one thing.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.build import Source, build
from tilewright.engines.emulator import EmulatorEngine
from tilewright.gpus import GPUS
from tilewright.launch import Launch

pytestmark = pytest.mark.usefixtures("compiler")

Array = np.ndarray[Any, Any]

FILE = Path(__file__).with_name("wgmma_ring.cu")


@cache
def source(columns: int) -> str:
    """The kernel for tiles of 128 × columns."""
    count = columns // 2
    d = ", ".join(f"%{i}" for i in range(count))
    outs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    mma = (
        f'asm volatile("wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 {{{d}}}, '
        f'%{count}, %{count + 1}, 1, 1, 1, 0, 0;" : {outs} : "l"(a), "l"(b));'
    )
    text = FILE.read_text(encoding="utf-8").replace("MMA }", f"{mma} }}")
    return f"#define BN {columns}\n{text}"


def shared_bytes(columns: int) -> int:
    return 3 * (128 + columns) * 64 * 2 + 48


def operands(m: int, n: int, k: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(m + n + k)
    a = rng.standard_normal((m, k)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((n, k)).astype(ml_dtypes.bfloat16)
    return a, b, np.full((m, n), np.nan, ml_dtypes.bfloat16)


def run(text: str, k: int = 448, **how: Any) -> tuple[bool, Any]:
    """Whether C [256, 128] is right, and the report."""
    a, b, c = operands(256, 128, k)
    report = tilewright.emulate(
        text, "gemm", (2, 2), (384,), [a, b, c, 128, k],
        arch="sm_90a", shared_bytes=shared_bytes(64), **how,
    )  # fmt: skip
    want = a.astype("f8") @ b.astype("f8").T
    error = np.linalg.norm(c.astype("f8") - want) / np.linalg.norm(want)
    return bool(error < 3e-3), report


@pytest.mark.parametrize("k", [64, 128, 192, 256, 448])
def test_the_kernel_is_right(k: int) -> None:
    right, report = run(source(64), k)
    assert report.findings == []
    assert right


@pytest.mark.parametrize("seed", range(3))
def test_in_another_order_too(seed: int) -> None:
    right, report = run(source(64), schedule="random", seed=seed)
    assert report.findings == []
    assert right


WAIT_1 = 'asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");'
WAIT_0 = 'asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");'
FREE = "if (step > 0 && t < 32 && elected()) arrive(&s.empty[(step - 1) % STAGES]);"
FULL = "wait(&s.full[slot], phase);"
MUTANTS = {  # what to replace, by what, and what must be found
    "no fence": (
        'asm volatile("wgmma.fence.sync.aligned;" ::: "memory");',
        "",
        "wgmma-fence",
    ),
    "no commit": (
        'asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");',
        "",
        "wgmma-registers",
    ),
    "no last wait": (WAIT_0, "", "wgmma-registers"),
    "one group left": (WAIT_0, WAIT_1, "wgmma-registers"),
    "no wait in the loop": (WAIT_1, "", "race"),
    "freed before the wait": (FREE, "if (t < 32 && elected()) arrive(&s.empty[slot]);", "race"),
    "never freed": (FREE, "", "deadlock"),
    "not waited for empty": ("wait(&s.empty[slot], phase ^ 1);", "", "deadlock"),
    "not waited for full": (FULL, "", "uninitialised"),
    "no fence of the proxies": (
        'asm volatile("fence.proxy.async;" ::: "memory");',
        "",
        "proxy-fence",
    ),
    "one warp goes ahead": (FULL, f"if (t < 96) {FULL}", "race"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants(name: str) -> None:
    old, new, kind = MUTANTS[name]
    text = source(64)
    assert text.count(old) == 1
    _, report = run(text.replace(old, new))
    assert kind in {finding.kind for finding in report.findings}


def test_a_wrong_step_along_k_shows_in_the_result() -> None:
    right, report = run(source(64).replace("b + 2 * k", "b + 4 * k"))
    assert not right
    assert report.completed


# --- speed ------------------------------------------------------------------------------


def seconds(extent: int, times: int) -> float:
    """CPU time of the best of several launches, the first of which compiles the PTX."""
    engine = EmulatorEngine(GPUS["h200"])
    a, b, c = operands(extent, extent, extent)
    artifact = build(Source("wgmma_ring.cu", source(256)), "sm_90a")
    buffers = [engine.upload(each) for each in (a, b, c)]
    params = [np.uint64(buffer.address).tobytes() for buffer in buffers]
    params += [np.int32(extent).tobytes()] * 2
    grid = (extent // 256, extent // 128, 1)
    launch = Launch(artifact, "gemm", grid, (384, 1, 1), tuple(params), shared_bytes(256))
    took = []
    for _ in range(1 + times):
        start = time.process_time()
        assert engine.launch(launch).findings == []
        took.append(time.process_time() - start)
    want = a.astype("f4") @ b.astype("f4").T
    error = np.linalg.norm(engine.download(buffers[2]).astype("f4") - want)
    assert error < 3e-3 * np.linalg.norm(want)
    return min(took[1:])


def test_256_cubed() -> None:
    assert seconds(256, times=3) <= 0.3


def test_1024_cubed() -> None:
    assert seconds(1024, times=1) <= 3

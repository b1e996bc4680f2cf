"""A Hopper GEMM whole: TMA, multicast, a ring, wgmma, TMA stores; what is missing is found."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.build import Source, build
from tilewright.engines.emulator import EmulatorEngine
from tilewright.gpus import GPUS
from tilewright.launch import Launch
from tilewright.tensormap import tiled

HERE = Path(__file__).parent
pytestmark = pytest.mark.usefixtures("compiler")


@cache
def source(bn: int) -> str:
    """The kernel with the multiplication for this extent of N."""
    count = bn // 2
    into = ", ".join(f"%{i}" for i in range(count))
    sums = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    opcode = f"wgmma.mma_async.sync.aligned.m64n{bn}k16.f32.f16.f16"
    mma = (
        f'asm volatile("{opcode} {{{into}}}, %{count}, %{count + 1}, 1, 1, 1, 0, 0;" '
        f': {sums} : "l"(a), "l"(b));'
    )
    return (HERE / "hopper_gemm.cu").read_text().replace("MMA", mma)


def gemm(
    text: str, m: int, n: int, k: int, bn: int = 128, peers: int = 2, **how: Any
) -> tuple[float, Any]:
    """The relative error and the report."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((rows, k)).astype("f2") for rows in (m, n))
    c = np.full((m, n), np.nan, "f4")
    maps = [tiled(a, (128, 64), swizzle="128B"), tiled(b, (bn // peers, 64), swizzle="128B"),
            tiled(c, (64, 32))]  # fmt: skip
    stages = 3 * (128 + bn) * 64 * 2
    report = tilewright.emulate(
        text, "gemm", (n // bn, m // 128), 384, [*maps, np.int32(k)], cluster=(1, peers),
        shared_bytes=stages + 2 * 64 * 32 * 4 + 1024, arch="sm_90a",
        defines={"BN": bn, "PEERS": peers}, include_path=[str(HERE)], **how,
    )  # fmt: skip
    want = a.astype("f4") @ b.astype("f4").T
    return float(np.linalg.norm(c - want) / np.linalg.norm(want)), report


def mutant(name: str, instead: str) -> str:
    head, mark, rest = source(128).partition(f"/*{name}*/")
    assert mark
    return head + instead + rest.partition("/**/")[2]


@pytest.mark.parametrize("peers", [1, 2])
@pytest.mark.parametrize("how", [{}, *({"schedule": "random", "seed": s} for s in range(3))])
def test_the_kernel_is_right(peers: int, how: dict[str, Any]) -> None:
    error, report = gemm(source(128), 256, 256, 320, peers=peers, **how)
    assert report.findings == []
    assert error < 1e-6


@pytest.mark.parametrize(
    ("name", "instead", "expected"),
    [
        ("inited", "", {"proxy-fence"}),
        ("known", "__syncthreads();", {"race"}),
        ("empty", "", {"race"}),
        ("full", "", {"race"}),
        ("done", "", {"race", "wgmma-registers"}),
        ("free", "", {"deadlock"}),
        ("free", "if (t % 128 == 0) arrive(&s.empty[q]);", {"deadlock"}),
        ("proxy", "", {"proxy-fence"}),
        ("read", "", {"race"}),
        ("last", "", {"ended-peer"}),
    ],
)
def test_what_it_needs(name: str, instead: str, expected: set[str]) -> None:
    _, report = gemm(mutant(name, instead), 256, 128, 320)
    found = {finding.kind for finding in report.findings}
    assert expected & found, report.findings


def test_what_multicast_saves_of_the_traffic() -> None:
    _, alone = gemm(source(128), 256, 128, 128, peers=1)
    _, both = gemm(source(128), 256, 128, 128)
    assert alone.totals["bulk_load_bytes"] == 2 * (128 + 128) * 128 * 2
    assert both.totals["multicast_bytes"] == 128 * 128 * 2
    assert alone.totals["bulk_load_bytes"] - both.totals["bulk_load_bytes"] == 128 * 128 * 2
    assert alone.l2_requests_per_block > both.l2_requests_per_block
    assert both.totals["bank_conflicts"] > 0  # of the plain tile of C


# --- speed ------------------------------------------------------------------------------


def seconds(extent: int, times: int) -> float:
    """CPU time of the best of several launches by an engine, the first of which compiles PTX."""
    engine, bn, peers = EmulatorEngine(GPUS["h200"]), 256, 2
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((extent, extent)).astype("f2") for _ in range(2))
    out = engine.empty((extent, extent), np.dtype("f4"))
    arrays = [(a, (128, 64), "128B"), (b, (bn // peers, 64), "128B"), (out.array, (64, 32), "none")]
    where = [engine.upload(a).address, engine.upload(b).address, out.address]
    params = [
        engine.encode(tiled(array, box, swizzle=swizzle).at(address))
        for (array, box, swizzle), address in zip(arrays, where, strict=True)
    ]
    params.append(np.int32(extent).tobytes())
    text = source(bn).replace('#include "hopper.cuh"', (HERE / "hopper.cuh").read_text())
    defines = (("BN", str(bn)), ("PEERS", str(peers)))
    artifact = build(Source("hopper_gemm.cu", text, defines), "sm_90a")
    shared = 3 * (128 + bn) * 64 * 2 + 2 * 64 * 32 * 4 + 1024
    grid = (extent // bn, extent // 128, 1)
    launch = Launch(artifact, "gemm", grid, (384, 1, 1), tuple(params), shared, (1, peers, 1))
    took = []
    for _ in range(1 + times):
        start = time.process_time()
        assert engine.launch(launch).findings == []
        took.append(time.process_time() - start)
    want = a.astype("f4") @ b.astype("f4").T
    assert np.linalg.norm(engine.download(out) - want) < 1e-6 * np.linalg.norm(want)
    return min(took[1:])


def test_256_cubed() -> None:
    assert seconds(256, times=3) <= 0.3


def test_1024_cubed() -> None:
    assert seconds(1024, times=1) <= 3

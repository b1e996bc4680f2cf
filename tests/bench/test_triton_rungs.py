"""The triton family on a GPU: bound like a peer, on a fake GPU with a fake Triton."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.bench import triton_rungs
from tilewright.bench.inputs import logical
from tilewright.bench.ladder import climb
from tilewright.bench.peers import found_peers
from tilewright.bench.record import parse_line, to_line
from tilewright.bench.rung_code import hash_of
from tilewright.bench.suite_run import Plan, measure_suites
from tilewright.bench.suites import parse_shapes
from tilewright.bench.torch_peers import OurTorch
from tilewright.bench.triton_rungs import BEST, TritonPeer, tile_of
from tilewright.dtypes import BF16
from tilewright.engines import probe
from tilewright.errors import EngineError, ToolchainError
from tilewright.ladder.python_rungs import TRITON, TritonRung
from tilewright.ladder.rungs import RUNGS, select

SHAPE = {"m": 128, "n": 256, "k": 64}
CHOICE = {"BLOCK_M": 64, "num_warps": 4, "maxnreg": None}


class FakeOurTorch:
    """The engine's own arrays as tensors."""

    version = "2.11.0"

    def __init__(self, engine: Any) -> None:
        self.engine = engine

    @contextmanager
    def stream(self) -> Iterator[None]:
        yield

    def matrices(self, buffers: tuple[Sequence[Any], ...], problem: Any) -> tuple[Any, ...]:
        stored = [[buffer.array for buffer in each] for each in buffers]
        pairs = [logical(problem, a, b) for a, b in zip(stored[0], stored[1], strict=True)]
        return [a for a, _ in pairs], [b for _, b in pairs], stored[2]


@pytest.fixture
def triton(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The fake GPU, on which a Triton that computes in NumPy is installed."""
    monkeypatch.setattr(triton_rungs, "OurTorch", FakeOurTorch)
    monkeypatch.setattr(TritonRung, "missing", lambda rung: None)
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="3.6.0"))
    for rung in TRITON:
        monkeypatch.setitem(vars(rung), "gemm", computing(gpu, rung.name))
        best = SimpleNamespace(all_kwargs=lambda: CHOICE)
        module = SimpleNamespace(matmul=SimpleNamespace(best_config=best))
        monkeypatch.setitem(vars(rung), "module", module)
    return gpu


def computing(gpu: Any, name: str) -> Any:
    def gemm(a: Any, b: Any, c: Any) -> None:
        def compute() -> None:
            c[...] = (a.astype(np.float32) @ b.astype(np.float32)).astype(c.dtype)

        gpu.spend(name, compute)

    return gemm


def test_a_triton_rung_is_timed_beside_the_peers(
    triton: Any, times_us: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(times_us, "triton_autotune", 44.0)
    names = ["hgemm_naive", "triton_autotune"]
    ladder = climb(rungs=names, **SHAPE)  # type: ignore[arg-type]
    assert [row.name for row in ladder] == ["torch", *names]
    row = ladder["triton_autotune"]
    assert (row.engine, row.family, row.status, row.rival) == ("gpu", "triton", "ok", "torch")
    assert row.us == pytest.approx(44)
    assert row.speedup == pytest.approx(40 / 44)
    assert (row.registers, row.shared_bytes, row.intensity) == (None,) * 3
    line = ladder.measurements[-1]
    assert line.name == "triton_autotune"
    assert line.source_hash == hash_of(RUNGS["triton_autotune"])
    assert line.method.startswith("graph replay, ")
    assert line.method.endswith(
        ", triton_autotune, Triton 3.6.0, torch 2.11.0, BLOCK_M=64 num_warps=4"
    )
    assert line.gpu == "NVIDIA H200"
    assert parse_line(to_line(line)) == line
    assert "triton_autotune" in str(ladder)


def test_in_a_suite_too_in_any_layout(triton: Any) -> None:
    shapes = tuple(("shape", shape) for shape in parse_shapes(["128x256x64", "24x40x16:tt"]))
    plan = Plan(shapes, BF16, tuple(select(None, ("triton_basic",))))
    run = measure_suites(triton, plan, lambda *told: None, lambda lines: None)
    assert [(row.name, row.status) for row in run.rows] == [
        ("torch", "ok"), ("triton_basic", "ok"),
    ] * 2  # fmt: skip
    assert run.rows[1].version == "triton_basic, Triton 3.6.0, torch 2.11.0, BLOCK_M=64 num_warps=4"
    assert run.rows[3].layout == "tt"


def test_one_that_fails_is_skipped_and_the_others_run(
    triton: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(a: Any, b: Any, c: Any) -> None:
        raise RuntimeError("ptxas died\nof old age")

    monkeypatch.setitem(vars(TRITON[0]), "gemm", fail)
    rows = {row.name: row for row in climb("triton", **SHAPE)}  # type: ignore[arg-type]
    said = "triton_basic failed: RuntimeError: ptxas died"
    assert (rows["triton_basic"].status, rows["triton_basic"].reason) == ("skipped", said)
    assert rows["triton_autotune"].status == rows["triton_persistent"].status == "ok"
    shapes = tuple(("shape", shape) for shape in parse_shapes(["128x256x64"]))
    plan = Plan(shapes, BF16, tuple(select(None, ("triton_basic",))))
    run = measure_suites(triton, plan, lambda *told: None, lambda lines: None)
    assert [(row.name, row.reason) for row in run.rows if row.status == "skipped"] == [
        ("triton_basic", said)
    ]


def test_where_triton_is_missing_the_contest_goes_on(
    gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TritonRung, "missing", lambda rung: "pip install triton.")
    every = climb(every_family=True, **SHAPE)  # type: ignore[arg-type]
    status = {row.family: row.status for row in every}
    assert status == {"peer": "ok", "hgemm": "ok", "simt": "ok", "cpu": "ok", "triton": "skipped"}
    assert every["triton_basic"].engine == "gpu"
    with pytest.raises(ToolchainError, match="pip install triton"):
        climb(rungs="triton_basic", **SHAPE)  # type: ignore[arg-type]


def test_the_peer_is_the_last_rung(triton: Any) -> None:
    peers, reasons = found_peers(triton, BF16, ["triton"])
    assert ([peer.name for peer in peers], reasons) == (["triton"], [])
    a, b = (triton.upload(np.ones((32, 32), BF16.numpy())) for _ in range(2))
    c = triton.empty((32, 32), BF16.numpy())
    triton.poisoned = True
    bound = peers[0].bind([a], [b], [c], SimpleNamespace(m=32, n=32, k=32, layout="nn", dtype=BF16))
    assert bound.version.startswith(f"{BEST.name}, Triton 3.6.0, ")
    assert (triton.download(c).astype(np.float32) == 32).all()


def test_the_peer_says_why_it_is_left_out(triton: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert found_peers(triton, BF16, ["triton"]) == (
        [],
        ["triton is left out: TRITON_INTERPRET is set, and would run it on the CPU; unset it."],
    )
    monkeypatch.setattr(TritonRung, "missing", lambda rung: "pip install triton.")
    with pytest.raises(EngineError, match="pip install triton"):
        TritonPeer(triton)


def test_the_numbers_of_a_fixed_tile(triton: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tile = {"BLOCK_M": 128, "num_warps": 8}
    monkeypatch.setitem(vars(TRITON[0]), "module", SimpleNamespace(TILE=tile))
    assert tile_of(TRITON[0]) == "BLOCK_M=128 num_warps=8"


# --- On a GPU -----------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))
@pytest.mark.parametrize("rung", TRITON, ids=lambda rung: rung.name)
def test_a_rung_can_be_captured(rung: TritonRung) -> None:
    from tilewright.engines.gpu import GpuEngine

    if why := rung.missing():
        pytest.skip(why)
    engine = GpuEngine()
    importlib.import_module("torch")
    assert OurTorch(engine).version
    a, b = (engine.upload(np.ones((130, 130), BF16.numpy())) for _ in range(2))
    c = engine.empty((130, 130), BF16.numpy())
    problem: Any = SimpleNamespace(m=130, n=130, k=130, layout="nn", dtype=BF16)
    bound = TritonPeer(engine, rung, rung.name).bind([a], [b], [c], problem)
    engine.refill(c)
    engine.capture(lambda: bound.enqueue(0)).replay()
    assert (engine.download(c).astype(np.float32) == 130).all()

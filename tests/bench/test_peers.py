from __future__ import annotations

import ctypes.util
import importlib
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tilewright import dtypes
from tilewright.bench import peers
from tilewright.dtypes import BF16, FP16, FP32, DType
from tilewright.engines import probe
from tilewright.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

M, N, K = 48, 80, 112


@dataclass(frozen=True)
class Problem:
    m: int = M
    n: int = N
    k: int = K
    layout: str = "nn"
    dtype: DType = FP16


def operands(layout: str, dtype: DType) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """A and B as they lie in memory."""
    rng = np.random.default_rng(5)
    shapes = peers.stored_shapes(Problem(layout=layout, dtype=dtype))
    a, b = (rng.standard_normal(shape).astype(dtype.numpy()) for shape in shapes[:2])
    return a, b


def product(a: npt.NDArray[Any], b: npt.NDArray[Any], layout: str) -> npt.NDArray[np.float64]:
    left, right = a.astype(np.float64), b.astype(np.float64)
    result = (left.T if layout[0] == "t" else left) @ (right.T if layout[1] == "t" else right)
    return np.asarray(result)


def test_an_unknown_layout_raises() -> None:
    with pytest.raises(InputError, match="layout='n'"):
        peers.stored_shapes(Problem(layout="n"))


class FakeEngine:
    ordinal, stream = 1, 77


def test_missing_peers_are_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def ours_only(name: str) -> Any:
        if not name.startswith("tilewright."):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(importlib, "import_module", ours_only)
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: None)
    found, reasons = peers.found_peers(FakeEngine(), BF16)  # type: ignore[arg-type]
    assert found == []
    assert reasons == [
        "torch is left out: it is not installed: pip install 'tilewright[torch]'.",
        "hgemm_cublas is left out: libcublas was not found: pip install nvidia-cublas.",
        "lt_first is left out: libcublasLt was not found: pip install nvidia-cublas.",
        "lt_best is left out: libcublasLt was not found: pip install nvidia-cublas.",
    ]
    _, reasons = peers.found_peers(FakeEngine(), FP32)  # type: ignore[arg-type]
    assert [reason.split(" is")[0] for reason in reasons] == [
        "torch",
        "sgemm_cublas",
        "lt_first",
        "lt_best",
    ]
    found, reasons = peers.found_peers(FakeEngine(), BF16, ["quack", "cute"])  # type: ignore[arg-type]
    assert found == []
    assert [reason.split(": ")[0] for reason in reasons] == [
        "quack is left out",
        "cute is left out",
    ]


def test_an_unknown_peer_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"against='tourch' is not known; use torch, .*cute\."):
        peers.found_peers(FakeEngine(), BF16, ["torch", "tourch"])  # type: ignore[arg-type]


# --- On a GPU -----------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))
@pytest.mark.parametrize("dtype", [FP16, BF16, FP32], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_peers_compute_the_product(layout: str, dtype: DType) -> None:
    from tilewright.engines.gpu import GpuEngine

    engine = GpuEngine()
    found, reasons = peers.found_peers(engine, dtype)
    if not found:
        pytest.skip(" ".join(reasons))
    a, b = operands(layout, dtype)
    reference = product(a, b, layout)
    on_a, on_b = engine.upload(a), engine.upload(b)
    for peer in found:
        c = engine.empty((M, N), dtypes.dtype_of(dtype.name).numpy())
        enqueue = peer.bind([on_a], [on_b], [c], Problem(layout=layout, dtype=dtype)).enqueue
        engine.refill(c)
        enqueue(0)
        result = engine.download(c).astype(np.float64)
        error = np.linalg.norm(result - reference) / np.linalg.norm(reference)
        assert error < 5e-3, f"{peer.name}: {error}"  # NaN fails too
        engine.refill(c)
        graph = engine.capture(lambda enqueue=enqueue: enqueue(0))  # type: ignore[misc]
        graph.replay()
        again = engine.download(c).astype(np.float64)
        np.testing.assert_array_equal(again, result)

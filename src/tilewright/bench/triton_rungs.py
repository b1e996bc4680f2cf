"""Rungs of the triton family on a GPU: bound like a peer, to the engine's memory and stream."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewright.bench.contest import Arena, Contestant
from tilewright.bench.peers import Bound, GemmProblem
from tilewright.bench.rung_code import hash_of
from tilewright.bench.torch_peers import OurTorch
from tilewright.bench.user_function import told
from tilewright.errors import EngineError
from tilewright.ladder.python_rungs import TRITON, TritonRung

if TYPE_CHECKING:
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine

BEST = TRITON[-1]  # the one that the peer is: the last, until a measurement says otherwise


class TritonPeer:
    """gemm(a, b, c) of a rung.

    Raises: EngineError when triton or torch is missing, sees no GPU or is set to interpret.
    """

    def __init__(self, engine: GpuEngine, rung: TritonRung = BEST, name: str = "triton") -> None:
        self.name = name
        self._rung = rung
        if why := rung.missing():
            raise EngineError(why)
        if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
            raise EngineError("TRITON_INTERPRET is set, and would run it on the CPU; unset it.")
        self._torch = OurTorch(engine)

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Bound:
        """Compiles and, where the rung has several tiles, times them: seconds a shape.

        Raises: EngineError when triton fails.
        """
        a, b, c = self._torch.matrices((buffers_a, buffers_b, buffers_c), problem)
        stream = self._torch.stream

        def enqueue(run: int) -> None:
            with stream():
                self._rung.gemm(a[run % len(a)], b[run % len(b)], c[run % len(c)])

        try:
            enqueue(0)
            triton = importlib.import_module("triton").__version__
            chosen = tile_of(self._rung)
        except Exception as error:  # whatever triton raises, for a GPU that it does not know too
            raise EngineError(f"{self._rung.name} failed: {told(error)}") from error
        words = (self._rung.name, f"Triton {triton}", f"torch {self._torch.version}", chosen)
        return Bound(enqueue, ", ".join(words))


def enter_triton(rung: TritonRung, arena: Arena) -> Contestant:
    """Raises: EngineError when triton or torch is missing or fails."""
    peer = TritonPeer(arena.engine, rung, rung.name)
    bound = peer.bind(arena.a, arena.b, arena.c, arena.problem)
    return Contestant(
        rung.name,
        bound.enqueue,
        version=bound.version,
        source_hash=hash_of(rung),
        made_by=bound.version,
    )


def tile_of(rung: TritonRung) -> str:
    """The numbers of the rung's last launch: those it fixes, or those that were the fastest."""
    module: Any = rung.module
    fixed = getattr(module, "TILE", None)
    best = fixed if fixed is not None else module.matmul.best_config.all_kwargs()
    shown = {name: value for name, value in best.items() if isinstance(value, int)}
    return " ".join(f"{name}={value}" for name, value in shown.items())

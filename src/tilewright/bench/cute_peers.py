"""Kernels written in CuTe DSL as rivals: quack's and those of NVIDIA's CUTLASS operators."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from tilewright.bench.choice import fastest
from tilewright.bench.peers import Bound
from tilewright.bench.torch_peers import FunctionPeer, OurTorch
from tilewright.errors import EngineError

if TYPE_CHECKING:
    from tilewright.bench.peers import Enqueue, GemmProblem
    from tilewright.engines.base import Buffer
    from tilewright.engines.gpu import GpuEngine


def quack(engine: GpuEngine) -> FunctionPeer:
    """quack.gemm_interface.gemm(a, b, out=c), tuned. Cost: seconds to a minute a shape.

    Raises: EngineError when quack or torch is missing.
    Source: quack-kernels 0.6.5, quack/gemm_interface.py.
    """
    module = _imported("quack.gemm_interface", "quack-kernels")
    of = f"quack {_version('quack-kernels')}, CuTe DSL {_version('nvidia-cutlass-dsl')}"
    return FunctionPeer(engine, "quack", lambda torch: module.gemm, of, takes_out=True)


class CutePeer:
    """The fastest dense GEMM of the CUTLASS Operator API, which wraps NVIDIA's CuTe DSL kernels.

    Raises: EngineError when it or torch is missing, or nothing there takes the problem.
    Cost: `bind` compiles and times up to 24 kernels: seconds each.
    Source: nvidia-cutlass-operators 0.3.0, README.
    """

    def __init__(self, engine: GpuEngine) -> None:
        self.name = "cute"
        self._engine = engine
        self._operators = _imported("cutlass.operators", "nvidia-cutlass-operators")
        self._torch = OurTorch(engine)

    def bind(
        self,
        buffers_a: Sequence[Buffer],
        buffers_b: Sequence[Buffer],
        buffers_c: Sequence[Buffer],
        problem: GemmProblem,
    ) -> Bound:
        matrices = self._torch.matrices((buffers_a, buffers_b, buffers_c), problem)
        sets = [self._arguments(*abc) for abc in zip(*matrices, strict=True)]
        target = self._engine.arch.removeprefix("sm_").rstrip("af") + "a"
        found = self._operators.get_operators(sets[0], target_sm=target)
        runs = {
            operator.metadata.operator_name: run
            for operator in found
            if (run := self._compiled(operator, sets))
        }
        if not runs:
            raise EngineError(
                f"none of {len(found)} CUTLASS operators for sm_{target} takes "
                f"{problem.m}×{problem.n}×{problem.k} {problem.layout} {problem.dtype.name}."
            )
        place, ran = fastest(list(runs.values()), self._engine, len(sets))
        chosen = list(runs)[place]
        of = f"CUTLASS operators {_version('nvidia-cutlass-operators')}"
        return Bound(runs[chosen], f"{of}, {chosen}; best of {ran}")

    def _arguments(self, a: Any, b: Any, c: Any) -> Any:
        return self._operators.GemmArguments(a, b, c, accumulator_type=self._torch.torch.float32)

    def _compiled(self, operator: Any, sets: Sequence[Any]) -> Enqueue | None:
        """A run of this operator; None where it does not compile or wants a workspace."""
        try:
            if operator.get_workspace_size(sets[0]).size_bytes:
                return None
            artifact = operator.compile(sets[0])
            operator.run(sets[0], artifact, stream=self._torch.external)
        except Exception:  # of the many shapes of tiles some do not fit this problem
            return None
        stream = self._torch.external

        def enqueue(run: int) -> None:
            arguments = sets[run % len(sets)]
            try:
                operator.run(arguments, artifact, stream=stream, assume_supported_args=True)
            except Exception as error:
                raise EngineError(f"cute failed: {type(error).__name__}: {error}") from error

        return enqueue


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EngineError(f"{error}: pip install {package}.") from None
    except Exception as error:  # a DSL that does not fit this Python or driver
        raise EngineError(f"{package} cannot be imported: {error}.") from None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "of unknown version"

"""Rungs that are functions in Python: no `.cu` file, grid or shared memory of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tilewright.ladder.rung import Rung

if TYPE_CHECKING:
    from tilewright.problem import Problem

Gemm = Callable[[Any, Any, Any], None]


@dataclass(frozen=True)
class PythonRung(Rung):
    """A rung that is a `.py` file with one function, `gemm(a, b, c)`.

    It writes A[m, k] · B[k, n] into C[m, n], whatever their strides, with sums in fp32.
    """

    @cached_property
    def module(self) -> ModuleType:
        """The file's. Its name begins with a digit, which import_module takes and import does not.

        Raises: ImportError where a library that it is written in is missing.
        """
        words = self.file.removesuffix(".py").split("/")
        return import_module(".".join(("tilewright.ladder", *words)))

    @cached_property
    def gemm(self) -> Gemm:
        """The function. Raises: as `module`."""
        function: Gemm = self.module.gemm
        return function


@dataclass(frozen=True)
class CpuRung(PythonRung):
    """A rung of NumPy arrays on the host's processor.

    Above `most_products` multiplications it takes longer than anybody waits.
    """

    most_products: int | None = None

    def engine(self, opened: str) -> str:
        return "cpu"

    def refusal(
        self,
        problem: Problem,
        shared_bytes_limit: int | None = None,
        arch: str | None = None,
    ) -> str | None:
        if why := super().refusal(problem):
            return why
        products = problem.m * problem.n * problem.k
        if self.most_products is not None and products > self.most_products:
            return (
                f"{self.name} takes m·n·k up to {self.most_products:,}, and "
                f"{problem.m}·{problem.n}·{problem.k} is {products:,}; its loops in Python would "
                "take minutes or hours: give a smaller shape, as 256×384×192."
            )
        return None


@dataclass(frozen=True)
class TritonRung(PythonRung):
    """A rung of torch tensors, compiled by Triton for a GPU, or run in its interpreter."""

    def engine(self, opened: str) -> str:
        return "gpu" if opened == "gpu" else "interpreter"

    def missing(self) -> str | None:
        absent = [name for name in ("triton", "torch") if find_spec(name) is None]
        if not absent:
            return None
        return (
            f"{self.name} needs {' and '.join(absent)}, which {'are' if absent[1:] else 'is'} not "
            'installed: pip install "tilewright[triton]".'
        )


_TYPES = ("fp32", "bf16", "fp16")

CPU = (
    CpuRung("cpu_loops", "cpu", "cpu/10_cpu_loops.py", _TYPES, most_products=2**25),
    CpuRung("cpu_blocked", "cpu", "cpu/20_cpu_blocked.py", _TYPES),
    CpuRung("cpu_blas", "cpu", "cpu/30_cpu_blas.py", _TYPES),
)

TRITON = tuple(
    TritonRung(name, "triton", f"triton/{number}_{name}.py", ("bf16", "fp16", "fp32"))
    for number, name in ((10, "triton_basic"), (20, "triton_autotune"), (30, "triton_persistent"))
)

"""A family of one kernel without ideas, for tests of all that lies around kernels; arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.artifact import Source
from tilewright.gemm import rank
from tilewright.gemm.chain import chain_defines, chain_headers, chain_struct
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import Address, Step, Struct, Value
from tilewright.gpus import Gpu

_TEXT = (Path(__file__).parent / "naive.cu").read_text(encoding="utf-8")
_THREADS = 128
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Naive:
    """Takes whatever there is. With `reach`, only operands that TMA reaches, as wgmma does."""

    name: str = "naive"
    reach: bool = False

    def refusal(self, request: Request, gpu: Gpu) -> str | None:
        for what, matrix in (("a", request.a), ("b", request.b)):
            why = matrix.tma_refusal()
            if self.reach and why is not None and matrix.transposed.tma_refusal() is not None:
                return f"{what}: {why}"
        return None

    def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
        us = request.batch * request.m * request.n * request.k / (1e5 if self.reach else 1e4)
        return (Plan(self.name, "1x1", (_step(request, gpu),), us=us),)


NAIVE = Naive()
CHOOSY = Naive("choosy", reach=True)


@pytest.fixture
def naive(monkeypatch: pytest.MonkeyPatch, compiler: str) -> Iterator[None]:
    """Only the naive family is known: its kernel is compiled once for a type and a chain."""
    monkeypatch.setattr(rank, "families", lambda: [NAIVE])
    rank.rank.cache_clear()
    yield
    rank.rank.cache_clear()


def random(
    seed: int | np.random.Generator, *shape: int, dtype: Any = np.float32
) -> npt.NDArray[Any]:
    """Small whole numbers: sums of their products are exact in fp32."""
    made = np.random.default_rng(seed).integers(-4, 5, shape)
    return np.asarray(made).astype(dtype)


def _step(request: Request, gpu: Gpu) -> Step:
    values: dict[str, Value] = {"A": Address("a"), "B": Address("b"), "D": Address("out")}
    for letter, matrix in (("A", request.a), ("B", request.b), ("D", request.out)):
        values |= {
            f"{letter}_row": matrix.row_stride % 2**64,
            f"{letter}_col": matrix.col_stride % 2**64,
            f"{letter}_batch": matrix.batch_stride % 2**64,
        }
    extents = {"M": request.m, "N": request.out.cols, "K": request.k, "batch": request.batch}
    fields = tuple((name, "u8") for name in values) + tuple((name, "i4") for name in extents)
    args = Struct("NAIVE", fields, tuple({**values, **extents}.items()))
    chain = chain_struct(request.epilogue)
    defines = {
        "ELEMENT": request.a.dtype.cpp,
        "OUT": request.out.dtype.cpp,
        "NAIVE_BYTES": str(args.record.itemsize),
        **chain_defines(request.epilogue),
        "COLUMNS": str(request.n // request.out.cols),
        "CHAINED": str(int(bool(request.epilogue))),
    }
    headers = ("tile/epilogue.cuh", "ptx/cvt.cuh", *chain_headers(request.epilogue))
    included = "".join(f'#include "{header}"\n' for header in dict.fromkeys(headers))
    text = f"{included}#define EPILOGUE {defines.pop('EPILOGUE')}\n{_TEXT}"
    source = Source("naive.cu", text, tuple(sorted(defines.items())))
    blocks = -(-request.batch * request.m * request.out.cols // _THREADS)
    return Step(source, gpu.arch, "gemm", (blocks, 1, 1), (_THREADS, 1, 1), (args, chain))

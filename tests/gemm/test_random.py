"""Products drawn at random: extents, batches, layouts, alignments, types and epilogues, held to
the float64 reference. In CI small ones by the naive kernel, which are about all that lies around
kernels; `pytest -m nightly` draws 5,000 up to 300 for the package's own, by any of their plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tilewright.dtypes import BF16, DTYPES, FP16, FP32, DType
from tilewright.gemm.epilogue import Expression, Scale, Softcap
from tilewright.gemm.links import ACTIVATIONS, GATES
from tilewright.gemm.product import Matmul
from tilewright.gemm.reference import expected

Array = npt.NDArray[Any]

_IN_CI, _NIGHTLY = 300, 5_000
_BLOCKS = 50  # tests that share the cases, so that they spread over cores
_TYPES = [(BF16, BF16), (FP16, FP32), (FP32, FP32), (BF16, FP32), (FP16, FP16), (FP32, BF16)]


@dataclass
class Drawn:
    """One product: operands, the options of Matmul, and what the reference is told beside them."""

    a: Array
    b: Array
    options: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)


class Draw:
    """Draws by one generator; `largest` bounds the extents, `few` keeps to few compiled kernels."""

    def __init__(self, seed: int, largest: int, few: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.largest, self.few = largest, few

    def whole(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def often(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def extent(self) -> int:
        """Any, and often one near a multiple of 8 or of a tile."""
        if self.often(0.5):
            return self.whole(1, self.largest)
        near = self.whole(0, self.largest // 8) * 8 + self.whole(-1, 1)
        return min(max(near, 1), self.largest)

    def array(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Normal numbers, in memory of any layout that begins at any element."""
        layouts: list[Callable[[], Array]] = [
            lambda: self.memory(shape, dtype),
            lambda: self.memory(shape[::-1], dtype).T,
            lambda: self.memory((*shape[:-1], 2 * shape[-1] + 3), dtype)[..., 1 : 1 + shape[-1]],
            lambda: np.flip(self.memory(shape, dtype)),
            lambda: self.memory((*shape[:-1], 3 * shape[-1]), dtype)[..., ::3],
            lambda: np.broadcast_to(self.memory(shape[-1:], dtype), shape),
        ]
        return layouts[self.whole(0, len(layouts) - 1)]()

    def memory(self, shape: tuple[int, ...], dtype: DType) -> Array:
        lead = self.whole(0, 8)
        flat = self.random.standard_normal(lead + int(np.prod(shape))).astype(dtype.numpy())
        return flat[lead:].reshape(shape)

    def of_any_type(self, shape: tuple[int, ...]) -> Array:
        if self.few:
            return self.memory(shape, FP32)
        return self.array(shape, (BF16, FP16, FP32)[self.whole(0, 2)])

    def product(self) -> Drawn:
        m, n, k = self.extent(), self.extent(), 0 if self.often(0.03) else self.extent()
        batch = tuple(self.whole(1, 3) for _ in range(self.whole(0, 2))) if self.often(0.4) else ()
        kind, out = _TYPES[self.whole(0, len(_TYPES) - 1)]
        gate, chained = self.often(0.15), not self.few or self.often(0.4)
        if self.few and (chained or gate):  # so that few kernels serve all
            m, n, kind, out = m + 1, n + 1, FP16, FP32
        cols = 2 * n if gate else n

        def some(*matrix: int) -> tuple[int, ...]:
            return (*(extent if self.often(0.7) else 1 for extent in batch), *matrix)

        made = Drawn(self.array(some(m, k), kind), self.array(some(k, cols), kind))
        made.options["out_dtype"] = out.name
        if chained or gate:
            self.chain(made, (m, cols), n if gate else None)
        if self.often(0.4):
            leading = np.broadcast_shapes(made.a.shape[:-2], made.b.shape[:-2])
            made.options["out"] = self.out((*leading, m, n), out)
        return made

    def chain(self, made: Drawn, shape: tuple[int, int], gated: int | None) -> None:
        options = made.options
        vectors = [shape[1:], (shape[0], 1), shape, (1, 1)]
        if self.few or self.often(0.5):
            options["alpha"] = float(self.random.standard_normal())
        if self.few or self.often(0.4):
            options |= {"c": self.of_any_type(shape), "beta": float(self.random.standard_normal())}
        if self.few or self.often(0.5):
            options["bias"] = self.of_any_type(vectors[0 if self.few else self.whole(0, 3)])
        if gated is not None:
            options["activation"] = GATES[0 if self.few else self.whole(0, len(GATES) - 1)]
        elif self.few or self.often(0.5):
            options["activation"] = ACTIVATIONS[0 if self.few else self.whole(0, 5)]
        if not self.few:
            self.parts(made, (shape[0], gated or shape[1]))

    def parts(self, made: Drawn, shape: tuple[int, int]) -> None:
        parts: list[Any] = []
        if self.often(0.3):
            made.told["scale"] = self.of_any_type((shape[0], 1) if self.often(0.5) else shape[1:])
            parts.append(Scale(made.told["scale"]))
        if self.often(0.2):
            parts.append(Softcap(self.whole(1, 30)))
        if self.often(0.2):
            parts.append(Expression("x > 0 ? x : 0.5f * x + 0.01f * col"))
        if self.often(0.3):
            made.options["residual"] = self.of_any_type(shape)
        made.options["epilogue"] = parts

    def out(self, shape: tuple[int, ...], dtype: DType) -> Array:
        layouts: list[Callable[[], Array]] = [
            lambda: self.memory(shape, dtype),
            lambda: self.memory(shape[::-1], dtype).T,
            lambda: self.memory((*shape[:-1], 2 * shape[-1] + 3), dtype)[..., 1 : 1 + shape[-1]],
            lambda: np.flip(self.memory(shape, dtype)),
        ]
        out = layouts[self.whole(0, len(layouts) - 1)]()
        out[...] = np.nan
        return out


def check(draw: Draw, any_plan: bool) -> None:
    drawn = draw.product()
    product = Matmul(drawn.a, drawn.b, engine="emulator", **drawn.options)
    assert product.job.request is not None
    plan = product.plan()
    if any_plan and draw.often(0.5):
        plans = product.ranking().plans
        plan = plans[draw.whole(0, len(plans) - 1)]
    product.plan = lambda: plan  # type: ignore[method-assign]
    got = product.execute()  # raises where the emulator finds a fault
    told = {n: each for n, each in drawn.options.items() if n in ("c", "bias", "residual")}
    scalars: dict[str, Any] = {name: drawn.options.get(name, 1.0) for name in ("alpha", "beta")}
    wanted = expected(
        product.job.request, {"a": drawn.a, "b": drawn.b, **told, **scalars, **drawn.told}
    )
    verdict = wanted.verdict(got)
    assert verdict.correct, f"{plan.kernel} {plan.config}: {verdict.message}"


@pytest.mark.usefixtures("naive")
@pytest.mark.parametrize("block", range(10))
def test_small_products(block: int) -> None:
    for seed in range(block, _IN_CI, 10):
        try:
            check(Draw(seed, 12, few=True), any_plan=False)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(_BLOCKS))
def test_products_by_the_package_s_kernels(block: int) -> None:
    for seed in range(block, _NIGHTLY, _BLOCKS):
        try:
            check(Draw(10_000 + seed, 300, few=False), any_plan=True)
        except Exception as error:
            raise AssertionError(f"seed {10_000 + seed}: {error}") from error


def test_the_types_are_those_that_are_taken() -> None:
    assert {dtype.name for pair in _TYPES for dtype in pair} == set(DTYPES) - {"tf32"}

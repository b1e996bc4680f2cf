"""Request: one product as it is asked for: all that a plan depends on, and no addresses."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part


@dataclass(frozen=True)
class Request:
    """out[m, n] = epilogue(a[m, k] · b[k, n]), for each of `batch` matrices, rounded once.

    `epilogue` is a chain, first to last; where one of its parts takes two columns for one (a gate
    and what it gates: b's columns 0 … n-1 and n … 2n-1), `b` has 2·n columns and `out` n.
    `deterministic` asks for the same bits from run to run, `batch_invariant` for bits of a row that
    do not depend on m. `tf32` allows fp32 operands to be cut to tf32.
    """

    a: Matrix
    b: Matrix
    out: Matrix
    batch: int = 1
    epilogue: tuple[Part, ...] = ()
    deterministic: bool = True
    batch_invariant: bool = False
    tf32: bool = False

    @property
    def m(self) -> int:
        return self.a.rows

    @property
    def n(self) -> int:
        """Columns of the product; with a gate twice those of the result."""
        return self.b.cols

    @property
    def k(self) -> int:
        return self.a.cols

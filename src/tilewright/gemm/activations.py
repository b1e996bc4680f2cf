"""Functions of one number that epilogues apply: their C++, their meaning and their errors.

The errors are those of cuda/tile/epilogue_functions.cuh on a GPU, in units U = 2⁻²⁴ of the result.
They count one rounding (U) for each operation and constant, the ISA's 2 ulp (4 U) for ex2.approx,
1 ulp (2 U) for rcp.approx, and 2 ulp for tanhf (CUDA C++ Programming Guide, "Mathematical
Functions"). With s(x) = 1 / (1 + e⁻ˣ), to which an error of e⁻ˣ counts s(−x) times:

sigmoid    3 + s(−x)·(4 + 1.25·|x|)             1.25·|x|: the exponent's rounding and log2(e)'s
silu       one more, for the product
gelu_tanh  4 + s(−v)·(4 + 4·|v|)                v = √(8/π)·(x + 0.044715·x³), of 4 roundings
gelu       16 + 3·x² where x < 0, else 16       the polynomial's fit and Horner's roundings: found
                                                by trying 400,000 x; they grow with the exponent

|x|·s(−x) is below 0.28 for positive x, so that max(−x, 0) may stand for it with a larger constant;
in this form the errors never grow with x. Beyond, results below 2⁻¹²⁶ are cut to 0 by .ftz, and
gelu's fit ends at −7, where the result is −9·10⁻¹².
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import erfc, pi, sqrt
from typing import Any

import numpy as np

from tilewright.gemm.interval import UNIT, Interval, Wide

_erfc: Any = np.frompyfunc(erfc, 1, 1)


def sigmoid(x: Wide) -> Wide:
    y: Wide = 1 / (1 + np.exp(-x))
    return y


def silu(x: Wide) -> Wide:
    y: Wide = x / (1 + np.exp(-x))
    return y


def relu(x: Wide) -> Wide:
    return np.where(x < 0, 0.0, x)


def _twice_inner(x: Wide) -> Wide:
    v: Wide = sqrt(8 / pi) * (x + 0.044715 * x**3)
    return v


def gelu_tanh(x: Wide) -> Wide:
    """x/2·(1 + tanh(v/2)), written so that nothing cancels."""
    y: Wide = x / (1 + np.exp(-_twice_inner(x)))
    return y


def gelu(x: Wide) -> Wide:
    y: Wide = x * np.asarray(_erfc(-x / sqrt(2)), np.float64) / 2
    return y


@dataclass(frozen=True)
class Function:
    """`cpp` is the struct of epilogue_functions.cuh; `exact` works on float64 arrays.

    `error` gives the relative error at x, which never grows with x; `absolute` is added to it.
    `turns` are where the function stops falling and begins to rise.
    """

    cpp: str
    exact: Callable[[Wide], Wide]
    error: Callable[[Wide], Wide] = np.zeros_like
    absolute: float = 0.0
    turns: tuple[float, ...] = ()

    def enclose(self, x: Interval) -> Interval:
        """What a kernel may make of all numbers in x."""
        with np.errstate(all="ignore"):
            relative = np.nan_to_num(self.error(x.low) * UNIT, nan=0.0, posinf=0.0)
        return x.image(self.exact, self.turns, relative, self.absolute)


_CUT = 2.0**-119  # 2⁻¹²⁶ times the 89 below which e⁻ˣ is still finite

FUNCTIONS: dict[str, Function] = {
    "relu": Function("Relu", relu),
    "gelu": Function(
        "Gelu", gelu, lambda x: 16 + 3 * np.minimum(x, 0) ** 2, 2.0**-50, (-0.7517915241,)
    ),
    "gelu_tanh": Function(
        "GeluTanh",
        gelu_tanh,
        lambda x: 9 + 4 * np.maximum(-_twice_inner(x), 0),
        _CUT,
        (-0.7524614220,),
    ),
    "silu": Function("Silu", silu, lambda x: 9 + 1.25 * np.maximum(-x, 0), _CUT, (-1.2784645428,)),
    "sigmoid": Function("Sigmoid", sigmoid, lambda x: 8 + 1.25 * np.maximum(-x, 0), 2.0**-126),
    "tanh": Function("Tanh", np.tanh, lambda x: np.full_like(x, 4)),
}

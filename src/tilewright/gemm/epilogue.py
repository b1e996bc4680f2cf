"""What becomes of a sum on its way to memory: parts with three faces, composed by `>>`.

The product op's own order is D = round(residual + scale · act(alpha·AB + beta·C + bias)), which is

    Alpha() >> AddC(c) >> Bias(bias) >> Activation("gelu") >> Scale(scale) >> Residual(residual)

where every part may be missing. chain.py composes them and says which orders make sense. Each part
is what `part.Part` asks for, and says what fp32 arithmetic may make of it (`enclose`), from which
reference.py derives the bound that kernels are held to.

Operands broadcast: a stride of 0 makes a vector or a single number of a matrix. A number that comes
with the call, alpha or beta, is rounded to fp32.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.errors import InputError
from tilewright.gemm.activations import FUNCTIONS
from tilewright.gemm.chain import Chain, Composable
from tilewright.gemm.formula import Node, parse
from tilewright.gemm.interval import UNIT, Interval, Wide
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.step import Address, Scalar, Value

__all__ = [
    "Activation", "AddC", "Alpha", "Bias", "Chain", "Expression", "Gate", "Residual", "Scale",
    "Softcap",
]  # fmt: skip

Operands = Mapping[str, npt.NDArray[Any]]
Fields = tuple[tuple[str, str, Value], ...]

_FUNCTIONS_HEADER = "tile/epilogue_functions.cuh"
GATED = {"reglu": "relu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "swiglu": "silu",
          "glu": "sigmoid"}  # fmt: skip
_NOT_OPERANDS = ("a", "b", "out", "workspace", "alpha", "beta", "row", "col")
_SMALLEST_CAP, _LARGEST_CAP = 2.0**-60, 2.0**60  # far from where 1/cap or cap·tanh lose bits
_SOFTCAP_UNITS = 9  # tanhf 4, and a rounding each of cap, 1/cap, x/cap and the product; one spare


def _wide(operands: Operands, name: str) -> Wide:
    """An operand in float64. Raises InputError when it was not given."""
    if name not in operands:
        raise InputError(f"the epilogue reads {name!r}, which is not among {', '.join(operands)}.")
    return np.asarray(operands[name]).astype(np.float64)


def _scalar(operands: Operands, name: str) -> Interval:
    """A number of the call: as it was given, and as fp32 has it."""
    return Interval.of(_wide(operands, name)).rounded()


class _Plain(Composable):
    """What most parts share: they read no matrix, take one column and have no fields."""

    header = _FUNCTIONS_HEADER

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {}

    @property
    def fields(self) -> Fields:
        return ()

    @property
    def columns(self) -> int:
        return 1


@dataclass(frozen=True)
class Alpha(_Plain):
    """x · alpha."""

    cpp = "tile::Alpha"
    stage = "product"

    @property
    def fields(self) -> Fields:
        return (("alpha", "f4", Scalar("alpha")), ("unused", "i4", 0))

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        y: Wide = x * _wide(operands, "alpha")
        return y

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        return x * _scalar(operands, "alpha")


@dataclass(frozen=True)
class _Reading(_Plain):
    """A part that reads `matrix`, whose operand is called `name`. Whoever gives the part to
    `tilewright.matmul` puts an array in the matrix's place, which broadcasts by NumPy's rules.

    Strides of 0 and 1 are part of the C++ type; others are fields.
    Raises: InputError for a name that means something else.
    """

    matrix: Any  # a Matrix, or the array of which matmul makes one
    name: str
    header = "tile/epilogue_strided.cuh"
    template = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier() or self.name in _NOT_OPERANDS:
            raise InputError(f"name={self.name!r} must be a word other than {_NOT_OPERANDS}.")

    @property
    def operands(self) -> Mapping[str, Matrix]:
        return {self.name: self.matrix}

    @property
    def cpp(self) -> str:
        words = [_stride_word(stride) for stride in self._strides()]
        return f"tile::{self.template}<{self.matrix.dtype.cpp}, {', '.join(words)}>"

    @property
    def fields(self) -> Fields:
        row, col = self._strides()
        return (
            ("data", "u8", Address(self.name)),
            ("row_stride", "u8", _signed(row)),
            ("col_stride", "u8", _signed(col)),
            ("batch_stride", "u8", _signed(self.matrix.batch_stride)),
        )

    def _strides(self) -> tuple[int, int]:
        """Of rows and columns; that of a single one does not matter, and 0 needs no product."""
        m = self.matrix
        return m.row_stride if m.rows > 1 else 0, m.col_stride if m.cols > 1 else 0


def _stride_word(stride: int) -> str:
    return str(stride) if stride in (0, 1) else "tile::ANY"


def _signed(stride: int) -> int:
    """A stride as the unsigned number with the same 64 bits."""
    return stride % 2**64


@dataclass(frozen=True)
class AddC(_Reading):
    """x + beta·C. With beta = 0 leave it out: C is then never read."""

    name: str = "c"
    template = "AddC"
    stage = "sum"

    @property
    def fields(self) -> Fields:
        return (*super().fields, ("beta", "f4", Scalar("beta")), ("unused", "i4", 0))

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        y: Wide = x + _wide(operands, "beta") * _wide(operands, self.name)
        return y

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        return x + _scalar(operands, "beta") * Interval.of(_wide(operands, self.name))


class _Adding(_Reading):
    """x + operand."""

    template = "Add"

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        y: Wide = x + _wide(operands, self.name)
        return y

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        return x + Interval.of(_wide(operands, self.name))


@dataclass(frozen=True)
class Bias(_Adding):
    """x + bias, a vector along N or M."""

    name: str = "bias"
    stage = "sum"


@dataclass(frozen=True)
class Residual(_Adding):
    """x + residual, a matrix of any type."""

    name: str = "residual"
    stage = "result"


@dataclass(frozen=True)
class Scale(_Reading):
    """x · scale, a number per row, per column or for all."""

    name: str = "scale"
    template = "Times"
    stage = "linear"

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        y: Wide = x * _wide(operands, self.name)
        return y

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        return x * Interval.of(_wide(operands, self.name))


@dataclass(frozen=True)
class Activation(_Plain):
    """relu, gelu (by erf), gelu_tanh, silu, sigmoid or tanh, as PyTorch defines them.

    NaN passes through; gelu, gelu_tanh and silu of −inf are NaN, as there.
    Raises: InputError for another name.
    """

    function: str

    def __post_init__(self) -> None:
        if self.function not in FUNCTIONS:
            raise InputError(
                f"activation={self.function!r} is not known; use {', '.join(FUNCTIONS)}."
            )

    @property
    def cpp(self) -> str:
        return f"tile::Map<tile::{FUNCTIONS[self.function].cpp}>"

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        with np.errstate(all="ignore"):
            return FUNCTIONS[self.function].exact(x)

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        return FUNCTIONS[self.function].enclose(x)


@dataclass(frozen=True)
class Gate(_Plain):
    """act(gate) · up, of x[..., :n] and x[..., n:], where n = `width` columns are the result's.

    swiglu is silu, geglu gelu (geglu_tanh by tanh), reglu relu, glu sigmoid.
    Raises: InputError for another name or a width below 1.
    """

    kind: str
    width: int

    def __post_init__(self) -> None:
        if self.kind not in GATED:
            raise InputError(f"gate={self.kind!r} is not known; use {', '.join(GATED)}.")
        if not 1 <= self.width < 2**30:
            raise InputError(f"width={self.width} must be between 1 and {2**30 - 1}.")

    @property
    def cpp(self) -> str:
        return f"tile::Gate<tile::{FUNCTIONS[GATED[self.kind]].cpp}>"

    @property
    def fields(self) -> Fields:
        return (("columns", "i4", self.width), ("unused", "i4", 0))

    @property
    def columns(self) -> int:
        return 2

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        with np.errstate(all="ignore"):
            gate = FUNCTIONS[GATED[self.kind]].exact(x[..., : self.width])
            y: Wide = gate * x[..., self.width :]
        return y

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        gate = Interval(x.low[..., : self.width], x.high[..., : self.width])
        up = Interval(x.low[..., self.width :], x.high[..., self.width :])
        return FUNCTIONS[GATED[self.kind]].enclose(gate) * up


@dataclass(frozen=True)
class Softcap(_Plain):
    """cap · tanh(x / cap).

    Raises: InputError for a cap that is not between 2⁻⁶⁰ and 2⁶⁰.
    """

    cap: float
    cpp = "tile::Softcap"

    def __post_init__(self) -> None:
        if not (isfinite(self.cap) and _SMALLEST_CAP <= self.cap <= _LARGEST_CAP):
            raise InputError(f"cap={self.cap} must be between 2⁻⁶⁰ and 2⁶⁰.")

    @property
    def fields(self) -> Fields:
        return (("cap", "f4", float(self.cap)), ("inverse", "f4", 1.0 / self.cap))

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        y: Wide = self.cap * np.tanh(x / self.cap)
        return y

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        absolute = 2.0**-149 * max(1.0, self.cap)
        return x.image(lambda each: self.numpy(each, operands), (), _SOFTCAP_UNITS * UNIT, absolute)


@dataclass(frozen=True)
class Expression(_Plain):
    """A formula of x, row and col in C++'s notation, as in "x > 0 ? x : 0.1f * expf(x)".

    All of it is fp32; formula.py has the grammar. `row` and `col` are those of the element in its
    matrix, and before a gate those of the product.
    Raises: InputError for text that is not such a formula.
    """

    text: str
    header = "tile/epilogue_expression.cuh"
    _tree: Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tree", parse(self.text))

    @property
    def cpp(self) -> str:
        return f"tile::Expression<{self._tree.cpp()}>"

    def numpy(self, x: Wide, operands: Operands) -> Wide:
        return np.broadcast_to(self._tree.exact({"x": x, **_places(x, operands)}), x.shape)

    def enclose(self, x: Interval, operands: Operands) -> Interval:
        places = _places(x.low, operands)
        known = {name: Interval.of(value) for name, value in places.items()}
        made = self._tree.enclose({"x": x, **known})
        low, high = (np.broadcast_to(end, x.low.shape) for end in (made.low, made.high))
        return Interval(low, high).rounded()


def _places(x: Wide, operands: Operands) -> dict[str, Wide]:
    """Row and column of each element, as fp32 numbers; `operands` may have the rows of a sample."""
    row = np.asarray(operands.get("row", np.arange(x.shape[-2])))
    col = np.arange(x.shape[-1])
    return {
        "row": row.astype(np.float32).astype(np.float64)[:, None],
        "col": col.astype(np.float32).astype(np.float64),
    }

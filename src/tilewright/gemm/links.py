"""What `matmul`'s arguments ask to be done to a sum, as links of a chain, and their operands.

The order is the formula's: round(residual + scale · act(alpha·AB + beta·C + bias)).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.gemm.arrange import Link
from tilewright.gemm.arrays import Operand
from tilewright.gemm.epilogue import Activation, AddC, Alpha, Bias, Gate, Residual

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
GATES = ("swiglu", "geglu", "geglu_tanh", "reglu", "glu")
_MATRIX = "matrix"  # what parts that read an operand call it


@dataclass
class Links:
    """Links in order, the operands that they read by name, and the numbers of this call."""

    links: list[Link] = field(default_factory=list)
    operands: dict[str, Operand] = field(default_factory=dict)
    scalars: dict[str, float] = field(default_factory=dict)


def links_of(
    read: Callable[[str, Any], Operand],
    *,
    c: Any = None,
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    epilogue: Any = None,
) -> Links:
    """The links, with `read` to find out about an array by its argument.

    Raises: InputError for numbers that are none, a beta without c, an unknown activation, and what
    is no part.
    """
    made = Links(scalars={"alpha": _number("alpha", alpha), "beta": _number("beta", beta)})
    if made.scalars["alpha"] != 1:
        made.links.append(Link(Alpha))
    if made.scalars["beta"] != 0:  # else c is not even looked at, as BLAS has it
        if c is None:
            raise InputError(f"beta={beta} scales c, and c is not given; give c or leave beta out.")
        made.operands["c"] = read("c", c)
        made.links.append(reading(AddC, "c"))
    if bias is not None:
        made.operands["bias"] = read("bias", bias)
        made.links.append(reading(Bias, "bias"))
    if activation is not None:
        made.links.append(activating(activation))
    for part in _flat(epilogue):
        _append(made, part, read)
    if residual is not None:
        if "residual" in made.operands:
            raise InputError("residual is given, and the epilogue has a Residual; keep one.")
        made.operands["residual"] = read("residual", residual)
        made.links.append(reading(Residual, "residual"))
    return made


def reading(make: Callable[..., Any], name: str) -> Link:
    """The link of a part that reads the operand of this name."""
    return Link(make, ((_MATRIX, name),))


def activating(name: object) -> Link:
    """The link of an activation or a gate. Raises: InputError for an unknown one."""
    if name in ACTIVATIONS:
        return Link(Activation, fixed=(("function", name),))
    if name in GATES:
        return Link(Gate, fixed=(("kind", name),), columns=2)
    raise InputError(
        f"activation={name!r} is not known; use {', '.join((*ACTIVATIONS, *GATES))}, or give a "
        "part as epilogue."
    )


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}={value!r} must be a real number.") from None


def _flat(epilogue: Any) -> Iterator[Any]:
    """The parts of a chain: one, or several in a list or as `>>` puts them together."""
    if isinstance(epilogue, tuple | list):
        for part in epilogue:
            yield from _flat(part)
    elif epilogue is not None:
        yield epilogue


def _append(made: Links, part: Any, read: Callable[[str, Any], Operand]) -> None:
    """A part as its user made it, with an array in the place of the matrix that it will have."""
    kind: Callable[..., Any] = type(part)
    if isinstance(part, type) or not dataclasses.is_dataclass(part) or not hasattr(kind, "cpp"):
        raise InputError(
            f"epilogue has {part!r}; give parts of tilewright.gemm.epilogue, such as Softcap(30.0)."
        )
    fields = {each.name: getattr(part, each.name) for each in dataclasses.fields(part) if each.init}
    given = fields.get(_MATRIX)
    if given is None:
        columns: int = getattr(part, "columns", 1)
        made.links.append(Link(kind, fixed=tuple(fields.items()), columns=columns))
        return
    if not _is_array(given):
        raise InputError(
            f"{type(part).__name__} of the epilogue holds a {type(given).__name__}; "
            "give it an array."
        )
    name = fields.get("name", type(part).__name__.lower())
    if name in made.operands:
        raise InputError(f"two operands are called {name!r}; give the part another name.")
    del fields[_MATRIX]
    made.operands[name] = read(name, given)
    made.links.append(Link(kind, ((_MATRIX, name),), tuple(fields.items())))


def _is_array(value: Any) -> bool:
    words = ("__dlpack__", "__cuda_array_interface__")
    return isinstance(value, np.ndarray) or any(hasattr(value, word) for word in words)

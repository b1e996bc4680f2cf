"""torch.ops.tilewright.matmul and matmul_out: the op that PyTorch traces, records and casts.

By Library.define and impl: torch.library.custom_op costs three times as much a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.autograd import forward_ad

from tilewright.errors import InputError
from tilewright.gemm import api
from tilewright.gemm.arrange import check_out_shape
from tilewright.gemm.arrays import type_taken
from tilewright.gemm.form import Form
from tilewright.gemm.links import activating
from tilewright.gemm.product import check_types
from tilewright.gemm.shapes import check_broadcast, product_shapes
from tilewright.torch import gradients

_OPERANDS = "Tensor a, Tensor b, Tensor? c=None, Tensor? bias=None, Tensor? residual=None"
_OPTIONS = (
    "float alpha=1.0, float beta=0.0, str? activation=None, ScalarType? out_dtype=None, "
    "bool deterministic=True, bool batch_invariant=False"
)
_OF_THE_RESULT = ("residual",)  # beside a gate, of the result's columns and not of the product's

LIBRARY = torch.library.Library("tilewright", "DEF")
LIBRARY.define(f"matmul({_OPERANDS}, *, {_OPTIONS}) -> Tensor")
# Returns nothing: an op whose result is one of its arguments cannot be functionalised.
LIBRARY.define(f"matmul_out({_OPERANDS}, *, {_OPTIONS}, Tensor(a!) out) -> ()")

MATMUL = torch.ops.tilewright.matmul.default
MATMUL_OUT = torch.ops.tilewright.matmul_out.default


def _matmul(
    a: Any, b: Any, c: Any = None, bias: Any = None, residual: Any = None, **options: Any
) -> Any:
    """On every device, so that tensors of a CPU get the sentence that tilewright.matmul has."""
    check_tangents(a=a, b=b, c=c, bias=bias, residual=residual)
    return api.matmul(a, b, c=c, bias=bias, residual=residual, **options)


def _matmul_out(
    a: Any, b: Any, c: Any = None, bias: Any = None, residual: Any = None, **options: Any
) -> None:
    check_tangents(a=a, b=b, c=c, bias=bias, residual=residual, out=options["out"])
    api.matmul(a, b, c=c, bias=bias, residual=residual, **options)


def check_tangents(**given: Any) -> None:
    """Raises: InputError in forward mode, where PyTorch would go on with tangents of zero.

    Within torch.func.jvp tangents are seen before the op only, without it also in the op.
    """
    if forward_ad._current_level < 0:
        return
    for name, tensor in given.items():
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise InputError(
                f"{name} has a tangent, and matmul has no derivative in forward mode; take the "
                "gradient backwards."
            )


# --- Tracing -------------------------------------------------------------------------------------


def _traced(a: Any, b: Any, c: Any = None, bias: Any = None, residual: Any = None,
            **options: Any) -> Any:  # fmt: skip
    shape, dtype = _result({"a": a, "b": b, "c": c, "bias": bias, "residual": residual}, options)
    return torch.empty(shape, dtype=dtype, device=a.device)


def _traced_out(a: Any, b: Any, c: Any = None, bias: Any = None, residual: Any = None,
                **options: Any) -> None:  # fmt: skip
    out = options.pop("out")
    given = {"a": a, "b": b, "c": c, "bias": bias, "residual": residual, "out": out}
    shape, _ = _result(given, {**options, "out_dtype": options.get("out_dtype") or out.dtype})
    check_out_shape(_form("out", out), shape)


def _result(
    given: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[tuple[Any, ...], torch.dtype]:
    """Shape and type of the result, for tensors without memory and extents without values.

    Raises: InputError, naming the argument, for all that depends on neither, as the product does.
    """
    present = {name: tensor for name, tensor in given.items() if tensor is not None}
    if options.get("beta", 0.0) == 0:
        present.pop("c", None)
    elif "c" not in present:
        raise InputError(
            f"beta={options['beta']} scales c, and c is not given; give c or leave beta out."
        )
    forms = {name: _form(name, tensor) for name, tensor in present.items()}
    _check_devices(present)
    check_types(forms["a"], forms["b"], None)
    activation = options.get("activation")
    columns = 1 if activation is None else activating(activation).columns
    shapes = product_shapes(forms["a"], forms["b"])
    shape = shapes.result(columns)
    for name in ("c", "bias", "residual"):
        if name in forms:
            check_broadcast(forms[name], shapes, columns if name in _OF_THE_RESULT else 1)
    dtype = options.get("out_dtype") or given["a"].dtype
    type_taken("out_dtype", dtype, "name one of them")
    if "out" in present and dtype != present["out"].dtype:
        out = forms["out"].dtype.name
        raise InputError(f"out_dtype is {dtype} and out is {out}; leave out_dtype out.")
    return shape, dtype


def _form(argument: str, tensor: Any) -> Form:
    """Without strides and alignment, on which nothing depends that can be traced."""
    dtype = type_taken(argument, tensor.dtype, f"convert it, as by {argument}.to(torch.bfloat16)")
    return Form(argument, dtype, tuple(tensor.shape), ())


def _check_devices(given: Mapping[str, Any]) -> None:
    for name, tensor in given.items():
        if tensor.device != given["a"].device:
            raise InputError(
                f"a is on {given['a'].device} and {name} on {tensor.device}; move one of them."
            )


# --- Autocast ------------------------------------------------------------------------------------

_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


def _cast(tensor: Any, dtype: torch.dtype) -> Any:
    """What torch.mm casts: floating tensors of a GPU, but for float64."""
    fits = tensor.is_cuda and tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.to(dtype) if fits else tensor


def _autocast(a: Any, b: Any, *others: Any, **options: Any) -> Any:
    """The factors in autocast's type, hence the result; c, bias and residual are read as they are,
    in fp32, which costs no copy and no rounding."""
    dtype = torch.get_autocast_dtype("cuda")
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return MATMUL(_cast(a, dtype), _cast(b, dtype), *others, **options)


LIBRARY.impl("matmul", _matmul, "CompositeExplicitAutograd")
LIBRARY.impl("matmul_out", _matmul_out, "CompositeExplicitAutograd")
LIBRARY.impl("matmul", _autocast, "AutocastCUDA")
torch.library.register_fake("tilewright::matmul", _traced, lib=LIBRARY)
torch.library.register_fake("tilewright::matmul_out", _traced_out, lib=LIBRARY)
torch.library.register_autograd(
    "tilewright::matmul", gradients.backward, setup_context=gradients.setup, lib=LIBRARY
)

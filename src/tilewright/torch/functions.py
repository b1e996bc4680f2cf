"""matmul and linear with gradients: the product at once, or the op where PyTorch has to see it."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from tilewright.errors import InputError
from tilewright.gemm import api
from tilewright.torch import ops

_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
# Looked up once: they are asked at every call.
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_transforms = torch._C._are_functorch_transforms_active
_autocast = torch._C._is_any_autocast_enabled
_recording = torch.is_grad_enabled


def _at_once(*tensors: Any) -> bool:
    """Whether only the result is wanted: nobody records, traces, transforms, casts or overrides.

    Cost: half a microsecond, where the dispatcher takes 3.
    """
    if (
        _dispatch_modes()
        or _function_modes()
        or _transforms()
        or _autocast()
        or forward_ad._current_level >= 0
    ):
        return False
    recording = _recording()
    for tensor in tensors:
        if tensor is None:
            continue
        if type(tensor) not in _PLAIN or (recording and tensor.requires_grad):
            return False
    return True


def matmul(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    out: Any = None,
    out_dtype: Any = None,
    deterministic: bool = True,
    batch_invariant: bool = False,
) -> Any:
    """`tilewright.matmul` of tensors on a GPU, with gradients, within torch.compile and autocast.

    Shapes   those of `tilewright.matmul`, whose text says what each argument means.
    Types    as there; out_dtype is a torch.dtype. Under autocast a and b are cast to its type, and
             so is the result unless out_dtype says otherwise; c, bias and residual are not.
    Raises   InputError, naming the argument; also where a gradient would have to go through `out`.
    Cost     without gradients, tracing, modes and autocast that of `tilewright.matmul`; else 3 to
             10 µs more. Backward takes a product for each of a and b; with an activation whose
             derivative needs the sum (all but relu, sigmoid and tanh without a residual), one more
             to make it again, in fp32: it is not kept, and neither is anything else that the
             caller has not got.
    """
    compiling = torch.compiler.is_compiling()
    if not compiling and _at_once(a, b, c, bias, residual, out):
        return api.matmul(
            a,
            b,
            c=c,
            alpha=alpha,
            beta=beta,
            bias=bias,
            activation=activation,
            residual=residual,
            out=out,
            out_dtype=out_dtype,
            deterministic=deterministic,
            batch_invariant=batch_invariant,
        )
    if not compiling:
        ops.check_tangents(a=a, b=b, c=c, bias=bias, residual=residual, out=out)
    options = {
        "alpha": alpha,
        "beta": beta,
        "activation": activation,
        "out_dtype": out_dtype,
        "deterministic": deterministic,
        "batch_invariant": batch_invariant,
    }
    if out is not None and torch.is_grad_enabled():
        _check_unrecorded(a=a, b=b, c=c, bias=bias, residual=residual, out=out)
    if out is None:
        return ops.MATMUL(a, b, c, bias, residual, **options)
    ops.MATMUL_OUT(a, b, c, bias, residual, **options, out=out)
    return out


def _check_unrecorded(**given: Any) -> None:
    for name, tensor in given.items():
        if tensor is not None and tensor.requires_grad:
            raise InputError(
                f"{name} requires a gradient, and none goes through out; leave out away, or call "
                "within torch.no_grad()."
            )


def linear(
    x: Any, weight: Any, bias: Any = None, activation: str | None = None, **options: Any
) -> Any:
    """act(x · weightᵀ + bias), as torch.nn.functional.linear, with gradients as `matmul`.

    Shapes   x[..., k], weight[n, k] → [..., n]; bias[n]. With a gate weight has 2·n rows, those of
             the gate first, and bias 2·n elements.
    Options  the others of `matmul`, by their names.
    Raises   as `matmul`; a message calls x a and the transposed weight b where the op is used.
    """
    if not torch.compiler.is_compiling() and _at_once(
        x, weight, bias, *(options.get(name) for name in ("c", "residual", "out"))
    ):
        return api.linear(x, weight, bias, activation, **options)
    return matmul(x, weight.mT, bias=bias, activation=activation, **options)

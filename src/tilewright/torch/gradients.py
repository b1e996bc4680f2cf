"""The gradients of D = residual + act(z), z = alpha·A·B + beta·C + bias, by the same op.

Kept for backward are operands, which the caller has anyway, and at most the result: relu, sigmoid
and tanh have their derivatives from it. Other activations need z, which no one has: it is made
again by one more product, in fp32, so that forward stays one fused kernel with the same bits as
without gradients. All steps are differentiable in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from tilewright.gemm.epilogue import GATED

_aten = torch.ops.aten


def _silu_backward(grad: Any, z: Any) -> Any:
    """PyTorch's own kernel has no derivative; where one may be wanted, its formula in parts."""
    if not torch.is_grad_enabled():
        return _aten.silu_backward(grad, z)
    s = torch.sigmoid(z)
    return grad * s * (1 + z * (1 - s))


_RELU, _SIGMOID, _TANH = "relu", "sigmoid", "tanh"
_FROM_RESULT: dict[str, Callable[[Any, Any], Any]] = {  # of the gradient and act(z)
    _RELU: lambda grad, y: _aten.threshold_backward(grad, y, 0),
    _SIGMOID: _aten.sigmoid_backward,
    _TANH: _aten.tanh_backward,
}
_FROM_SUM: dict[str, Callable[[Any, Any], Any]] = {  # of the gradient and z
    _RELU: _FROM_RESULT[_RELU],
    "gelu": lambda grad, z: _aten.gelu_backward(grad, z),
    "gelu_tanh": lambda grad, z: _aten.gelu_backward(grad, z, approximate="tanh"),
    "silu": _silu_backward,
    _SIGMOID: lambda grad, z: _aten.sigmoid_backward(grad, torch.sigmoid(z)),
    _TANH: lambda grad, z: _aten.tanh_backward(grad, torch.tanh(z)),
}
_VALUE: dict[str, Callable[[Any], Any]] = {
    _RELU: torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda z: functional.gelu(z, approximate="tanh"),
    "silu": functional.silu,
    _SIGMOID: torch.sigmoid,
}


class _Form(NamedTuple):
    shape: Any
    dtype: Any


def setup(ctx: Any, inputs: Any, keyword_only_inputs: Mapping[str, Any], output: Any) -> None:
    """Keeps what `backward` needs; tensors only where the gradients asked for do."""
    a, b, c, bias, residual = inputs
    options = dict(keyword_only_inputs)
    activation = options["activation"]
    needs = _needs(ctx)
    from_result = activation in _FROM_RESULT and residual is None
    again = activation is not None and not from_result and any(needs[:4])
    ctx.options = options
    ctx.from_result = from_result
    ctx.forms = [None if each is None else _Form(each.shape, each.dtype) for each in inputs]
    ctx.save_for_backward(
        a if again or needs[1] else None,
        b if again or needs[0] else None,
        c if again and options["beta"] != 0 else None,
        bias if again else None,
        output if from_result and any(needs[:4]) else None,
    )


def _needs(ctx: Any) -> list[bool]:
    """Whether a, b, c, bias and residual need gradients; trailing defaults are not passed on."""
    needs = list(ctx.needs_input_grad)[:5]
    return needs + [False] * (5 - len(needs))


def backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """The gradients of a, b, c, bias and residual, each of its operand's shape and type."""
    a, b, c, bias, result = ctx.saved_tensors
    needs, forms, beta = _needs(ctx), ctx.forms, ctx.options["beta"]
    through = grad
    if any(needs[:4]) and ctx.options["activation"] is not None:
        through = _through(ctx, grad, a, b, c, bias, result)
    of_a, of_b = _of_factors(ctx, through, a, b, needs)
    return (
        of_a,
        of_b,
        _summed(through, forms[2]) * beta if needs[2] and beta != 0 else None,
        _summed(through, forms[3]) if needs[3] else None,
        _summed(grad, forms[4]) if needs[4] else None,
    )


# --- Through the activation ----------------------------------------------------------------------


def _through(ctx: Any, grad: Any, a: Any, b: Any, c: Any, bias: Any, result: Any) -> Any:
    """The gradient of z."""
    activation = ctx.options["activation"]
    if ctx.from_result:
        return _FROM_RESULT[activation](grad, result)
    wide = _wide(a.dtype)
    z = _product(ctx, a, b, wide, c=c, bias=bias, beta=ctx.options["beta"])
    grad = grad.to(wide)
    if activation not in GATED:
        return _FROM_SUM[activation](grad, z)
    gate, up = z.chunk(2, -1)
    function = GATED[activation]
    of_gate = _FROM_SUM[function](grad * up, gate)
    return torch.cat((of_gate, grad * _VALUE[function](gate)), -1)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The type in which is summed: fp32, for what matmul takes."""
    return torch.promote_types(dtype, torch.float32)


def _product(ctx: Any, a: Any, b: Any, dtype: torch.dtype, **more: Any) -> Any:
    """alpha · a · b with the same options. Imported late: the op is registered with this module."""
    from tilewright.torch.functions import matmul

    options = {name: ctx.options[name] for name in ("alpha", "deterministic", "batch_invariant")}
    return matmul(a, b, out_dtype=dtype, **options, **more)


# --- Through the product -------------------------------------------------------------------------


def _of_factors(ctx: Any, grad: Any, a: Any, b: Any, needs: list[bool]) -> tuple[Any, Any]:
    """alpha · G·Bᵀ and alpha · Aᵀ·G, where G is the gradient in the factors' type."""
    of_a = of_b = None
    form_a, form_b = ctx.forms[:2]
    grad = grad.to(form_a.dtype)
    if len(form_b.shape) == 1:
        grad = grad.unsqueeze(-1)
    if len(form_a.shape) == 1:
        grad = grad.unsqueeze(-2)
    if needs[0]:
        of_a = _of_factor(ctx, grad, _columns(b).mT, form_a, at=-2)
    if needs[1]:
        rows = a.unsqueeze(0) if a.dim() == 1 else a
        if len(form_b.shape) <= 2 and rows.dim() > 2:  # the batch is summed over in the product
            rows, grad = rows.flatten(0, -2), grad.flatten(0, -2)
        of_b = _of_factor(ctx, rows.mT, grad, form_b, at=-1)
    return of_a, of_b


def _columns(b: Any) -> Any:
    return b.unsqueeze(-1) if b.dim() == 1 else b


def _of_factor(ctx: Any, left: Any, right: Any, form: _Form, at: int) -> Any:
    """left · right for an operand of this form; one that is a vector lacks the dimension `at`."""
    shape = tuple(form.shape)
    whole = shape if len(shape) > 1 else ((1, *shape) if at == -2 else (*shape, 1))
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if tuple(batch) == whole[:-2]:
        return _product(ctx, left, right, form.dtype).reshape(shape)
    wide = _product(ctx, left, right, _wide(form.dtype))
    return _summed(wide, _Form(whole, form.dtype)).reshape(shape)


def _summed(grad: Any, form: _Form) -> Any:
    """The gradient of what was broadcast: summed in fp32, rounded once."""
    missing = grad.dim() - len(form.shape)
    spread = [
        missing + axis
        for axis, extent in enumerate(form.shape)
        if extent == 1 and grad.shape[missing + axis] != 1
    ]
    if missing or spread:
        grad = grad.sum([*range(missing), *spread], dtype=_wide(grad.dtype))
    return grad.reshape(form.shape).to(form.dtype)

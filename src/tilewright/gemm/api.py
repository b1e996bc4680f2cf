"""The public functions: tilewright.matmul and tilewright.linear."""

from __future__ import annotations

from typing import Any

from tilewright.gemm.product import Linear, Matmul

__all__ = ["Matmul", "linear", "matmul"]


def matmul(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
    epilogue: Any = None,
    out: Any = None,
    out_dtype: Any = None,
    precision: str | None = None,
    deterministic: bool = True,
    batch_invariant: bool = False,
    tune: str = "off",
    stream: Any = None,
    engine: str = "auto",
) -> Any:
    """D = round(residual + scale · act(alpha·AB + beta·C + bias)), rounded once, at the end.

    `epilogue`, a part of `tilewright.gemm.epilogue` or a list of them, stands after `act` and
    before the residual: there a Scale has its place.

    Shapes   those of numpy.matmul: a[..., m, k] · b[..., k, n], batch dimensions broadcast, a
             vector is one row on the left and one column on the right. c, bias and residual
             broadcast to the result by NumPy's rules: a bias of length n adds along columns, one of
             m × 1 along rows. With a gate, such as "swiglu", b has 2·n columns, those of
             the gate first, and so have c and bias; the result has n. Without elements nothing
             runs; with k = 0 the product is 0 and the rest of the formula holds.
    Types    a and b both bf16, both fp16 or both fp32; out_dtype any of these, else as a. Sums are
             fp32; fp32 operands are multiplied in fp32, never in TF32. c, bias and residual may be
             of any of these types. Any strides and alignment, also 0 and negative ones.
             Arrays of NumPy (bf16 by ml_dtypes), which run on a GPU if there is one; tensors of
             PyTorch, CuPy and JAX (eager), and whatever has __dlpack__ or
             __cuda_array_interface__, on a GPU. The result is the same framework's.
    Parts    `activation` is relu, gelu (by erf, as PyTorch's), gelu_tanh, silu, sigmoid or tanh,
             or a gate: swiglu, geglu, geglu_tanh, reglu or glu. `alpha` and `beta` are numbers;
             with beta 0, as it is unless given, c is not read. NaN goes through all of it.
    Options  `out` gets the result; where it overlaps an operand, by way of a temporary.
             `deterministic` gives the same bits from run to run, `batch_invariant` a row's bits
             whatever m is. `tune="once"` measures all plans on the first call of a request.
             `stream` is a stream of any library or its handle, else the framework's current one.
             `engine` is auto, gpu or emulator.
    Raises   InputError, naming the argument, for what does not fit; EngineError without the GPU
             that is asked for.
    Cost     planning takes milliseconds and compiling some tenths of a second, once for each
             request (shapes, strides, alignments, types and parts) and each kernel.
    """
    return Matmul(
        a,
        b,
        c=c,
        alpha=alpha,
        beta=beta,
        bias=bias,
        activation=activation,
        residual=residual,
        epilogue=epilogue,
        out=out,
        out_dtype=out_dtype,
        precision=precision,
        deterministic=deterministic,
        batch_invariant=batch_invariant,
        tune=tune,
        stream=stream,
        engine=engine,
    ).execute()


def linear(
    x: Any, weight: Any, bias: Any = None, activation: str | None = None, **options: Any
) -> Any:
    """act(x · weightᵀ + bias), as a layer of a neural network has it.

    Shapes   x[..., k], weight[n, k] → [..., n]; bias[n]. With a gate weight has 2·n rows, those of
             the gate first, and bias 2·n elements.
    Options  the others of `matmul`, by their names.
    Raises   as `matmul`.
    """
    return Linear(x, weight, bias=bias, activation=activation, **options).execute()

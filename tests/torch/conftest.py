"""A stand-in for the kernels: the formula in PyTorch's own operations, on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

GATES = {"swiglu": "silu", "geglu": "gelu", "geglu_tanh": "gelu_tanh", "reglu": "relu",
         "glu": "sigmoid"}  # fmt: skip
FUNCTIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")


def activated(z: Any, activation: str | None) -> Any:
    """act(z), by the functions that PyTorch has under these names."""
    import torch
    from torch.nn import functional

    if activation is None:
        return z
    if activation in GATES:
        gate, up = z.chunk(2, -1)
        return activated(gate, GATES[activation]) * up
    if activation == "gelu_tanh":
        return functional.gelu(z, approximate="tanh")
    return getattr(functional if activation in ("gelu", "silu") else torch, activation)(z)


def formula(
    a: Any,
    b: Any,
    *,
    c: Any = None,
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,
    activation: str | None = None,
    residual: Any = None,
) -> Any:
    z = alpha * (a @ b)
    if beta != 0:
        z = z + beta * c
    if bias is not None:
        z = z + bias
    y = activated(z, activation)
    return y if residual is None else y + residual


class Computed:
    """What tilewright.matmul was called with; the results are the formula's, rounded once."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def matmul(self, a: Any, b: Any, **options: Any) -> Any:
        import torch

        self.calls.append({"a": a, "b": b, **options})
        out, dtype = options.pop("out", None), options.pop("out_dtype", None)
        options = {
            k: v for k, v in options.items() if k not in ("deterministic", "batch_invariant")
        }
        if options.get("beta", 0) == 0:
            options.pop("c", None)
        wide = torch.promote_types(a.dtype, torch.float32)
        cast = {k: v.to(wide) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
        made = formula(a.to(wide), b.to(wide), **cast)
        if out is not None:
            return out.copy_(made)
        return made.to(dtype or a.dtype).contiguous()

    def linear(self, x: Any, weight: Any, bias: Any = None, activation: Any = None,
               **options: Any) -> Any:  # fmt: skip
        return self.matmul(x, weight.mT, bias=bias, activation=activation, **options)


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> Computed:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from tilewright.gemm import api

    found = Computed()
    monkeypatch.setattr(api, "matmul", found.matmul)
    monkeypatch.setattr(api, "linear", found.linear)
    return found

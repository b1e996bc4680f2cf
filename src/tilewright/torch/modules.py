"""Linear, a torch.nn.Linear with its activation fused, and a model's linears made such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tilewright.errors import InputError
from tilewright.gemm.links import activating
from tilewright.torch.functions import linear

_TAKEN = (torch.bfloat16, torch.float16, torch.float32)
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Linear(torch.nn.Linear):  # type: ignore[misc]  # torch is Any where it is not installed
    """act(x · weightᵀ + bias), with the parameters, names and initial values of torch.nn.Linear.

    Shapes   weight[out_features, in_features] always, so that state dicts go both ways; with a
             gate, such as "swiglu", its first half of rows is the gate, and the result has half as
             many features as out_features.
    Types    the weights in bf16, fp16 or fp32, and x the same, unless under autocast.
    Raises   InputError for an unknown activation, and for a gate over an odd out_features.
    """

    activation: str | None = None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        activation: str | None = None,
    ) -> None:
        if activation is not None and out_features % activating(activation).columns:
            raise InputError(
                f"out_features={out_features} must be even for the gate {activation!r}: one half "
                "is the gate, the other what it gates."
            )
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, input: Any) -> Any:  # by torch.nn.Linear's name: some give it as a keyword
        return linear(input, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        told = str(super().extra_repr())
        return told if self.activation is None else f"{told}, activation={self.activation!r}"


def replace_linears(model: Any, *, filter: Callable[[str, Any], bool] | None = None) -> list[str]:
    """Makes a Linear of each torch.nn.Linear in the model, in place; returns their names.

    Each module stays the object that it is and changes its class only: parameters, also tied ones,
    hooks, buffers, the training flag and an optimiser's references are kept. A module that the
    model has in several places is named once.
    filter   gets a name and a module, and says whether to replace it; without one all are replaced
             but those that cannot be: subclasses, quantised ones among them, whose forward is their
             own, weights that are no plain tensors or of other types, and a forward that some
             library has put in the instance's place.
    Raises   InputError for a module of these that `filter` asks for, before any is replaced.
    """
    chosen: dict[str, Any] = {}
    for name, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or isinstance(module, Linear):
            continue
        if filter is not None and not filter(name, module):
            continue
        why = _refusal(module)
        if why is None:
            chosen[name] = module
        elif filter is not None:
            raise InputError(f"{name or 'the model'} cannot be replaced: {why}; filter it out.")
    for module in chosen.values():
        module.__class__ = Linear
    return list(chosen)


def _refusal(module: Any) -> str | None:
    """Why a module cannot change its class: what it does is not what torch.nn.Linear does."""
    if type(module) is not torch.nn.Linear:
        return f"it is a {type(module).__name__}, whose forward may be another"
    if "forward" in vars(module):
        return "its forward has been replaced"
    for name in ("weight", "bias"):
        tensor = getattr(module, name)
        if tensor is None:
            continue
        if type(tensor) not in _PLAIN:
            return f"its {name} is a {type(tensor).__name__}, no plain tensor"
        if tensor.dtype not in _TAKEN:
            word = str(tensor.dtype).removeprefix("torch.")
            return f"its {name} is {word}, and matmul takes bf16, fp16 and fp32"
    return None

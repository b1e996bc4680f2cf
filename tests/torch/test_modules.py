"""Linear, its state dict, and the replacement of a model's linears."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

from tilewright.errors import InputError  # noqa: E402
from tilewright.torch import Linear, replace_linears  # noqa: E402

from .conftest import activated  # noqa: E402

if TYPE_CHECKING:
    from .conftest import Computed


@pytest.mark.parametrize("activation", [None, "gelu", "swiglu"])
@pytest.mark.parametrize("bias", [True, False])
def test_state_dicts_go_both_ways(computed: Computed, activation: str | None, bias: bool) -> None:
    theirs = nn.Linear(5, 6, bias)
    ours = Linear(5, 6, bias, activation=activation)
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 3, 5)
    expected = activated(theirs(x), activation)
    assert torch.allclose(ours(x), expected, atol=1e-6)
    assert torch.allclose(ours(input=x), expected, atol=1e-6)


def test_it_is_made_as_theirs() -> None:
    torch.manual_seed(3)
    theirs = nn.Linear(5, 6, dtype=torch.bfloat16)
    torch.manual_seed(3)
    ours = Linear(5, 6, dtype=torch.bfloat16, activation="relu")
    assert torch.equal(ours.weight, theirs.weight)
    assert torch.equal(ours.bias, theirs.bias)
    assert str(ours) == "Linear(in_features=5, out_features=6, bias=True, activation='relu')"
    assert Linear(5, 6, device="meta").weight.is_meta


def test_what_is_no_layer() -> None:
    with pytest.raises(InputError, match="activation='mish' is not known"):
        Linear(5, 6, activation="mish")
    with pytest.raises(InputError, match="out_features=7 must be even for the gate 'glu'"):
        Linear(5, 7, activation="glu")


def test_gradients_reach_the_parameters(computed: Computed) -> None:
    layer = Linear(5, 6, activation="silu")
    x = torch.randn(3, 5)
    layer(x).sum().backward()
    got = layer.weight.grad.clone(), layer.bias.grad.clone()
    layer.zero_grad()
    nn.functional.silu(nn.functional.linear(x, layer.weight, layer.bias)).sum().backward()
    assert torch.allclose(got[0], layer.weight.grad)
    assert torch.allclose(got[1], layer.bias.grad)


def test_compiled(computed: Computed) -> None:
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 2))
    assert replace_linears(model) == ["0", "2"]
    x = torch.randn(3, 5)
    assert torch.allclose(torch.compile(model, fullgraph=True, backend="aot_eager")(x), model(x))
    assert len(computed.calls) == 4


class Tied(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(7, 5)
        self.inner = nn.Linear(5, 5)
        self.again = self.inner
        self.head = nn.Linear(5, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.again(self.inner(self.embed(x))))


def test_replaced_in_place(computed: Computed) -> None:
    model = Tied().eval()
    expected = model(torch.arange(3))
    kept = dict(model.named_parameters())
    inner, seen = model.inner, []
    inner.register_forward_hook(lambda *_: seen.append(1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    assert replace_linears(model) == ["inner", "head"]
    assert model.again is model.inner is inner
    assert type(inner) is Linear
    assert model.head.weight is model.embed.weight
    assert all(kept[name] is parameter for name, parameter in model.named_parameters())
    assert not inner.training
    assert torch.allclose(model(torch.arange(3)), expected, atol=1e-6)
    assert len(seen) == 2
    assert optimizer.param_groups[0]["params"][0] is model.embed.weight
    assert len(computed.calls) == 3
    assert replace_linears(model) == []
    assert type(copy.deepcopy(model).inner) is Linear


def test_a_filter(computed: Computed) -> None:
    model = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 64))
    assert replace_linears(model, filter=lambda name, module: module.out_features < 10) == ["0"]
    assert type(model[1]) is nn.Linear
    single = nn.Linear(5, 6)
    assert replace_linears(single) == [""]
    assert type(single) is Linear


class Quantized(nn.Linear):  # type: ignore[misc]
    pass


class Packed(torch.Tensor):  # type: ignore[misc]
    pass


def patched() -> Any:
    module = nn.Linear(5, 6)
    module.forward = lambda x: x
    return module


def packed() -> Any:
    module = nn.Linear(5, 6)
    module.weight = nn.Parameter(torch.ones(6, 5).as_subclass(Packed))
    return module


@pytest.mark.parametrize(
    ("module", "why"),
    [
        (Quantized(5, 6), "it is a Quantized, whose forward may be another"),
        (nn.LazyLinear(6), "it is a LazyLinear"),
        (nn.Linear(5, 6).double(), "its weight is float64, and matmul takes"),
        (patched(), "its forward has been replaced"),
        (packed(), "its weight is a Packed, no plain tensor"),
    ],
)
def test_what_cannot_be_replaced(module: Any, why: str) -> None:
    kind = type(module)
    model = nn.Sequential(nn.Linear(5, 6), module)
    assert replace_linears(copy.copy(model), filter=lambda name, _: name == "0") == ["0"]
    model = nn.Sequential(nn.Linear(5, 6), module)
    with pytest.raises(InputError, match=f"1 cannot be replaced: {why}.*; filter it out"):
        replace_linears(model, filter=lambda *_: True)
    assert type(model[0]) is nn.Linear
    assert replace_linears(model) == ["0"]
    assert type(module) is kind

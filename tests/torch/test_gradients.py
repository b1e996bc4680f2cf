"""Gradients and second ones against numerical ones; what backward keeps and runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.torch import matmul  # noqa: E402

from .conftest import FUNCTIONS, GATES, formula  # noqa: E402

if TYPE_CHECKING:
    from .conftest import Computed


def numbers(*shape: int, dtype: Any = torch.float64) -> Any:
    return torch.randn(*shape, dtype=torch.float64).to(dtype).requires_grad_()


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(1)


@contextmanager
def kept_tensors() -> Iterator[list[Any]]:
    saved: list[Any] = []

    def keep(tensor: Any) -> Any:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield saved


@pytest.mark.parametrize("rest", [False, True], ids=["", "residual"])
@pytest.mark.parametrize("activation", [None, *FUNCTIONS, *GATES])
def test_all_parts(computed: Computed, activation: str | None, rest: bool) -> None:
    width = 2 if activation in GATES else 4
    operands = [numbers(3, 5), numbers(5, 4), numbers(3, 1), numbers(4)]
    if rest:
        operands.append(numbers(1, width))

    def layer(a: Any, b: Any, c: Any, bias: Any, residual: Any = None) -> Any:
        return matmul(
            a, b, c=c, alpha=0.7, beta=1.5, bias=bias, activation=activation, residual=residual
        )

    assert torch.autograd.gradcheck(layer, operands)
    assert torch.autograd.gradgradcheck(layer, operands)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5,), (5,)),
        ((5,), (5, 4)),
        ((3, 5), (5,)),
        ((2, 3, 5), (5,)),
        ((2, 3, 5), (5, 4)),
        ((2, 1, 3, 5), (5, 4)),
        ((3, 5), (2, 5, 4)),
        ((5,), (2, 5, 4)),
        ((2, 1, 3, 5), (1, 3, 5, 4)),
        ((0, 5), (5, 4)),
        ((3, 0), (0, 4)),
    ],
)
def test_shapes(computed: Computed, left: Any, right: Any) -> None:
    a, b = numbers(*left), numbers(*right)
    assert torch.autograd.gradcheck(matmul, (a, b))


def test_of_some_operands_only(computed: Computed) -> None:
    """Fault INT-10: mixed flags."""
    for wanted in range(5):
        operands = [numbers(3, 5), numbers(5, 4), numbers(3, 4), numbers(4), numbers(3, 4)]
        for at, tensor in enumerate(operands):
            tensor.requires_grad_(at == wanted)
        a, b, c, bias, residual = operands
        made: dict[str, Any] = {
            "c": c,
            "beta": 2.0,
            "bias": bias,
            "activation": "silu",
            "residual": residual,
        }
        (got,) = torch.autograd.grad(matmul(a, b, **made).square().sum(), operands[wanted])
        (expected,) = torch.autograd.grad(formula(a, b, **made).square().sum(), operands[wanted])
        assert torch.allclose(got, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits_against_float64(computed: Computed, dtype: Any) -> None:
    """Bound: what flows back through each product was rounded once, and the gradient once more."""
    wide = [numbers(33, 64), numbers(64, 48), numbers(48)]
    small = [each.detach().to(dtype).requires_grad_() for each in wide]
    exact = [each.detach().double().requires_grad_() for each in small]
    options: dict[str, Any] = {"activation": "gelu", "alpha": 0.25}
    got = torch.autograd.grad(matmul(small[0], small[1], bias=small[2], **options).sum(), small)
    true = torch.autograd.grad(formula(exact[0], exact[1], bias=exact[2], **options).sum(), exact)
    unit = torch.finfo(dtype).eps / 2
    slope = torch.full((33, 48), 1.13, dtype=torch.float64)  # the largest of gelu
    mass = [0.25 * slope @ exact[1].abs().mT, 0.25 * exact[0].abs().mT @ slope, slope.sum(0)]
    for one, other, most in zip(got, true, mass, strict=True):
        assert one.dtype == dtype
        error = (one.double() - other).abs() - unit * other.abs()
        assert (error <= 1.01 * unit * most.detach()).all()


@pytest.mark.parametrize(
    ("activation", "rest", "kept", "products"),
    [
        (None, False, 2, 2),
        ("relu", False, 3, 2),  # the result
        ("relu", True, 3, 3),  # the bias, to make the sum again
        ("gelu", False, 3, 3),
        ("swiglu", False, 3, 3),
    ],
)
def test_what_is_kept_and_run(
    computed: Computed, activation: str | None, rest: bool, kept: int, products: int
) -> None:
    a, b, bias = numbers(3, 5), numbers(5, 4), numbers(4)
    with kept_tensors() as saved:
        made = matmul(
            a, b, bias=bias, activation=activation, residual=numbers(3, 4) if rest else None
        )
    assert len(saved) == kept
    del computed.calls[:]
    made.sum().backward()
    assert len(computed.calls) == products


def test_a_frozen_weight_keeps_no_input(computed: Computed) -> None:
    a, b = numbers(3, 5), numbers(5, 4).requires_grad_(False)
    with kept_tensors() as saved:
        matmul(a, b)
    assert [each.shape for each in saved] == [b.shape]


def test_a_batch_over_one_weight_is_one_product(computed: Computed) -> None:
    x, w = numbers(2, 3, 5), numbers(5, 4)
    made = matmul(x, w)
    del computed.calls[:]
    made.sum().backward()
    assert sorted(tuple(call["a"].shape) for call in computed.calls) == [(2, 3, 4), (5, 6)]


def test_options_are_passed_on(computed: Computed) -> None:
    made = matmul(numbers(3, 5), numbers(5, 4), deterministic=False, batch_invariant=True)
    made.sum().backward()
    assert [call["batch_invariant"] for call in computed.calls] == [True] * 3
    assert [call["deterministic"] for call in computed.calls] == [False] * 3


def test_compiled_gradients(computed: Computed) -> None:
    compiled = torch.compile(matmul, fullgraph=True, backend="aot_eager")
    for activation in ("gelu", "relu", "geglu"):
        operands = [numbers(7, 5, dtype=torch.float32), numbers(5, 4, dtype=torch.float32)]
        got, expected = (
            torch.autograd.grad(call(*operands, activation=activation).square().sum(), operands)
            for call in (compiled, matmul)
        )
        for one, other in zip(got, expected, strict=True):
            assert torch.allclose(one, other)

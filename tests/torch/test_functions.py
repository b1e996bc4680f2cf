"""When the product is taken at once, and when by the op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

import tilewright  # noqa: E402
from tilewright.errors import InputError  # noqa: E402
from tilewright.torch import linear, matmul, ops  # noqa: E402

if TYPE_CHECKING:
    from .conftest import Computed


@pytest.fixture
def asked(computed: Computed, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ops that were called."""
    names: list[str] = []
    real, real_out = ops.MATMUL, ops.MATMUL_OUT

    def op(*operands: Any, **options: Any) -> Any:
        names.append("matmul")
        return real(*operands, **options)

    def op_out(*operands: Any, **options: Any) -> Any:
        names.append("matmul_out")
        return real_out(*operands, **options)

    monkeypatch.setattr(ops, "MATMUL", op)
    monkeypatch.setattr(ops, "MATMUL_OUT", op_out)
    return names


A, B = torch.randn(3, 5), torch.randn(5, 4)


def test_it_is_reached_by_name() -> None:
    assert tilewright.torch.matmul is matmul


def test_at_once(asked: list[str], computed: Computed) -> None:
    weight = torch.nn.Parameter(B)
    out = torch.empty(3, 4)
    assert torch.equal(matmul(A, B), A @ B)
    assert matmul(A, B, out=out) is out
    with torch.no_grad():
        matmul(A, weight)
        linear(A, weight.mT.contiguous(), torch.ones(4), "relu")
    with torch.inference_mode():
        matmul(A, weight, c=torch.ones(4), alpha=2.0, beta=3.0)
    assert asked == []
    assert len(computed.calls) == 5
    assert (computed.calls[-1]["alpha"], computed.calls[-1]["beta"]) == (2.0, 3.0)


def test_gradients_take_the_op(asked: list[str]) -> None:
    for name in ("c", "bias", "residual"):
        made = matmul(A, B, beta=1.0, **{"c": B[:1], name: torch.ones(4, requires_grad=True)})
        assert made.requires_grad
    assert linear(A, torch.nn.Parameter(B.mT)).requires_grad
    assert asked == ["matmul"] * 4


class Seeing(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return op(*args, **(kwargs or {}))


class Override(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return op(*args, **(kwargs or {}))


class Subclass(torch.Tensor):  # type: ignore[misc]
    pass


def test_modes_and_subclasses_take_the_op(asked: list[str]) -> None:
    with Seeing():
        matmul(A, B)
    with Override():
        matmul(A, B, out=torch.empty(3, 4))
    assert type(matmul(A.as_subclass(Subclass), B)) is Subclass
    assert asked == ["matmul", "matmul_out", "matmul"]


def test_transforms_take_the_op(asked: list[str]) -> None:
    batch = torch.randn(2, 3, 5)
    assert torch.allclose(torch.vmap(lambda a: matmul(a, B))(batch), batch @ B)
    assert asked == ["matmul"]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch's own use of it
def test_forward_mode_is_refused(computed: Computed) -> None:
    """Fault INT-10: it would give tangents of zero."""
    with pytest.raises(InputError, match="b has a tangent, and matmul has no derivative in fo"):
        torch.func.jvp(lambda b: matmul(A, b), (B,), (B,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(A, A)
        with pytest.raises(InputError, match="a has a tangent"):
            matmul(dual, B, out=torch.empty(3, 4))
        with pytest.raises(InputError, match="bias has a tangent"):
            ops.MATMUL(A, B, None, dual[:, :4])
        assert torch.equal(matmul(A, B), A @ B)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled(computed: Computed, backend: str) -> None:
    def layer(a: Any, b: Any, out: Any) -> Any:
        matmul(a.relu(), b, bias=b[0], activation="silu", out=out)
        return linear(a, b.mT) + out

    out, same = torch.empty(3, 4), torch.empty(3, 4)
    got = torch.compile(layer, fullgraph=True, backend=backend)(A, B, out)
    assert torch.allclose(got, layer(A, B, same))
    assert torch.allclose(out, same)


def test_adding_in_place_compiled(computed: Computed) -> None:
    """Fault INT-05: out is c."""

    def accumulate(a: Any, b: Any, total: Any) -> Any:
        matmul(a, b, c=total, beta=1.0, out=total)
        return total.sum(0)

    one, other = torch.ones(3, 4), torch.ones(3, 4)
    got = torch.compile(accumulate, fullgraph=True, backend="aot_eager")(A, B, one)
    assert torch.equal(got, accumulate(A, B, other))
    assert torch.equal(one, other)
    assert torch.allclose(one, 1 + A @ B)


def test_no_gradient_goes_through_out(computed: Computed) -> None:
    for name in ("b", "residual", "out"):
        given = {"a": A, "b": B, "residual": torch.ones(4), "out": torch.empty(3, 4)}
        given[name] = given[name].clone().requires_grad_()
        with pytest.raises(InputError, match=f"{name} requires a gradient, and none goes through"):
            matmul(**given)


def test_the_product_says_who_records_gradients() -> None:
    fake: Any = torch._subclasses.FakeTensorMode()
    with fake:
        a = torch.empty(3, 5, device="cuda", requires_grad=True)
    with pytest.raises(InputError, match=r"call tilewright.torch.matmul, which does"):
        tilewright.matmul(a, B)

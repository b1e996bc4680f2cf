"""torch.ops.tilewright: schemas, tracing without memory, opcheck, autocast."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._subclasses import FakeTensorMode  # noqa: E402

import tilewright  # noqa: E402
from tilewright.errors import InputError  # noqa: E402
from tilewright.torch import ops  # noqa: E402

if TYPE_CHECKING:
    from .conftest import Computed

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32


def numbers(*shape: int, dtype: Any = FP32, grad: bool = False) -> Any:
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def cases() -> Iterator[Any]:
    yield pytest.param((numbers(5, 4), numbers(4, 6)), {}, id="plain")
    yield pytest.param((numbers(4, 5, dtype=BF16).mT, numbers(6, 4, dtype=BF16).mT),
                       {"out_dtype": FP32}, id="strided")  # fmt: skip
    yield pytest.param((numbers(2, 1, 5, 4), numbers(3, 4, 6)), {"alpha": 0.5}, id="batches")
    yield pytest.param((numbers(4), numbers(4)), {}, id="vectors")
    yield pytest.param((numbers(4), numbers(3, 4, 6)), {}, id="row")
    yield pytest.param((numbers(0, 4), numbers(4, 6)), {}, id="empty")
    yield pytest.param((numbers(5, 0), numbers(0, 6), None, numbers(6)), {}, id="k=0")
    yield pytest.param(
        (numbers(5, 4), numbers(4, 6), numbers(5, 1), numbers(6), numbers(1, 3)),
        {"beta": 2.0, "activation": "swiglu", "batch_invariant": True},
        id="all",
    )


@pytest.mark.parametrize(("operands", "options"), list(cases()))
def test_tracing_says_what_comes(computed: Computed, operands: Any, options: Any) -> None:
    """Fault INT-06: shape, strides and type of a traced result are the real one's."""
    real = ops.MATMUL(*operands, **options)
    with FakeTensorMode() as mode:
        traced = ops.MATMUL(*(x if x is None else mode.from_tensor(x) for x in operands), **options)
    assert (traced.shape, traced.stride(), traced.dtype, traced.device) == (
        real.shape,
        real.stride(),
        real.dtype,
        real.device,
    )


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # opcheck's own looking
@pytest.mark.parametrize(("operands", "options"), list(cases()))
def test_opcheck(computed: Computed, operands: Any, options: Any) -> None:
    torch.library.opcheck(ops.MATMUL, operands, options)
    recorded = tuple(x if x is None else x.detach().requires_grad_() for x in operands)
    torch.library.opcheck(ops.MATMUL, recorded, options)
    out = torch.empty_like(ops.MATMUL(*operands, **options))
    options = {name: value for name, value in options.items() if name != "out_dtype"}
    torch.library.opcheck(ops.MATMUL_OUT, operands, {**options, "out": out})


@pytest.mark.parametrize(
    ("operands", "options", "said"),
    [
        ((numbers(5, 4), numbers(5, 6)), {}, "b has 5 rows and a has 4 columns"),
        ((numbers(5, 4), numbers(4, 6, dtype=BF16)), {}, "a is fp32 and b is bf16; convert one"),
        ((numbers(5, 4).double(), numbers(4, 6)), {}, "a is float64; matmul takes bf16"),
        ((numbers(5, 4), numbers(4, 6), None, numbers(5)), {}, "bias has the shape .5,., which"),
        ((numbers(5, 4), numbers(4, 6), None, None, numbers(5, 6)), {"activation": "glu"},
         r"residual has the shape \(5, 6\), which does not broadcast to \(5, 3\), the"),
        ((numbers(5, 4), numbers(4, 5)), {"activation": "glu"}, "b has 5 columns, and a gate"),
        ((numbers(5, 4), numbers(4, 6)), {"activation": "mish"}, "activation='mish' is not known"),
        ((numbers(5, 4), numbers(4, 6)), {"beta": 1.0}, "beta=1.0 scales c, and c is not given"),
        ((numbers(5, 4), numbers(4, 6)), {"out_dtype": torch.int8}, "out_dtype is int8; matmul"),
        ((numbers(5, 4), numbers(4, 6).to("meta")), {}, "a is on cpu and b on meta; move one"),
    ],
)  # fmt: skip
def test_tracing_refuses_what_the_product_does(operands: Any, options: Any, said: str) -> None:
    with FakeTensorMode() as mode, pytest.raises(InputError, match=said):
        ops.MATMUL(*(x if x is None else mode.from_tensor(x) for x in operands), **options)


def test_c_is_not_looked_at_without_beta(computed: Computed) -> None:
    with FakeTensorMode():
        strange = torch.empty(9, 9, dtype=torch.int8)
        assert ops.MATMUL(torch.empty(5, 4), torch.empty(4, 6), strange).shape == (5, 6)


@pytest.mark.parametrize(
    ("out", "options", "said"),
    [
        (numbers(6, 5), {}, r"out has the shape \(6, 5\), and the result \(5, 6\)"),
        (numbers(5, 6), {"out_dtype": FP16}, "out_dtype is .*16 and out is fp32; leave out_dtype"),
    ],
)
def test_tracing_refuses_a_wrong_out(out: Any, options: Any, said: str) -> None:
    with FakeTensorMode() as mode:
        a, b, to = (mode.from_tensor(x) for x in (numbers(5, 4), numbers(4, 6), out))
    with pytest.raises(InputError, match=said):
        ops.MATMUL_OUT(a, b, out=to, **options)


def test_a_cpu_gets_the_sentence_of_the_product() -> None:
    """Fault RUN-04."""
    a, b = numbers(5, 4), numbers(4, 6)
    for call in (ops.MATMUL, tilewright.matmul, tilewright.torch.matmul):
        with pytest.raises(InputError, match="a lies on the device cpu; move it to a GPU with a"):
            call(a, b)
    with pytest.raises(InputError, match="a lies on the device cpu"):
        ops.MATMUL_OUT(a, b, out=numbers(5, 6))


# --- Autocast: on tensors of a pretended GPU, as autocast without one does nothing ---------------


@contextmanager
def autocast(dtype: Any) -> Iterator[None]:
    before = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", before[0])
        torch.set_autocast_dtype("cuda", before[1])


@pytest.mark.parametrize("dtype", [BF16, FP16])
def test_autocast_casts_as_mm_does(dtype: Any) -> None:
    with FakeTensorMode():
        a = torch.empty(5, 4, device="cuda", requires_grad=True)
        b = torch.empty(4, 6, device="cuda", dtype=BF16)
        bias = torch.empty(6, device="cuda")
        with autocast(dtype):
            assert torch.mm(a, b).dtype == dtype
            made = tilewright.torch.matmul(a, b, bias=bias)
            assert made.dtype == dtype
            assert tilewright.torch.matmul(a, b, out_dtype=FP32).dtype == FP32
            assert made.requires_grad  # through the cast: autograd's kernels come after it
            residual = torch.empty(6, device="cuda", requires_grad=True)
            assert tilewright.torch.linear(a, b.mT, residual=residual).dtype == dtype


def test_autocast_leaves_float64_to_be_refused() -> None:
    with FakeTensorMode(), autocast(BF16), pytest.raises(InputError, match="a is float64; matmul"):
        tilewright.torch.matmul(
            torch.empty(5, 4, device="cuda", dtype=torch.float64), torch.empty(4, 6, device="cuda")
        )


# --- Symbolic extents ----------------------------------------------------------------------------


def test_extents_stay_symbolic(computed: Computed) -> None:
    """One graph for all m; m is not bounded by it, and n and k are taken as they come."""
    graphs: list[Any] = []

    def backend(graph: Any, examples: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @torch.compile(fullgraph=True, dynamic=True, backend=backend)  # type: ignore[untyped-decorator]
    def layer(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        return tilewright.torch.linear(x, w, bias, "swiglu", residual=residual)

    w, bias = numbers(6, 4), numbers(6)
    for m in (5, 7, 300):
        x, residual = numbers(2, m, 4), numbers(m, 3)
        got = layer(x, w, bias, residual)
        assert torch.equal(got, tilewright.torch.linear(x, w, bias, "swiglu", residual=residual))
    assert len(graphs) == 1


def test_export_with_an_unbounded_dimension(computed: Computed) -> None:
    class Model(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, w: Any) -> Any:
            return tilewright.torch.linear(x, w, activation="gelu")

    exported = torch.export.export(
        Model(), (numbers(5, 4), numbers(6, 4)), dynamic_shapes=({0: torch.export.Dim("m")}, None)
    )
    x, w = numbers(9, 4), numbers(6, 4)
    assert torch.equal(exported.module()(x, w), tilewright.torch.linear(x, w, activation="gelu"))


def test_extents_that_only_the_data_know(computed: Computed) -> None:
    @torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)  # type: ignore[untyped-decorator]
    @torch.compile(fullgraph=True, backend="aot_eager")  # type: ignore[untyped-decorator]
    def chosen(x: Any, w: Any, bias: Any) -> Any:
        return tilewright.torch.linear(x[x[:, 0] > 0], w, bias, "relu")

    x, w, bias = numbers(9, 4), numbers(6, 4), numbers(6)
    expected = tilewright.torch.linear(x[x[:, 0] > 0], w, bias, "relu")
    assert torch.equal(chosen(x, w, bias), expected)

"""The op and the modules on a GPU: results, gradients, torch.compile, CUDA graphs, autocast."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

from tilewright.engines import probe  # noqa: E402
from tilewright.errors import EngineError  # noqa: E402
from tilewright.gemm import run  # noqa: E402
from tilewright.gemm.targets import gpu_target  # noqa: E402
from tilewright.torch import Linear, linear, matmul, ops, replace_linears  # noqa: E402

from .conftest import formula  # noqa: E402

_WITHOUT = probe.gpu_problem() or ("" if torch.cuda.is_available() else "PyTorch sees no GPU")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(_WITHOUT), reason=_WITHOUT),
    pytest.mark.filterwarnings("ignore"),  # PyTorch's advice, as Inductor's on TF32
]

BF16 = torch.bfloat16


def numbers(*shape: int, dtype: Any = BF16) -> Any:
    return torch.randn(*shape, device="cuda").to(dtype)


def close(got: Any, expected: Any) -> bool:
    return bool(torch.allclose(got.double(), expected.double(), rtol=2e-2, atol=2e-1))


def test_opcheck() -> None:
    a, b, bias = (x.requires_grad_() for x in (numbers(33, 65), numbers(65, 40), numbers(40)))
    torch.library.opcheck(ops.MATMUL, (a, b, None, bias), {"activation": "gelu"})
    operands = a.detach(), b.detach(), None, bias.detach()
    torch.library.opcheck(ops.MATMUL_OUT, operands, {"out": numbers(33, 40)})


@pytest.mark.parametrize("activation", [None, "relu", "gelu", "silu", "swiglu"])
def test_gradients(activation: str | None) -> None:
    x, w, bias = (
        t.requires_grad_() for t in (numbers(2, 65, 128), numbers(256, 128), numbers(256))
    )
    exact = [t.detach().double().requires_grad_() for t in (x, w, bias)]
    got = torch.autograd.grad(linear(x, w, bias, activation).float().mean(), (x, w, bias))
    true = formula(exact[0], exact[1].mT, bias=exact[2], activation=activation).mean()
    for one, other in zip(got, torch.autograd.grad(true, exact), strict=True):
        scale = other.abs().max()
        assert (one.double() - other).abs().max() <= 0.03 * scale


def test_inductor() -> None:
    def layer(x: Any, w: Any, bias: Any, out: Any) -> Any:
        matmul(x, w.mT, out=out)
        return linear(x.relu(), w, bias, "gelu") * 2

    x, w, bias = numbers(65, 128), numbers(256, 128), numbers(256)
    out, same = numbers(65, 256), numbers(65, 256)
    got = torch.compile(layer, fullgraph=True)(x, w, bias, out)
    assert close(got, layer(x, w, bias, same))
    assert torch.equal(out, same)


def test_a_graph_replays_what_eager_gives() -> None:
    """Fault RUN-01: on the stream that is captured, with the operands' values at the replay."""
    x, w, out = numbers(129, 200), numbers(72, 200), numbers(129, 72)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        linear(x, w, activation="gelu")
        matmul(x, w.mT, out=out)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        made = linear(x, w, activation="gelu")
        matmul(x, w.mT, out=out)
    x.copy_(numbers(129, 200))
    graph.replay()
    assert torch.equal(made, linear(x, w, activation="gelu"))
    assert torch.equal(out, matmul(x, w.mT))


def test_a_graph_before_the_first_call() -> None:
    x, w = numbers(129, 200), numbers(72, 200)
    torch.cuda.synchronize()
    engine = gpu_target(0).engine
    run.artifact.cache_clear()
    loaded = dict(engine._kernels)
    engine._kernels.clear()
    try:
        with (
            pytest.raises(EngineError, match="while a CUDA graph is captured: run it once before"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            linear(2 * x, w)  # PyTorch warns of a graph that is empty
    finally:
        engine._kernels.update(loaded)
    assert close(linear(x, w), x.double() @ w.double().mT)


def test_inductor_with_graphs() -> None:
    model = torch.nn.Sequential(Linear(128, 256, activation="gelu"), Linear(256, 64))
    model = model.cuda().to(BF16)
    compiled = torch.compile(model, fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            x = numbers(33, 128)
            assert close(compiled(x).clone(), model(x))


def test_autocast() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.Linear(256, 64)).cuda()
    x = numbers(33, 128, dtype=torch.float32)
    with torch.autocast("cuda", dtype=BF16):
        expected = model(x)
        assert replace_linears(model) == ["0", "1"]
        got = model(x)
    assert got.dtype == expected.dtype == BF16
    assert close(got, expected)
    with torch.autocast("cuda", dtype=BF16):
        assert close(torch.compile(model, fullgraph=True)(x), got)
    got.float().sum().backward()
    assert model[0].weight.grad.dtype == torch.float32

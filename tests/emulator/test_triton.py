"""PTX that Triton made (corpus/triton/record.py): right results, no findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright

Array = Any
FOLDER = Path(__file__).parent / "corpus" / "triton"
BF16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(7)


def normal(dtype: Any, *shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def softmax(x: Array) -> Array:
    e = np.exp(x.astype("f8") - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def run(
    name: str, grid: int, args: Sequence[Any], shared_bytes: int, order: dict[str, Any]
) -> None:
    """Triton adds two pointers of its own to the parameters: to scratch memory and a profile."""
    file = FOLDER / f"{name}.ptx"
    report = tilewright.emulate(
        file, None, (grid,), (128,), [*args, None, None], shared_bytes=shared_bytes, **order
    )
    assert report.completed
    assert [(it.kind, it.line, it.message) for it in report.findings] == []


@pytest.fixture(params=[None, 1, 2, 3])
def order(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if request.param is None else {"schedule": "random", "seed": request.param}


def test_softmax(order: dict[str, Any]) -> None:
    x, out = normal("f4", 5, 201), np.full((5, 201), np.nan, "f4")
    run("softmax", 5, [out, x, 201, 201], 16, order)
    np.testing.assert_allclose(out, softmax(x), rtol=1e-5)


def test_layer_norm_in_packed_bf16(order: dict[str, Any]) -> None:
    """Triton packs odd elements with nothing beside them and takes them out again."""
    x, gain, bias = normal(BF16, 4, 300), normal("f4", 300), normal("f4", 300)
    out = np.full((4, 300), np.nan, BF16)
    run("layer_norm", 4, [out, x, gain, bias, 300, np.float32(1e-5)], 1024, order)
    wide = x.astype("f8")
    scale = np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    expected = (wide - wide.mean(1, keepdims=True)) / scale * gain + bias
    np.testing.assert_allclose(out.astype("f8"), expected, atol=0.15)  # it sums in bf16


@pytest.mark.parametrize(
    ("name", "dtype", "tile", "shared_bytes", "tolerance"),
    [
        ("matmul_f16", np.float16, (64, 64), 16384, 2**-9),  # three stages of cp.async
        ("matmul_tf32", np.float32, (64, 32), 12288, 2**-7),
        ("matmul_wgmma", np.float16, (64, 64), 49152, 2**-9),  # B lies along n
    ],
)
def test_matmul(
    name: str,
    dtype: Any,
    tile: tuple[int, int],
    shared_bytes: int,
    tolerance: float,
    order: dict[str, Any],
) -> None:
    m, n, k = 150, 112, 208
    a, b, c = normal(dtype, m, k), normal(dtype, k, n), np.full((m, n), np.nan, dtype)
    blocks = -(-m // tile[0]) * -(-n // tile[1])
    run(name, blocks, [a, b, c, m, n, k], shared_bytes, order)
    exact, size = a.astype("f8") @ b.astype("f8"), abs(a).astype("f8") @ abs(b).astype("f8")
    assert (abs(c.astype("f8") - exact) <= tolerance * size).all()


def test_histogram(order: dict[str, Any]) -> None:
    x, out = RANDOM.integers(0, 64, 1000, "i4"), np.zeros(64, "i4")
    run("histogram", 4, [out, x, 1000], 2048, order)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=64))


def test_cumsum(order: dict[str, Any]) -> None:
    x, out = normal("f4", 3, 201), np.full((3, 201), np.nan, "f4")
    run("cumsum", 3, [out, x, 201], 32, order)
    np.testing.assert_allclose(out, np.cumsum(x.astype("f8"), 1), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "shared_bytes"),
    [("attention", 24576), ("attention_wgmma", 40960)],  # there A comes from registers, too
)
def test_attention(name: str, shared_bytes: int, order: dict[str, Any]) -> None:
    length, d = 112, 64
    q, k, v = (normal("f2", length, d) for _ in range(3))
    out = np.full((length, d), np.nan, "f4")
    run(name, 2, [out, q, k, v, length, np.float32(0.125)], shared_bytes, order)
    scores = q.astype("f8") @ k.astype("f8").T * 0.125
    np.testing.assert_allclose(out, softmax(scores) @ v.astype("f8"), atol=5e-3)


@pytest.mark.parametrize(
    ("name", "left_out", "kind"),
    [
        ("matmul_wgmma", "fence.proxy.async.shared::cta;", "proxy-fence"),
        ("matmul_wgmma", "wgmma.fence.sync.aligned;", "wgmma-fence"),
        ("matmul_wgmma", "wgmma.commit_group.sync.aligned;", "wgmma-registers"),
        ("attention_wgmma", "fence.proxy.async.shared::cta;", "proxy-fence"),
        ("attention_wgmma", "wgmma.fence.sync.aligned;", "wgmma-fence"),
        ("attention_wgmma", "wgmma.commit_group.sync.aligned;", "wgmma-registers"),
    ],
)
def test_what_wgmma_needs_is_missed(name: str, left_out: str, kind: str) -> None:
    text = (FOLDER / f"{name}.ptx").read_text(encoding="utf-8")
    assert left_out in text
    a, b, c = normal("f2", 64, 128), normal("f2", 128, 64), np.zeros((64, 64), "f2")
    args: list[Any] = [a, b, c, 64, 64, 128]
    if name == "attention_wgmma":
        q, k, v = (normal("f2", 64, 64) for _ in range(3))
        args = [np.zeros((64, 64), "f4"), q, k, v, 64, np.float32(0.125)]
    ptx = text.replace(left_out, "")
    report = tilewright.emulate(ptx, None, 1, 128, [*args, None, None], shared_bytes=49152)
    assert kind in {finding.kind for finding in report.findings}

"""TMA in PTX that other compilers made (corpus/*): right results, no findings.

Triton's descriptors, the CuTe DSL's pipelines and CUTLASS 3's collectives, with tensor maps of the
host and such as the kernels make; and one finding where a fence of theirs is taken out.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.tensormap import SWIZZLE_BYTES, TensorMap, tiled

Array = Any
CORPUS = Path(__file__).parent / "corpus"
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
RANDOM = np.random.default_rng(41)
ORDERS: list[dict[str, Any]] = [{}, {"schedule": "random", "seed": 3}]


def normal(dtype: Any, *shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(dtype)


def run(file: str, grid: Any, block: int, args: list[Any], **how: Any) -> None:
    report = tilewright.emulate(CORPUS / file, None, grid, (block,), args, **how)
    assert report.completed
    assert [(it.kind, it.line, it.message) for it in report.findings] == []


def check_product(c: Array, a: Array, b: Array, bound: float) -> None:
    """c against a · b, within `bound` of the sum of the products' sizes."""
    wide_a, wide_b = a.astype("f8"), b.astype("f8")
    assert (abs(c.astype("f8") - wide_a @ wide_b) <= bound * (abs(wide_a) @ abs(wide_b))).all()


# --- Triton -----------------------------------------------------------------------------


def descriptor(array: Array, box: tuple[int, int]) -> list[Any]:
    """What Triton passes for one: the map, then extents and strides."""
    return [tiled(array, box, swizzle="128B"), *array.shape, array.shape[1], 1]


@pytest.mark.parametrize("order", ORDERS)
def test_triton_with_maps_of_the_host(order: dict[str, Any]) -> None:
    m, n, k = 72, 112, 208
    a, b, c = normal("f2", m, k), normal("f2", k, n), np.full((m, n), np.nan, "f2")
    args = [it for one in (a, b, c) for it in descriptor(one, (64, 64))]
    run("triton/tma_host.ptx", (2, 2), 128, [*args, k, None, None], shared_bytes=49176, **order)
    check_product(c, a, b, 2**-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "dtype", "warps", "programs", "shape", "shared"),
    [
        ("tma_device", np.float16, 4, 2, (72, 112, 208), 57368),
        ("tma_specialised", np.float16, 12, 2, (150, 136, 80), 131672),
        ("tma_fp8", E4M3, 4, 4, (72, 112, 144), 73760),
    ],
)
def test_triton_with_maps_of_its_own(
    name: str,
    dtype: Any,
    warps: int,
    programs: int,
    shape: tuple[int, int, int],
    shared: int,
    order: dict[str, Any],
) -> None:
    m, n, k = shape
    a, b, c = normal(dtype, m, k), normal(dtype, n, k), np.full((m, n), np.nan, "f2")
    scratch = np.zeros((programs, 512), "u1")
    args = [a, b, c, m, n, k, scratch, None]
    run(f"triton/{name}.ptx", programs, 32 * warps, args, shared_bytes=shared, **order)
    check_product(c, a, b.T, 2**-9)


@pytest.mark.parametrize("order", ORDERS)
def test_triton_reduces(order: dict[str, Any]) -> None:
    x, out = RANDOM.integers(-8, 9, (96, 32)).astype("f4"), np.zeros((32, 32), "f4")
    args = [*descriptor(x, (32, 32)), *descriptor(out, (32, 32)), None, None]
    run("triton/tma_reduce.ptx", 3, 128, args, shared_bytes=4104, **order)
    np.testing.assert_array_equal(out, x.reshape(3, 32, 32).sum(0))


def test_triton_attention() -> None:
    length, d = 112, 64
    q, k, v, out = (normal("f2", length, d) for _ in range(4))
    out[:] = np.nan
    args = [it for one in (q, k, v, out) for it in descriptor(one, (64, 64))]
    args += [length, np.float32(0.125), None, None]
    run("triton/tma_attention.ptx", 2, 128, args, shared_bytes=57400)
    scores = np.exp2(q.astype("f8") @ k.astype("f8").T * 0.125)
    exact = scores / scores.sum(1, keepdims=True) @ v.astype("f8")
    np.testing.assert_allclose(out.astype("f8"), exact, atol=5e-3)


# --- the CuTe DSL -----------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "dtype", "shape", "tile", "swizzle"),
    [
        ("tma_gemm_f16", np.float16, (150, 112, 208), (64, 64, 64), "128B"),
        ("tma_gemm_bf16", BF16, (128, 72, 96), (64, 32, 32), "64B"),
    ],
)
def test_cute_dsl(
    name: str,
    dtype: Any,
    shape: tuple[int, int, int],
    tile: tuple[int, int, int],
    swizzle: str,
    order: dict[str, Any],
) -> None:
    """128 threads multiply, 32 copy: a warp beside a warpgroup."""
    (m, n, k), (bm, bn, bk) = shape, tile
    a, b, c = normal(dtype, m, k), normal(dtype, n, k), np.full((m, n), np.nan, "f4")
    maps = [
        tiled(a, (bm, bk), swizzle=swizzle), tiled(b, (bn, bk), swizzle=swizzle),
        tiled(c, (bm, bn)),
    ]  # fmt: skip
    grid = (-(-n // bn), -(-m // bm))
    run(f"cute_dsl/{name}.ptx", grid, 160, [*maps, b"\0"], shared_bytes=66560, **order)
    check_product(c, a, b.T, 2**-18)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", ["tma_maps_shared", "tma_maps_global"])
def test_cute_dsl_changes_maps(name: str, order: dict[str, Any]) -> None:
    x, y, maps = normal("f4", 32, 64), np.full((32, 64), np.nan, "f4"), np.zeros((4, 16), "i8")
    run(f"cute_dsl/{name}.ptx", 4, 64, [tiled(x, (8, 64)), x, y, maps], shared_bytes=4096, **order)
    np.testing.assert_array_equal(y, 2 * x)


# --- CUTLASS 3 --------------------------------------------------------------------------

TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "fp16", "fp32", "fp64", "bf16")  # the driver's


def parameters(launch: dict[str, Any], arrays: list[Array]) -> tuple[Any, ...]:
    """The struct that CUTLASS passes, with maps of these arrays in their places."""
    raw, parts, at = bytes.fromhex(launch["params"]), [], 0
    for number, one in enumerate(launch["maps"]):
        place = raw.index(f"tensor map {number}\0".encode())
        made = TensorMap(
            TYPES[one["type"]],
            arrays[one["tensor"] - 1],
            tuple(one["shape"]),
            tuple(one["strides"]),
            tuple(one["box"]),
            tuple(one["element_strides"]),
            swizzle=tuple(SWIZZLE_BYTES)[one["swizzle"]],
        )
        parts += [raw[at:place], made]
        at = place + 128
    return (*parts, raw[at:])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "types", "cluster", "bound"),
    [
        ("pingpong", (np.float16, np.float16), (2, 1, 1), 2**-10),
        ("cooperative", (BF16, BF16), (1, 2, 1), 2**-8),
        ("fp8", (E4M3, np.float16), (1, 1, 1), 2**-9),
    ],
)
def test_cutlass(
    name: str,
    types: tuple[Any, Any],
    cluster: tuple[int, int, int],
    bound: float,
    order: dict[str, Any],
) -> None:
    launch = json.loads((CORPUS / "cutlass3" / f"{name}.json").read_text(encoding="utf-8"))
    m, n, k = launch["shape"]
    a, b, d = normal(types[0], m, k), normal(types[0], n, k), np.full((m, n), np.nan, types[1])
    args = [parameters(launch, [a, b, d])]
    run(
        f"cutlass3/{name}.ptx", launch["grid"], launch["block"], args, cluster=cluster,
        shared_bytes=launch["shared"], **order,
    )  # fmt: skip
    check_product(d, a, b.T, bound)


def test_what_cutlass_needs_is_missed() -> None:
    text = (CORPUS / "cutlass3" / "fp8.ptx").read_text(encoding="utf-8")
    launch = json.loads((CORPUS / "cutlass3" / "fp8.json").read_text(encoding="utf-8"))
    m, n, k = launch["shape"]
    arrays = [normal(E4M3, m, k), normal(E4M3, n, k), np.zeros((m, n), "f2")]
    fence = "fence.proxy.async.shared::cta;"
    assert fence in text
    report = tilewright.emulate(
        text.replace(fence, ""), None, launch["grid"], (launch["block"],),
        [parameters(launch, arrays)], shared_bytes=launch["shared"],
    )  # fmt: skip
    assert "proxy-fence" in {finding.kind for finding in report.findings}


# --- maps without what they need --------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "left_out", "kind"),
    [
        ("triton/tma_device", "fence.proxy.tensormap::generic.acquire", "proxy-fence"),
        ("triton/tma_device", "tensormap.replace.tile.global_stride", "invalid-copy"),
        ("triton/tma_device", "fence.proxy.async.shared::cta;", "proxy-fence"),
        ("cute_dsl/tma_maps_global", "fence.proxy.tensormap::generic.release", "proxy-fence"),
        ("cute_dsl/tma_maps_shared", "fence.proxy.tensormap::generic.acquire", "proxy-fence"),
    ],
)
def test_what_maps_need_is_missed(name: str, left_out: str, kind: str) -> None:
    lines = (CORPUS / f"{name}.ptx").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if left_out not in line]
    assert len(kept) < len(lines)
    if name.startswith("triton"):
        a, b, c = normal("f2", 64, 128), normal("f2", 64, 128), np.zeros((64, 64), "f2")
        args = [a, b, c, 64, 64, 128, np.zeros((2, 512), "u1"), None]
        grid, block = 2, 128
    else:
        x, y = normal("f4", 32, 64), np.zeros((32, 64), "f4")
        args, grid, block = [tiled(x, (8, 64)), x, y, np.zeros((4, 16), "i8")], 4, 64
    report = tilewright.emulate(
        "\n".join(kept), None, grid, block, args, shared_bytes=57368, step_limit=2000
    )
    assert kind in {finding.kind for finding in report.findings}

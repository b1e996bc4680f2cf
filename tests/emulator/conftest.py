"""Fixtures that turn a few PTX instructions into a kernel and run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tilewright

if TYPE_CHECKING:
    from tilewright.emulator.report import Report

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<16>; .reg .b16 %h<64>; .reg .b32 %r<128>; "
    ".reg .f32 %f<64>; .reg .b64 %d<64>; .reg .f64 %g<16>;"
)


def _kernel(body: str, params: Sequence[str], module: str = "", name: str = "k") -> str:
    """Parameter i is already in %d<i>, %r<i> or %f<i>; %r99 holds tid.x, %d99 is 4 * tid.x."""
    declared = ", ".join(f".param .{kind} p{i}" for i, kind in enumerate(params))
    loads = "".join(
        f"ld.param.{kind} %{ {'u64': 'd', 'u32': 'r', 'f32': 'f'}[kind] }{i}, [p{i}];\n"
        for i, kind in enumerate(params)
    )
    return (
        f"{HEADER}{module}\n.visible .entry {name}({declared})\n{{\n{REGISTERS}\n"
        f".reg .b64 %d99;\n{loads}mov.u32 %r99, %tid.x;\nmul.wide.u32 %d99, %r99, 4;\n"
        f"// body\n{body}\n}}\n"
    )


def _kind(argument: object) -> str:
    if isinstance(argument, float):
        return "f32"
    return "u32" if isinstance(argument, int) else "u64"


@pytest.fixture(scope="session")
def kernel_text() -> Callable[..., str]:
    """kernel_text(body, params, module="", name="k"): PTX of a kernel with many registers."""
    return _kernel


@pytest.fixture(scope="session")
def execute() -> Callable[..., Report]:
    """execute(body, *args, grid, block, shared_bytes, module): runs the body as a kernel."""

    def run(
        body: str,
        *args: Any,
        grid: Sequence[int] = (1,),
        block: Sequence[int] = (32,),
        shared_bytes: int = 0,
        module: str = "",
        checks: bool = False,  # tests of hazards ask for them
        **how: Any,
    ) -> Report:
        text = _kernel(body, [_kind(argument) for argument in args], module)
        return tilewright.emulate(
            text, "k", grid, block, args, shared_bytes=shared_bytes, checks=checks, **how
        )

    return run


def _load(i: int, array: np.ndarray[Any, Any]) -> str:
    bits = 8 * array.itemsize
    kind = f".f{bits}" if array.dtype.kind == "f" and bits > 16 else f".b{max(bits, 16)}"
    return (
        f".reg {kind} %a{i}; mad.wide.u32 %d{i}, %r0, {array.itemsize}, %d{i};\n"
        f"ld.global.b{bits} %a{i}, [%d{i}];\n"
    )


@pytest.fixture(scope="session")
def compute() -> Callable[..., np.ndarray[Any, Any]]:
    """compute(body, result dtype, *inputs): %y from %a0, %a1, … in every lane.

    %y is of the result's width, %a<i> of its input's. Nothing else may be found or fail.
    """

    def run(body: str, result: str, *inputs: Any) -> np.ndarray[Any, Any]:
        arrays = [np.ascontiguousarray(array) for array in inputs]
        count, dtype = arrays[0].size, np.dtype(result)
        out = np.zeros(count, dtype)
        n, bits = len(arrays), 8 * dtype.itemsize
        kind = f".f{bits}" if dtype.kind == "f" and bits > 16 else f".b{max(bits, 16)}"
        text = (
            f".reg {kind} %y;\n mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
            f"mad.lo.u32 %r0, %r1, %r2, %r99; setp.ge.u32 %p0, %r0, {count}; @%p0 bra END;\n"
            + "".join(_load(i, array) for i, array in enumerate(arrays))
            + f"{body}\nmad.wide.u32 %d{n}, %r0, {dtype.itemsize}, %d{n};\n"
            f"st.global.b{bits} [%d{n}], %y;\nEND: ret;"
        )
        ptx = _kernel(text, ["u64"] * (n + 1))
        block = min(count, 256)
        launch = (-(-count // block),), (block,), [*arrays, out]
        report = tilewright.emulate(ptx, "k", *launch, checks=False)
        assert report.findings == []
        assert report.completed
        return out

    return run

"""Fixtures that turn a few PTX instructions into a kernel and run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tilewright
from tilewright.bench.inputs import logical, operands
from tilewright.build import Source, build
from tilewright.emulator.arguments import pack
from tilewright.emulator.loaded import loaded
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.run import How, run
from tilewright.emulator.trace import Shape
from tilewright.ladder.rungs import KERNEL, KernelRung
from tilewright.launch import Launch
from tilewright.problem import Problem
from tilewright.verify import judge, oracle

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


def _executed_rung(
    rung: KernelRung, text: str, problem: Problem, arch: str = "sm_80", how: How | None = None
) -> tuple[Report, bool]:
    source = Source(rung.file, text, rung.defines(problem.dtype, problem.layout))
    artifact = build(source, rung.target(arch))
    module = loaded(artifact.ptx)
    program = module.program(module.module.kernels[KERNEL])
    a, b = operands(problem, "normal", seed=3)
    c = np.full((problem.m, problem.n), np.nan, np.float32).astype(problem.dtype.numpy())
    memory = GlobalMemory()
    at = memory.allocate(a, "A"), memory.allocate(b, "B"), memory.allocate(c, "C", unset=True)
    launch = Launch(
        artifact,
        KERNEL,
        rung.grid(problem, sms=1),
        (rung.threads, 1, 1),
        rung.params(problem, *at),
        rung.shared_bytes(problem.dtype),
        rung.cluster,
    )
    params = pack(program.kernel, launch.filled(lambda each: memory.maps.token(each, memory)))
    shape = Shape(launch.grid, launch.block, launch.shared_bytes, params, launch.cluster)
    report = run(program, shape, memory, how=how)
    return report, judge(c, oracle(*logical(problem, a, b), problem.dtype)).correct


@pytest.fixture(scope="session")
def executed_rung(compiler: str) -> Callable[..., tuple[Report, bool]]:
    """executed_rung(rung, text, problem, arch="sm_80", how=None): the report, and whether the
    result is right.

    `text` takes the place of the rung's own. There is one multiprocessor, so that a persistent
    block goes on from one tile to the next.
    """
    return _executed_rung

"""A launch from start to end: progress, reuse of a program, limits of memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tilewright
from tilewright.emulator.compiler import compile_kernel
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.parse import parse
from tilewright.emulator.program import Program
from tilewright.emulator.run import CHUNK_LANES, run
from tilewright.emulator.trace import Shape

Text = Callable[..., str]


def program(text: str) -> Program:
    module = parse(text)
    return compile_kernel(module, module.kernels["k"])


def test_progress_is_told_after_each_chunk(kernel_text: Text) -> None:
    told: list[tuple[int, int]] = []
    shape = Shape((1000, 1, 1), (64, 1, 1), 0, b"")
    run(program(kernel_text("ret;", [])), shape, GlobalMemory(), lambda *at: told.append(at))
    size = CHUNK_LANES // 64
    assert told == [(size, 1000), (2 * size, 1000), (3 * size, 1000), (1000, 1000)]


def test_a_program_runs_again_with_other_shapes(kernel_text: Text) -> None:
    compiled = program(kernel_text("add.s64 %d0, %d0, %d99; st.global.u32 [%d0], %r99;", ["u64"]))
    for threads in (3, 40):
        memory, out = GlobalMemory(), np.zeros(64, "u4")
        params = memory.allocate(out).to_bytes(8, "little")
        report = run(compiled, Shape((1, 1, 1), (threads, 1, 1), 0, params), memory)
        assert out.tolist() == [*range(threads), *[0] * (64 - threads)]
        assert report.instructions["st.global.u32"] == -(-threads // 32)


def test_a_variable_keeps_its_value_between_launches(kernel_text: Text) -> None:
    body = "ld.global.u32 %r1, [n]; add.u32 %r1, %r1, 1; st.global.u32 [n], %r1;"
    body += "st.global.u32 [%d0], %r1;"
    compiled = program(kernel_text(body, ["u64"], ".global .align 4 .u32 n = 40;"))
    memory, out = GlobalMemory(), np.zeros(1, "u4")
    params = memory.allocate(out).to_bytes(8, "little")
    for _ in range(2):
        run(compiled, Shape((1, 1, 1), (1, 1, 1), 0, params), memory)
    assert out == [42]


def test_blocks_with_much_local_memory_run_a_few_at_a_time(kernel_text: Text) -> None:
    """16,384 lanes of 500,000 bytes would take 8 GB."""
    compiled = program(kernel_text(".local .b8 l[500000]; st.local.u32 [l+4096], 1; ret;", []))
    told: list[tuple[int, int]] = []
    shape = Shape((40, 1, 1), (32, 1, 1), 0, b"")
    run(compiled, shape, GlobalMemory(), lambda *at: told.append(at))
    assert told == [(16, 40), (32, 40), (40, 40)]


POLLS = """
extern "C" __global__ void waits(int* lock, int* out) {
  if (threadIdx.x == 0)
    while (POLL) {}
  out[0] = 1;
}
"""


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "poll",
    [
        "atomicCAS(lock, 1, 2) != 1",
        "atomicAdd(lock, 0) == 0",
        "atomicExch(lock, 0) == 0",
        "atomicMax(lock, -5) == 0",
        "*(volatile int*)lock == 0",
    ],
)
def test_polls_that_nobody_answers_end(poll: str) -> None:
    """An atomic that changes nothing is a poll: the loop ends long before its step limit."""
    lock, out = np.zeros(1, "i4"), np.zeros(1, "i4")
    report = tilewright.emulate(POLLS, "waits", (2,), (32,), [lock, out], defines={"POLL": poll})
    assert not report.completed
    (finding,) = (it for it in report.findings if it.kind == "endless-loop")
    assert "polls memory that nobody writes any more" in finding.message
    assert ("atom" in finding.message) is ("atomic" in poll)

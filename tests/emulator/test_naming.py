"""Messages say which element of which array, which variable, which thread, and a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.naming import Naming, variable_name

Execute = Callable[..., Any]


@pytest.mark.parametrize(
    ("grid", "block", "said"),
    [
        ((9, 1, 1), (32, 1, 1), "block 5, warp 0, lane 3"),
        ((9, 1, 1), (64, 1, 1), "block 5, warp 0, lane 3"),
        ((2, 3, 1), (16, 4, 1), "block 5 = (1, 2), warp 0, lane 3 = thread (3, 0)"),
        ((1, 3, 2), (2, 2, 16), "block 5 = (0, 2, 1), warp 0, lane 3 = thread (1, 1, 0)"),
    ],
)
def test_threads(grid: tuple[int, int, int], block: tuple[int, int, int], said: str) -> None:
    assert Naming(GlobalMemory(), grid, block).thread(5, 0, 3) == said


def test_a_thread_of_a_later_warp_has_its_own_number() -> None:
    assert Naming(GlobalMemory(), block=(64, 1, 1)).thread(0, 1, 3).endswith("lane 3 = thread 35")


def message(execute: Execute, body: str, *args: Any, **how: Any) -> str:
    finding, *_ = execute(body, *args, **how).findings
    return str(finding.message)


@pytest.mark.parametrize(
    ("offset", "said"),
    [
        (60, "writes 4 bytes outside every array: element 15 of p0, right behind its end (3 x 5"),
        (64, "element 16 of p0, 4 bytes past its end (3 x 5 uint32): address 0x7f0000000040 (p0),"),
        (-8, "outside every array: 8 bytes before p0 (3 x 5 uint32)"),
        (-0x7F0000000000, "writes 4 bytes of a null pointer: address 0x0"),
        (16 - 0x7F0000000000, "writes 4 bytes of a null pointer + 16: address 0x10"),
        (-0x6F0000000000, "writes 4 bytes outside every array: address 0x100000000000 (no array)"),
    ],
)
def test_how_an_access_misses(execute: Execute, offset: int, said: str) -> None:
    body = f"mov.b64 %d1, {offset}; add.s64 %d1, %d0, %d1; st.global.u32 [%d1], %r99;"
    assert said in message(execute, body, np.zeros((3, 5), "u4"))


def test_an_access_across_the_end(execute: Execute) -> None:
    text = message(execute, "ld.global.v2.u32 {%r1, %r2}, [%d0+56];", np.zeros((3, 5), "u4"))
    assert text.startswith("ld.global.v2.u32 reads 8 bytes outside every array: 4 of them past")
    assert "(p0[2, 4])" in text


def test_outside_the_valid_part(execute: Execute) -> None:
    body = "st.global.u32 [%d0+36], %r99;"
    text = message(execute, body, np.zeros((3, 5), "u4"), shapes={0: (3, 4)})
    assert "writes 4 bytes outside the valid part of p0, at p0[1, 4]" in text


SHARED = "mov.u32 %r1, {name}; mul.lo.u32 %r2, %r99, 4; add.u32 %r1, %r1, %r2;\n"


def test_variables_of_shared_memory(execute: Execute) -> None:
    body = (
        ".shared .align 4 .b8 first[64]; .shared .align 4 .b8 _ZZ4gemmPfE4tile[128];\n"
        "mov.u32 %r3, first;" + SHARED.format(name="_ZZ4gemmPfE4tile")
    )
    text = message(execute, body + "ld.shared.u32 %r3, [%r1];", checks=True)
    assert text.startswith("ld.shared.u32 reads shared memory that nobody wrote: address 0x40 (ti")
    assert "(tile, byte 0), block 0, warp 0, lane 0, and 31 more times" in text
    text = message(execute, body + "st.shared.u32 [%r1+128], %r99;", checks=True)
    assert "writes 4 bytes beyond the end of shared memory, which has 192 bytes" in text


def test_dynamic_shared_memory_of_no_size(execute: Execute) -> None:
    module = ".extern .shared .align 16 .b8 smem[];"
    body = SHARED.format(name="smem") + "st.shared.u32 [%r1], %r99;"
    text = message(execute, body, module=module)
    assert "smem[] has the size that the launch gives, and shared_bytes is 0" in text
    text = message(execute, body, module=module, shared_bytes=64)
    assert "beyond the end of shared memory, which has 64 bytes" in text


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("smem", "smem"),
        ("_ZZ4gemmPfE4tile", "tile"),
        ("_ZZN2ns4gemmILi8EEEvPfE5a_mat", "a_mat"),
        ("_ZZ1kvE1s_0", "s"),
        ("_ZZ4gemmPfE9short", "_ZZ4gemmPfE9short"),
    ],
)
def test_names_of_variables_in_functions(symbol: str, name: str) -> None:
    assert variable_name(symbol) == name


RACES = """
extern "C" __global__ void race(float* out) {
    __shared__ float tile[64];
    tile[threadIdx.x] = 1.0f;
    out[threadIdx.x] = tile[threadIdx.x ^ FLIP];
}
extern "C" __global__ void meet(float* out) { if (threadIdx.x == 0) *out += blockIdx.x; }
"""


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("flip", "way_out"), [(1, "__syncwarp()"), (32, "__syncthreads()")])
def test_a_race_says_what_would_order_it(flip: int, way_out: str) -> None:
    out = np.full(64, np.nan, "f4")
    report = tilewright.emulate(RACES, "race", (1,), (64,), [out], defines={"FLIP": flip})
    (race,) = report.findings
    assert f"with nothing that orders the two ({way_out} would): address" in race.message
    assert "(tile, byte " in race.message


@pytest.mark.usefixtures("compiler")
def test_a_race_of_blocks_says_that_barriers_do_not_help() -> None:
    defines = {"FLIP": 0}
    report = tilewright.emulate(RACES, "meet", (2,), (32,), [np.zeros(1, "f4")], defines=defines)
    race = next(f for f in report.findings if f.kind == "race")
    assert "(blocks need an atomic, or a flag with fences)" in race.message

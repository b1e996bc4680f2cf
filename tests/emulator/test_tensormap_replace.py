"""Tensor maps that a kernel makes or changes: tensormap.replace and the fences of their proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.tensor_tokens import TensorMaps, replaced
from tilewright.errors import InputError, UnsupportedError
from tilewright.tensormap import TensorMap, tiled

HERE = Path(__file__).parent
SCHEDULES: list[dict[str, Any]] = [{}, *({"schedule": "random", "seed": s} for s in (1, 2))]

KERNEL = """
#include "hopper.cuh"
#define SET(field, space, type, where, value)                                                  \\
  asm volatile("tensormap.replace.tile." field space ".b1024." type " [%0], " value ";"         \\
               :: "l"(where) : "memory")
#define SET_TO(field, space, type, c, where, value)                                             \\
  asm volatile("tensormap.replace.tile." field space ".b1024." type " [%0], %1;"                \\
               :: "l"(where), c(value) : "memory")
#define NTH(field, space, type, c, where, n, value)                                             \\
  asm volatile("tensormap.replace.tile." field space ".b1024." type " [%0], " #n ", %1;"        \\
               :: "l"(where), c(value) : "memory")
#define HERE ".shared::cta"
#define CP_FENCEPROXY(to, from)                                                                 \\
  asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu"      \\
               ".sync.aligned [%0], [%1], 128;" :: "l"(to), "r"(in_shared(from)) : "memory")
#define ACQUIRE(map)                                                                            \\
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory")
#define RELEASE() asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory")

// out = in for a part of two columns of tiles, each block a row of tiles, by a map of its own.
extern "C" __global__ void k(const u16 *in, u16 *out, Map *maps, int rows, int columns) {
  __shared__ alignas(1024) u16 tile[64 * 32]; __shared__ alignas(128) Map made;
  __shared__ u64 full;
  int t = threadIdx.x; Map *mine = maps + blockIdx.x;
  if (t == 0) { init(&full, 1); FENCE_INIT(); }
  if (t < 32) {
    for (int i = t; i < 16; i += 32) made.opaque[i] = 0;
    __syncwarp();
    if (t == 0) {
      u64 at = in_shared(&made);
      const u16 *rows_of_mine = in + blockIdx.x * 32 * columns;
      /*address*/ SET_TO("global_address", HERE, "b64", "l", at, rows_of_mine); /**/
      SET("rank", HERE, "b32", at, "1");
      NTH("box_dim", HERE, "b32", "r", at, 0, 64); NTH("box_dim", HERE, "b32", "r", at, 1, 32);
      NTH("global_dim", HERE, "b32", "r", at, 0, columns);
      /*dim*/ NTH("global_dim", HERE, "b32", "r", at, 1, rows); /**/
      /*stride*/ NTH("global_stride", HERE, "b64", "l", at, 0, (u64)columns * 2); /**/
      NTH("element_stride", HERE, "b32", "r", at, 0, 1);
      NTH("element_stride", HERE, "b32", "r", at, 1, 1);
      SET("elemtype", HERE, "b32", at, "1"); SET("interleave_layout", HERE, "b32", at, "0");
      SET("swizzle_mode", HERE, "b32", at, "3"); SET("fill_mode", HERE, "b32", at, "0");
    }
    __syncwarp();
    /*copy*/ CP_FENCEPROXY(mine, &made); /**/
    /*acquire*/ ACQUIRE(mine); /**/
  }
  /*met*/ __syncthreads(); /**/
  if (t == /*issuer*/ 0 /**/) {
    expect(&full, 4096);
    load_2d(tile, /*map*/ mine /**/, 0, 0, &full);
  }
  wait(&full, 0);
  for (int i = t; i < 32 * 64; i += blockDim.x) {
    u32 byte = i * 2, where = byte ^ (byte >> 7 & 7) << 4;
    int row = blockIdx.x * 32 + i / 64;
    if (i / 64 < rows) out[row * columns + i % 64] = tile[where / 2];
  }
}
"""


def mutant(name: str, instead: str, text: str = KERNEL) -> str:
    head, mark, rest = text.partition(f"/*{name}*/")
    assert mark
    return head + instead + rest.partition("/**/")[2]


def launch(text: str, rows: int = 32, **how: Any) -> tuple[Any, Any, Any]:
    a = np.arange(64 * 64, dtype="u2").reshape(64, 64)
    out, maps = np.zeros_like(a), np.zeros((2, 128), "u1")
    args = [a, out, maps, rows, 64]
    report = tilewright.emulate(
        text, "k", 2, 64, args, arch="sm_90a", include_path=[str(HERE)], **how
    )
    return a, out, report


def kinds(report: Any) -> set[str]:
    return {finding.kind for finding in report.findings}


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("how", SCHEDULES)
def test_a_map_made_from_zeros(how: dict[str, Any]) -> None:
    a, out, report = launch(KERNEL, **how)
    assert report.findings == []
    assert report.completed
    np.testing.assert_array_equal(out, a)


PLAIN = "if (t == 0) { __syncwarp(1); *mine = made; %s }"
MUTANTS = [  # what is put in the place of what, what is found
    ("acquire", "", {"proxy-fence"}),
    ("acquire", "if (t == 0) ACQUIRE(mine);", set()),
    ("acquire", "ACQUIRE(maps + (blockIdx.x ^ 1));", {"proxy-fence"}),
    ("copy", PLAIN % "RELEASE();", set()),
    ("copy", PLAIN % "", {"proxy-fence"}),
    ("copy", "ACQUIRE(mine); if (t == 0) { *mine = made; }", {"proxy-fence"}),
    ("issuer", "32", set()),  # another warp, behind the barrier
    ("map", "&made", {"invalid-copy"}),  # a copy goes by no map in shared memory
    ("stride", "", {"invalid-copy"}),
    ("stride", 'NTH("global_stride", HERE, "b64", "l", at, 0, (u64)120);', {"invalid-copy"}),
    ("address", 'SET_TO("global_address", HERE, "b64", "l", at, (u64)in + 8);', {"invalid-copy"}),
    ("address", 'SET_TO("global_address", HERE, "b64", "l", at, in + 48 * 64);', {"out-of-bounds"}),
    ("dim", 'NTH("global_dim", HERE, "b32", "r", at, 1, 64);', set()),  # no box goes so far
    ("dim", 'NTH("global_dim", HERE, "b32", "r", at, 1, 0);', {"invalid-copy"}),
]  # fmt: skip


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(("name", "instead", "expected"), MUTANTS)
def test_what_a_map_needs(name: str, instead: str, expected: set[str]) -> None:
    """Where a copy cannot be, its bytes never come: few steps are enough to see that."""
    _, _, report = launch(mutant(name, instead), step_limit=200)
    found = kinds(report)
    assert expected <= found if expected else not found, report.findings


@pytest.mark.usefixtures("compiler")
def test_an_acquire_that_another_warp_does_not_know_of() -> None:
    text = mutant("issuer", "32", mutant("met", ""))
    _, _, report = launch(text)
    assert {"proxy-fence", "race"} <= kinds(report)


@pytest.mark.usefixtures("compiler")
def test_extents_that_end_before_the_box_do() -> None:
    a, out, report = launch(KERNEL, rows=20)
    assert report.findings == []
    np.testing.assert_array_equal(out[:20], a[:20])
    np.testing.assert_array_equal(out[32:52], a[32:52])


TEMPLATE = """
#include "hopper.cuh"
extern "C" __global__ void k(TENSOR map, const u16 *other, Map *maps, u16 *out) {
  __shared__ alignas(1024) u16 tile[64 * 32]; __shared__ u64 full;
  int t = threadIdx.x;
  if (t == 0) {
    init(&full, 1); FENCE_INIT();
    *maps = map;
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;"
                 :: "l"(maps), "l"(other) : "memory");
    asm volatile("fence.proxy.tensormap::generic.release.gpu;\\n"
                 "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(maps) : "memory");
    expect(&full, 4096); load_2d(tile, maps, 0, 0, &full);
  }
  __syncthreads();
  wait(&full, 0);
  for (int i = t; i < 32 * 64; i += blockDim.x) out[i] = tile[i];
}
"""


@pytest.mark.usefixtures("compiler")
def test_a_map_of_the_host_changed_in_global_memory() -> None:
    a, other = np.zeros((32, 64), "u2"), np.arange(32 * 64, dtype="u2").reshape(32, 64)
    out, maps = np.zeros_like(a), np.zeros(128, "u1")
    report = tilewright.emulate(
        TEMPLATE, "k", 1, 64, [tiled(a, (32, 64)), other, maps, out], arch="sm_90a",
        include_path=[str(HERE)],
    )  # fmt: skip
    assert report.findings == []
    np.testing.assert_array_equal(out, other)


# --- the bytes of a map -----------------------------------------------------------------


def test_every_number_of_a_map_can_be_replaced() -> None:
    maps = TensorMaps()
    one = TensorMap("u16", 1 << 20, (96, 40, 7), (208, 8320), (64, 8, 2), (), swizzle="128B")
    raw = bytes(128)
    steps = {
        "global_address": [1 << 20], "rank": [2], "global_dim": [96, 40, 7],
        "global_stride": [208, 8320], "box_dim": [64, 8, 2], "element_stride": [1, 1, 1],
        "elemtype": [1], "interleave_layout": [0], "swizzle_mode": [3], "fill_mode": [0],
    }  # fmt: skip
    for field, values in steps.items():
        for ordinal, value in enumerate(values):
            if any(raw):
                with pytest.raises(InputError, match=f"lacks .*{field}"):
                    maps.find(raw)
            new = replaced(raw, field, ordinal, value)
            assert new is not None
            raw = new
    assert maps.find(raw) == one


def test_bytes_that_are_no_map() -> None:
    maps, memory = TensorMaps(), GlobalMemory()
    raw = bytearray(maps.token(tiled(np.zeros((8, 64), "f2"), (8, 64)), memory))
    assert maps.find(bytes(raw)) is not None
    raw[40] ^= 1  # not by tensormap.replace
    assert maps.find(bytes(raw)) is None
    assert replaced(bytes(raw), "rank", 0, 1) is None
    assert maps.find(bytes(128)) is None


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("elemtype.shared::cta.b1024.b32 [%r1], 13", "13 is not modelled; there is 0 = u8"),
        ("elemtype.shared::cta.b1024.b32 [%r1], %r2", "the new elemtype must be a constant"),
        ("swizzle_mode.shared::cta.b1024.b32 [%r1], 4", "there is 0 = none, 1 = 32B, 2 = 64B"),
        ("interleave_layout.shared::cta.b1024.b32 [%r1], 1", "interleaved"),
        ("box_dim.shared::cta.b1024.b32 [%r1], 5, %r2", "a constant from 0 to 4"),
        ("box_dim.shared::cta.b1024.b32 [%r1], %r2", "stands which of them"),
        ("rank.shared::cta.b1024.b32 [%r1], 0, 1", "stands nothing"),
        ("rank.shared::cta.b1024.b64 [%r1], 1", "does not model this opcode"),
        ("swizzle_atomicity.shared::cta.b1024.b32 [%r1], 0", "does not model this opcode"),
    ],
)
def test_what_is_refused(execute: Any, line: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        execute(f"tensormap.replace.tile.{line};")

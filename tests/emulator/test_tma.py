"""TMA: what copies move, and what is found where a fence, a wait or an arrival is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.errors import InputError, UnsupportedError
from tilewright.tensormap import TensorMap, tiled

HERE = Path(__file__).parent
SCHEDULES: list[dict[str, Any]] = [{}, *({"schedule": "random", "seed": s} for s in (1, 2, 3))]
pytestmark = pytest.mark.usefixtures("compiler")


def launch(text: str, grid: Any, block: int, args: list[Any], **how: Any) -> Any:
    source = '#include "hopper.cuh"\n' + text
    return tilewright.emulate(
        source, "k", grid, block, args, arch="sm_90a", include_path=[str(HERE)], **how
    )


def kinds(report: Any) -> set[str]:
    return {finding.kind for finding in report.findings}


# --- one tile in and out ------------------------------------------------------------------

TILE = """
extern "C" __global__ void k(TENSOR in, TENSOR out) {
  __shared__ alignas(1024) u16 tile[64 * 32]; __shared__ u64 full;
  int x = blockIdx.x * 64, y = blockIdx.y * 32, t = threadIdx.x;
  if (t == 0) { init(&full, 1); /*inited*/ FENCE_INIT(); /**/ }
  /*known*/ __syncthreads(); /**/
  if (t == 0) { expect(&full, 4096); load_2d(tile, &in, x, y, &full); }
  /*full*/ wait(&full, 0); /**/
  for (int i = t; i < 64 * 32; i += blockDim.x) tile[i] += 1;
  /*proxy*/ FENCE_PROXY(); /**/
  /*written*/ __syncthreads(); /**/
  if (t == 0) { store_2d(&out, x, y, tile); COMMIT(); /*read*/ WAIT_READ(0); /**/ }
  /*reuse*/
}
"""
MUTANTS = [  # what is put in the place of what, what is found
    ("inited", "", set()),  # a barrier is enough within a block
    ("inited", "FENCE_PROXY();", set()),
    ("known", "", {"race"}),
    ("full", "", {"async-read", "copy-at-exit"}),
    ("full", "if (t < 32) wait(&full, 0); __syncthreads();", set()),
    ("full", "if (t < 32) wait(&full, 0);", {"race"}),
    ("proxy", "", {"proxy-fence"}),
    ("proxy", "if (t == 0) FENCE_PROXY();", {"proxy-fence"}),
    ("written", "", {"race"}),
    ("written", "__syncthreads(); if (t == 0) FENCE_PROXY();", set()),
    ("read", "", {"copy-at-exit"}),
    ("read", "WAIT_ALL(0);", set()),
    ("reuse", "tile[t] = 0;", {"race"}),
    ("reuse", "__syncthreads(); tile[t] = 0;", set()),
]  # fmt: skip


def mutant(text: str, name: str, instead: str) -> str:
    head, mark, rest = text.partition(f"/*{name}*/")
    assert mark
    return head + instead + (rest.partition("/**/")[2] if "/**/" in rest else rest)


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_a_tile_goes_in_and_out(how: dict[str, Any], swizzle: str) -> None:
    """Boxes beyond the edges come as zeros and are cut when they go."""
    a = np.arange(100 * 96, dtype="u2").reshape(100, 96)
    out = np.zeros_like(a)
    maps = [tiled(one, (32, 64), swizzle=swizzle) for one in (a, out)]
    report = launch(TILE, (2, 4), 128, maps, **how)
    assert report.findings == []
    assert report.completed
    np.testing.assert_array_equal(out, a + 1)


@pytest.mark.parametrize("how", SCHEDULES[:2])
@pytest.mark.parametrize(("name", "instead", "expected"), MUTANTS)
def test_what_a_tile_needs(
    name: str, instead: str, expected: set[str], how: dict[str, Any]
) -> None:
    a = np.arange(128 * 64, dtype="u2").reshape(128, 64)
    out = np.zeros_like(a)
    maps = [tiled(one, (32, 64)) for one in (a, out)]
    report = launch(mutant(TILE, name, instead), (1, 4), 128, maps, **how)
    found = kinds(report)
    assert expected <= found if expected else not found, report.findings


def test_a_wrong_number_of_bytes_is_a_deadlock() -> None:
    a = np.zeros((128, 64), "u2")
    maps = [tiled(a, (32, 64)), tiled(np.zeros_like(a), (32, 64))]
    more = launch(TILE.replace("4096", "4112"), (1, 4), 128, maps)
    assert not more.completed
    (found,) = more.findings
    assert found.kind == "deadlock"
    assert "16 bytes have not" in found.message
    less = launch(TILE.replace("4096", "4080"), (1, 4), 128, maps)
    assert "16 bytes more than it was told to expect" in less.findings[0].message


# --- a ring -------------------------------------------------------------------------------

RING = """
#define STAGES 3
extern "C" __global__ void k(TENSOR in, u32 *out, int steps) {
  __shared__ alignas(1024) u32 slot[STAGES][32 * 8]; __shared__ u64 full[STAGES], empty[STAGES];
  int t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < STAGES; s++) { init(&full[s], 1); init(&empty[s], 2); }
    FENCE_INIT();
  }
  __syncthreads();
  if (t < 32) {
    if (t == 0)
      for (int k = 0; k < steps; k++) {
        int s = k % STAGES, phase = k / STAGES & 1;
        /*empty*/ wait(&empty[s], phase ^ 1); /**/
        expect(&full[s], /*bytes*/ 1024 /**/);
        load_2d(slot[s], &in, 0, (blockIdx.x * steps + k) * 8, &full[s]);
      }
  } else {
    u32 sum = 0;
    for (int k = 0; k < steps; k++) {
      int s = k % STAGES, phase = k / STAGES & 1;
      /*full*/ wait(&full[s], phase); /**/
      for (int i = t - 32; i < 256; i += 64) sum += slot[s][i];
      __syncwarp();
      /*arrive*/ if (t % 32 == 0) arrive(&empty[s]); /**/
    }
    out[blockIdx.x * 64 + t - 32] = sum;
  }
}
"""


def ring(text: str, steps: int = 7, **how: Any) -> tuple[Any, bool]:
    a = np.random.default_rng(0).integers(0, 1000, (3 * steps * 8, 32)).astype("u4")
    out = np.zeros((3, 64), "u4")
    report = launch(text, 3, 96, [tiled(a, (8, 32), swizzle="128B"), out, np.int32(steps)], **how)
    return report, int(out.sum()) == int(a.sum())


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 9])
def test_a_ring(steps: int, how: dict[str, Any]) -> None:
    report, right = ring(RING, steps, **how)
    assert report.findings == []
    assert right


@pytest.mark.parametrize("how", SCHEDULES[:3])
@pytest.mark.parametrize(
    ("name", "instead", "expected"),
    [
        ("empty", "", {"race"}),
        ("empty", "wait(&empty[s], phase);", {"deadlock"}),
        ("full", "", {"async-read"}),
        ("full", "if (t == 32) wait(&full[s], phase);", {"race", "async-read"}),
        ("arrive", "", {"deadlock"}),
        ("bytes", "1040", {"deadlock"}),
    ],
)
def test_what_a_ring_needs(
    name: str, instead: str, expected: set[str], how: dict[str, Any]
) -> None:
    report, _ = ring(mutant(RING, name, instead), **how)
    assert expected & kinds(report), report.findings


def test_the_race_says_who_and_where() -> None:
    report, _ = ring(mutant(RING, "empty", ""))
    found = next(f for f in report.findings if f.kind == "race")
    assert found.other_line is not None
    assert "cp.async.bulk.tensor.2d" in found.message


# --- several blocks -----------------------------------------------------------------------

CLUSTER = """
extern "C" __global__ void k(TENSOR in, u32 *out) {
  __shared__ alignas(128) u32 tile[2][32 * 4]; __shared__ u64 full; int t = threadIdx.x;
  u32 r = rank(), group = blockIdx.x / 2;
  if (t == 0) { init(&full, 1); /*inited*/ FENCE_INIT(); /**/ }
  /*known*/ CLUSTER_SYNC(); /**/
  if (t == 0) {
    expect(&full, 1024);
    multicast_2d(tile[r], &in, 0, (group * 2 + r) * 4, &full, 3);
  }
  /*full*/ wait(&full, 0); /**/
  for (int i = t; i < 256; i += 32) out[blockIdx.x * 256 + i] = tile[0][i];
  /*last*/ CLUSTER_SYNC();
}
"""


@pytest.mark.parametrize("how", SCHEDULES)
@pytest.mark.parametrize(
    ("name", "instead", "expected"),
    [
        ("full", "wait(&full, 0);", set()),
        ("inited", "", {"proxy-fence"}),
        ("inited", "FENCE_PROXY();", set()),
        ("known", "__syncthreads();", {"race"}),
        ("full", "if (r == 0) wait(&full, 0);", {"copy-at-exit", "async-read"}),
    ],
)
def test_a_tile_for_two_blocks(
    name: str, instead: str, expected: set[str], how: dict[str, Any]
) -> None:
    a = np.random.default_rng(0).integers(0, 1 << 30, (16, 32)).astype("u4")
    out = np.zeros((4, 256), "u4")
    source = mutant(CLUSTER, name, instead)
    report = launch(source, 4, 32, [tiled(a, (4, 32)), out], cluster=2, **how)
    if expected:
        assert expected & kinds(report), report.findings
        return
    assert report.findings == []
    np.testing.assert_array_equal(out, a.reshape(2, 1, 256).repeat(2, 1).reshape(4, 256))


PEER = """
extern "C" __global__ void k(u32 *out) {
  __shared__ alignas(16) u32 mine[64], theirs[64]; __shared__ u64 full; int t = threadIdx.x;
  if (t == 0) { init(&full, 1); FENCE_INIT(); expect(&full, 256); }
  mine[t] = blockIdx.x * 100 + t;
  /*proxy*/ FENCE_PROXY(); /**/ CLUSTER_SYNC();
  if (t == 0) bulk_to(theirs, mine, 256, &full, rank() ^ 1);
  /*full*/ wait(&full, 0); /**/
  out[blockIdx.x * 64 + t] = theirs[t];
  /*reuse*/ CLUSTER_SYNC(); /**/ mine[t] = 0;
}
"""


@pytest.mark.parametrize(
    ("name", "instead", "expected"),
    [
        ("reuse", "CLUSTER_SYNC();", set()),
        ("proxy", "", {"proxy-fence"}),
        ("full", "", {"async-read", "copy-at-exit"}),
        ("reuse", "", {"race"}),  # its peer has not told it that the copy is over
    ],
)
def test_a_copy_to_the_other_block(name: str, instead: str, expected: set[str]) -> None:
    out = np.zeros((4, 64), "u4")
    report = launch(mutant(PEER, name, instead), 4, 64, [out], cluster=2)
    assert kinds(report) == expected or (expected and expected <= kinds(report)), report.findings
    if not expected:
        np.testing.assert_array_equal(out, np.array([[100], [0], [300], [200]]) + np.arange(64))


# --- runs of bytes ------------------------------------------------------------------------

RUNS = """
extern "C" __global__ void k(u32 *in, u32 *out, int n) {
  __shared__ alignas(16) u32 s[512]; __shared__ u64 full; int t = threadIdx.x;
  if (t == 0) { init(&full, 1); FENCE_INIT(); }
  __syncthreads();
  if (t == 0) { expect(&full, n * 16 * 2); }
  __syncwarp();
  if (t < 2) bulk_load(s + t * 4 * n, in + (blockIdx.x * 2 + t) * 4 * n, n * 16, &full);
  wait(&full, 0);
  for (int i = t; i < n * 8; i += 32) s[i] *= 3;
  FENCE_PROXY(); __syncwarp();
  if (t < 2) {
    bulk_store(out + (blockIdx.x * 2 + t) * 4 * n, s + t * 4 * n, n * 16); COMMIT(); WAIT_ALL(0);
  }
}
"""


@pytest.mark.parametrize("how", SCHEDULES[:3])
@pytest.mark.parametrize("n", [1, 7, 32])
def test_runs_of_two_lanes(n: int, how: dict[str, Any]) -> None:
    a = np.arange(3 * 2 * 4 * n, dtype="u4")
    out = np.zeros_like(a)
    report = launch(RUNS, 3, 32, [a, out, np.int32(n)], **how)
    assert report.findings == []
    np.testing.assert_array_equal(out, 3 * a)


def test_runs_that_cannot_be() -> None:
    a, out = np.arange(6 * 28, dtype="u4"), np.zeros(6 * 28 - 4, "u4")
    report = launch(RUNS, 3, 32, [a, out, np.int32(7)])
    assert kinds(report) == {"out-of-bounds"}
    crooked = launch(RUNS.replace("in + (", "in + 1 + ("), 3, 32, [a, a.copy(), np.int32(7)])
    assert "misaligned" in kinds(crooked)
    odd = launch(RUNS.replace("n * 16, &full", "n * 16 + 8, &full"), 3, 32,
                 [a, a.copy(), np.int32(7)])  # fmt: skip
    assert "misaligned" in kinds(odd)


# --- dimensions, reductions ---------------------------------------------------------------

BOXES = """
extern "C" __global__ void k(TENSOR in, TENSOR out) {{
  __shared__ alignas(128) unsigned char s[{bytes}]; __shared__ u64 full;
  if (threadIdx.x == 0) {{
    init(&full, 1); FENCE_INIT(); expect(&full, {bytes});
    asm volatile("cp.async.bulk.tensor.{n}d.shared::cta.global" SIGNAL " [%0], [%1, {place}], [%2];"
      :: "r"(in_shared(s)), "l"(&in), "r"(in_shared(&full)) : "memory");
  }}
  __syncwarp();
  wait(&full, 0);
  FENCE_PROXY();
  if (threadIdx.x == 0) {{
    asm volatile("{store} [%0, {to}], [%1];" :: "l"(&out), "r"(in_shared(s)) : "memory");
    COMMIT(); WAIT_READ(0);
  }}
}}
"""


def boxes(source: TensorMap, target: TensorMap, place: list[int], to: list[int], op: str) -> Any:
    n = source.rank
    store = f"cp.async.bulk.tensor.{n}d.global.shared::cta.bulk_group"
    if op:
        store = f"cp.reduce.async.bulk.tensor.{n}d.global.shared::cta.{op}.bulk_group"
    words = {name: "{" + ", ".join(map(str, at)) + "}" for name, at in
             (("place", place), ("to", to))}  # fmt: skip
    text = BOXES.format(bytes=source.box_bytes, n=n, store=store, **words)
    return launch(text, 1, 32, [source, target])


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_boxes_of_all_ranks(rank: int) -> None:
    shape, box = (3, 4, 2, 5, 32)[-rank:], (2, 2, 1, 3, 16)[-rank:]
    a = np.random.default_rng(0).integers(1, 1 << 30, shape).astype("u4")
    out = np.zeros_like(a)
    at = [0] * rank
    at[0] = 8
    report = boxes(tiled(a, box), tiled(out, box), at, at, "")
    assert report.findings == []
    corner = (*(slice(extent) for extent in box[:-1]), slice(8, 24))
    np.testing.assert_array_equal(out[corner], a[corner])
    assert np.count_nonzero(out) == np.prod(box)


@pytest.mark.parametrize(
    ("dtype", "word", "op", "function"),
    [
        ("u4", None, "add", np.add), ("i4", None, "min", np.minimum),
        ("i8", None, "max", np.maximum), ("u4", None, "xor", np.bitwise_xor),
        ("f4", None, "add", np.add), ("f2", None, "add", np.add), ("f2", None, "max", np.maximum),
        ("bf16", None, "add", np.add), ("u8", None, "or", np.bitwise_or),
    ],
)  # fmt: skip
def test_reductions(dtype: str, word: str | None, op: str, function: Any) -> None:
    import ml_dtypes

    element = np.dtype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype)
    rng = np.random.default_rng(0)
    a, out = (rng.integers(0, 100, (8, 64)).astype(element) for _ in range(2))
    expected = out.copy()
    expected[:4, :32] = function(out[:4, :32], a[2:6, 16:48])
    report = boxes(tiled(a, (4, 32)), tiled(out, (4, 32)), [16, 2], [0, 0], op)
    assert report.findings == []
    np.testing.assert_array_equal(out, expected)


def test_reductions_that_there_are_not() -> None:
    a = np.zeros((8, 64), "f8")
    report = boxes(tiled(a, (4, 16)), tiled(a.copy(), (4, 16)), [0, 0], [0, 0], "add")
    assert kinds(report) == {"invalid-copy"}
    assert "cannot add elements of fp64" in report.findings[0].message


@pytest.mark.parametrize("x", [1, 3, 4, -3])
def test_the_innermost_coordinate_counts_16_bytes(x: int) -> None:
    """An H200 stops the kernel at 1, 3, 4 and −3 elements of 2 bytes, not at 0 and 8."""
    a = np.ones((64, 128), "u2")
    report = boxes(tiled(a, (8, 64)), tiled(a.copy(), (8, 64)), [x, 0], [0, 0], "")
    assert kinds(report) == {"misaligned"}
    assert "no multiple of 16: a GPU stops the kernel" in report.findings[0].message
    fine = boxes(tiled(a, (8, 64)), tiled(a.copy(), (8, 64)), [8, 0], [-8, 0], "")
    assert fine.findings == []


def test_targets_and_maps_that_cannot_be() -> None:
    a = np.zeros((128, 64), "u2")
    maps = [tiled(a, (32, 64)), tiled(a.copy(), (32, 64))]
    crooked = launch(TILE.replace("load_2d(tile,", "load_2d(tile + 8,"), (1, 4), 128, maps)
    assert {"misaligned", "out-of-bounds"} & kinds(crooked)
    three = tiled(a.reshape(2, 64, 64), (1, 32, 64))
    ranks = launch(TILE, (1, 4), 128, [three, maps[1]])
    assert "invalid-copy" in kinds(ranks)
    assert "has 3 dimensions, the instruction 2" in ranks.findings[0].message
    nothing = launch(TILE, (1, 4), 128, [bytes(128), maps[1]])
    assert "no tensor map lies at" in nothing.findings[0].message
    with pytest.raises(InputError, match="takes 8 bytes, and a tensor map has 128"):
        launch('extern "C" __global__ void k(u32 *p) {}', 1, 32, maps[:1])


def test_maps_in_global_memory() -> None:
    """A list of maps stands for a pointer to them; a copy of a map is as good."""
    text = TILE.replace("TENSOR in, TENSOR out", "const Map *maps").replace("&in", "&maps[1]")
    a = np.arange(128 * 64, dtype="u2").reshape(128, 64)
    out = np.zeros_like(a)
    pair = [tiled(out, (32, 64)), tiled(a, (32, 64))]
    report = launch(text.replace("&out", "&maps[0]"), (1, 4), 128, [pair])
    assert report.findings == []
    np.testing.assert_array_equal(out, a + 1)


def test_modes_that_are_refused() -> None:
    a = np.zeros((128, 64), "u2")
    for mode in (".im2col", ".tile::gather4"):
        text = TILE.replace("load_2d(tile, &in, x, y, &full)", (
            f'asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global{mode}" SIGNAL '
            '" [%0], [%1, {%2, %2, %2}], [%3], {%4};" :: "r"(in_shared(tile)), "l"(&in), "r"(x), '
            '"r"(in_shared(&full)), "h"((u16)0))'))  # fmt: skip
        with pytest.raises(
            (UnsupportedError, tilewright.errors.CompileError), match=r"im2col|gather"
        ):
            launch(text, 1, 128, [tiled(a, (32, 64))] * 2)


@pytest.mark.parametrize(
    ("mode", "way"),
    [("im2col", "a box in tiled mode for each position"), ("tile::gather4", "from sm_100 on only")],
)
def test_the_way_out_of_a_mode(execute: Any, mode: str, way: str) -> None:
    text = f"cp.async.bulk.tensor.3d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
    with pytest.raises(UnsupportedError, match=way):
        execute(f"{text} [%r1], [%d1, {{%r2, %r2, %r2}}], [%r3], {{%h1}};")


def test_outputs_and_inputs_are_told_apart() -> None:
    """Only what stores go through may be written; NaN that stays is an unwritten output."""
    a = np.ones((128, 64), "f2")
    a.flags.writeable = False
    out = np.full((128, 64), np.nan, "f2")
    text = TILE.replace("tile[i] += 1", "tile[i] |= 0")
    maps = [tiled(a, (32, 64)), tiled(out, (32, 64))]
    assert launch(text, (1, 4), 128, maps).findings == []
    assert (out == 1).all()
    out[:] = np.nan
    assert kinds(launch(text, (1, 3), 128, maps)) == {"unwritten"}
    with pytest.raises(InputError, match="is read-only"):
        launch(text, (1, 4), 128, maps[::-1])


# --- the report ---------------------------------------------------------------------------


def test_what_multicast_saves() -> None:
    a = np.zeros((16, 32), "u4")
    report = launch(CLUSTER, 4, 32, [tiled(a, (4, 32)), np.zeros((4, 256), "u4")], cluster=2)
    (row,) = report.bulk
    assert (row.copies, row.global_bytes, row.shared_bytes) == (4, 4 * 512, 8 * 512)
    assert (row.multicast_bytes, row.l2_requests) == (4 * 512, 4 * 4)
    assert report.totals["multicast_bytes"] == 4 * 512
    assert report.l2_requests_per_block == 4
    access = next(it for it in report.accesses if it.opcode == row.opcode)
    assert (access.space, access.requests, access.wavefronts) == ("global>shared", 4, 0)
    assert (access.sectors, access.sectors_ideal, access.bytes) == (64, 64, 2048)


def test_directions_in_the_totals() -> None:
    a = np.zeros((100, 64), "u2")
    report = launch(TILE, (1, 4), 128, [tiled(a, (32, 64)), tiled(a.copy(), (32, 64))])
    assert report.totals["bulk_load_bytes"] == report.totals["bulk_store_bytes"] == a.nbytes
    assert report.totals["global_sectors_store"] == a.nbytes // 32
    assert [it.space for it in report.accesses if it.opcode.startswith("cp")] == [
        "global>shared", "shared>global"
    ]  # fmt: skip
    assert [row.shared_bytes for row in report.bulk] == [4 * 4096] * 2  # with what is filled in


def test_the_timeline_of_a_ring() -> None:
    report, _ = ring(RING, 4)
    full = [e for e in report.timeline.events if e.barrier == "full, byte 0" and e.of == 0]
    kinds_ = [(e.kind, e.phase) for e in full]
    assert kinds_[:3] == [("arrive", 0), ("copy", 0), ("end", 0)]
    assert ("pass", 1) in kinds_
    assert {e.warp for e in full if e.kind == "pass"} == {1, 2}
    text = report.timeline_text()
    assert "block 0, mbarrier full, byte 0" in text
    assert "block 1" not in text
    row = next(line for line in text.splitlines() if line.strip().startswith("0  "))
    assert "1,024" in row
    data = report.to_dict()
    assert data["timeline"]["events"][0]["kind"] in ("arrive", "pass")
    assert data["timeline"]["dropped"] == 0


def test_a_launch_without_mbarriers_has_no_timeline() -> None:
    report = launch('extern "C" __global__ void k(u32 *p) { *p = 1; }', 1, 1, [np.zeros(1, "u4")])
    assert report.timeline_text().startswith("No bulk copy")
    assert report.l2_requests_per_block is None

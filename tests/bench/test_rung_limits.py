"""Limits of rungs: counts that scale, and the model against what an H200 took."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from tilewright.bench import rung_limits
from tilewright.bench.ladder import climb
from tilewright.bench.record import load
from tilewright.bench.rung_limits import (
    Limited,
    clock,
    cluster,
    counts_of,
    depths,
    limited,
    newest,
    scaled,
    store_clocks,
    streams,
    takes_turns,
)
from tilewright.dtypes import dtype_of
from tilewright.emulator.report import Access, Report
from tilewright.errors import InputError
from tilewright.gpus import gpu_named
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.rungs import KERNELS, KernelRung
from tilewright.model.rates import L2_RATE, STORE_PARTS, STORE_ROW, WGMMA_STEP
from tilewright.problem import Problem

MEASURED = Path(__file__).parents[2] / "measurements"
H200 = gpu_named("h200")
MOST_WRONG = {"hgemm": 0.08, "tf32": 0.05, "simt": 0.10, "hopper": 0.08}  # of a measured time
# Further off, and to go. sgemm_coalesced takes 1.26 clocks for each load that L1 serves, and loads
# of one line that are all hits take 1.01 (measurements/pipes), so that it is something else.
OFF = {"sgemm_coalesced": 0.20}


def problems(rung: KernelRung) -> Iterator[Problem]:
    """Those that an H200 may have been timed for."""
    for name in rung.dtypes:
        yield Problem(4096, 4096, 4096, dtype_of(name))
    if isinstance(rung, HopperRung):
        yield Problem(4096, 4096, 4096, dtype_of("bf16"), "nt")
        yield Problem(8192, 8192, 8192, dtype_of("bf16"))


@pytest.fixture(scope="module")
def measured_rungs(blocks_counted_once: None) -> list[Limited]:
    lines = load(MEASURED)
    return [
        limited(rung, problem, H200, lines)
        for rung in KERNELS.values()
        for problem in problems(rung)
        if newest(lines, rung, problem, H200)
    ]


@pytest.mark.usefixtures("compiler")
def test_the_model_is_near_what_an_h200_took(measured_rungs: list[Limited]) -> None:
    found = {each.rung.name for each in measured_rungs}
    assert found >= {"hgemm_bcf_dbf_rw", "sgemm_best", "hopper_best"}
    for each in measured_rungs:
        assert each.error is not None
        most = OFF.get(each.rung.name, MOST_WRONG[each.rung.family])
        assert abs(each.error) < most, (each.rung.name, each.error)


@pytest.mark.usefixtures("compiler")
def test_what_is_listed_as_off_is(measured_rungs: list[Limited]) -> None:
    for name in OFF:
        mine = [each for each in measured_rungs if each.rung.name == name]
        assert max(abs(each.error or 0) for each in mine) > MOST_WRONG[mine[0].rung.family]


@pytest.mark.usefixtures("compiler")
def test_each_kind_of_product_has_its_model(measured_rungs: list[Limited]) -> None:
    """In every rung; a K loop that is not found would fall back. hopper_tma_mma has mma.sync."""
    models = {
        (each.rung.family, each.model) for each in measured_rungs if "tma_mma" not in each.rung.name
    }
    assert models == {
        ("hgemm", "queues"), ("tf32", "queues"), ("simt", "machine code"), ("hopper", "pipes"),
    }  # fmt: skip
    assert {each.model for each in measured_rungs if "tma_mma" in each.rung.name} == {"queues"}


@pytest.mark.usefixtures("compiler")
def test_rungs_that_differ_by_more_than_3_percent_are_in_the_measured_order(
    measured_rungs: list[Limited],
) -> None:
    """In clocks, which is what the model knows: the power cap leaves each rung another clock."""
    compared = 0
    for one, other in combinations(measured_rungs, 2):
        same = (one.rung.family, one.problem) == (other.rung.family, other.problem)
        assert one.measured is not None
        assert other.measured is not None
        clock = one.limits.mhz / other.limits.mhz
        apart = one.measured.us / other.measured.us * clock
        if same and max(apart, 1 / apart) > 1.03:
            compared += 1
            model = one.limits.predicted_us / other.limits.predicted_us * clock
            pair = (one.rung.name, other.rung.name, one.problem.dtype.name)
            assert (model > 1) == (apart > 1), pair
    assert compared >= 5


@pytest.mark.usefixtures("compiler", "blocks_counted_once")
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, rung in KERNELS.items()
        if not isinstance(rung, HopperRung) or name in ("hopper_tma_mma", "hopper_store")
    ],
)
def test_counts_of_two_depths_give_those_of_a_third(name: str) -> None:
    """Six blocks of 12 K steps, counted as they are and scaled from one block."""
    rung = KERNELS[name]
    tile, at_steps = rung.tile, depths(rung)
    m, n, k = 2 * tile.bm, 3 * tile.bn, 3 * at_steps[0] * tile.bk
    problem = Problem(m, n, k, dtype_of(rung.dtypes[0]))
    blocks = math.prod(cluster(rung))
    one, two = (
        counts_of(rung_limits.one_block(rung, problem, H200, steps), blocks) for steps in at_steps
    )
    found = scaled(one, two, 3 * at_steps[0], at_steps)
    whole = counts_of(climb(rungs=name, m=m, n=n, k=k, engine="emulator", gpu="h200").reports[name])
    fields = ("mma_flops", "fma_issues", "shared_wavefronts", "load_bytes", "store_bytes")
    of_bulk = ("wgmma_flops", "wgmma_bytes", "fill_bytes", "drain_bytes", "store_clocks", "staged")
    for field in (*fields, "l1_clocks", *of_bulk):
        assert 6 * getattr(found, field) == getattr(whole, field), field
    assert 6 * found.instructions == pytest.approx(whole.instructions, rel=0.02)
    assert whole.mma_flops + whole.wgmma_flops in (0, problem.flops)


def test_blocks_with_two_sets_of_fragments_are_more_customers() -> None:
    """hgemm_best's eight warps two, hgemm_w64's four one; hgemm_best then hides as much as two
    resident blocks do.
    """
    found = {rung.name: streams(rung) for rung in KERNELS.values() if rung.family == "hgemm"}
    assert found.pop("hgemm_best") == 2
    assert set(found.values()) == {1}


def test_which_rungs_take_turns() -> None:
    """Those of wgmma whose warps wait for the products of each step."""
    assert [name for name, rung in KERNELS.items() if takes_turns(rung)] == [
        "hopper_wgmma", "hopper_ring",
    ]  # fmt: skip


@pytest.mark.usefixtures("compiler")
def test_a_hopper_rungs_resources_by_hand() -> None:
    """512 tiles of 128x256, 64 steps of 64: a multicast brings half of B, and C leaves by TMA.

    What is written into shared memory by TMA takes nothing of what is read there.
    """
    problem = Problem(4096, 4096, 4096, dtype_of("bf16"))
    found = limited(KERNELS["hopper_store"], problem, H200).limits
    a_step = 512 * 64 / 132 / 1830  # us for one clock of each
    assert found.mhz == 1830
    assert found.us["tensor"] == pytest.approx(a_step * WGMMA_STEP.value)
    read, c = 8 * 10240, 65536  # 8 wgmma read 2 and 8 KiB
    moved = read + 2 * c / 64  # C goes in by stmatrix and out by TMA
    assert found.us["shared"] == pytest.approx(a_step * moved / 128)
    assert found.us["l2"] == pytest.approx(a_step * (32768 + c / 64) / L2_RATE.value)


@pytest.mark.usefixtures("compiler")
def test_tiles_that_the_edge_cuts_cost_whole_ones() -> None:
    """Hopper rungs take any extents; here 6 tiles of 128x256, in clusters of 2 along m."""
    cut, whole = Problem(520, 200, 72, dtype_of("bf16")), Problem(768, 256, 128, dtype_of("bf16"))
    found, same = (limited(KERNELS["hopper_store"], problem, H200) for problem in (cut, whole))
    assert (found.run.blocks, found.run.steps) == (same.run.blocks, same.run.steps) == (6, 2)
    assert found.limits.us["tensor"] == same.limits.us["tensor"]
    assert found.limits.predicted_us == same.limits.predicted_us


@pytest.mark.usefixtures("compiler")
def test_wgmma_is_set_against_the_clock_that_it_ran_at() -> None:
    """These kernels run into the power cap; mma.sync keeps the data sheet's clock."""
    problem = Problem(4096, 4096, 4096, dtype_of("bf16"))
    for name, at_1500 in (("hopper_ring", True), ("hopper_tma_mma", False)):
        rung = KERNELS[name]
        line = newest(load(MEASURED), rung, problem, H200)
        assert line is not None
        found = limited(rung, problem, H200, [replace(line, sm_mhz=1500)]).limits
        assert found.mhz == (1500 if at_1500 else 1830)
        alone = limited(rung, problem, H200).limits
        assert found.predicted_us == pytest.approx(alone.predicted_us * 1830 / found.mhz)


def test_the_clock_is_the_median_of_a_rungs_lines() -> None:
    """One reading of NVML's is off by more than rungs differ; lines of other code don't count."""
    rung, problem = KERNELS["hopper_ring"], Problem(4096, 4096, 4096, dtype_of("bf16"))
    line = newest(load(MEASURED), rung, problem, H200)
    assert line is not None
    lines = [replace(line, sm_mhz=mhz) for mhz in (1740, 1500, None, 1530)]
    other = replace(line, sm_mhz=1980, source_hash="0" * 16)
    assert clock([*lines, other, other, other], rung, problem, H200) == 1530
    assert clock(lines[2:3], rung, problem, H200) is None
    assert clock([other], rung, problem, H200) is None


@pytest.mark.usefixtures("compiler")
def test_tensor_cores_bind_the_wide_rungs(measured_rungs: list[Limited]) -> None:
    """Those that multiply by wgmma and wait for no load."""
    for each in measured_rungs:
        if each.rung.family == "hopper" and each.rung.name != "hopper_wgmma":
            assert each.limits.binding == "tensor", each.rung.name


@pytest.mark.parametrize(
    ("opcode", "sectors", "size", "clocks"),
    [
        ("st.global.u32", 4, 128, STORE_ROW.value),
        ("st.global.v4.u32", 16, 512, 4 * STORE_ROW.value),
        ("st.global.u32", 8, 128, STORE_PARTS.value),
        ("st.shared.u32", 8, 128, 0),
        ("ld.global.u32", 8, 128, 0),
        ("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", 8, 256, 0),
    ],
)
def test_what_a_store_costs(opcode: str, sectors: int, size: int, clocks: float) -> None:
    access = Access(opcode, "k.cu", 1, "global", 1, 0, 0, sectors, 4, size)
    assert store_clocks(access) == pytest.approx(clocks)


@pytest.mark.usefixtures("compiler")
def test_what_l1_keeps_is_read_from_l2_once() -> None:
    """A block of 32x32 reads 64 rows and columns; a warp 33 lines for each k, or 2."""
    problem = Problem(256, 128, 512, dtype_of("fp32"))
    naive, coalesced = (
        limited(KERNELS[f"sgemm_{n}"], problem, H200) for n in ("naive", "coalesced")
    )
    clocks = 32 * 32 / 132 / 1979.8 * 512  # of 32 blocks of 32 warps
    assert naive.limits.us["l1"] == pytest.approx(33 * clocks, rel=1e-3)
    assert coalesced.limits.us["l1"] == pytest.approx(2 * clocks, rel=1e-3)
    moved = 32 / 132 / 1979.8 * (64 * 512 * 4 + 1024 * 4) / L2_RATE.value
    assert coalesced.limits.us["l2"] == pytest.approx(moved, rel=1e-3)


def test_a_family_of_unknown_loops_is_left_to_the_queues(
    monkeypatch: pytest.MonkeyPatch, compiler: str
) -> None:
    def none(*_: object) -> None:
        raise InputError("the loops of the machine code do not make up a K step.")

    monkeypatch.setattr("tilewright.bench.rung_limits.played", none)
    problem = Problem(256, 128, 64, dtype_of("fp32"))
    assert limited(KERNELS["sgemm_tiling"], problem, H200).model == "queues"


@pytest.mark.parametrize(
    ("opcode", "field", "value", "scale"),
    [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "mma_flops", 2 * 16 * 8 * 8, 0.5),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "mma_flops", 2 * 16 * 8 * 32, 2.0),
        ("fma.rn.f32", "fma_issues", 1, 1.0),
        ("fma.rn.ftz.f32", "fma_issues", 1, 1.0),
        ("add.f32", "fma_issues", 1, 1.0),
        ("mul.rn.f32", "fma_issues", 1, 1.0),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", "wgmma_flops", 2**17, 1.0),
        ("fma.rn.f64", "fma_issues", 0, 1.0),
        ("add.s32", "fma_issues", 0, 1.0),
    ],
)
def test_which_instructions_go_to_which_pipe(
    opcode: str, field: str, value: float, scale: float
) -> None:
    names = (
        "shared_wavefronts", "instructions", "global_sectors_load", "global_sectors_store",
        "wgmma_shared_bytes", "bulk_load_bytes", "bulk_store_bytes", "multicast_bytes",
    )  # fmt: skip
    counts = counts_of(Report(True, instructions={opcode: 7}, totals=dict.fromkeys(names, 0)))
    assert getattr(counts, field) == 7 * value
    assert counts.mma_scale == scale


def test_only_lines_of_the_present_code_problem_and_gpu_count() -> None:
    rung = KERNELS["hgemm_bcf"]
    problem = Problem(4096, 4096, 4096, dtype_of("bf16"))
    lines = load(MEASURED)
    found = newest(lines, rung, problem, H200)
    assert found is not None
    assert found.taken == max(line.taken for line in lines if line.name == rung.name
                              and line.dtype == "bf16" and line.m == 4096)  # fmt: skip
    assert newest([replace(found, source_hash="0" * 16)], rung, problem, H200) is None
    assert newest([replace(found, m=128)], rung, problem, H200) is None
    assert newest([found], rung, problem, gpu_named("a100")) is None

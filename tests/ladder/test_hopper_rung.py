"""HopperRung: boxes, grids and refusals, and what every kernel of that kind must hold to."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from tilewright.bench.ladder import build_rung
from tilewright.dtypes import BF16, DTYPES, FP16, FP32
from tilewright.gpus import GPUS
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.kernel_rung import Tile
from tilewright.ladder.rungs import KERNEL, KERNELS
from tilewright.launch import TMA_GEMM_ARGS, Packed
from tilewright.problem import LAYOUTS, Problem

RUNG = HopperRung(
    "hopper_x",
    "hopper",
    "hopper/10_hopper_x.cu",
    ("bf16", "fp16"),
    Tile(128, 256, 64),
    threads=384,
    buffers=3,
    staged=128 * 64,
    layouts=LAYOUTS,
    barriers=6,
)
A, B, C = 0x1000, 0x20000, 0x300000


def test_shared_bytes_are_whole_swizzle_patterns() -> None:
    used = 2 * (3 * (128 + 256) * 64 + 128 * 64) + 6 * 8
    assert RUNG.shared_bytes(BF16) == -(-used // 1024) * 1024
    assert replace(RUNG, barriers=0).shared_bytes(BF16) == used - 48


def test_macros_say_what_the_layout_makes_of_the_operands() -> None:
    majors = {
        layout: tuple(dict(RUNG.defines(FP16, layout))[f"{x}_MAJOR"] for x in "AB")
        for layout in LAYOUTS
    }
    assert majors == {
        "nn": ("K", "MN"), "nt": ("K", "K"), "tn": ("MN", "MN"), "tt": ("MN", "K"),
    }  # fmt: skip
    macros = dict(RUNG.defines(FP16, "nt"))
    assert macros["ELEMENT"] == "fp16"
    assert (macros["BM"], macros["STAGES"], macros["CLUSTER_M"]) == ("128", "3", "1")
    assert macros["TMA_GEMM_ARGS_BYTES"] == str(TMA_GEMM_ARGS.itemsize)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_maps_are_row_major_matrices_in_boxes_of_128_bytes(layout: str) -> None:
    maps = RUNG.maps(Problem(200, 304, 136, BF16, layout), A, B, C)
    shapes = {name: each.shape[::-1] for name, each in maps.items()}
    assert shapes == {
        "A_map": (136, 200) if layout[0] == "t" else (200, 136),
        "B_map": (304, 136) if layout[1] == "t" else (136, 304),
        "C_map": (200, 304),
    }
    assert [each.base for each in maps.values()] == [A, B, C]
    for each in maps.values():
        assert each.strides == (2 * each.shape[0],)
        assert (each.box[0], each.swizzle, each.oob_fill) == (64, "128B", "zero")
    boxes = {name: each.box[1] for name, each in maps.items()}
    assert boxes == {
        "A_map": 64 if layout[0] == "t" else 128,
        "B_map": 256 if layout[1] == "t" else 64,
        "C_map": 64,
    }
    whole = {"A_map": 128 * 64 * 2, "B_map": 256 * 64 * 2}
    for name, size in whole.items():
        assert size % maps[name].box_bytes == 0


def test_in_a_cluster_each_block_loads_its_part() -> None:
    rung = replace(RUNG, cluster_m=2, cluster_n=1)
    maps = rung.maps(Problem(512, 512, 128, BF16, "nt"), A, B, C)
    assert (maps["A_map"].box, maps["B_map"].box) == ((64, 128), (64, 128))
    rung = replace(RUNG, cluster_m=1, cluster_n=2)
    maps = rung.maps(Problem(512, 512, 128, BF16, "nt"), A, B, C)
    assert (maps["A_map"].box, maps["B_map"].box) == ((64, 64), (64, 256))
    maps = rung.maps(Problem(512, 512, 128, BF16, "tn"), A, B, C)
    assert (maps["A_map"].box, maps["B_map"].box) == ((64, 64), (64, 64))


def test_grids_are_whole_clusters() -> None:
    problem = Problem(3 * 128 - 8, 2 * 256 + 8, 64, BF16)
    assert RUNG.cluster == (1, 1, 1)
    assert RUNG.grid(problem) == (9, 1, 1)
    rung = replace(RUNG, cluster_m=2)
    assert rung.cluster == (2, 1, 1)
    assert rung.grid(problem) == (12, 1, 1)
    persistent = replace(rung, persistent=True)
    large = Problem(8192, 8192, 64, BF16)
    assert persistent.grid(large, sms=132) == (132, 1, 1)
    assert persistent.grid(large, sms=131) == (130, 1, 1)
    assert persistent.grid(large) == (64 * 32, 1, 1)
    assert persistent.grid(problem, sms=132) == (12, 1, 1)
    assert persistent.grid(problem, sms=1) == (2, 1, 1)


def test_the_parameters_are_one_struct() -> None:
    (packed,) = RUNG.params(Problem(128, 256, 64, BF16, "nt"), A, B, C)
    assert isinstance(packed, Packed)
    assert [offset for offset, _ in packed.maps] == [0, 128, 256]
    assert packed.raw[384:404] == b"".join(
        value.to_bytes(size, "little") for value, size in ((C, 8), (128, 4), (256, 4), (64, 4))
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("extents", [(8, 8, 8), (72, 136, 200), (4096, 4096, 4104)])
def test_any_extent_whose_rows_tma_reaches(layout: str, extents: tuple[int, int, int]) -> None:
    problem = Problem(*extents, BF16, layout)
    assert RUNG.refusal(problem, GPUS["h200"].shared_bytes_per_block, "sm_90") is None
    RUNG.params(problem, A, B, C)


def test_one_row_of_a_and_any_k_where_it_is_no_row() -> None:
    assert RUNG.refusal(Problem(1, 8, 8, BF16, "nn")) is None
    assert RUNG.refusal(Problem(8, 8, 1, BF16, "tn")) is None


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (
            Problem(64, 64, 100, BF16, "nn"),
            "k=100 makes rows of A 200 bytes long, and TMA reaches multiples of 16: pad k to a "
            "multiple of 8; the nearest is 104.",
        ),
        (Problem(64, 63, 64, BF16, "nn"), "n=63 makes rows of B 126 bytes"),
        (Problem(64, 63, 64, BF16, "nt"), "n=63 makes rows of C 126 bytes"),
        (Problem(63, 64, 64, BF16, "tn"), "m=63 makes rows of A 126 bytes"),
        (Problem(64, 64, 65, BF16, "tt"), "k=65 makes rows of B 130 bytes"),
        (Problem(64, 64, 64, FP32, "nn"), "hopper_x takes bf16 or fp16, not fp32."),
    ],
)
def test_refusals(problem: Problem, said: str) -> None:
    refused = RUNG.refusal(problem)
    assert refused is not None
    assert refused.startswith(said)


@pytest.mark.parametrize(
    ("changes", "arguments", "said"),
    [
        (
            {},
            (GPUS["a100"].shared_bytes_per_block, "sm_80"),
            "hopper_x uses TMA and wgmma of an H100 or H200, and this GPU is sm_80.",
        ),
        (
            {"buffers": 8},
            (GPUS["h200"].shared_bytes_per_block, "sm_90"),
            "hopper_x needs 410624 bytes of shared memory a block, and this GPU gives 232448; an "
            "H100 or H200 has enough.",
        ),
        ({"layouts": ("nt",)}, (), "hopper_x takes nt, not nn."),
    ],
)
def test_refusals_of_gpus_and_layouts(
    changes: dict[str, Any], arguments: tuple[Any, ...], said: str
) -> None:
    assert replace(RUNG, **changes).refusal(Problem(128, 256, 64, BF16), *arguments) == said


@pytest.mark.usefixtures("compiler")
def test_no_hopper_rung_of_the_table_spills_or_has_products_that_wait() -> None:
    for rung in KERNELS.values():
        if not isinstance(rung, HopperRung):
            continue
        for dtype, layout in product(rung.dtypes, rung.layouts):
            artifact = build_rung(rung, Problem(128, 256, 64, DTYPES[dtype], layout), "sm_90")
            used = artifact.resources[KERNEL]
            assert (used.spill_bytes, used.stack_bytes) == (0, 0), (rung.name, dtype, layout)
            assert used.registers * rung.threads <= 65536, (rung.name, dtype, layout)
            assert artifact.serialized == (), (rung.name, dtype, layout)

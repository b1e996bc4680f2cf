"""Bank and sector rules against an H200's counters, and against numbers anyone can check by hand.

`access_counts_h200.json` holds full warps in regular patterns, `..._partial.json` scattered ones
and warps in which some lanes take no part. Where a rule misses a counter, the row is named below.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.errors import InputError
from tilewright.model.banks import (
    Cost,
    Lanes,
    cp_async_ca,
    cp_async_cg,
    cp_async_zfill,
    global_access,
    ldmatrix,
    shared_load,
    shared_store,
    stmatrix,
)

Row = dict[str, Any]
Access = Callable[[list[int]], int]  # addresses -> wavefronts

DATA = Path(__file__).parents[1] / "data"
WARP = range(32)


def rows_of(name: str, kind: str = "") -> list[Row]:
    rows: list[Row] = json.loads((DATA / name).read_text())["accesses"]
    return [row for row in rows if row["kind"].startswith(kind)]


def name_of(row: Row) -> str:
    return f"{row['id']}-{row['kind']}-{row.get('pattern', format(row.get('active', 0), '08x'))}"


def predicted(row: Row) -> Cost:
    """The model's cost of a recorded access."""
    active = row.get("active", 0xFFFFFFFF)

    def lanes(addresses: list[int]) -> Lanes:
        return [a if active >> lane & 1 else None for lane, a in enumerate(addresses)]

    shared, global_ = lanes(row.get("shared", [])), lanes(row.get("global_", []))
    kind: str = row["kind"]
    family, number = kind[:3], int("".join(filter(str.isdigit, kind)))
    match family:
        case "LDS" if kind.startswith("LDSM"):
            return ldmatrix(shared, number)
        case "STS" if kind.startswith("STSM"):
            return stmatrix(shared, number)
        case "LDS":
            return shared_load(shared, number // 8)
        case "STS":
            return shared_store(shared, number // 8)
        case "LDG" | "STG":
            return global_access(global_, number // 8)
        case _ if kind == "CPA16CG":
            return cp_async_cg(shared, global_)
        case _:
            return cp_async_ca(shared, global_, number)


@pytest.mark.parametrize("row", rows_of("access_counts_h200.json"), ids=name_of)
def test_regular_accesses_cost_what_an_h200_counts(row: Row) -> None:
    counts = row["counts"]
    assert predicted(row) == Cost(
        counts["wavefronts"],
        counts["wavefronts_ideal"],
        counts["sectors"],
        counts["sectors_ideal"],
    )


# Rows of access_counts_h200_partial.json whose wavefronts the rules miss: id -> rule, counter.
# .ca with both sides in conflict: the hardware needs more passes than the larger conflict.
SCATTERED_CA = {
    51: (2, 3), 52: (3, 4), 53: (4, 6), 61: (4, 5), 62: (8, 9), 63: (6, 8), 64: (3, 4),
    65: (4, 5), 66: (4, 6), 72: (8, 9), 73: (11, 16), 75: (7, 8), 76: (9, 13),
}  # fmt: skip
# .cg in which all 32 lanes read the same 2 to 16 chunks.
REPEATED_CG = {
    144: (26, 29), 145: (25, 27), 147: (26, 27), 149: (22, 24), 150: (24, 26), 151: (28, 29),
}  # fmt: skip
MISSED = SCATTERED_CA | REPEATED_CG


@pytest.mark.parametrize("row", rows_of("access_counts_h200_partial.json"), ids=name_of)
def test_scattered_and_partial_accesses_cost_what_an_h200_counts(row: Row) -> None:
    cost, counts = predicted(row), row["counts"]
    rule, counter = MISSED.get(row["id"], (counts["wavefronts"],) * 2)
    assert (cost.wavefronts, counts["wavefronts"]) == (rule, counter)
    assert (cost.sectors, cost.sectors_ideal) == (counts["sectors"], counts["sectors_ideal"])


@pytest.mark.parametrize("row", rows_of("access_counts_h200_partial.json", "STS"), ids=name_of)
def test_the_hardware_counts_as_conflicts_what_exceeds_the_groups_of_active_lanes(
    row: Row,
) -> None:
    cost = predicted(row)
    assert cost.wavefronts - cost.wavefronts_ideal == row["counts"]["bank_conflicts_counter"]


def lanes(address: Callable[[int], int]) -> list[int]:
    return [address(lane) for lane in WARP]


def rows_at(pitch: int) -> list[int]:
    """The addresses of 8 rows of 16 bytes, for one 8x8 matrix."""
    return [row * pitch for row in range(8)]


def step(size: int) -> Callable[[int], list[int]]:
    """Lane n at element n * parameter, of `size` bytes: a stride, or a column of that pitch."""
    return lambda pitch: lanes(lambda n: n * pitch * size)


def share(size: int) -> Callable[[int], list[int]]:
    """Each `parameter` neighbouring lanes at one element."""
    return lambda by: lanes(lambda n: n // by * size)


def fragment(size: int, width: int) -> Callable[[int], list[int]]:
    """Four lanes a row, `width` bytes each, rows `parameter` elements of `size` bytes apart."""
    return lambda pitch: lanes(lambda n: n // 4 * pitch * size + n % 4 * width)


def float_at(index: Callable[[int, int], int]) -> Callable[[int], list[int]]:
    """Lane n at float index(n, parameter)."""
    return lambda parameter: lanes(lambda n: 4 * index(n, parameter))


def load(width: int) -> Access:
    return lambda addresses: shared_load(addresses, width).wavefronts


def store(width: int) -> Access:
    return lambda addresses: shared_store(addresses, width).wavefronts


def matrix(addresses: Lanes) -> int:
    return ldmatrix(addresses, 1).wavefronts


ODD = {3: 1, 5: 1, 31: 1, 33: 1}
LDMATRIX = {16: 1, 32: 2, 48: 1, 64: 4, 80: 1, 96: 2, 128: 8, 144: 1, 160: 2, 192: 4}
LDMATRIX |= {256: 8, 272: 1}

# What is accessed; by what; at which addresses, given a parameter; parameter -> wavefronts.
GOLDEN: list[tuple[str, Access, Callable[[int], list[int]], dict[int, int]]] = [
    ("float, stride", load(4), step(4), {1: 1, 2: 2, 4: 4, 8: 8, 16: 16, 32: 32} | ODD),
    ("float, stride", load(4), step(4), {34: 2, 36: 4, 40: 8, 64: 32}),
    ("one word, load", load(4), share(4), {32: 1}),
    ("one word, store", store(4), share(4), {32: 1}),
    ("lane 31 at word 32", load(4), float_at(lambda n, word: n // 31 * word), {32: 2}),
    ("half, stride", load(2), step(2), {1: 1}),
    ("byte, stride", load(1), step(1), {1: 1}),
    ("double, stride", load(8), step(8), {1: 2, 2: 4}),
    ("double, column of pitch", load(8), step(8), {32: 32, 33: 2, 34: 4}),
    ("float4 load, stride", load(16), step(16), {1: 4, 2: 8, 4: 16, 8: 32}),
    ("float4 store, stride", store(16), step(16), {1: 4, 2: 8, 4: 16, 8: 32}),
    ("float4 load, lanes that share", load(16), share(16), {32: 2, 16: 2, 4: 2, 2: 2}),
    ("float4 store, lanes that share", store(16), share(16), {32: 4, 4: 4, 2: 4}),
    ("float4 at lane %", load(16), float_at(lambda n, by: n % by * 4), {4: 4}),
    ("float4, column of pitch", load(16), step(4), {128: 32, 132: 4, 36: 4, 40: 8}),
    ("float4 of an 8x8 register tile", load(16), float_at(lambda n, tn: n % 16 * tn), {8: 8}),
    ("float4 of a split tile", load(16), float_at(lambda n, at: n % 16 * 4 + at), {0: 4, 64: 4}),
    ("float i of an 8x8 tile", load(4), float_at(lambda n, i: n % 16 * 8 + i), {0: 4, 3: 4}),
    ("float, column of pitch", load(4), step(4), {32: 32, 33: 1}),
    ("float, column, xor row &", load(4),
     float_at(lambda n, m: 32 * n + (n & m)), {31: 1, 7: 4, 3: 8}),
    ("s[ty][tx], 16x16, pitch", load(4),
     float_at(lambda n, p: n // 16 * p + n % 16), {16: 1, 17: 2}),
    ("s[tx][k], 16x16, pitch", load(4),
     float_at(lambda n, p: n % 16 * p), {16: 8, 17: 1, 32: 16, 33: 1}),
    # A lane loaded 4 neighbours along K and stores them one by one, BK / 4 lanes a row of A.
    ("As transposed, BK=8, pitch", store(4),
     float_at(lambda n, p: n % 2 * 4 * p + n // 2), {128: 2, 130: 2, 132: 1}),
    ("As transposed, BK=16, pitch", store(4),
     float_at(lambda n, p: n % 4 * 4 * p + n // 4), {128: 4, 130: 1, 132: 2}),
    ("half, column of pitch", load(2), step(2), {32: 16, 33: 1, 34: 1}),
    ("ldmatrix, pitch in bytes", matrix, rows_at, LDMATRIX),
    ("A fragment of halves, pitch", load(4), fragment(2, 4), {32: 4, 40: 1, 64: 8, 72: 1, 80: 2}),
    ("C fragment of half2, pitch", store(4), fragment(2, 4), {64: 8, 72: 1, 128: 8, 136: 1}),
    ("C fragment of float2, pitch", store(8),
     fragment(4, 8), {64: 8, 68: 4, 72: 2, 132: 4, 136: 2}),
    ("8 bytes, 4 lanes a row, pitch in bytes", store(8), fragment(1, 8), {144: 4, 160: 2}),
    ("16 bytes, 4 lanes a row, pitch in bytes", store(16), fragment(1, 16), {144: 8, 192: 4}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("access", "addresses", "wavefronts"),
    [
        pytest.param(access, addresses_for(parameter), wavefronts, id=f"{what} {parameter}")
        for what, access, addresses_for, expected in GOLDEN
        for parameter, wavefronts in expected.items()
    ],
)
def test_golden_wavefronts(access: Access, addresses: list[int], wavefronts: int) -> None:
    assert access(addresses) == wavefronts


SWIZZLES: list[tuple[int, Callable[[int], int], int]] = [
    (128, lambda row: row & 7, 1),
    (256, lambda row: row & 7, 1),
    (64, lambda row: row >> 1 & 3, 1),
    (64, lambda row: row & 3, 2),
    (32, lambda row: row >> 2 & 1, 1),
]


@pytest.mark.parametrize(("pitch", "xor", "wavefronts"), SWIZZLES)
def test_golden_swizzled_ldmatrix(pitch: int, xor: Callable[[int], int], wavefronts: int) -> None:
    for chunk in range(pitch // 16):
        addresses = [row * pitch + 16 * (chunk ^ xor(row)) for row in range(8)]
        assert ldmatrix(addresses, 1).wavefronts == wavefronts


@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("stride", [1, 2, 4, 8])
def test_golden_cp_async_ca(width: int, stride: int) -> None:
    packed, strided = lanes(lambda n: n * width), lanes(lambda n: n * stride * width)
    assert cp_async_ca(packed, strided, width).wavefronts == stride * width // 4
    assert cp_async_ca(strided, packed, width).wavefronts == stride * width // 4
    assert cp_async_ca(packed, [0] * 32, width).wavefronts == 32


@pytest.mark.parametrize(
    ("source_row", "wavefronts"), [(256, 4), (128, 4), (64, 8), (32, 16), (16, 32)]
)
@pytest.mark.parametrize("swizzled", [False, True])
def test_golden_cp_async_cg_by_the_length_of_global_rows(
    source_row: int, wavefronts: int, swizzled: bool
) -> None:
    def target(lane: int) -> int:
        row, chunk = divmod(lane, 8)
        return 128 * row + 16 * (chunk ^ (row & 7) if swizzled else chunk)

    def source(lane: int) -> int:
        row, inside = divmod(16 * lane, source_row)
        return 8192 * row + inside

    assert cp_async_cg(lanes(target), lanes(source)).wavefronts == wavefronts


def test_golden_cp_async_cg_straddling_lines_and_spread_targets() -> None:
    packed = lanes(lambda n: 16 * n)
    assert cp_async_cg(packed, lanes(lambda n: 16 * n + 64)) == Cost(8, 4, 16, 16)
    assert cp_async_cg(lanes(lambda n: 32 * n), packed) == Cost(32, 4, 32, 16)


def test_a_double_column_of_pitch_33_has_no_conflict() -> None:
    cost = shared_load(lanes(lambda n: 8 * 33 * n), 8)
    assert cost.wavefronts == cost.wavefronts_ideal == 2


def test_a_merged_load_with_conflicts_is_served_in_large_groups_all_the_same() -> None:
    pairs = lanes(lambda n: n // 2 * 8)
    assert shared_load(pairs, 8) == Cost(1, 1)
    pairs[30:] = [256, 256]  # bank 0 of row 2, in the second half of the warp
    assert shared_load(pairs, 8) == Cost(2, 2)
    pairs[31] = 264  # one pair disagrees
    assert shared_load(pairs, 8) == Cost(2, 2)
    pairs[28:30] = [384, 384]
    assert shared_load(pairs, 8).wavefronts == 1 + 2


def test_lanes_that_take_no_part_cost_nothing() -> None:
    none: list[int | None] = [None] * 32
    for width in (1, 2, 4, 8, 16):
        assert shared_load(none, width) == Cost()
        assert shared_store(none, width) == Cost()
        assert global_access(none, width) == Cost()
    for matrices in (1, 2, 4):
        assert ldmatrix(none, matrices) == stmatrix(none, matrices) == Cost()
    for width in (4, 8, 16):
        assert cp_async_ca(none, none, width) == Cost()
    assert cp_async_cg(none, none) == cp_async_cg([], []) == Cost()
    assert shared_store([0, *none[:30], 128], 16) == Cost(2, 2)


def test_ldmatrix_ignores_the_lanes_that_it_does_not_use() -> None:
    addresses = [*rows_at(16), *([0, 128] * 12)]
    assert ldmatrix(addresses, 1) == ldmatrix(addresses[:8], 1) == Cost(1, 1)


def test_of_lanes_with_one_target_cp_async_cg_copies_the_lowest() -> None:
    assert cp_async_cg([0, 0], [64, 4096]) == cp_async_cg([0], [64]) == Cost(1, 1, 1, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: shared_load([0], 3), r"width=3 must be 1, 2, 4, 8 or 16\."),
        (lambda: shared_store([0], 32), r"width=32 must be 1, 2, 4, 8 or 16\."),
        (lambda: global_access([0], 0), r"width=0 must be 1, 2, 4, 8 or 16\."),
        (lambda: ldmatrix([0], 3), r"matrices=3 must be 1, 2 or 4\."),
        (lambda: stmatrix([0], 8), r"matrices=8 must be 1, 2 or 4\."),
        (lambda: cp_async_ca([0], [0], 2), r"width=2 must be 4, 8 or 16\."),
        (lambda: cp_async_cg([0], [0, 16]), r"shared has 1 lanes and global_ has 2"),
        (lambda: cp_async_cg([0, None], [0, 16]), r"lane 1 has only one of"),
        (lambda: shared_load([0] * 33, 4), r"33 lanes were given; a warp has at most 32\."),
    ],
)
def test_arguments_that_do_not_exist_are_refused(call: Callable[[], Cost], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


# --- copies that fill with zeros --------------------------------------------------------

ZFILL = json.loads((DATA / "zfill_counts_h200.json").read_text())["rows"]
SCATTERED = ("cp.async.ca 16", "both_shuffled")  # on both sides: see cp_async_ca


@pytest.mark.parametrize("row", ZFILL, ids=lambda row: f"{row['op'][9:]} {row['name']}")
def test_lanes_that_fill_with_zeros_count_as_on_an_h200(row: dict[str, Any]) -> None:
    op, width = row["op"].split()
    cost = cp_async_zfill(row["shared"], row["copied"], int(width), past=op.endswith("cg"))
    got = [cost.wavefronts, cost.wavefronts_ideal, cost.sectors]
    assert (got == row["counts"]) is ((row["op"], row["name"]) != SCATTERED)

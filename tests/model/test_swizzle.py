"""The swizzles: permutations of a row's chunks that take the conflicts out of hgemm's tiles."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tilewright.model.banks import Cost, cp_async_cg, ldmatrix, shared_load, shared_store
from tilewright.model.swizzle import swizzle_a, swizzle_at, swizzle_b, swizzle_c

Swizzle = Callable[[int, int], int]

CHUNK = 8  # 16-bit elements in 16 bytes
ROWS = range(16)


def plain(row: int, col: int) -> int:
    return col


def address(swizzle: Swizzle, columns: int, row: int, col: int) -> int:
    """Of an element of a 16-bit tile with `columns` a row, in bytes."""
    return 2 * (row * columns + swizzle(row, col))


@pytest.mark.parametrize(
    ("swizzle", "columns"),
    [
        (swizzle_a, 32),
        (swizzle_b, 64),
        (swizzle_b, 128),
        (swizzle_c, 64),
        (swizzle_c, 128),
        (swizzle_at, 128),
    ],
)
def test_a_swizzle_is_an_involution_that_permutes_the_chunks_of_a_row(
    swizzle: Swizzle, columns: int
) -> None:
    for row in ROWS:
        moved = [swizzle(row, col) for col in range(columns)]
        assert sorted(moved) == list(range(columns))
        assert [swizzle(row, col) for col in moved] == list(range(columns))
        for col in range(columns):
            assert moved[col] % CHUNK == col % CHUNK
            assert moved[col] // CHUNK == moved[col - col % CHUNK] // CHUNK


@pytest.mark.parametrize(("swizzle", "wavefronts"), [(plain, 16), (swizzle_a, 4)])
def test_ldmatrix_x4_of_a_tile_with_64_byte_rows(swizzle: Swizzle, wavefronts: int) -> None:
    for k in (0, 16):
        lanes = [address(swizzle, 32, n % 16, k + n // 16 * 8) for n in range(32)]
        assert ldmatrix(lanes, 4) == Cost(wavefronts, 4)


@pytest.mark.parametrize(("swizzle", "wavefronts"), [(plain, 32), (swizzle_b, 4)])
def test_ldmatrix_x4_of_a_tile_with_128_byte_rows(swizzle: Swizzle, wavefronts: int) -> None:
    for k in range(0, 64, 16):
        lanes = [address(swizzle, 64, n % 16, k + n // 16 * 8) for n in range(32)]
        assert ldmatrix(lanes, 4) == Cost(wavefronts, 4)


@pytest.mark.parametrize(("swizzle", "wavefronts"), [(plain, 16), (swizzle_b, 2)])
def test_ldmatrix_x2_of_a_tile_with_256_byte_rows(swizzle: Swizzle, wavefronts: int) -> None:
    for n in range(0, 128, 8):
        lanes = [address(swizzle, 128, lane % 16, n) for lane in range(32)]
        assert ldmatrix(lanes, 2) == Cost(wavefronts, 2)


@pytest.mark.parametrize(("swizzle", "wavefronts"), [(plain, 8), (swizzle_c, 1)])
def test_half2_stores_of_accumulators_into_256_byte_rows(swizzle: Swizzle, wavefronts: int) -> None:
    for n in range(0, 128, 8):
        lanes = [address(swizzle, 128, lane // 4, n + lane % 4 * 2) for lane in range(32)]
        assert shared_store(lanes, 4) == Cost(wavefronts, 1)


@pytest.mark.parametrize("swizzle", [plain, swizzle_c])
def test_reading_c_back_in_16_byte_chunks_never_conflicts(swizzle: Swizzle) -> None:
    lanes = [address(swizzle, 128, 5 + lane // 16, lane % 16 * 8) for lane in range(32)]
    assert shared_load(lanes, 16) == Cost(4, 4)


@pytest.mark.parametrize(
    ("swizzle", "columns", "wavefronts"),
    [
        (plain, 32, 8),
        (swizzle_a, 32, 8),
        (plain, 64, 4),
        (swizzle_b, 64, 4),
        (plain, 128, 4),
        (swizzle_b, 128, 4),
    ],
)
def test_filling_a_tile_costs_the_same_with_and_without_swizzle(
    swizzle: Swizzle, columns: int, wavefronts: int
) -> None:
    chunks = columns // CHUNK
    shared = [address(swizzle, columns, n // chunks, n % chunks * CHUNK) for n in range(32)]
    global_ = [n // chunks * 8192 + n % chunks * 16 for n in range(32)]
    assert cp_async_cg(shared, global_) == Cost(wavefronts, 4, 16, 16)


def test_a_swizzle_of_the_source_costs_short_rows_the_same() -> None:
    """The article's author moved it to the global side; two rows still share a line."""
    shared = [address(plain, 32, n // 4, n % 4 * CHUNK) for n in range(32)]
    global_ = [n // 4 * 8192 + 2 * swizzle_a(n // 4, n % 4 * CHUNK) for n in range(32)]
    assert cp_async_cg(shared, global_) == Cost(8, 4, 16, 16)


@pytest.mark.parametrize(("swizzle", "wavefronts"), [(plain, 4), (swizzle_at, 1)])
def test_fp32_stores_that_transpose_8_rows_of_4_chunks(swizzle: Swizzle, wavefronts: int) -> None:
    """sgemm_at_*: lane l holds 4 elements of row l / 4, from column l % 4 * 4 on."""
    for e in range(4):
        places = [(lane % 4 * 4 + e, 8 + lane // 4) for lane in range(32)]
        lanes = [4 * (k * 128 + swizzle(k, m)) for k, m in places]
        assert shared_store(lanes, 4) == Cost(wavefronts, 1)

"""Parts of a grid, as ranges and in words."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.emulator.part import Part, part_of


@pytest.mark.parametrize(
    ("ids", "ranges"),
    [
        ([5], ((5, 5),)),
        ([0, 1, 2], ((0, 2),)),
        ([1, 2, 3, 10], ((1, 3), (10, 10))),
        ([0, 2, 4], ((0, 0), (2, 2), (4, 4))),
    ],
)
def test_ranges(ids: list[int], ranges: tuple[tuple[int, int], ...]) -> None:
    assert part_of(np.array(ids), 16) == part_of(ids, 16) == Part(ranges, 16)
    assert part_of(ids, 16).count == len(ids)


def test_a_range_costs_nothing() -> None:
    part = part_of(range(10**15), 2**60)
    assert (part.ranges, part.count) == (((0, 10**15 - 1),), 10**15)
    assert part.short == "1,000,000,000,000,000 of 1,152,921,504,606,846,976 blocks"


def test_words() -> None:
    end = "; unwritten outputs were not looked for."
    assert part_of([1, 2, 3, 10], 16).words == f"Only 4 of 16 blocks ran: 1, 2, 3, 10{end}"
    assert part_of([*range(5), 9], 16).words == f"Only 6 of 16 blocks ran: 0 to 4, 9{end}"

    assert part_of(list(range(0, 1000, 2)), 1000).words == (
        f"Only 500 of 1,000 blocks ran: 0, 2, 4, 6, 8, 10, 12, 14, …{end}"
    )


def test_json() -> None:
    assert part_of([0, 1, 7], 9).to_dict() == {"blocks": 3, "of": 9, "ranges": [[0, 1], [7, 7]]}

"""`tilewright explain pipeline`: the roadmap's timelines in figures and in letters."""

from __future__ import annotations

import re
from typing import Any

import pytest

WORDS = "pipeline --stages 2 --load 3 --compute 5 --tiles 4"


def test_figures_of_one_buffer_and_of_two(explained: Any) -> None:
    rows = {row["stages"]: row for row in explained(WORDS)}
    assert list(rows) == [2, 1, 3, 4]  # what was asked for comes first
    assert (rows[1]["total"], rows[2]["total"]) == (32, 23)
    assert (rows[2]["overlap"], rows[2]["stalls"], rows[2]["fill"]) == (9, 0, 3)
    assert rows[2]["speedup"] == pytest.approx(32 / 23)
    assert (rows[1]["shared_bytes"], rows[2]["shared_bytes"]) == (8192, 16384)
    assert rows[2]["steps"] == [
        "Preload 0", "Compute 0 + Load 1", "Compute 1 + Load 2", "Compute 2 + Load 3", "Compute 3"
    ]  # fmt: skip
    assert rows[2]["spans"][2] == {"what": "load", "tile": 1, "slot": 1, "start": 3, "end": 6}


def test_the_picture(shown: Any) -> None:
    lines = shown("pipeline --load 1 --compute 1 --tiles 2").splitlines()
    assert lines[:3] == [
        "Single buffer",
        f"  load s[0] 0{'░' * 16}{' ' * 17}1{'▒' * 16}",
        f"  compute   {' ' * 17}0{'█' * 16}{' ' * 17}1{'▓' * 16}",
    ]
    assert lines[3] == "Load 0 → Compute 0 → Load 1 → Compute 1"
    assert lines[5:9] == [
        "2 buffers",
        f"  load s[0] 0{'░' * 16}",
        f"  load s[1] {' ' * 17}1{'▒' * 16}",
        f"  compute   {' ' * 17}0{'█' * 16}1{'▓' * 16}",
    ]
    assert lines[9] == "Preload 0 → Compute 0 + Load 1 → Compute 1"


def test_a_tile_without_room_for_its_number_has_none(shown: Any) -> None:
    said = shown("pipeline --stages 10 --tiles 24 --load 1 --compute 1")
    assert "  and 2 more buffers\n" in said
    (compute,) = (line for line in said.split("10 buffers")[1].splitlines() if "compute" in line)
    numbers = [int(word) for word in re.findall(r"\d+", compute)]
    assert numbers == sorted(set(numbers))
    assert set(range(10)) > set(numbers) > set()


def test_what_cannot_be_hidden_is_told(shown: Any) -> None:
    said = " ".join(shown("pipeline --load 600 --compute 400 --tiles 6").split())
    assert "the arithmetic still waits 200 a tile" in said
    said = " ".join(shown(WORDS).split())
    assert "every load but the first is hidden" in said


def test_many_tiles_are_counted_and_the_first_drawn(explained: Any, shown: Any) -> None:
    words = "pipeline --tiles 10000 --stages 3 --load 700 --transfer 100 --compute 200"
    (row, *_) = explained(words)
    assert (row["tiles"], len(row["spans"])) == (10000, 400)
    assert "the first 24 of 10,000 tiles" in shown(words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--stages 0", "stages=0 must be 1..64."),
        ("--load -1", "load=-1 must be a time of 0 or more, at most 1e12."),
        ("--load nan", "load=nan must be a time of 0 or more, at most 1e12."),
        ("--transfer 9", "transfer=9 is a part of load=4; it cannot be more."),
        ("--tiles 100001", "tiles=100001 must be 1..100000."),
        ("--tile-bytes 0", "tile_bytes=0 must be 1..16777216."),
        ("--load x", 'Invalid value for --load: unable to convert "x" into float.'),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"pipeline {words}") == said

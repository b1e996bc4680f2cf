"""The picture of a climb: valid SVG, bars in proportion."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from tilewright.bench.climb_picture import WIDE, climb_picture

SVG = "{http://www.w3.org/2000/svg}"


def drawn(shares: dict[str, float | None], rivals: dict[str, float]) -> ElementTree.Element:
    return ElementTree.fromstring(climb_picture("torch's & <more>", shares, rivals))


def widths(picture: ElementTree.Element) -> list[float]:
    return [float(bar.attrib["width"]) for bar in picture.iter(f"{SVG}rect")]


def words(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{SVG}text")]


def test_bars_are_in_proportion() -> None:
    picture = drawn({"a": 0.25, "b": None, "c": 0.5}, {"torch": 1.0, "cuBLASLt": 1.25})
    first, second = widths(picture)
    assert second == 2 * first == 0.5 * WIDE / 1.25
    assert words(picture) == [
        "torch's & <more>", "torch 1.00, cuBLASLt 1.25", "a", "0.25",
        "b", "not timed beside torch", "c", "0.50",
    ]  # fmt: skip
    lines = [path.attrib["d"] for path in picture.iter(f"{SVG}path")]
    assert [float(re.findall(r"[\d.]+", line)[0]) for line in lines] == sorted(
        250 + WIDE * share / 1.25 for share in (1.0, 1.25)
    )


def test_a_rung_above_its_rivals_fits() -> None:
    assert widths(drawn({"a": 2.0}, {"torch": 1.0})) == [WIDE]


def test_without_rivals() -> None:
    assert words(drawn({"a": None}, {})) == ["torch's & <more>", "a", "not timed beside torch"]

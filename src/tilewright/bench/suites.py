"""Which shapes are measured: the suites that ship with the package, and shapes in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import product
from math import prod

from tilewright.dtypes import DType
from tilewright.errors import InputError
from tilewright.problem import LAYOUTS, Problem

_EXTENT = r"(\d{1,10}(?::\d{1,10})*:?)"
_SHAPE = re.compile(rf"{_EXTENT}[x×]{_EXTENT}[x×]{_EXTENT}(?::([a-z]+))?", re.ASCII)
_MOST_SHAPES = 10_000  # of one word; nobody waits for more
_ALIGNED = 8  # 16-bit elements in the 16 bytes that vector accesses and TMA ask for


@dataclass(frozen=True)
class Shape:
    """C[m, n] = A[m, k] · B[k, n]; `layout` says how A and B lie: "nt" is B stored [n, k]."""

    m: int
    n: int
    k: int
    layout: str = "nn"

    def problem(self, dtype: DType) -> Problem:
        return Problem(self.m, self.n, self.k, dtype, self.layout)

    @property
    def aligned(self) -> bool:
        """Every row in memory is a multiple of 16 bytes long."""
        a = self.m if self.layout[0] == "t" else self.k
        b = self.k if self.layout[1] == "t" else self.n
        return not (a % _ALIGNED or b % _ALIGNED or self.n % _ALIGNED)

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}:{self.layout}"


@lru_cache(maxsize=1)
def suites() -> dict[str, tuple[Shape, ...]]:
    """The suites by name, in their order."""
    text = (files("tilewright.bench") / "suites.json").read_text(encoding="utf-8")
    return {
        name: tuple(Shape(*row) for row in rows)
        for name, rows in json.loads(text).items()
        if name != "about"
    }


def suite(name: str) -> tuple[Shape, ...]:
    """The shapes of a suite, or of "all". Raises: InputError for an unknown name."""
    known = suites()
    if name == "all":
        return tuple(shape for shapes in known.values() for shape in shapes)
    if name not in known:
        raise InputError(f"suite={name!r} is not known; use {', '.join((*known, 'all'))}.")
    return known[name]


def parse_shapes(words: Sequence[str], layout: str = "nn") -> tuple[Shape, ...]:
    """Shapes as MxNxK or MxNxK:layout; an extent may be a range first:last:step.

    "1024:4096:1024x4096x4096:nt" is four shapes. `layout` is that of words which name none.
    Raises: InputError for what is none.
    """
    if layout not in LAYOUTS:
        raise InputError(f"layout={layout!r} must be one of {', '.join(LAYOUTS)}.")
    return tuple(shape for word in words for shape in _parse(word, layout))


def _parse(word: str, otherwise: str) -> Iterator[Shape]:
    match = _SHAPE.fullmatch(word)
    if match is None:
        raise InputError(f"shape={word!r} must look like 4096x4096x4096 or 512x6144x4096:nt.")
    layout = match[4] or otherwise
    if layout not in LAYOUTS:
        raise InputError(f"shape={word!r}: the layout must be one of {', '.join(LAYOUTS)}.")
    extents = [_extents(word, part) for part in match.groups()[:3]]
    if (count := prod(len(each) for each in extents)) > _MOST_SHAPES:
        raise InputError(
            f"shape={word!r} is {count:,} shapes, and at most {_MOST_SHAPES:,} are taken at a time."
        )
    for m, n, k in product(*extents):
        yield Shape(m, n, k, layout)


def _extents(word: str, part: str) -> range:
    numbers = [int(number) for number in part.split(":") if number]
    if len(numbers) == 1 and ":" not in part:
        return range(numbers[0], numbers[0] + 1)
    if (
        len(numbers) != 3
        or part.count(":") != 2
        or not 0 < numbers[0] <= numbers[1]
        or not numbers[2]
    ):
        raise InputError(f"shape={word!r}: a range is first:last:step, such as 1024:8192:1024.")
    return range(numbers[0], numbers[1] + 1, numbers[2])

"""Problems are checked once, in exact arithmetic."""

from __future__ import annotations

import pytest

from tilewright.dtypes import BF16
from tilewright.errors import InputError
from tilewright.problem import Problem, nearest_multiple


@pytest.mark.parametrize("axis", ["m", "n", "k"])
@pytest.mark.parametrize("extent", [0, -1, 2**31])
def test_extents_out_of_range(axis: str, extent: int) -> None:
    extents = {"m": 128, "n": 256, "k": 64} | {axis: extent}
    m, n, k = extents.values()
    with pytest.raises(InputError, match=rf"{axis}={extent} must be between 1 and 2147483647"):
        Problem(m, n, k, BF16)


def test_layouts() -> None:
    assert str(Problem(128, 256, 64, BF16)) == "128×256×64 bf16"
    assert str(Problem(128, 256, 64, BF16, "nt")) == "128×256×64 nt bf16"
    with pytest.raises(InputError, match="layout='n' must be one of nn, nt, tn, tt"):
        Problem(128, 256, 64, BF16, "n")


def test_sizes_do_not_wrap() -> None:
    """46341² is just over 2³¹ − 1 (OVF-03)."""
    problem = Problem(46341, 46341, 64, BF16)
    assert problem.flops == 2 * 46341 * 46341 * 64
    assert problem.bytes == 2 * (2 * 46341 * 64 + 46341 * 46341)


def test_flops_and_bytes_keep_n_and_k_apart() -> None:
    problem = Problem(128, 256, 64, BF16)
    assert problem.flops == 4_194_304
    assert problem.bytes == 2 * (128 * 64 + 64 * 256 + 128 * 256)
    assert str(problem) == "128×256×64 bf16"


@pytest.mark.parametrize(
    ("value", "nearest"), [(1, 128), (100, 128), (191, 128), (192, 256), (255, 256), (1000, 1024)]
)
def test_nearest_multiple(value: int, nearest: int) -> None:
    assert nearest_multiple(value, 128) == nearest


def test_the_nearest_value_is_one_that_is_accepted() -> None:
    assert nearest_multiple(2**31 - 1, 128) == 2**31 - 128

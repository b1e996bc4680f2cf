"""The hash of a rung's code: comments do not count, code does."""

from __future__ import annotations

import pytest

from tilewright.bench.includes import code_of
from tilewright.bench.record import source_hash
from tilewright.bench.rung_code import hash_of, python_hash
from tilewright.ladder.rungs import KERNELS, RUNGS

CODE = "def gemm(a, b, c):\n    for i in a:\n        c += i\n    b = 1\n"


@pytest.mark.parametrize(
    "same",
    [
        f"# Found: 3 µs\n\n{CODE}",
        CODE.replace("c += i", "c+=i  # adds"),
        CODE.replace("    ", "  "),
        CODE.replace("\n    b", "\n\n    # b\n    b"),
    ],
)
def test_comments_and_spaces_do_not_count(same: str) -> None:
    assert python_hash(same) == python_hash(CODE)


@pytest.mark.parametrize(
    "other",
    [CODE.replace("1", "2"), CODE.replace("    b = 1", "        b = 1"), CODE.replace("+=", "-=")],
)
def test_code_and_blocks_count(other: str) -> None:
    assert python_hash(other) != python_hash(CODE)


def test_a_rung_of_either_kind_has_a_hash() -> None:
    kernel = KERNELS["hgemm_bcf"]
    assert hash_of(kernel) == source_hash(code_of(kernel.text))
    hashes = {hash_of(rung) for rung in RUNGS.values()}
    assert len(hashes) == len(RUNGS)
    assert {len(each) for each in hashes} == {16}

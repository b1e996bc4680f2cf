"""Arithmetic of one lane against an H200, 2026-11-30: integers, carries, floats, comparisons.

tests/data/silicon/scalar.npz holds, for `integer` and `float`, a kernel's text with BODY in it,
the instructions that took its place, inputs [64 threads, 3] of 64 bits, and what came out,
[instructions, threads]. Everything must agree to the bit, except that

- a NaN may have another payload,
- bfe and bfi take positions and lengths from 0 to 255; the ISA leaves others open.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright

FILE = Path(__file__).parents[1] / "data" / "silicon" / "scalar.npz"
Array = np.ndarray[Any, Any]


@cache
def recorded() -> dict[str, Array]:
    with np.load(FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def text(name: str) -> str:
    return recorded()[name].tobytes().decode()


def alike(instruction: str, found: Array, wanted: Array) -> Array:
    """Where two results agree; in the text D is a float of 32 bits, G one of 64."""
    same = np.asarray(found == wanted)
    for register, dtype, step in (("G,", "f8", 1), ("D,", "f4", 2)):
        if register in instruction:
            pair = [np.isnan(bits.view(dtype)[::step]) for bits in (found, wanted)]
            same |= pair[0] & pair[1]
    return same


@pytest.mark.parametrize("kind", ["integer", "float"])
def test_instructions_of_one_lane(kind: str) -> None:
    given = recorded()[f"{kind}.in"]
    small = (given[:, 1:].astype(np.uint32) < 256).all(1)
    wrong = []
    for instruction, wanted in zip(
        text(f"{kind}.ops").split("\n"), recorded()[f"{kind}.out"], strict=True
    ):
        found = np.zeros_like(wanted)
        ptx = text(f"{kind}.ptx").replace("BODY", instruction)
        tilewright.emulate(ptx, "k", (1,), (len(given),), [given.copy(), found], checks=False)
        same = np.asarray(found == wanted)
        if kind == "float":
            same = alike(instruction, found, wanted)
        elif instruction.startswith(("bfe", "bfi")):
            same |= ~small
        if not same.all():
            at = int(np.argmin(same))
            wrong.append((instruction, given[at].tolist(), hex(found[at]), hex(wanted[at])))
    assert wrong == []

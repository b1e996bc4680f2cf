"""Broken PTX: whatever a text says, the emulator runs it or raises an error of ours.

Nothing else comes out (KeyError, RecursionError, NumPy's warnings), and nothing hangs: loops are
cut by `step_limit`. More seeds than a test run has time for: python tests/emulator/test_fuzz.py
FIRST COUNT.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.emulator.ir import Parameter
from tilewright.emulator.parse import parse
from tilewright.errors import TilewrightError

CORPUS = Path(__file__).parent / "corpus"
TEXTS = [
    path.read_text(encoding="utf-8")
    for path in (
        CORPUS / "odd_forms.ptx",
        CORPUS / "triton" / "softmax.ptx",
        CORPUS / "triton" / "histogram.ptx",
        CORPUS / "triton" / "matmul_f16.ptx",
    )
]
SEEDS = 120
TOKEN = re.compile(r"[%\w$.]+|[^\s\w]|\s+")
TYPES = (
    *("b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "b32", "u32", "s32", "f32", "b64"),
    *("u64", "s64", "f64", "pred", "f16x2", "b128", "tf32"),
)
ODD = (
    *("0", "-1", "4294967295", "0x8000000000000000", "99999999999999999999999", "1.5", "1/0"),
    *("0f7FC00000", "0d7FF0000000000000", "WARP_SZ", "%tid.x", "%clock64", "%r1", "%p1", "%d1"),
    *("_", "{", "}", "[", "]", "(", ")", ";", ":", "::", "!", "-", "|", "+", "<", '"', "é", "\0"),
)
SIZES = (0, 1, 2, 3, 5, 7, 8, 16, 31, 32, 33, 255, 256, 65536, 2**31, 2**63, 2**64)

Draw = random.Random


def _drop(words: list[str], at: int, draw: Draw) -> None:
    del words[at]


def _swap(words: list[str], at: int, draw: Draw) -> None:
    other = draw.randrange(len(words))
    words[at], words[other] = words[other], words[at]


def _retype(words: list[str], at: int, draw: Draw) -> None:
    words[at] = re.sub(rf"\.({'|'.join(TYPES)})\b", f".{draw.choice(TYPES)}", words[at])


def _replace(words: list[str], at: int, draw: Draw) -> None:
    words[at] = draw.choice(ODD)


def _resize(words: list[str], at: int, draw: Draw) -> None:
    words[at] = re.sub(r"\d+", lambda _: str(draw.choice(SIZES)), words[at])


def _repeat(words: list[str], at: int, draw: Draw) -> None:
    words.insert(at, draw.choice(words))


def _reorder(words: list[str], at: int, draw: Draw) -> None:
    parts = words[at].split(".")
    draw.shuffle(parts)
    words[at] = ".".join(parts)


def _cut(words: list[str], at: int, draw: Draw) -> None:
    del words[at:]


IN_A_LINE: list[Callable[[list[str], int, Draw], None]] = [
    *(_drop, _swap, _retype, _replace, _resize, _repeat, _reorder, _cut)
]


def mutated(text: str, draw: Draw) -> str:
    """One to three changes: to the words of a line, or to the lines."""
    lines = text.split("\n")
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        at = draw.randrange(len(lines))
        other = draw.randrange(len(lines))
        kind = draw.randrange(24)
        if kind == 0:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 1:
            lines.insert(at, lines[other])
        elif kind == 2 and len(lines) > 2:
            del lines[at]
        elif kind == 3:
            del lines[at + 1 :]
        elif words := TOKEN.findall(lines[at]):
            draw.choice(IN_A_LINE)(words, draw.randrange(len(words)), draw)
            lines[at] = "".join(words)
    return "\n".join(lines)


def argument(parameter: Parameter) -> Any:
    if parameter.kind in ("u64", "b64"):
        return np.zeros(1024, "f4")
    if parameter.kind == "b8":
        return bytes(min(parameter.nbytes, 1 << 16))
    return 1.0 if parameter.kind[0] == "f" else 3


def attempt(text: str) -> None:
    """Runs every kernel of the text and shows its report."""
    with suppress(TilewrightError):
        for name, kernel in parse(text).kernels.items():
            args = [argument(parameter) for parameter in kernel.params]
            with suppress(TilewrightError):
                report = tilewright.emulate(
                    text, name, (1,), (128,), args, shared_bytes=16384, step_limit=150
                )
                str(report)


@pytest.mark.parametrize("text", range(len(TEXTS)))
def test_the_texts_themselves_run(text: int) -> None:
    (name,) = parse(TEXTS[text]).kernels
    args = [argument(parameter) for parameter in parse(TEXTS[text]).kernels[name].params]
    tilewright.emulate(TEXTS[text], name, (1,), (128,), args, shared_bytes=16384, step_limit=150)


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_broken_texts_raise_only_our_errors(first: int) -> None:
    for seed in range(first, first + 20):
        draw = random.Random(seed)
        attempt(mutated(draw.choice(TEXTS), draw))


if __name__ == "__main__":
    start, count = map(int, sys.argv[1:3])
    for seed in range(start, start + count):
        try:
            draw = random.Random(seed)
            attempt(mutated(draw.choice(TEXTS), draw))
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}")

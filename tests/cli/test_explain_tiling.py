"""`tilewright explain tiling`: frames, a film in a terminal, and the figures of each step."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from typing import Any

import pytest


def test_steps_along_k(explained: Any) -> None:
    """The roadmap's: the tile of C stays, those of A and B walk along K."""
    rows = explained("tiling -m 8 -n 12 -k 8 --bm 4 --bn 4 --bk 2 --row 1 --col 2")
    assert [row["depth"] for row in rows] == [[0, 2], [2, 4], [4, 6], [6, 8]]
    assert {(*row["rows"], *row["columns"]) for row in rows} == {(4, 8, 8, 12)}
    assert {(row["bytes"], row["flops"]) for row in rows} == {(4 * 2 * 8, 2 * 4 * 4 * 2)}
    assert (rows[-1]["bytes_so_far"], rows[-1]["flops_so_far"]) == (256, 256)


def test_edges_are_cut(explained: Any) -> None:
    rows = explained("tiling -m 6 -n 5 -k 5 --bm 4 --bn 4 --bk 2")
    assert [row["depth"] for row in rows] == [[0, 2], [2, 4], [4, 5]]
    assert (rows[0]["rows"], rows[0]["columns"]) == ([4, 6], [4, 5])


def test_a_frame_when_piped(shown: Any) -> None:
    said = shown("tiling -m 4 -n 4 -k 4 --bm 2 --bn 2 --bk 2")
    first, second = said.split("\n\n")[:2]
    assert second.splitlines() == [
        "step 2 of 2: C[2:4, 2:4] += A[2:4, 2:4] · B[2:4, 2:4]",
        "            B[4, 4]",
        "            · · ∘ ∘",
        "            · · ∘ ∘",
        "            · · b b",
        "            · · b b",
        "A[4, 4]     C[4, 4]",
        "· · · ·     · · · ·",
        "· · · ·     · · · ·",
        "∘ ∘ a a     · · c c",
        "∘ ∘ a a     · · c c",
    ]
    assert "a a · ·     · · c c" in first
    assert "used 2 times, each of B 2 times: 32 FLOP for 64 bytes, 0.50 FLOP/B." in said


def in_a_terminal(*words: str, **environment: str) -> tuple[int, str]:
    """Exit code and what a terminal of 100 columns got."""
    parent, child = pytest.importorskip("pty").openpty()  # Windows has none
    env = {**os.environ, "COLUMNS": "100", "TERM": "xterm-256color", **environment}
    with subprocess.Popen(
        [sys.executable, "-m", "tilewright", "explain", *words],
        stdin=child, stdout=child, stderr=child, env=env, close_fds=True,
    ) as process:  # fmt: skip
        os.close(child)
        received = b""
        while select.select([parent], [], [], 20)[0]:
            try:
                part = os.read(parent, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            received += part
        code = process.wait(20)
    os.close(parent)
    return code, received.decode()


def test_a_terminal_gets_a_film() -> None:
    code, said = in_a_terminal("tiling", "--delay", "0.01")
    assert code == 0
    for step in ("step 1 of 4", "step 4 of 4"):
        assert step in said
    assert "\x1b[1A" in said  # the cursor goes up, to draw over the step before
    plain = [
        in_a_terminal("tiling", "--delay", "0"),
        in_a_terminal("tiling", "--delay", "0.01", TERM="dumb"),
        in_a_terminal("tiling", "--delay", "0.01", LINES="12"),  # a picture has 18
    ]
    for code, said in plain:
        assert code == 0
        assert "step 4 of 4" in said
        assert "\x1b[1A" not in said


def test_no_color_takes_the_colours_away() -> None:
    _, coloured = in_a_terminal("banks", NO_COLOR="")
    _, plain = in_a_terminal("banks", NO_COLOR="1")
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in plain


def test_a_product_of_one_tile_needs_no_tile_named(explained: Any) -> None:
    (first, *_) = explained("tiling -m 4 -n 3")
    assert (first["rows"], first["columns"]) == ([0, 4], [0, 3])
    (first, *_) = explained("tiling -m 5 -n 3")
    assert (first["rows"], first["columns"]) == ([4, 5], [0, 3])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-m 33", "m=33 must be 1..32."),
        ("--row 2", "row=2 must be 0..1: C has 2 tiles there."),
        ("--col -1", "col=-1 must be 0..2: C has 3 tiles there."),
        ("--delay -1", "delay=-1 must be 0..60 seconds."),
        ("--bk 0", "bk=0 must be 1..32."),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"tiling {words}") == said

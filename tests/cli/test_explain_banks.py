"""`tilewright explain banks`: an H200's counts, the golden numbers, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.__main__ import run

DATA = Path(__file__).parents[1] / "data"
RECORDED = json.loads((DATA / "access_counts_h200.json").read_text())["accesses"]


def access_of(kind: str) -> str:
    """The command's word for a recorded kind."""
    number = int("".join(filter(str.isdigit, kind)))
    trans = ".trans" if kind.endswith("T") else ""
    if kind.startswith(("LDSM", "STSM")):
        return f"{kind[:2].lower()}matrix.x{number}{trans}"
    if kind.startswith("CPA"):
        return f"cp.async.cg.{number}" if kind.endswith("CG") else f"cp.async.ca.{number}"
    return f"{kind[:2].lower()}{'.global' if kind[2] == 'G' else ''}.{number // 8}"


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: f"{row['id']}-{row['kind']}")
def test_it_agrees_with_the_counters_of_an_h200(row: dict[str, Any], explained: Any) -> None:
    name = access_of(row["kind"])
    lanes = 8 * int(name.split(".x")[1][0]) if "matrix" in name else 32
    on_global = ".global" in name
    words = ["banks", "--access", name]
    addresses = row["global_" if on_global else "shared"][:lanes]
    words += ["--address", ",".join(map(str, addresses))]
    if "cp.async" in name:
        words += ["--source", ",".join(map(str, row["global_"]))]
    (found,) = explained(" ".join(words))
    counts = row["counts"]
    if not on_global:
        assert found["wavefronts"] == counts["wavefronts"] == len(found["passes"])
        assert found["wavefronts_ideal"] == counts["wavefronts_ideal"]
        served = sorted(lane for each in found["passes"] for one in each for lane in one["lanes"])
        assert served == sorted(set(served))
        assert "cp.async.cg" in name or served == list(range(lanes))
    if on_global or "cp.async" in name:
        assert found["sectors"] == counts["sectors"]
        assert found["sectors_ideal"] == counts["sectors_ideal"]


GOLDEN = [  # facts for learners: options, wavefronts
    *((f"--stride {s}", s) for s in (1, 2, 4, 8, 16, 32)),
    *((f"--stride {s}", 1) for s in (3, 5, 31, 33)),
    *((f"--stride {s}", w) for s, w in ((34, 2), (36, 4), (40, 8), (64, 32))),
    ("--index 0", 1),
    ("--index 0 --access st.4", 1),
    ("--index lane/31*32", 2),
    ("--access ld.2", 1),
    ("--access ld.1", 1),
    ("--access ld.8", 2),
    ("--access ld.8 --stride 2", 4),
    *((f"--access ld.8 --pitch {p} --column", w) for p, w in ((32, 32), (33, 2), (34, 4))),
    *((f"--access {a}.16 --stride {s}", w)
      for a in ("ld", "st") for s, w in ((1, 4), (2, 8), (4, 16), (8, 32))),
    ("--access ld.16 --index 0", 2),
    ("--access st.16 --index 0", 4),
    *((f"--access ld.16 --index lane/{d}", 2) for d in (2, 4)),
    *((f"--access st.16 --index lane/{d}", 4) for d in (2, 4)),
    ("--access ld.16 --index lane%4", 4),
    *((f"--access ld.16 --column --pitch {4 * p}B", w)
      for p, w in ((128, 32), (132, 4), (36, 4), (40, 8))),
    ('--access ld.16 --address "lane % 16 * 8 * 4"', 8),
    ('--access ld.16 --address "(lane % 16 * 4 + 64) * 4"', 4),
    ('--index "lane % 16 * 8 + 3"', 4),
    *((f"--pitch {p} --column", w) for p, w in ((32, 32), (33, 1))),
    *((f'--pitch 32 --column --swizzle "row&{mask}"', w) for mask, w in ((31, 1), (7, 4), (3, 8))),
    *((f"--pitch {p} --lanes-per-row 16", w) for p, w in ((16, 1), (17, 2))),
    *((f'--index "lane % 16 * {p}"', w) for p, w in ((16, 8), (17, 1), (32, 16), (33, 1))),
    *((f'--access st.4 --index "lane % 2 * 4 * {p} + lane / 2"', w)
      for p, w in ((128, 2), (130, 2), (132, 1))),
    *((f'--access st.4 --index "lane % 4 * 4 * {p} + lane / 4"', w)
      for p, w in ((128, 4), (130, 1), (132, 2))),
    *((f"--access ld.2 --pitch {p} --column", w) for p, w in ((32, 16), (33, 1), (34, 1))),
    *((f"--access ldmatrix.x1 --pitch {p}", w)
      for p, w in ((16, 1), (32, 2), (48, 1), (64, 4), (80, 1), (96, 2), (128, 8), (144, 1),
                   (160, 2), (192, 4), (256, 8), (272, 1))),
    *((f'--access ldmatrix.x1 --pitch {p} --swizzle "row&7"', 1) for p in (128, 256)),
    ('--access ldmatrix.x1 --pitch 64 --swizzle "(row>>1)&3"', 1),
    ('--access ldmatrix.x1 --pitch 64 --swizzle "row&3"', 2),
    ('--access ldmatrix.x1 --pitch 32 --swizzle "(row>>2)&1"', 1),
    *((f"--access ld.4 --pitch {2 * p}B --lanes-per-row 4", w)
      for p, w in ((32, 4), (40, 1), (64, 8), (72, 1), (80, 2))),
    *((f"--access st.4 --pitch {2 * p}B --lanes-per-row 4", w)
      for p, w in ((64, 8), (72, 1), (128, 8), (136, 1))),
    *((f"--access st.8 --pitch {4 * p}B --lanes-per-row 4", w)
      for p, w in ((64, 8), (68, 4), (72, 2), (132, 4), (136, 2))),
    *((f"--access st.8 --pitch {p}B --lanes-per-row 4", w) for p, w in ((144, 4), (160, 2))),
    *((f"--access st.16 --pitch {p}B --lanes-per-row 4", w) for p, w in ((144, 8), (192, 4))),
    ("--access cp.async.ca.16 --stride 1", 4),
    *((f"--access cp.async.ca.16 --stride {s}", w) for s, w in ((2, 8), (4, 16), (8, 32))),
    *((f'--access cp.async.ca.16 --source "lane*{16 * s}"', w) for s, w in ((2, 8), (4, 16))),
    ("--access cp.async.ca.16 --source 0", 32),
    *((f'--access cp.async.ca.8 --source "lane*{8 * s}"', w) for s, w in ((1, 2), (2, 4), (8, 16))),
    ("--access cp.async.ca.8 --source 0", 32),
    ("--access cp.async.cg --stride 2", 32),
    ("--access cp.async.cg --pitch 64", 8),
    ('--access cp.async.cg --pitch 64 --swizzle "(row>>1)&3"', 8),
    ('--access cp.async.cg --pitch 128 --swizzle "row&7"', 4),
    ("--access cp.async.cg --pitch 32", 16),
]  # fmt: skip


@pytest.mark.parametrize(("words", "wavefronts"), GOLDEN)
def test_golden_numbers(words: str, wavefronts: int, explained: Any) -> None:
    (row,) = explained(f"banks {words}")
    assert row["wavefronts"] == wavefronts
    assert row["conflicts"] == wavefronts - row["wavefronts_ideal"]


def test_the_roadmaps_strides(explained: Any) -> None:
    """bank = (lane * stride) mod 32: the largest conflict, and how many banks are used."""
    for stride in range(1, 33):
        (row,) = explained(f"banks --stride {stride}")
        used = {lane * stride % 32 for lane in range(32)}
        assert (row["banks"], row["degree"]) == (len(used), 32 / len(used))


def test_the_picture(shown: Any) -> None:
    lines = shown("banks --stride 16").splitlines()
    assert lines[0] == "ld.4, stride 16"
    first = "      0  0 · · · · · · ·│ · · · · · · · ·│ 1 · · · · · · ·│ · · · · · · · ·"
    assert lines[2] == first
    assert lines[18] == "16 wavefronts (1 ideal), 2 banks used: 16-way bank conflict"
    assert "+ bank 0: lanes 0–31 share one word" in shown("banks --index 0")
    assert "A pitch of 33 elements has no conflict" in shown("banks --pitch 32 --column")
    assert "A pitch of 80 bytes has no" in shown("banks --access ldmatrix --pitch 64")
    assert "1 wavefront (1 ideal), 32 banks used: 1-way, no conflict" in shown("banks")
    said = shown("banks --access ld.global.4 --stride 8")
    assert said.endswith("32 sectors of 32 bytes (4 ideal)\n")


def test_a_wide_terminal_gets_more_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert run(["explain", "banks", "--stride", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("   bank   0  1  2  3  4  5  6  7│  8  9 10")
    assert lines[3].startswith("      1  16  · 17  · 18  · 19  ·│ 20")


def test_a_pattern_that_was_found_to_cost_more_says_so(explained: Any, shown: Any) -> None:
    words = 'banks --access cp.async.ca.4 --stride 2 --source "lane*8"'
    assert explained(words)[0]["exact"] is False
    assert "an H200 took up to half as much again." in shown(words)
    words = 'banks --access cp.async.cg --source "lane%4*16"'
    assert explained(words)[0]["exact"] is False
    assert "an H200 took up to 3 wavefronts more." in shown(words)
    assert explained("banks --access cp.async.cg")[0]["exact"] is True


def test_lanes_that_take_no_part(explained: Any) -> None:
    (row,) = explained('banks --stride 32 --active "lane < 5"')
    assert row["wavefronts"] == 5
    assert row["addresses"][4:6] == [512, None]
    (row,) = explained("banks --active 0")
    assert (row["wavefronts"], row["banks"]) == (0, 0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--access lsd", "access='lsd' is not known; use ld or st with the bytes"),
        (
            "--access ldmatrix.x3",
            "access='ldmatrix.x3' is not known; of ldmatrix use ldmatrix.x1, ldmatrix.x2",
        ),
        ("--stride 2 --pitch 33", "--stride and --pitch both place the lanes; give one of them."),
        ("--pitch 33", "--pitch needs --column (lane n in row n) or --lanes-per-row L"),
        ("--pitch x --column", "pitch='x' must be a number of elements, or bytes as 64B."),
        ("--pitch 6B --column", "pitch=6B is 6 bytes; it must be a multiple of the 4 bytes"),
        ("--access ldmatrix --pitch 40", "pitch=40 is 40 bytes; it must be a multiple of the 16"),
        ("--column", "--column needs rows; give --pitch"),
        ("--chunk 0", "--chunk needs rows; give --pitch"),
        ("--lanes-per-row 0", "--lanes-per-row needs rows; give --pitch"),
        ('--swizzle "row&3"', "--swizzle needs rows; give --pitch"),
        ("--pitch 32 --column --lanes-per-row 2", "--column is one lane a row"),
        ("--pitch 32 --lanes-per-row 33", "lanes_per_row=33 must be 1..32."),
        ("--access ldmatrix --pitch 64 --lanes-per-row 2", "--lanes-per-row: each lane of"),
        ("--address lane", "address: lane 1 has the address 1, no multiple of the 4 bytes"),
        ('--index "lane-1"', "address: lane 0 has the address -4; they count from 0."),
        ("--source 0", "--source is for cp.async; ld.4 has one address a lane."),
        ("--index 1,2,3", "index lists 3 values; give one expression of the lane, or 32."),
        ("--access ldmatrix --pitch 64 --swizzle row", "the swizzle moves chunk 0 of row 4 to 4"),
        (f"--stride {10**30}", "address: lane 1 has an address beyond 48 bits"),
        ("--pitch 4 --lanes-per-row 8", "lanes_per_row=8 lanes of 4 bytes do not fit a row of 16"),
        ("--pitch 32 --column --chunk 3", "chunk=3 must be a multiple of the 4 bytes of a lane."),
    ],
)
def test_bad_input(words: str, said: str, refused: Any) -> None:
    assert refused(f"banks {words}").startswith(said)


def test_an_odd_stride_is_advised_only_where_it_helps(explained: Any, shown: Any) -> None:
    """Lanes of 2 bytes share words, and at stride 3 they conflict, as an H200 counted."""
    assert explained("banks --access ld.2 --stride 3")[0]["conflicts"] == 1
    for words, advised in (("ld.2 --stride 3", False), ("ld.4 --stride 2", True)):
        said = " ".join(shown(f"banks --access {words}").split())
        assert ("an odd stride meets every bank" in said) == advised


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('id')",
        "lane.__class__",
        "lane**99999999",
        "lambda: 0",
        "lane if lane else 0",
        "[0]",
        "1;2",
        "lane\x00",
        "9" * 299,
        "1<<99",
        "(" * 100 + "1" + ")" * 100,
        "-" * 200 + "1",
        "lane" + "+1" * 140,
        "1" * 1000,
        "lane %% 2",
        "１",
        "",
    ],
)
def test_hostile_expressions_are_refused_with_a_sentence(text: str, refused: Any) -> None:
    import shlex

    said = refused(f"banks --index {shlex.quote(text)}")
    assert said.startswith("index ")
    assert len(said) < 250
    assert said.isprintable()

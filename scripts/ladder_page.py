"""Writes docs/ladder.md and the pictures of its families.

python scripts/ladder_page.py          # writes them; counts in the emulator where code is new
python scripts/ladder_page.py --count  # the same, and counts every rung anew
python scripts/ladder_page.py --check  # fails where something is stale

Counts are kept in tests/data/rung_counts_emulator.jsonl, since they take seconds and a compiler;
tests/ladder/test_recorded_counts.py holds them against the emulator.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tilewright.bench.ladder_page import page, pictures
from tilewright.bench.ladder_steps import steps_of
from tilewright.bench.pages import between, ended, settle
from tilewright.bench.record import load
from tilewright.bench.rung_counts import count, read, stale, write
from tilewright.ladder.checklist import answers, questions
from tilewright.ladder.rungs import RUNGS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGE = DOCS / "ladder.md"
BEGIN = "<!-- begin: scripts/ladder_page.py -->"
END = "<!-- end: scripts/ladder_page.py -->"
COUNTS = ROOT / "tests" / "data" / "rung_counts_emulator.jsonl"
MEASUREMENTS = ROOT / "measurements"
REMEDY = f"run python scripts/{Path(__file__).name}"


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    old = stale(RUNGS.values(), read(COUNTS) if COUNTS.exists() else {})
    if check and old:
        print(f"{COUNTS} is stale: no counts of {', '.join(old)}; {REMEDY}.", file=sys.stderr)
        return 1
    if old or "--count" in arguments:
        write(COUNTS, count())
    return max(settle(path, text, check=check, remedy=REMEDY) for path, text in rendered().items())


def rendered() -> dict[Path, str]:
    """The page and the pictures that it shows."""
    steps = steps_of(list(RUNGS.values()), read(COUNTS), load(MEASUREMENTS), answers())
    part = f"\n{page(steps, questions().values())}\n"
    text = between(PAGE.read_text(encoding="utf-8"), BEGIN, END, part, str(PAGE))
    beside = {DOCS / name: picture for name, picture in pictures(steps).items()}
    return {PAGE: text, **beside}


if __name__ == "__main__":
    sys.exit(ended(main))

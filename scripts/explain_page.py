"""Fills docs/explain.md with what its commands print.

python scripts/explain_page.py          # writes it
python scripts/explain_page.py --check  # fails where the page is stale

A block that begins with "$ tilewright explain …" holds the command and its whole output.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tilewright.bench.pages import ended, settle

PAGE = Path(__file__).parents[1] / "docs" / "explain.md"
EXAMPLE = re.compile(r"^```\n\$ tilewright (explain [^\n]*)\n(?:(?!```).*\n)*```$", re.MULTILINE)


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    fresh = EXAMPLE.sub(lambda found: block(found[1]), text)
    return settle(
        PAGE,
        fresh,
        check="--check" in arguments,
        remedy=f"run python scripts/{Path(__file__).name}",
        same=lambda one, other: settled(one) == settled(other),
    )


def settled(text: str) -> str:
    """The page without what differs from one NVRTC to the next: how many instructions it makes."""
    return re.sub(r"^(  instruction issue) .*$", r"\1", text, flags=re.MULTILINE)


def block(words: str) -> str:
    return f"```\n$ tilewright {words}\n{printed(words)}```"


def printed(words: str) -> str:
    """The output of a command line, 80 columns wide. Raises: SystemExit where it fails."""
    from tilewright.__main__ import run

    out, err = io.StringIO(), io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "80"
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run(shlex.split(words))
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    if code:
        raise SystemExit(f"tilewright {words}: {err.getvalue()}")
    return out.getvalue()


if __name__ == "__main__":
    sys.exit(ended(main))

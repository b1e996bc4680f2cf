"""Tables as wide as their numbers; what stands beside them stays as wide as the terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tilewright.table_width import print_whole

NUMBER, SENTENCE = "19,464,192", "so many sectors were loaded by all blocks of the grid together"


def shown(*parts: Table | Text, width: int = 40) -> str:
    console = Console(file=StringIO(), width=width)
    with console.capture() as captured:
        print_whole(console, Group(Group(*parts)))
    assert console.width == width
    return captured.get()


def table(columns: int, last: str = NUMBER) -> Table:
    made = Table()
    made.add_column("rung", no_wrap=True)
    for _ in range(columns):
        made.add_column("n", justify="right", no_wrap=True)
    made.add_column("words")
    made.add_row("sgemm_at_bcf_swizzling_dbf_rw", *[NUMBER] * columns, last)
    return made


def test_no_number_is_cut() -> None:
    said = shown(table(5), Text(SENTENCE))
    assert said.count(NUMBER) == 6
    assert "…" not in said
    assert max(map(len, said.splitlines()[-2:])) <= 40


def test_words_go_on_in_the_next_line() -> None:
    said = shown(table(1, SENTENCE))
    assert NUMBER in said
    assert "…" not in said
    assert max(map(len, said.splitlines())) < len(SENTENCE) + 40


def test_what_fits_is_not_widened() -> None:
    assert max(map(len, shown(table(1, "x"), width=100).splitlines())) < 60

"""Pages that commands make: written, checked, and refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.bench.pages import between, ended, settle
from tilewright.errors import InputError


def test_only_what_is_between_the_marks_changes() -> None:
    assert between("a\n<x>\nold\n</x>\nb", "<x>", "</x>", "new", "P") == "a\n<x>\nnew\n</x>\nb"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "P holds <x> 0 times; it must once."),
        ("<x></x><x></x>", "P holds <x> 2 times; it must once."),
        ("</x><x>", "P's <x> is not followed by </x>."),
    ],
)
def test_a_page_without_one_pair_of_marks_is_refused(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        between(text, "<x>", "</x>", "new", "P")
    assert str(refused.value) == says


def test_a_page_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    assert settle(page, "new", check=True, remedy="run x") == 1
    assert capsys.readouterr().err == f"{page} is stale; run x.\n"
    assert not page.exists()
    assert settle(page, "new", check=False, remedy="run x") == 0
    assert settle(page, "new", check=True, remedy="run x") == 0
    assert settle(page, "NEW", check=True, remedy="run x") == 1
    assert page.read_text() == "new"


def test_texts_may_be_as_good_as_each_other(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("new")
    same = {"check": True, "remedy": "run x", "same": lambda a, b: a.lower() == b.lower()}
    assert settle(page, "NEW", **same) == 0  # type: ignore[arg-type]


def test_a_script_that_raises_ends_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    def main(arguments: list[str]) -> int:
        raise InputError("no.")

    assert ended(main) == 2
    assert capsys.readouterr().err == "no.\n"
    assert ended(lambda arguments: 0) == 0

"""`tilewright explain` as a whole: help whose examples work, a page that is fresh, plain output."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tilewright.__main__ import run
from tilewright.cli.explain import app

COMMANDS = [name for name in app if not name.startswith("-")]
EXAMPLE = re.compile(r"^Example: tilewright (explain \S+.*?)$", re.MULTILINE)


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    return load_script("explain_page")


@pytest.mark.usefixtures("compiler")
def test_the_page_is_fresh(script: ModuleType) -> None:
    assert script.main(["--check"]) == 0, "run scripts/explain_page.py"


def test_a_stale_page_is_told(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(script, "PAGE", page)
    page.write_text("```\n$ tilewright explain banks --stride 8\n8 wavefronts\n```\n")
    assert script.main(["--check"]) == 1
    assert script.main([]) == 0
    assert "8-way bank conflict" in page.read_text()
    assert script.main(["--check"]) == 0


def test_the_pages_python_prints_what_it_says(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    found = re.search(r"^```python\n(.*?)^```\n\n```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    done = subprocess.run(
        [sys.executable, "-c", found[1]], capture_output=True, text=True, check=True
    )
    assert done.stdout == found[2]


def test_the_page_shows_every_command(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    shown = {words.split()[1] for words in script.EXAMPLE.findall(text)}
    assert set(COMMANDS) <= shown


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("command", COMMANDS)
def test_the_example_of_the_help_works_as_pasted(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["explain", command, "--help"]) == 0
    (words,) = EXAMPLE.findall(capsys.readouterr().out)
    assert words.split()[1] == command
    assert run(shlex.split(words)) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "limiter"])
def test_what_it_shows_fits_80_columns_and_a_wider_terminal(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (80, 132):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert run(["explain", command, *REQUIRED.get(command, [])]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= columns, max(lines, key=len)


REQUIRED = {"fragment": ["mma.m16n8k16.bf16", "A"], "hierarchy": ["hgemm_bcf"]}


def test_no_colour_is_written_into_a_pipe_and_none_where_it_is_unwanted() -> None:
    words = [sys.executable, "-m", "tilewright", "explain", "banks"]
    done = subprocess.run(words, capture_output=True, check=True)
    assert b"\x1b" not in done.stdout


def test_its_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--help"]) == 0
    said = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^│ {command} +[A-Z]", said, re.MULTILINE), command
    assert "Example: tilewright explain" in said


def test_an_unknown_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "bank"]) == 2
    assert 'Did you mean "banks"?' in capsys.readouterr().err


def test_explaining_needs_neither_numpy_nor_a_compiler() -> None:
    code = (
        "import sys\n"
        "from tilewright.__main__ import run\n"
        "assert run(['explain', 'swizzle']) == 0\n"
        "heavy = {'numpy', 'torch', 'cuda.bindings', 'ml_dtypes'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

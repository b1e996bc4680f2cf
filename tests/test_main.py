"""The command line as a whole: start-up, help, errors."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys

import pytest

from tilewright.__main__ import main, run
from tilewright.cli import plain_letters


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_starts_fast() -> None:
    """In CPU time, which other processes of the machine do not lengthen."""
    took = []
    for _ in range(3):
        start = cpu_of_children()
        done = python("-m", "tilewright", "--help")
        took.append(cpu_of_children() - start)
        assert done.returncode == 0
    assert "ladder" in done.stdout
    assert min(took) < 0.3


def test_help_imports_neither_torch_nor_the_driver() -> None:
    code = (
        "import sys\n"
        "from tilewright.__main__ import run\n"
        "assert run(['--help']) == 0\n"
        "heavy = {'torch', 'triton', 'numpy', 'cuda.bindings', 'ml_dtypes'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, tilewright\n"
        "heavy = {'torch', 'numpy', 'cuda.bindings', 'cyclopts', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command",
    ["ladder", "bench", "compare", "import-record", "pipes", "plot", "explain", "doctor", "cache"],
)
def test_every_command_has_help_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([command, "--help"]) == 0
    assert f"Example: tilewright {command}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lader"], 'Did you mean "ladder"?'),
        (["ladder", "--fo", "1"], "--fo"),
        (["ladder", "-m", "many"], "'many' is not a whole number"),
    ],
)
def test_bad_words_are_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_fault_of_ours_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("tilewright.bench.ladder.climb", broken)
    assert run(["ladder"]) == 2
    said = capsys.readouterr().err
    assert "RuntimeError: boom" in said
    assert "--debug" in said
    with pytest.raises(RuntimeError, match="boom"):
        main(["ladder", "--debug"])


def test_version() -> None:
    done = python("-m", "tilewright", "--version")
    assert done.stdout.strip() == "0.1.0"


def test_an_interrupt_is_told_and_ends_as_shells_expect(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewright.bench.ladder.climb", interrupted)
    assert run(["ladder"]) == 130
    assert capsys.readouterr().err == "tilewright: interrupted.\n"


def test_too_little_memory_is_a_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def large(*args: object, **options: object) -> None:
        raise MemoryError("unable to allocate 4.00 TiB")

    monkeypatch.setattr("tilewright.bench.ladder.climb", large)
    assert run(["ladder"]) == 2
    assert "not enough memory: unable to allocate 4.00 TiB." in capsys.readouterr().err


def test_drawings_keep_their_shape_without_utf8() -> None:
    """Filled, other and empty places stay told apart, and no number loses a letter."""
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "explain", "waves"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"},
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode("ascii")
    assert "?" not in said
    assert "1,024 tiles of 128x128" in said
    assert re.search(r"^wave 3   #{47}\*{7} 232$", said, re.MULTILINE)


def test_a_letter_that_nothing_stands_for_is_a_question_mark() -> None:
    plain_letters.register()
    assert "A·B ÷ 2 ✓ 🐟".encode("ascii", plain_letters.ERRORS) == b"A*B / 2 v ?"
    assert "µ·█".encode("latin-1", plain_letters.ERRORS) == b"\xb5\xb7#"


def test_a_terminal_of_few_characters() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "ladder", "--list"],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert b"hgemm_naive" in done.stdout

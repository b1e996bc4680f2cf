"""Fixtures of the `explain` tests: a command's JSON rows, and what it shows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.__main__ import run

Rows = Callable[[str], list[dict[str, Any]]]
Shown = Callable[[str], str]
Refused = Callable[[str], str]


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str]) -> Rows:
    """Rows of `tilewright explain <words> --json -`, which must succeed."""

    def rows(words: str) -> list[dict[str, Any]]:
        assert run(["explain", *shlex.split(words), "--json", "-"]) == 0, capsys.readouterr().err
        document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        command = words.split()[0]
        assert document["schema"] == f"tilewright.explain-{command}/1"
        found: list[dict[str, Any]] = document["rows"]
        return found

    return rows


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shown:
    """What a person sees of `tilewright explain <words>` on 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def text(words: str) -> str:
        assert run(["explain", *shlex.split(words)]) == 0, capsys.readouterr().err
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return text


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """The one sentence with which `tilewright explain <words>` ends, and its exit code is 2."""

    def sentence(words: str) -> str:
        assert run(["explain", *shlex.split(words)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("tilewright: ")
        assert captured.err.count("\n") == 1
        return captured.err.removeprefix("tilewright: ").rstrip("\n")

    return sentence

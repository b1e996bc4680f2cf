"""The questions of the roadmap that started this project, and which rung settles which.

`checklist.toml` beside this file is where both are written.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Question:
    """A point of the roadmap's review list or of its table of sticking points.

    `place` says where it stands there. `commands` settle it, too, or without a rung; a question
    that nothing settles yet has a sentence (`open`) instead.
    """

    key: str
    place: str
    text: str
    commands: tuple[str, ...] = ()
    open: str | None = None


@dataclass(frozen=True)
class Answer:
    """What a rung says to a question."""

    rung: str
    question: Question
    how: str


@cache
def questions() -> dict[str, Question]:
    """By their keys, in the roadmap's order."""
    return {
        key: Question(key, item["place"], item["text"], tuple(item.get("commands", ())),
                      item.get("open"))
        for key, item in _data()["question"].items()
    }  # fmt: skip


@cache
def answers() -> dict[str, Answer]:
    """By the names of the rungs. Raises: KeyError for a question that is not in the list."""
    return {
        rung: Answer(rung, questions()[said["settles"]], said["how"])
        for rung, said in _data()["rung"].items()
    }


def _data() -> dict[str, dict[str, dict[str, str]]]:
    text = (files("tilewright.ladder") / "checklist.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)

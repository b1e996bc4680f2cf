"""Every rung settles a question of the roadmap, and every question is settled or open."""

from __future__ import annotations

import shlex

import pytest

from tilewright.__main__ import run
from tilewright.ladder.checklist import Question, answers, questions
from tilewright.ladder.rungs import RUNGS

SAID = answers().values()
EXPLAINED = sorted(
    {
        command
        for question in questions().values()
        for command in question.commands
        if command.startswith("tilewright explain")
        if "limiter" not in command  # which emulates; its own tests run it
    }
)


def test_every_rung_settles_a_question() -> None:
    assert set(answers()) == set(RUNGS), "ladder/checklist.toml and the rung table differ"


@pytest.mark.parametrize("question", questions().values(), ids=lambda question: question.key)
def test_every_question_is_settled_or_open(question: Question) -> None:
    settled = question.commands or any(answer.question == question for answer in SAID)
    assert bool(settled) != bool(question.open)
    assert question.text.endswith("?")


def test_all_of_the_roadmap_is_there() -> None:
    """Five points to tell, five next steps, five sticking points, in its order."""
    places = [question.place for question in questions().values()]
    expected = [
        f"section {section}, {word} {i}"
        for section, word in ((10, "point"), (10, "next step"), (9, "row"))
        for i in range(1, 6)
    ]
    assert places == expected


def test_answers_are_one_sentence() -> None:
    for answer in SAID:
        assert answer.how.endswith("."), answer.rung
        assert ". " not in answer.how, answer.rung


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("command", EXPLAINED)
def test_its_commands_work(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out

"""`tilewright explain myths`: what learners get stuck on, answered, with ways to check."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tilewright.cli.explain_draw import Drawing, figures, line, sentence
from tilewright.cli.explain_myths_table import MYTHS, Figure, Myth
from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text


def myths(name: str | None = None, /, *, json: JsonTarget = None) -> int:
    """Answer what learners get stuck on, with figures, a run that shows it, and what to profile.

    Example: tilewright explain myths occupancy

    Parameters
    ----------
    name
        occupancy, shared, bigger, double-buffer, cublas, float4, padding or cp-async; all if none
        is named.
    """
    check_targets(json)
    chosen = [_named(name)] if name is not None else list(MYTHS)
    worked = [(myth, myth.figures()) for myth in chosen]
    emit("explain-myths", [_row(myth, found) for myth, found in worked], _picture(worked), json)
    return 0


def _named(name: str) -> Myth:
    known = {myth.name: myth for myth in MYTHS}
    if name in known:
        return known[name]
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"use {', '.join(known)}."
    raise InputError(f"name={name!r} is not known; {hint}")


def _row(myth: Myth, found: list[Figure]) -> dict[str, Any]:
    return {
        "name": myth.name, "question": myth.question, "answer": myth.answer,
        "figures": [{"what": what, "value": value} for what, value in found],
        "commands": list(myth.commands), "on_gpu": myth.on_gpu,
        "profiler": [{"metric": metric, "look_for": words} for metric, words in myth.profiler],
    }  # fmt: skip


def _picture(worked: list[tuple[Myth, list[Figure]]]) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        for number, (myth, found) in enumerate(worked):
            if number:
                yield line("")
            yield line((myth.question, "bold"), (f"   ({myth.name})", "dim"))
            yield from sentence(myth.answer, width)
            yield from figures(found, width)
            yield line(("run", "bold"))
            for command in myth.commands:
                yield line("  ", (command, "cyan"))
            yield line("  ", (myth.on_gpu, "cyan"), ("   on a GPU", "dim"))
            yield line(("ncu --metrics", "bold"))
            for metric, words in myth.profiler:
                yield line("  ", (metric, "green"))
                yield line(("    " + words, "dim"))

    return Drawing(draw)

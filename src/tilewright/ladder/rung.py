"""What every rung of the ladder is, whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.problem import Problem


@dataclass(frozen=True)
class Rung:
    """One rung: a file under `ladder/` that says its idea in its first line, and the types of A,
    B and C that it takes, its own first.
    """

    name: str
    family: str
    file: str
    dtypes: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        return (files("tilewright.ladder") / self.file).read_text(encoding="utf-8")

    @cached_property
    def idea(self) -> str:
        """The sentence after the name in the file's first line."""
        return self.text.split("\n", 1)[0].split(": ", 1)[1]

    def engine(self, opened: str) -> str:
        """The engine that runs it, where the one called `opened` was opened for kernels."""
        return opened

    def missing(self) -> str | None:
        """What this machine lacks to run it, as a sentence with the way out; else None.

        NVRTC is not asked for: its lack is an error, not a reason to leave kernels out.
        """
        return None

    def refusal(
        self,
        problem: Problem,
        shared_bytes_limit: int | None = None,
        arch: str | None = None,
    ) -> str | None:
        """Why this rung does not take the problem, as a sentence with the way out; else None.

        `shared_bytes_limit` is what the GPU gives a block and `arch` its architecture ("sm_90"),
        where a GPU has been chosen.
        """
        if problem.dtype.name not in self.dtypes:
            return f"{self.name} takes {alternatives(self.dtypes)}, not {problem.dtype.name}."
        return None


def alternatives(words: tuple[str, ...]) -> str:
    """ "a", "a or b", "a, b or c"."""
    return " or ".join((", ".join(words[:-1]), words[-1]) if len(words) > 1 else words)

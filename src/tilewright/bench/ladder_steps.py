"""The rungs with all that is known of each: header, neighbour, counts, measurements, question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from tilewright.bench.ladder import ON_GPU
from tilewright.bench.record import Measurement
from tilewright.bench.rung_code import hash_of
from tilewright.bench.rung_counts import RungCounts
from tilewright.gpus import gpu_named, gpu_reported
from tilewright.ladder.checklist import Answer
from tilewright.ladder.rung import Rung
from tilewright.ladder.rung_text import DIFF_BUDGET, Header, changed_lines, header_of

GPU = gpu_named("h200")
RIVAL, LIBRARY = "torch", "lt_best"  # whose names stand in the records


@dataclass(frozen=True)
class Step:
    """A rung and the one before it in its family. What is not known is None or empty.

    `lines` are measurements of the present code, the newest for each type, shape and GPU, and
    those that *Found* names; `library` has, by the moments of their runs, cuBLASLt's lines.
    """

    rung: Rung
    before: Rung | None
    counts: RungCounts | None
    counts_before: RungCounts | None
    lines: tuple[Measurement, ...]
    library: Mapping[str, Measurement]
    answer: Answer | None

    @cached_property
    def header(self) -> Header:
        return header_of(self.rung.text)

    @cached_property
    def changed(self) -> int | None:
        """Lines of code that differ from the rung before; None for the first and where the two
        are written in different languages."""
        if self.before is None or suffix(self.before) != suffix(self.rung):
            return None
        return len(changed_lines(self.before.text, self.rung.text))

    @property
    def is_rewrite(self) -> bool:
        """It has no diff that is worth reading."""
        return self.changed is None or self.changed > DIFF_BUDGET

    @cached_property
    def headline(self) -> Measurement | None:
        """The one line that stands for the rung: on an H200, of a rung of the host on any
        processor; in its first type, at 4096³ or else the largest shape, the newest."""
        on_gpu = [line for line in self.lines if line.gpu and gpu_reported(line.gpu) == GPU]
        mine = on_gpu or [line for line in self.lines if line.gpu is None]
        return max(mine, key=self._rank, default=None)

    def _rank(self, line: Measurement) -> tuple[bool, bool, int, str]:
        shape = (line.m, line.n, line.k)
        first = line.dtype == self.rung.dtypes[0]
        return first, shape == ON_GPU, line.m * line.n * line.k, line.taken

    def against_library(self, line: Measurement) -> float | None:
        """cuBLASLt's time ÷ this one's, the median over the rounds of the run they shared."""
        other = self.library.get(line.taken)
        if other is None or len(other.us_samples) != len(line.us_samples):
            return None
        rounds = zip(other.us_samples, line.us_samples, strict=True)
        return median(theirs / ours for theirs, ours in rounds)


def steps_of(
    rungs: Sequence[Rung],
    counts: Mapping[str, RungCounts],
    lines: Sequence[Measurement],
    answers: Mapping[str, Answer],
) -> list[Step]:
    """One step for each rung, in the ladder's order."""
    library = {line.taken: line for line in lines if line.name == LIBRARY}
    steps = []
    for number, rung in enumerate(rungs):
        previous = rungs[number - 1] if number else None
        before = previous if previous and previous.family == rung.family else None
        steps.append(
            Step(
                rung,
                before,
                counts.get(rung.name),
                counts.get(before.name) if before else None,
                _shown(rung, lines),
                library,
                answers.get(rung.name),
            )
        )
    return steps


def suffix(rung: Rung) -> str:
    """What the file's name ends in, ".cu" or of another language."""
    return rung.file[rung.file.rindex(".") :]


def of_one_shape(steps: Iterable[Step]) -> dict[str, Measurement]:
    """The headlines of most rungs' GPU, type and shape, by the rungs' names."""
    found = ((step.rung.name, step.headline) for step in steps)
    lines = {name: line for name, line in found if line and line.gpu}
    if not lines:
        return {}
    ((usual, _),) = Counter(map(_kind, lines.values())).most_common(1)
    return {name: line for name, line in lines.items() if _kind(line) == usual}


def _kind(line: Measurement) -> tuple[str | None, str, int, int, int, str]:
    return line.gpu, line.dtype, line.m, line.n, line.k, line.layout


def _shown(rung: Rung, lines: Iterable[Measurement]) -> tuple[Measurement, ...]:
    here, cited = hash_of(rung), header_of(rung.text).records
    mine = [line for line in lines if line.name == rung.name and line.source_hash == here]
    newest = {_kind(line): line for line in sorted(mine, key=lambda line: line.taken)}
    return tuple(line for line in mine if line in newest.values() or line.taken in cited)

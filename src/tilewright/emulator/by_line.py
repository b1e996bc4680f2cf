"""A report by source line: what the views in the terminal, in a page and in a test share."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.emulator.findings import Finding
    from tilewright.emulator.report import Access, Report

# What sets the faults of one line apart, in the words of `naming` and `hazards`.
_READS = re.compile(r"(?:at ')?(?:ldmatrix|ldu?|wmma\.load)\b|\S+ reads ")
_SIDES = (
    ("null", re.compile(r"\bnull pointer\b")),
    ("part", re.compile(r"outside the valid part")),
    ("before", re.compile(r"\bbytes before\b")),
    ("behind", re.compile(r"past (?:the|its) end|behind its end|beyond the end")),
)
_SHARED_NAME = re.compile(r"\(([^(),]+), byte \d")
_REPLACED = "\ufffd"  # stands for a character that would act on the terminal or hide text


@dataclass(slots=True)
class OpcodeCounts:
    """The accesses of one opcode on one line, summed: `times` instructions of one space."""

    space: str
    times: int = 0
    wavefronts: int = 0
    wavefronts_ideal: int = 0
    sectors: int = 0
    sectors_ideal: int = 0
    excess_wavefronts: int = 0
    excess_sectors: int = 0


@dataclass(slots=True)
class LineCounts:
    """All accesses, issues and findings of one line, summed.

    `of_launch` are the wavefronts and the sectors beyond the ideal of the whole launch.
    """

    file: str
    line: int
    opcodes: dict[str, OpcodeCounts] = field(default_factory=dict)
    requests: int = 0
    wavefronts: int = 0
    wavefronts_ideal: int = 0
    sectors: int = 0
    sectors_ideal: int = 0
    excess_wavefronts: int = 0
    excess_sectors: int = 0
    issues: int = 0
    findings: list[Finding] = field(default_factory=list)
    of_launch: tuple[int, int] = (0, 0)

    @property
    def accesses(self) -> int:
        """Memory instructions that the compiler made of the line."""
        return sum(opcode.times for opcode in self.opcodes.values())

    @property
    def excess(self) -> int:
        """Wavefronts and sectors beyond the ideal: by them lines are ordered."""
        return self.excess_wavefronts + self.excess_sectors

    @property
    def matters(self) -> bool:
        """Whether the line is worth looking at: it has a finding or more than its ideal."""
        return bool(self.findings or self.excess)

    @property
    def weight(self) -> tuple[int, int, int, int]:
        """Ascending, so that the worst line sorts last."""
        return (len(self.findings), self.excess, self.wavefronts + self.sectors, self.issues)

    def add(self, access: Access) -> None:
        own = self.opcodes.setdefault(access.opcode, OpcodeCounts(access.space))
        own.times += 1
        self.requests += access.requests
        for sums in (own, self):
            sums.wavefronts += access.wavefronts
            sums.wavefronts_ideal += access.wavefronts_ideal
            sums.sectors += access.sectors
            sums.sectors_ideal += access.sectors_ideal
            sums.excess_wavefronts += max(0, access.wavefronts - access.wavefronts_ideal)
            sums.excess_sectors += max(0, access.sectors - access.sectors_ideal)


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file with its counts by line; `text` is None where the report does not know it."""

    name: str
    text: list[str] | None
    counts: dict[int, LineCounts]

    @property
    def last(self) -> int:
        """The last line that there is something to say about."""
        return max(len(self.text or ()), *self.counts, 0)

    def line(self, number: int) -> str:
        """The text of a line, safe to print; empty where it is not known."""
        if self.text is None or not 1 <= number <= len(self.text):
            return ""
        return self.text[number - 1]


def files(report: Report) -> list[SourceFile]:
    """The report's files, the main one first: the first of the known sources, or the busiest."""
    counts: dict[str, dict[int, LineCounts]] = {}

    def of(file: str, line: int) -> LineCounts:
        return counts.setdefault(file, {}).setdefault(line, LineCounts(file, line))

    for access in report.accesses:
        of(access.file, access.line).add(access)
    for finding in report.findings:
        of(finding.file, finding.line).findings.append(finding)
    for file, issued in report.issues.items():
        for number, issues in issued.items():
            of(file, number).issues += issues
    every = [line for lines in counts.values() for line in lines.values()]
    total = sum(it.excess_wavefronts for it in every), sum(it.excess_sectors for it in every)
    for line in every:
        line.of_launch = total
    found = [
        SourceFile(name, _text(report.sources, name), _worth_showing(report.sources, name, lines))
        for name, lines in counts.items()
    ]
    order = {name: place for place, name in enumerate(report.sources)}

    def rank(file: SourceFile) -> tuple[int, int, str]:
        busy = sum(line.requests for line in file.counts.values())
        return order.get(file.name, len(order)), -busy, file.name

    return sorted((file for file in found if file.counts), key=rank)


def _text(sources: Mapping[str, str], name: str) -> list[str] | None:
    if name not in sources:
        return None
    lines = sources[name].split("\n")  # as compilers count them: a form feed ends no line
    if not lines[-1]:
        lines.pop()
    return [printable(line) for line in lines]


def _worth_showing(
    sources: Mapping[str, str], name: str, lines: dict[int, LineCounts]
) -> dict[int, LineCounts]:
    """Of a file without text only the lines with accesses or findings."""
    return {
        number: lines[number]
        for number in sorted(lines)
        if name in sources or lines[number].opcodes or lines[number].findings
    }


def printable(text: str) -> str:
    """The text with tabs as spaces and without control, bidirectional and surrogate characters."""
    if text.isascii() and text.isprintable():
        return text
    spaced = text.rstrip("\r").expandtabs(4)
    return "".join(
        _REPLACED if unicodedata.category(c) in ("Cc", "Cf", "Cs") else c for c in spaced
    )


def hunks(numbers: Iterable[int], context: int, last: int) -> Iterator[range]:
    """Ranges of lines around `numbers` (ascending); two that leave out one line or none join."""
    first, end = 0, 0
    for number in numbers:
        start, stop = max(1, number - context), max(number, min(last, number + context)) + 1
        start = min(start, number)
        if end and start > end + 1:
            yield range(first, end)
            end = 0
        if not end:
            first = start
        end = max(end, stop)
    if end:
        yield range(first, end)


def opcode_words(line: LineCounts) -> str:
    """4 × ld.shared.f32: 32-way bank conflicts, 96 % of all; st.global.f32"""
    return "; ".join(_opcode_words(name, own, line) for name, own in line.opcodes.items())


def _opcode_words(name: str, own: OpcodeCounts, line: LineCounts) -> str:
    times = "" if own.times == 1 else f"{own.times} × "
    words = []
    if own.excess_wavefronts:
        ratio = times_ideal(own.wavefronts, own.wavefronts_ideal).removesuffix(".0")
        what = f"{ratio or 'more'} × ideal wavefronts"
        if own.space == "shared" and ratio:
            what = f"{ratio}-way bank conflicts"
        words.append(f"{what}, {_percent(own.excess_wavefronts, line.of_launch[0])}")
    if own.excess_sectors:
        ratio = times_ideal(own.sectors, own.sectors_ideal)
        words.append(
            f"{ratio or 'more'} × ideal sectors, {_percent(own.excess_sectors, line.of_launch[1])}"
        )
    return f"{times}{printable(name)}" + (f": {' and '.join(words)}" if words else "")


def _percent(part: int, whole: int) -> str:
    """The share of the launch's excess."""
    if part >= whole:
        return "all of the excess"
    share = min(100 * part / whole, 99)
    return f"{share:.{0 if share >= 1 else 1}f} % of the excess"


def finding_sentences(line: LineCounts) -> list[tuple[str, str]]:
    """Kind and sentence of a line's findings; those that differ in the place alone are said once.

    Writes come before reads. Of several faults of one kind the first has the whole sentence, the
    others what is wrong without the place. A sentence does not begin with the kind once more.
    """
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in line.findings:
        groups.setdefault(_fault(finding), []).append(finding)
    said: dict[str, list[str]] = {}
    for group in sorted(groups.values(), key=lambda group: _reads(group[0])):
        known = said.setdefault(group[0].kind, [])
        known.append(_said(group) if not known else _said_shortly(group))
    return [(printable(kind), each) for kind, sentences in said.items() for each in sentences]


def _fault(finding: Finding) -> tuple[str, ...]:
    """What makes two findings of a line one fault: kind, array, and on which side of it or how."""
    how = "reads" if _reads(finding) else ""
    side = next((side for side, words in _SIDES if words.search(finding.message)), "")
    return finding.kind, _array(finding), how, side


def _array(finding: Finding) -> str:
    """The array, or the variable of shared memory that the message names."""
    shared = _SHARED_NAME.search(finding.message)
    return finding.array or (shared[1] if shared else "")


def _reads(finding: Finding) -> bool:
    """Whether a finding is about a read, which does less harm than a write."""
    return _READS.match(finding.message) is not None


def _said(group: list[Finding]) -> str:
    first = group[0]
    other = ""
    if first.other_line is not None and not _names_line(first.message, first.other_line):
        other = f" (the other line: {first.other_line})"
    more = f"; so do {len(group) - 1} more instructions of this line" if len(group) > 2 else ""
    if len(group) == 2:
        more = "; so does another instruction of this line"
    return f"{printable(after_kind(first))}{other}{inlined_words(first)}{more}"


def _said_shortly(group: list[Finding]) -> str:
    """also ld.global.f32 reads … 4 bytes before x (3 instructions)"""
    what, array = after_kind(group[0]).partition(": address ")[0], _array(group[0])
    if array and not re.search(rf"(?<!\w){re.escape(array)}(?!\w)", what):
        what += f", in {array}"
    times = f" ({len(group)} instructions)" if len(group) > 1 else ""
    return f"also {printable(what)}{times}"


def _names_line(message: str, line: int) -> bool:
    """Whether the message says it already, as "wrote at k.cu:25" or "lines 4 and 5" do."""
    return re.search(rf"(?::|\blines? (?:\d+ and )?){line}\b", message) is not None


def after_kind(finding: Finding) -> str:
    """Its message without the kind, with which some begin: "trap at 'trap': …" as "at 'trap'…"."""
    return finding.message.removeprefix(f"{finding.kind} ")


def inlined_words(finding: Finding) -> str:
    """ " (inlined from copy.cuh:12 and tile.cuh:30)", the innermost first; empty if it was not."""
    if not finding.inlined_from:
        return ""
    return f" (inlined from {printable(' and '.join(finding.inlined_from))})"


def times_ideal(count: int, ideal: int) -> str:
    """32.0 for 32 times the ideal; empty where there is nothing to compare."""
    if not count or not ideal:
        return ""
    ratio = count / ideal
    return f"{ratio:.1f}" if ratio < 1000 else f"{ratio:.0f}"


def title(report: Report) -> str:
    """transpose<float>, grid 2×2, block 32×8, 2 of 4 blocks"""
    parts = [printable(report.kernel) or "kernel"]
    for name, extents in (("grid", report.grid), ("block", report.block)):
        if extents is not None:
            parts.append(f"{name} {_extents(extents)}")
    if report.part is not None:
        parts.append(report.part.short)
    return ", ".join(parts)


def _extents(extents: tuple[int, ...]) -> str:
    shown = list(extents)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "×".join(map(str, shown))


def total_words(report: Report) -> list[str]:
    """The totals as two or three short sentences."""
    totals = report.totals
    words = [f"{totals.get('instructions', 0):,} instructions issued by warps"]
    more = {"shared_wavefronts": _conflict_words(totals), "global_sectors": _sector_words(totals)}
    for name, count in (
        ("wavefronts of shared memory", "shared_wavefronts"),
        ("sectors of global memory", "global_sectors"),
    ):
        total = totals.get(count, 0)
        ideal = totals.get(f"{count}_ideal", 0)
        if total:
            ratio = times_ideal(total, ideal)
            noun = name if total != 1 else name.replace("s of", " of", 1)
            said = f"{total:,} {noun}" + (f", {ratio} × ideal" if ratio else "")
            words.append(said + more[count])
    return words


def _conflict_words(totals: Mapping[str, int]) -> str:
    conflicts = totals.get("bank_conflicts", 0)
    return f": {conflicts:,} bank conflict{'s' * (conflicts != 1)}" if conflicts else ""


def _sector_words(totals: Mapping[str, int]) -> str:
    load, store = totals.get("global_sectors_load", 0), totals.get("global_sectors_store", 0)
    return f": {load:,} loaded, {store:,} stored" if load and store else ""


def note_words(report: Report) -> list[str]:
    """What limits the counts or the findings and is no finding: a sentence each."""
    return [f"Note: {printable(note)}" for note in report.shown_notes]


def demand_words(report: Report) -> list[tuple[bool, str]]:
    """Each demand as whether it is met and a sentence."""
    return [(demand.met, printable(demand.sentence)) for demand in report.demands]

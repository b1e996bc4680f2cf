"""A report as one HTML page: the source with its counts, findings, accesses.

The page needs no other file and no network, and reads without JavaScript; its only script sorts
tables, and the page's own policy lets no other run. Every text from outside is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from tilewright.emulator.by_line import (
    LineCounts,
    SourceFile,
    demand_words,
    files,
    finding_sentences,
    hunks,
    note_words,
    opcode_words,
    printable,
    times_ideal,
    title,
    total_words,
)
from tilewright.emulator.html_style import SCRIPT, STYLE
from tilewright.emulator.kinds import kind_of

if TYPE_CHECKING:
    from tilewright.emulator.report import Report

_MOST_LINES = 1500  # of a file that is shown whole
_CONTEXT = 12  # around the lines with accesses or findings of a longer one
_MOST_ROWS = 400  # of the table of accesses; the costliest, all are in the JSON

_SOURCE_HEADS = (
    ("line", "line"),
    ("requests", "accesses of a warp"),
    ("wavefronts", "passes over the banks of shared memory"),
    ("× ideal", "wavefronts by what the same bytes need without conflicts"),
    ("sectors", "pieces of 32 bytes of global memory"),
    ("× ideal", "sectors by what the same bytes need without gaps"),
    ("issues", "instructions issued by warps"),
    ("excess", "wavefronts (striped bar) and sectors (plain bar) beyond the ideal"),
    ("source", "source"),
)


def page(report: Report) -> str:
    """The whole document."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{_text(title(report))}: {_text(report.verdict)}</title>\n"
        f"<style>{STYLE}</style>\n</head>\n<body>\n"
        f"{_Page(report, '').body()}\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def fragment(report: Report) -> str:
    """The same without a document around it and without the script, for notebooks."""
    prefix = f"t{zlib.crc32(report.to_json().encode()):08x}-"
    return f"<style>{STYLE}</style>\n{_Page(report, prefix).body()}"


def _text(text: str) -> str:
    return escape(printable(text))


class _Page:
    """The body; `prefix` keeps its anchors apart from those of other reports in one document."""

    def __init__(self, report: Report, prefix: str) -> None:
        self.report, self.prefix = report, prefix
        self.files = files(report)
        self.numbers = {file.name: number for number, file in enumerate(self.files, 1)}
        lines = [line for file in self.files for line in file.counts.values()]
        self.most_wavefronts = max((line.excess_wavefronts for line in lines), default=0)
        self.most_sectors = max((line.excess_sectors for line in lines), default=0)

    def body(self) -> str:
        tag = "div" if self.prefix else "main"
        parts = [
            f'<{tag} class="tilewright">',
            *self._header(),
            *self._findings(),
            *(row for file in self.files for row in self._source(file)),
            *self._printed(),
            *self._accesses(),
            *self._instructions(),
            f"</{tag}>",
        ]
        return "\n".join(parts)

    def _anchor(self, file: str, line: int) -> str:
        return f"{self.prefix}f{self.numbers[file]}-{line}"

    def _header(self) -> Iterator[str]:
        report = self.report
        state = "good" if report.passed else "bad"
        sign = "✓" if report.passed else "✗"
        yield f"<header><h1>{_text(title(report))}</h1>"
        yield f'<p class="verdict {state}">{sign} {_text(report.verdict)}</p>'
        yield "<ul>" + "".join(f"<li>{_text(words)}</li>" for words in total_words(report))
        yield "".join(f"<li>{_text(words)}</li>" for words in note_words(report))
        yield "</ul>"
        if report.symbol and report.symbol != report.kernel:
            yield f"<p><small>Symbol: <code>{_text(report.symbol)}</code></small></p>"
        if report.demands:
            yield '<ul class="demands">'
            for met, words in demand_words(report):
                look, sign = ("good", "✓") if met else ("bad", "✗")
                yield f'<li class="{look}">{sign} {_text(words)}</li>'
            yield "</ul>"
        links = [("findings", "Findings"), *((f"f{n}", name) for name, n in self.numbers.items())]
        links += [("printed", "Printed")] if report.printed else []
        links += [("accesses", "Accesses")] if report.accesses else []
        links += [("instructions", "Instructions")] if report.instructions else []
        shown = (f'<a href="#{self.prefix}{to}">{_text(words)}</a>' for to, words in links)
        yield f'<nav aria-label="Parts of the report">{" · ".join(shown)}</nav></header>'
        rows = [(name.replace("_", " "), f"{value:,}") for name, value in report.totals.items()]
        if rows:
            yield "<details><summary>All totals</summary>"
            yield from _table("totals", ("total", "count"), ((_text(n), c) for n, c in rows))
            yield "</details>"

    def _findings(self) -> Iterator[str]:
        count = len(self.report.findings) or "none"
        yield f'<h2 id="{self.prefix}findings">Findings: {count}</h2>'
        said = [
            (file, line, kind, sentence)
            for file in self.files
            for line in file.counts.values()
            for kind, sentence in finding_sentences(line)
        ]
        if not said:
            return
        yield '<ol class="findings">'
        for file, line, kind, sentence in said:
            about = kind_of(kind)
            where = f"{_text(file.name)}:{line.line}"
            yield (
                f'<li><a href="#{self._anchor(file.name, line.line)}">{where}</a> '
                f"<strong>{_text(about.title)}</strong> <code>{_text(kind)}</code>: "
                f"{_text(sentence)}"
                f"<br><small>{_text(about.meaning)}</small></li>"
            )
        yield "</ol>"

    # --- the source ---------------------------------------------------------------------

    def _source(self, file: SourceFile) -> Iterator[str]:
        name = _text(file.name)
        number = self.numbers[file.name]
        yield f'<h2 id="{self.prefix}f{number}">{name}</h2>'
        yield f'<div class="scroll" tabindex="0" role="region" aria-label="Source of {name}">'
        yield f'<table class="source"><caption>{name} by line</caption><thead><tr>'
        yield "".join(f'<th scope="col" title="{t}">{h}</th>' for h, t in _SOURCE_HEADS)
        yield "</tr></thead>"
        ranked = sorted(file.counts.values(), key=lambda line: line.weight, reverse=True)
        ranks = {line.line: rank for rank, line in enumerate(ranked) if line.matters}
        after = 1
        for hunk in _shown(file):
            left = hunk.start - after
            if left > 0 and file.text is not None:
                yield f'<tbody><tr class="gap"><td colspan="9">{left} lines left out</td></tr>'
                yield "</tbody>"
            yield from self._hunk(file, hunk, ranks)
            after = hunk.stop
        yield "</table></div>"

    def _hunk(self, file: SourceFile, hunk: range, ranks: dict[int, int]) -> Iterator[str]:
        """Lines; one with a rank, and its notes, in a body of its own, which can be moved."""
        is_open = False
        for line in hunk:
            rank = ranks.get(line)
            if rank is not None or not is_open:
                yield "</tbody>" if is_open else ""
                yield "<tbody>" if rank is None else f'<tbody data-rank="{rank}">'
            yield from self._line(file, line)
            is_open = rank is None
            if rank is not None:
                yield "</tbody>"
        if is_open:
            yield "</tbody>"

    def _line(self, file: SourceFile, number: int) -> Iterator[str]:
        anchor = self._anchor(file.name, number)
        head = f'<th scope="row"><a href="#{anchor}">{number}</a></th>'
        code = f"<td><code>{escape(file.line(number))}</code></td>"
        counts = file.counts.get(number)
        if counts is None:
            yield f'<tr id="{anchor}">{head}<td colspan="7"></td>{code}</tr>'
            return
        cells = (
            _count(counts.requests),
            _count(counts.wavefronts),
            times_ideal(counts.wavefronts, counts.wavefronts_ideal),
            _count(counts.sectors),
            times_ideal(counts.sectors, counts.sectors_ideal),
            _count(counts.issues),
        )
        mark = "found" if counts.findings else "hot" if counts.excess else ""
        shown = f' class="{mark}"' if mark else ""
        said = "" if _noted(file, counts) else escape(opcode_words(counts))
        tip = f' title="{said}"' if said else ""
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr id="{anchor}"{shown}{tip}>{head}{row}<td>{self._bars(counts)}</td>{code}</tr>'
        yield from self._notes(file, counts)

    def _notes(self, file: SourceFile, counts: LineCounts) -> Iterator[str]:
        if _noted(file, counts):
            yield f'<tr class="note"><td colspan="9">{escape(opcode_words(counts))}</td></tr>'
        for finding_kind, sentence in finding_sentences(counts):
            about = kind_of(finding_kind)
            yield (
                f'<tr class="note bad"><td colspan="9">✗ <strong>{_text(about.title)}</strong>: '
                f"{_text(sentence)}</td></tr>"
            )

    def _bars(self, counts: LineCounts) -> str:
        """A bar for each kind of excess, as long as its share of the worst line's, with its sum."""
        bars = (
            ("w", counts.excess_wavefronts, self.most_wavefronts),
            ("s", counts.excess_sectors, self.most_sectors),
        )
        return "".join(
            f'<span class="bar {kind}" style="--n:{max(1, round(100 * excess / most))}%">'
            f"+{excess:,}</span>"
            for kind, excess, most in bars
            if excess
        )

    def _printed(self) -> Iterator[str]:
        """What the kernel's printf wrote, as long as a page can show it."""
        lines = "".join(self.report.printed).splitlines()
        if not lines:
            return
        yield f'<h2 id="{self.prefix}printed">Printed</h2>'
        if len(lines) > _MOST_ROWS:
            yield f"<p>The first {_MOST_ROWS} of {len(lines)} lines.</p>"
        shown = "\n".join(map(_text, lines[:_MOST_ROWS]))
        yield f'<pre class="printed">{shown}</pre>'

    # --- tables -------------------------------------------------------------------------

    def _accesses(self) -> Iterator[str]:
        groups: dict[tuple[str, int, str, str], list[int]] = {}
        for access in self.report.accesses:
            sums = groups.setdefault(
                (access.file, access.line, access.opcode, access.space), [0] * 7
            )
            counts = (
                1,
                access.requests,
                access.wavefronts,
                access.wavefronts_ideal,
                access.sectors,
                access.sectors_ideal,
                access.bytes,
            )
            sums[:] = [old + new for old, new in zip(sums, counts, strict=True)]
        if not groups:
            return
        rows = sorted(groups.items(), key=lambda row: -(row[1][2] + row[1][4]))[:_MOST_ROWS]
        kept = {key for key, _ in rows}
        yield f'<h2 id="{self.prefix}accesses">Accesses</h2>'
        if len(groups) > len(kept):
            yield f"<p>The costliest {len(kept)} of {len(groups)}.</p>"
        heads = ("place", "opcode", "space", "instructions", "requests", "wavefronts", "ideal")
        yield from _table(
            "accesses",
            (*heads, "sectors", "ideal", "bytes"),
            (
                (self._place(file, line), _text(opcode), _text(space), *map(_plain, sums))
                for (file, line, opcode, space), sums in groups.items()
                if (file, line, opcode, space) in kept
            ),
        )

    def _place(self, file: str, line: int) -> str:
        return f'<a href="#{self._anchor(file, line)}">{_text(file)}:{line}</a>'

    def _instructions(self) -> Iterator[str]:
        if not self.report.instructions:
            return
        rows = sorted(self.report.instructions.items(), key=lambda row: (-row[1], row[0]))
        yield f'<h2 id="{self.prefix}instructions">Instructions</h2>'
        yield from _table(
            "instructions", ("opcode", "issues"), ((_text(name), f"{n:,}") for name, n in rows)
        )


def _noted(file: SourceFile, counts: LineCounts) -> bool:
    """Whether the opcodes stand under the line; else they show when it is pointed at."""
    return bool(counts.excess) or file.text is None


def _shown(file: SourceFile) -> list[range]:
    """The lines of a file that are listed."""
    if file.text is None:
        return [range(number, number + 1) for number in file.counts]
    if len(file.text) <= _MOST_LINES:
        return [range(min(1, *file.counts), file.last + 1)]
    marked = [n for n, line in file.counts.items() if line.opcodes or line.findings]
    return list(hunks(marked, _CONTEXT, file.last))


def _table(name: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table that the script can sort. The cells are HTML."""
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{name.capitalize()}">'
    yield f'<table class="sortable"><caption>{name.capitalize()}</caption><thead><tr>'
    yield "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    yield "</tr></thead><tbody>"
    for row in rows:
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>"
    yield "</tbody></table></div>"


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _plain(value: int) -> str:
    return f"{value:,}"

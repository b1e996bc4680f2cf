"""Report: what a run counted and found, by instruction and in sum."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.demangle import demangle
from tilewright.emulator.bulk_traffic import BulkTally, bulk_rows, bulk_totals, is_bulk_store
from tilewright.emulator.counters import Tally
from tilewright.emulator.demands import Demand
from tilewright.emulator.findings import Finding
from tilewright.emulator.ir import Instruction
from tilewright.emulator.machine_code import MachineCode
from tilewright.emulator.module_header import note_on_counts
from tilewright.emulator.part import Part
from tilewright.emulator.program import Program
from tilewright.emulator.register_pool import remarks_on
from tilewright.emulator.report_totals import totals_of
from tilewright.emulator.timeline import Timeline
from tilewright.emulator.timeline_view import timeline_text
from tilewright.emulator.trace import Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

SCHEMA = "tilewright.report/1"
CHECKS_OFF = "Checks were off: races, unset memory and unwritten outputs were not looked for."


@dataclass(frozen=True, slots=True)
class Access:
    """One memory instruction over the whole launch.

    `space` is shared, global, local, global>shared, or generic where one access is of several.
    `wavefronts` are of shared memory,
    `sectors` of 32 bytes; the ideals are what the same bytes would cost without conflicts or
    gaps. `bytes` are what the lanes asked for. `inlined_from` is that of findings.
    """

    opcode: str
    file: str
    line: int
    space: str
    requests: int
    wavefronts: int
    wavefronts_ideal: int
    sectors: int
    sectors_ideal: int
    bytes: int
    inlined_from: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The outcome of one launch in the emulator.

    completed      False after a deadlock or a trap
    accesses       one row a memory instruction that ran, in program order
    instructions   warp-level issues of PTX instructions, by opcode
    findings       faults, each kind once an instruction
    totals         the sums, under the field names of `tilewright ladder`
    kernel         its name as C++ writes it, with template arguments
    symbol         the same as the module has it, mangled
    grid, block    their extents, None where not known
    part           which blocks ran, None for all
    sources        texts of source files by the names that accesses and findings carry; the
                   user's own file first
    issues         warp-level issues by file and line
    printed        what the kernel's printf wrote, a call a string, in the order of the lanes
    paths          where the files of such names lie on disk, by the names in `sources`
    demands        what was asked of the launch beyond findings, by a check or a limit
    target         the architecture that the PTX is for, as "sm_90a"
    checked        False where the launch was told not to look for races, unset memory and outputs
                   that nobody writes
    remarks        sentences about this launch that are no findings; all views show them
    bulk           what each bulk copy (cp.async.bulk) moved, by instruction
    timeline       what happened at the mbarriers of the first cluster; see `timeline_text`
    machine_code   the PTX against the machine code of its artifact; decided when a view of the
                   report, its JSON or its notes are first asked for; None where nothing is known
    """

    completed: bool
    accesses: list[Access] = field(default_factory=list)
    instructions: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    kernel: str = ""
    symbol: str = ""
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    part: Part | None = None
    sources: dict[str, str] = field(default_factory=dict, repr=False)
    issues: dict[str, dict[int, int]] = field(default_factory=dict, repr=False)
    printed: list[str] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict, repr=False)
    demands: list[Demand] = field(default_factory=list)
    target: str = ""
    checked: bool = True
    remarks: list[str] = field(default_factory=list)
    bulk: list[BulkTally] = field(default_factory=list)
    timeline: Timeline = field(default_factory=Timeline, repr=False)
    machine_code: MachineCode | None = field(default=None, repr=False, compare=False)

    @property
    def notes(self) -> list[str]:
        """What to know of the report, and no finding: `caveats`; how the machine code differs from
        the PTX, or why the two were not compared; and whether the counts were compared with this
        target's.

        Cost: see `MachineCode`.
        """
        of_code = () if self.machine_code is None else self.machine_code.notes
        return [*self.caveats, *of_code, *self._of_target]

    @property
    def shown_notes(self) -> list[str]:
        """`notes` without the reason why PTX and machine code were not compared: what a view for
        people shows."""
        differences = None if self.machine_code is None else self.machine_code.differences
        return [*self.caveats, *map(str, differences or ()), *self._of_target]

    @property
    def caveats(self) -> list[str]:
        """What a green result does not say: blocks that did not run, checks that were off; and
        the launch's own remarks."""
        part = [] if self.part is None else [self.part.words]
        return [*part, *([] if self.checked else [CHECKS_OFF]), *self.remarks]

    @property
    def _of_target(self) -> list[str]:
        said = note_on_counts(self.target)
        return [] if said is None else [said]

    @property
    def clean(self) -> bool:
        """Whether the launch came to its end and nothing was found."""
        return self.completed and not self.findings

    @property
    def unmet(self) -> list[Demand]:
        """The demands that failed."""
        return [demand for demand in self.demands if not demand.met]

    @property
    def passed(self) -> bool:
        """Whether it is clean and meets all demands."""
        return self.clean and not self.unmet

    @property
    def verdict(self) -> str:
        """The outcome in a few words."""
        count = len(self.findings)
        words = [] if self.completed else ["did not complete"]
        words.append(f"{count or 'no'} finding{'s' * (count != 1)}")
        for kind, noun in (("check", "failed check"), ("excess", "exceeded limit")):
            if failed := sum(demand.kind == kind for demand in self.unmet):
                words.append(f"{failed} {noun}{'s' * (failed != 1)}")
        if not self.checked:
            words.append("checks were off")
        return ", ".join(words)

    @property
    def l2_requests_per_block(self) -> float | None:
        """Requests of bulk copies to L2, of the blocks that ran; None where there was no copy."""
        if not self.bulk or self.grid is None:
            return None
        blocks = prod(self.grid) if self.part is None else self.part.count
        return self.totals["l2_requests"] / blocks

    def timeline_text(self) -> str:
        """Producers and consumers of the first cluster by mbarrier and phase, as plain text."""
        return timeline_text(self.timeline)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; `issues` as rows of file, line and issues."""
        rows = [
            {"file": file, "line": line, "issues": issues}
            for file, lines in self.issues.items()
            for line, issues in lines.items()
        ]
        return {
            "schema": SCHEMA,
            "kernel": self.kernel,
            "symbol": self.symbol or None,
            "grid": None if self.grid is None else list(self.grid),
            "block": None if self.block is None else list(self.block),
            "part": None if self.part is None else self.part.to_dict(),
            "checked": self.checked,
            "completed": self.completed,
            "totals": dict(self.totals),
            "demands": [demand.to_dict() for demand in self.demands],
            "findings": [_row(finding) for finding in self.findings],
            "accesses": [_row(access) for access in self.accesses],
            "instructions": dict(self.instructions),
            "issues": rows,
            "bulk": [asdict(row) for row in self.bulk],
            "l2_requests_per_block": self.l2_requests_per_block,
            "timeline": asdict(self.timeline),
            "printed": list(self.printed),
            "notes": self.notes,
            "sass": None if self.machine_code is None else self.machine_code.to_dict(),
            "sources": dict(self.sources),
            "paths": dict(self.paths),
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """`to_dict` as JSON text, in ASCII."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_text(
        self,
        *,
        order: str = "worst",
        context: int = 2,
        limit: int | None = None,
        width: int | None = None,
    ) -> str:
        """The source with its counts as plain text; see `source_view.SourceView`.

        `width` is that of the terminal (or of COLUMNS) unless given.
        """
        from tilewright.emulator.source_view import to_text

        return to_text(self, order=order, context=context, limit=limit, width=width)

    def to_html(self, path: str | Path) -> None:
        """Writes one page that needs no other file and no network."""
        from tilewright.emulator.html import page

        Path(path).write_text(page(self), encoding="utf-8")

    def to_junit(self, path: str | Path) -> None:
        """Writes JUnit XML: one test case, whose failure lists the findings."""
        from tilewright.emulator.junit import document

        Path(path).write_text(document([self]), encoding="utf-8")

    def to_sarif(self, path: str | Path) -> None:
        """Writes SARIF 2.1.0, which code hosts show beside the lines of a change."""
        from tilewright.emulator.sarif import document

        Path(path).write_text(document([self]), encoding="utf-8")

    def __str__(self) -> str:
        return self.to_text(limit=5)

    def __rich__(self) -> RenderableType:
        from tilewright.emulator.source_view import SourceView

        return SourceView(self, limit=5)

    def _repr_html_(self) -> str:
        from tilewright.emulator.html import fragment

        return fragment(self)


def _row(record: Access | Finding) -> dict[str, Any]:
    return {**asdict(record), "inlined_from": list(record.inlined_from)}


def with_sources(
    report: Report,
    sources: Mapping[str, str],
    *,
    kernel: str = "",
    grid: tuple[int, ...] | None = None,
    block: tuple[int, ...] | None = None,
    part: Part | None = None,
    paths: Mapping[str, str] | None = None,
    machine_code: MachineCode | None = None,
    remarks: Sequence[str] = (),
) -> Report:
    """The report with the texts of its files, the user's own first, and with what was launched.

    Of the other texts those are kept that an access or a finding lies in. `kernel` is a symbol.
    `remarks` join those that it has. What is not given stays as it is.
    """
    named = {row.file for row in report.accesses} | {row.file for row in report.findings}
    kept = {
        name: text
        for place, (name, text) in enumerate(sources.items())
        if place == 0 or name in named
    }
    return replace(
        report,
        sources={**kept, **{n: t for n, t in report.sources.items() if n not in kept}},
        kernel=demangle(kernel).name if kernel else report.kernel,
        symbol=kernel or report.symbol,
        grid=report.grid if grid is None else grid,
        block=report.block if block is None else block,
        part=part or report.part,
        paths=dict(paths or {}) or report.paths,
        machine_code=machine_code or report.machine_code,
        remarks=[*report.remarks, *remarks],
    )


def make_report(program: Program, trace: Trace) -> Report:
    """The report of a finished trace."""
    instructions = program.kernel.instructions
    issued: dict[str, int] = {}
    by_line: dict[str, dict[int, int]] = {}
    for number, warps in sorted(trace.issues.items()):
        block = program.blocks[number]
        for instruction in instructions[block.first : block.last]:
            issued[instruction.opcode] = issued.get(instruction.opcode, 0) + warps
            place = instruction.place
            lines = by_line.setdefault(place.file, {})
            lines[place.line] = lines.get(place.line, 0) + warps
    bulk = bulk_rows(trace.bulk, instructions)
    accesses = [
        _access(instructions[at], tally) for at, tally in sorted(trace.counters.tallies.items())
    ]
    return Report(
        trace.completed,
        accesses,
        issued,
        trace.findings.all(),
        {**totals_of(issued, accesses), **bulk_totals(bulk)},
        kernel=demangle(program.kernel.name).name,
        symbol=program.kernel.name,
        issues={file: dict(sorted(lines.items())) for file, lines in by_line.items()},
        printed=list(trace.printed),
        target=program.target,
        checked=trace.arrays is not None,
        remarks=remarks_on(program.kernel),
        bulk=bulk,
        timeline=trace.timeline,
    )


def _access(instruction: Instruction, tally: Tally) -> Access:
    space = _space(instruction, tally)
    if space == "const":  # comes through a cache of its own, whose misses are not modelled
        tally = Tally(tally.requests, bytes=tally.bytes)
    return Access(
        instruction.opcode,
        instruction.place.file,
        instruction.place.line,
        space,
        tally.requests,
        tally.wavefronts,
        tally.wavefronts_ideal,
        tally.sectors,
        tally.sectors_ideal,
        tally.bytes,
        instruction.inlined_from,
    )


def _space(instruction: Instruction, tally: Tally) -> str:
    """Of a generic access the space that its addresses were of; "generic" for several."""
    if instruction.mnemonic == "cp":
        if "shared::cluster.shared::cta" in instruction.opcode:
            return "shared>shared"
        return "shared>global" if is_bulk_store(instruction.opcode) else "global>shared"
    if instruction.mnemonic == "wgmma":
        return "shared"
    words = re.split(r"[.:]+", instruction.opcode)
    for space in ("shared", "local", "global", "const"):
        if space in words:
            return space
    if tally.wavefronts and tally.sectors:
        return "generic"
    return "shared" if tally.wavefronts else "global"

"""What is asked of a launch beyond findings: right results, and no more traffic than allowed.

`tilewright emulate --check` and `--max-excess` make demands, and so does `tilewright.testing`; all
views of a report show those that it did not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.emulator.report import Access, Report


@dataclass(frozen=True, slots=True)
class Demand:
    """One thing asked. `message` says what is so; the place is that of the worst line.

    kind   "check" for a result, "excess" for a limit of counts
    text   what was asked, as "out == in.T" or "at most 0 bank conflicts"
    """

    kind: str
    text: str
    met: bool
    message: str
    file: str | None = None
    line: int | None = None

    @property
    def sentence(self) -> str:
        """What was asked, where the message does not say it, and what is so."""
        return f"{self.text}: {self.message}" if self.kind == "check" else self.message

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class _Excess:
    """A sum that can be limited; `of` gives what an access has beyond its ideal."""

    noun: str
    of: Callable[[Access], int]


def _wavefronts(access: Access) -> int:
    return max(0, access.wavefronts - access.wavefronts_ideal)


# By the name of its limit. cp.async has wavefronts of its own, see docs/emulator.md.
EXCESS: Mapping[str, _Excess] = {
    "wavefronts": _Excess(
        "bank conflicts (wavefronts beyond the ideal)",
        lambda a: _wavefronts(a) if a.space == "shared" else 0,
    ),
    "sectors": _Excess("sectors beyond the ideal", lambda a: max(0, a.sectors - a.sectors_ideal)),
    "copies": _Excess(
        "wavefronts of cp.async beyond the ideal",
        lambda a: _wavefronts(a) if "shared" in a.space and a.space != "shared" else 0,
    ),
}


def excess(report: Report, limits: Mapping[str, int]) -> list[Demand]:
    """A demand for each limit, by the names in EXCESS."""
    return [_demand(report, EXCESS[name], limit) for name, limit in limits.items()]


def _demand(report: Report, what: _Excess, limit: int) -> Demand:
    by_line: dict[tuple[str, int], int] = {}
    for access in report.accesses:
        place = access.file, access.line
        by_line[place] = by_line.get(place, 0) + what.of(access)
    total = sum(by_line.values())
    text = f"at most {limit:,} {what.noun}"
    if total <= limit:
        return Demand("excess", text, True, f"{total:,} {what.noun}; the limit is {limit:,}")
    file, line = max(by_line, key=lambda place: by_line[place])
    opcodes = {a.opcode: None for a in report.accesses if (a.file, a.line) == (file, line)
               and what.of(a)}  # fmt: skip
    most = by_line[file, line]
    share = "all" if most == total else f"{most:,} of them"
    message = (
        f"{total:,} {what.noun}, {share} at {file}:{line} ({', '.join(opcodes)}); "
        f"the limit is {limit:,}"
    )
    return Demand("excess", text, False, message, file, line)

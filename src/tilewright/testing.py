"""Tests of kernels without a GPU: launch in the emulator, assert that nothing is wrong or slow.

In any test framework:

    from tilewright.testing import emulated

    def test_transpose():
        a, out = np.arange(1024, dtype="f4").reshape(32, 32), np.full((32, 32), np.nan, "f4")
        report = emulated("transpose.cu", "transpose", 1, (32, 32), [a, out])
        np.testing.assert_array_equal(out, a.T)
        report.assert_clean()
        report.assert_no_excess()

In pytest the fixture `emulate` is the same function without an import (the plugin is registered
by installing tilewright; where plugins are not loaded by themselves, say `-p tilewright.testing`):

    def test_transpose(emulate):
        report = emulate("transpose.cu", "transpose", 1, (32, 32), [a, out])

A failure shows the lines at fault with their counts. `pytest --emulated-reports FOLDER` keeps
each launch made through the fixture as a page, as JUnit and as SARIF, named by the test.
The module can be imported where pytest is not installed; only the fixture is missing then.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.emulator.by_line import printable
from tilewright.emulator.demands import excess
from tilewright.emulator.report import CHECKS_OFF, Report

try:
    import pytest
except ImportError:
    pytest = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from tilewright.emulator.findings import Finding

__all__ = ["Emulated", "emulated"]

_LINES = 5  # that a failure shows
_PYTEST_MARGIN = 4  # columns that pytest sets before a message


@dataclass(frozen=True)
class Emulated(Report):
    """A report that a test can make demands of. They raise AssertionError."""

    def assert_clean(self) -> None:
        """The launch came to its end and nothing was found; a failure names kinds and lines.

        Warns, with UserWarning, where nothing was found because checks=False looked for nothing.
        """
        __tracebackhide__ = True
        if not self.clean:
            self._fail(": ".join([self.verdict, *_kinds_and_lines(self.findings)]))
        if not self.checked:
            warnings.warn(f"{self.kernel or 'kernel'}: {CHECKS_OFF}", stacklevel=2)

    def assert_no_excess(
        self, *, wavefronts: int | None = 0, sectors: int | None = 0, copies: int | None = None
    ) -> None:
        """At most so many wavefronts and sectors beyond the ideal over the launch; None: any.

        Without arguments neither bank conflicts nor sectors beyond the ideal are allowed, and
        cp.async is left alone.

        wavefronts   of ld, st, ldmatrix and stmatrix: bank conflicts, as the ladder counts them
        sectors      of every access to global memory: gaps, rows that start off a sector
        copies       wavefronts of cp.async, which has rules of its own: rows of less than 128
                     bytes cost it more than the ideal at any layout
        """
        __tracebackhide__ = True
        given = {"wavefronts": wavefronts, "sectors": sectors, "copies": copies}
        limits = {name: limit for name, limit in given.items() if limit is not None}
        demands = excess(self, limits)
        # Kept, so that the page, JUnit and SARIF of this report say it too.
        self.demands.extend(demand for demand in demands if demand not in self.demands)
        broken = [demand.message for demand in demands if not demand.met]
        if broken:
            self._fail("; ".join(broken))

    def _fail(self, what: str) -> None:
        __tracebackhide__ = True
        from tilewright.emulator.source_view import terminal_width  # rich: not for every pytest

        view = self.to_text(limit=_LINES, width=terminal_width() - _PYTEST_MARGIN)
        raise AssertionError(printable(f"{self.kernel or 'kernel'}: {what}") + f"\n\n{view}")


def _kinds_and_lines(findings: Sequence[Finding]) -> list[str]:
    """One text such as "race at k.cu:5 and k.cu:9, trap at k.cu:7", or none without findings."""
    places: dict[str, dict[str, None]] = {}
    for finding in findings:
        places.setdefault(finding.kind, {})[f"{finding.file}:{finding.line}"] = None
    said = []
    for kind, lines in places.items():
        shown = list(lines)[:_LINES]
        more = f" and {len(lines) - len(shown)} more lines" if len(lines) > len(shown) else ""
        said.append(f"{kind} at {', '.join(shown)}{more}")
    return [", ".join(said)] if said else []


def emulated(
    source: str | Path,
    kernel: str | None,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    **options: Any,
) -> Emulated:
    """`tilewright.emulate` with the same arguments; its report with assertions.

    Raises   what emulate raises: InputError, CompileError, UnsupportedError. Findings do not
             raise before `assert_clean` is asked.
    """
    from tilewright.engines.emulate import emulate

    report = emulate(source, kernel, grid, block, args, **options)
    return Emulated(**{field.name: getattr(report, field.name) for field in fields(report)})


if pytest is not None:

    def pytest_addoption(parser: pytest.Parser) -> None:
        parser.getgroup("tilewright").addoption(
            "--emulated-reports",
            metavar="FOLDER",
            type=Path,
            help="keep every report of the fixture `emulate` in FOLDER: .html, .xml, .sarif",
        )

    @pytest.fixture
    def emulate(request: pytest.FixtureRequest) -> Iterator[Callable[..., Emulated]]:
        """Launches a kernel in the emulator, as tilewright.testing.emulated does."""
        made: list[Emulated] = []

        def run(*args: Any, **options: Any) -> Emulated:
            made.append(emulated(*args, **options))
            return made[-1]

        yield run
        folder: Path | None = request.config.getoption("--emulated-reports")
        if folder is not None:
            _keep(made, folder, request.node.nodeid)


def _keep(reports: Sequence[Report], folder: Path, test: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, report in enumerate(reports, 1):
        stem = re.sub(r"[^\w.-]+", "-", test).strip("-")[-150:]
        path = folder / (f"{stem}-{number}" if len(reports) > 1 else stem)
        report.to_html(f"{path}.html")
        report.to_junit(f"{path}.xml")
        report.to_sarif(f"{path}.sarif")

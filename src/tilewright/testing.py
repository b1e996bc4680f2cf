"""Tests of kernels without a GPU: launch in the emulator, assert that nothing is wrong or slow.

In any test framework:

    from tilewright.testing import emulated

    def test_transpose():
        a, out = np.arange(64 * 96, dtype="f4").reshape(64, 96), np.zeros((96, 64), "f4")
        report = emulated("transpose.cu", "transpose", (3, 2), (32, 8), [out, a, 64, 96])
        np.testing.assert_array_equal(out, a.T)
        report.assert_clean()
        report.assert_no_excess(wavefronts=0, sectors=0)

In pytest the fixture `emulate` is the same function without an import (the plugin is registered
by installing tilewright; where plugins are not loaded by themselves, say `-p tilewright.testing`):

    def test_transpose(emulate):
        report = emulate("transpose.cu", "transpose", (3, 2), (32, 8), [out, a, 64, 96])

A failure shows the lines at fault with their counts. `pytest --emulated-reports FOLDER` keeps
each launch made through the fixture as a page, as JUnit and as SARIF, named by the test.
The module can be imported where pytest is not installed; only the fixture is missing then.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.emulator.report import Report, with_sources

try:
    import pytest
except ImportError:
    pytest = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from tilewright.emulator.report import Access

__all__ = ["Emulated", "emulated"]

_LINES = 5  # that a failure shows
_PTX = re.compile(r"^\s*\.version\b", re.MULTILINE)


@dataclass(frozen=True)
class Emulated(Report):
    """A report that a test can make demands of. They raise AssertionError."""

    def assert_clean(self) -> None:
        """The launch came to its end and nothing was found."""
        __tracebackhide__ = True
        if not self.clean:
            self._fail(self.verdict)

    def assert_no_excess(
        self, *, wavefronts: int | None = 0, sectors: int | None = 0, copies: int | None = None
    ) -> None:
        """At most so many wavefronts and sectors beyond the ideal over the launch; None: any.

        wavefronts   of ld, st, ldmatrix and stmatrix: bank conflicts, as the ladder counts them
        sectors      of every access to global memory: gaps, rows that start off a sector
        copies       wavefronts of cp.async, which has rules of its own: rows of less than 128
                     bytes cost it more than the ideal at any layout
        """
        __tracebackhide__ = True
        plain = [a for a in self.accesses if a.space == "shared"]
        mixed = [a for a in self.accesses if "shared" in a.space and a.space != "shared"]
        limits = (
            ("wavefronts", wavefronts, _excess_wavefronts(plain)),
            ("sectors", sectors, sum(max(0, a.sectors - a.sectors_ideal) for a in self.accesses)),
            ("copies' wavefronts", copies, _excess_wavefronts(mixed)),
        )
        broken = [
            f"{count:,} {name} beyond the ideal; the test allows {limit:,}"
            for name, limit, count in limits
            if limit is not None and count > limit
        ]
        if broken:
            self._fail(", ".join(broken))

    def _fail(self, what: str) -> None:
        __tracebackhide__ = True
        raise AssertionError(f"{self.kernel or 'kernel'}: {what}\n\n{self.to_text(limit=_LINES)}")


def _excess_wavefronts(accesses: Sequence[Access]) -> int:
    return sum(max(0, a.wavefronts - a.wavefronts_ideal) for a in accesses)


def emulated(
    source: str | Path,
    kernel: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    **options: Any,
) -> Emulated:
    """`tilewright.emulate` with the same arguments; its report with assertions.

    Raises   what emulate raises: InputError, CompileError, UnsupportedError. Findings do not
             raise before `assert_clean` is asked.
    """
    from tilewright.engines.emulate import emulate
    from tilewright.kernel_source import read_source

    report = emulate(source, kernel, grid, block, args, **options)
    if not report.sources:
        text, name = read_source(source)
        report = with_sources(
            report,
            {"<ptx>" if _PTX.search(text) else name: text},
            kernel=kernel,
            grid=tuple(int(extent) for extent in grid),
            block=tuple(int(extent) for extent in block),
        )
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

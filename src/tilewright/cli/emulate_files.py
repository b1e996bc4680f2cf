"""The files that `tilewright emulate` writes: known to be writable before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.cli.emulate_args import Argument, short
from tilewright.cli.output import check_targets
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.emulator.report import Report

Array = npt.NDArray[Any]


def parse_saves(
    words: Sequence[str],
    reports: Mapping[str, str | None],
    source: Path,
    known: Mapping[str, Argument],
) -> list[tuple[str, Path]]:
    """The arrays to save by label. `reports` are the other outputs, "--json" and their like.

    Raises: InputError for a file that cannot be written, is read or is named twice.
    """
    inputs = [source, *(a.file for a in known.values() if a.file is not None)]
    saves: list[tuple[str, Path]] = []
    for word in words:
        label, file, _ = labelled_word("--save", word, known, "c=out.npy")
        path = Path(file)
        if path.suffix != ".npy":
            raise InputError(f"--save {label}: {short(file)!r} must end in .npy.")
        if any(_same(path, other) for other in inputs):
            raise InputError(
                f"--save {label}: {short(file)} is read by this run; name another file."
            )
        if any(_same(path, other) for _, other in saves):
            raise InputError(f"--save {label}: {short(file)} is written twice; name another file.")
        saves.append((label, path))
    taken = [*inputs, *(path for _, path in saves)]
    for option, name in reports.items():
        if name is None or (name == "-" and option == "--json"):
            continue
        if name == "-":
            raise InputError(f"{option} - is not known; name a file.")
        if any(_same(Path(name), other) for other in taken):
            raise InputError(f"{option} {short(name)} is another file of this run; name a new one.")
        taken.append(Path(name))
    check_targets(*reports.values(), *(path for _, path in saves))
    return saves


def labelled_word(
    option: str, word: str, known: Mapping[str, Argument], example: str
) -> tuple[str, str, tuple[int, ...]]:
    """LABEL=VALUE of an array, and the array's shape."""
    label, equals, value = word.partition("=")
    if not equals or not value:
        raise InputError(f"{option} {short(word)!r}: write LABEL=VALUE, as in {example}.")
    argument = known.get(label)
    if argument is None or argument.shape is None:
        arrays = ", ".join(a.label for a in known.values() if a.shape) or "none"
        raise InputError(
            f"{option} {short(word)!r}: {short(label)!r} is not an array; there are: {arrays}."
        )
    return label, value, argument.shape


def save(path: Path, array: Array) -> None:
    try:
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=False)
    except OSError as error:
        raise InputError(f"--save {short(str(path))}: {error.strerror or error}.") from None


def write_reports(report: Report, files: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """Writes the views that were asked for; what each is and where. Raises: InputError."""
    writers = {"--html": report.to_html, "--junit": report.to_junit, "--sarif": report.to_sarif}
    written = []
    for option, write in writers.items():
        if (path := files.get(option)) is None:
            continue
        try:
            write(path)
        except OSError as error:
            raise InputError(f"{option} {short(path)}: {error.strerror or error}.") from None
        written.append((option.removeprefix("--"), path))
    return written


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError, RuntimeError):  # one of them does not exist, or cannot
        return False

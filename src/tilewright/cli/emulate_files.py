"""The files that `tilewright emulate` writes: known to be writable before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cli.emulate_args import Argument, short
from tilewright.cli.output import check_targets
from tilewright.errors import InputError

Array = npt.NDArray[Any]


def parse_saves(
    words: Sequence[str], json: str | None, source: Path, known: Mapping[str, Argument]
) -> list[tuple[str, Path]]:
    """The arrays to save by label. Raises: InputError for a file that cannot be written."""
    inputs = [source, *(a.file for a in known.values() if a.file is not None)]
    saves: list[tuple[str, Path]] = []
    for word in words:
        label, name, _ = labelled_word("--save", word, known, "c=out.npy")
        path = Path(name)
        if path.suffix != ".npy":
            raise InputError(f"--save {label}: {short(name)!r} must end in .npy.")
        if any(_same(path, other) for other in inputs):
            raise InputError(
                f"--save {label}: {short(name)} is read by this run; name another file."
            )
        if any(_same(path, other) for _, other in saves):
            raise InputError(f"--save {label}: {short(name)} is written twice; name another file.")
        saves.append((label, path))
    targets = [*inputs, *(path for _, path in saves)]
    if json not in (None, "-") and any(_same(Path(json or ""), o) for o in targets):
        raise InputError(f"--json {short(json)} is another file of this run; name a new one.")
    check_targets(json, *(path for _, path in saves))
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


def _same(one: Path, other: Path) -> bool:
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError, RuntimeError):  # one of them does not exist, or cannot
        return False

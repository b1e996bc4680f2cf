"""Source files on disk: names that fit a table, texts for the views."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

_LARGEST = 4 << 20  # bytes; views list lines, and nobody reads more of them
# A name in PTX may be any path at all; only what is a source by its name is read.
_SUFFIXES = {".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".inl",
             ".ptx", ".py"}  # fmt: skip


def local_name(path: str) -> str:
    """A path as seen from the working folder, if it lies below it; else as it is."""
    if not Path(path).is_absolute():
        return path
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except (OSError, ValueError):  # elsewhere, or the working folder is gone
        return path


def texts_of(names: Iterable[str], folder: Path) -> dict[str, str]:
    """The texts of those names that are source files, seen from the working folder or `folder`.

    Never raises: what cannot be read is left out, as is what is no regular file.
    """
    found: dict[str, str] = {}
    for name in names:
        for path in (Path(name), folder / name):
            if (text := _text(path)) is not None:
                found[name] = text
                break
    return found


def _text(path: Path) -> str | None:
    if path.suffix.lower() not in _SUFFIXES:
        return None
    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode) or info.st_size > _LARGEST:
            return None
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None

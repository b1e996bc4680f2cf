"""The headers of a kernel that a record hashes: the package's own and the user's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tilewright.build import headers
from tilewright.kernel_source import read_source

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.M)


def code_of(text: str, folders: Sequence[Path] = ()) -> str:
    """The text with the headers it includes, each once: what a record hashes.

    The package's headers and those in `folders` or beside a header that is; CUDA's own are left
    out. Raises: InputError for one that cannot be read.
    """
    parts, seen = [text], set[str]()
    todo: list[tuple[str, Path | None]] = [(name, None) for name in _INCLUDE.findall(text)]
    while todo:
        name, beside = todo.pop(0)
        places = [each / name for each in (*folders, beside) if each]
        there = next((place for place in places if place.is_file()), None)
        if name in seen or not (name in headers() or there):
            continue
        seen.add(name)
        found = headers().get(name) or read_source(there or name)[0]
        parts.append(found)
        inside = there.parent if there and name not in headers() else beside
        todo += [(inner, inside) for inner in _INCLUDE.findall(found)]
    return "\n".join(parts)

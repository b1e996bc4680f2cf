"""What a rung's file says: its header in prose, and its code as a reader compares it.

A rung is a `.cu` file, or one of another language whose comments begin with `#`. Its header is the
comment at its top: `name: one sentence.`, then *Idea*, *Expect*, *Found* and *Next*.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import unified_diff

DIFF_BUDGET = 40  # changed lines between neighbours, − and + both counted

_PART = re.compile(r"([A-Z]\w+) {2,}(\S.*)")
_KERNEL = re.compile(r'^extern "C" __global__', re.MULTILINE)
_TAKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True)
class Header:
    """`parts` by their words ("Idea", "Expect", …), each one line of prose."""

    name: str
    sentence: str
    parts: Mapping[str, str]

    @property
    def records(self) -> tuple[str, ...]:
        """The measurements that *Found* names, each by its moment (`Measurement.taken`)."""
        return tuple(_TAKEN.findall(self.parts.get("Found", "")))


def header_of(text: str) -> Header:
    """The header of a rung's text."""
    mark = _mark(text)
    lines = [line.removeprefix(mark).strip() for line in _header_lines(text)]
    name, _, sentence = lines[0].partition(": ")
    parts: dict[str, str] = {}
    for line in lines[1:]:
        if match := _PART.fullmatch(line):
            parts[match[1]] = match[2]
        elif line and parts:
            parts[[*parts][-1]] += f" {line}"
    return Header(name, sentence, parts)


def body_of(text: str) -> str:
    """The text behind its header."""
    return "".join(text.splitlines(keepends=True)[len(_header_lines(text)) :]).lstrip("\n")


def kernel_of(text: str) -> str:
    """From the kernel's first line on; the whole body where there is no CUDA kernel."""
    match = _KERNEL.search(text)
    return text[match.start() :] if match else body_of(text)


def changed_lines(before: str, after: str) -> list[str]:
    """The lines that differ, each with its − or +: without comments, blank lines, indentation."""
    diff = unified_diff(_code_lines(before), _code_lines(after), n=0, lineterm="")
    return [line for line in diff if line[0] in "+-" and line[:3] not in ("+++", "---")]


def diff_of(before: str, after: str, context: int = 1) -> str:
    """A unified diff of two bodies, without names of files and numbers of lines."""
    old, new = body_of(before).splitlines(), body_of(after).splitlines()
    lines = list(unified_diff(old, new, n=context, lineterm=""))[2:]
    return "\n".join("@@" if line.startswith("@@") else line for line in lines)


def _mark(text: str) -> str:
    return "//" if text.startswith("//") else "#"


def _header_lines(text: str) -> list[str]:
    lines, mark = text.splitlines(), _mark(text)
    end = next((i for i, line in enumerate(lines) if not line.startswith(mark)), len(lines))
    return lines[:end]


def _code_lines(text: str) -> list[str]:
    mark = _mark(text)
    bare = (re.sub(r"\s+", " ", line.split(mark)[0]).strip() for line in text.splitlines())
    return [line for line in bare if line]

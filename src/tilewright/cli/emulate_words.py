"""Messages of `tilewright.emulate` in the words of the command line: options, not Python's names.

What the command line itself checks is worded there; this is for what only the launch finds out,
as `blocks=[9] must be ids from 0 to 3`, which a user typed as `--blocks 9`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilewright.cli.emulate_args import short

_OPTIONS = ("kernel", "grid", "block", "cluster", "shared_bytes", "arch", "schedule", "seed",
            "blocks", "step_limit", "include_path", "defines")  # fmt: skip
_FLAGS = {"include_path": "--include", "defines": "--define"}
# A name of Python's with the value it has: 'text', [9], (2, 1, 1), 3; or only the name.
_VALUE = r"""(?:'(?:\\.|[^'\\])*['…]?|"(?:\\.|[^"\\])*["…]?|\[[^\]]*\]|\([^)]*\)|[^\s;,:]+)"""
_NAMED = re.compile(rf"(?<![\w.\-])(?P<name>{'|'.join(_OPTIONS)})=(?P<value>{_VALUE})")
_BARE = re.compile(r"(?<![\w\-])(?P<name>shared_bytes|step_limit|include_path)\b(?!=)")

_EXTENTS = re.compile(r"\((\d+, \d+, \d+)\)")


def as_typed(message: str, typed: Mapping[str, str | None]) -> str:
    """The message with options for Python's parameters; `typed` has their words by these names."""

    def option(match: re.Match[str]) -> str:
        name, value = match["name"], match["value"]
        word = typed.get(name)
        return f"{_flag(name)} {value if word is None else short(word) or repr(word)}"

    return _BARE.sub(lambda match: _flag(match["name"]), _NAMED.sub(option, message))


def with_extents(message: str) -> str:
    """Extents as they are typed: 32,8,1 for (32, 8, 1)."""
    return _EXTENTS.sub(lambda match: match[1].replace(", ", ","), message)


def _flag(name: str) -> str:
    return _FLAGS.get(name, "--" + name.replace("_", "-"))

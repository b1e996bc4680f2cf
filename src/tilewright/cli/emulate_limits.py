"""`--max-excess 0` or `--max-excess wavefronts=0,sectors=64`: what a launch may cost at most."""

from __future__ import annotations

import re

from tilewright.cli.emulate_args import short
from tilewright.emulator.demands import EXCESS
from tilewright.errors import InputError

_PLAIN = ("wavefronts", "sectors")  # as `assert_no_excess` without arguments
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


def parse_limits(word: str | None) -> dict[str, int]:
    """Limits by their names in EXCESS. Raises: InputError."""
    if word is None:
        return {}
    if _NUMBER.fullmatch(word):
        return dict.fromkeys(_PLAIN, int(word))
    limits: dict[str, int] = {}
    for part in word.split(","):
        name, equals, number = part.strip().partition("=")
        if not equals or name not in EXCESS or not _NUMBER.fullmatch(number):
            raise InputError(
                f"--max-excess {short(word) or repr(word)}: write a whole number for wavefronts "
                f"and sectors, or NAME=N with {', '.join(EXCESS)}, as in wavefronts=0,sectors=64."
            )
        if name in limits:
            raise InputError(f"--max-excess names {name} twice; keep one.")
        limits[name] = int(number)
    return limits

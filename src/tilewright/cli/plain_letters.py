"""Letters for terminals that know no UTF-8: drawings keep their shape, words their sense."""

from __future__ import annotations

import codecs

ERRORS = "tilewright.plain"  # the name for `reconfigure(errors=…)`

_PLAIN = str.maketrans(
    {
        **dict(zip("█▓▒░■●∘⊕", "#%=:##o+", strict=True)),  # fills differ, as the legends say
        **dict(zip("▁▂▃▄▅▆▇", "_.,-~=+", strict=True)),
        **dict(zip("▏▎▍▌▋▊▉", ".......", strict=True)),
        **dict.fromkeys("─━–—−", "-"),
        **dict.fromkeys("│┃", "|"),
        **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╰╯", "+"),
        **dict(zip("·×÷→←✓✗…≈≤≥±µ²³’‘“”", "*x/><vx~~<>~u23''\"\"", strict=True)),
    }
)


def register() -> None:
    """Makes ERRORS known to the codecs: one plain letter for each, ? for those not in the table."""
    codecs.register_error(ERRORS, _plain)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end].translate(_PLAIN)
    return "".join(letter if letter.isascii() else "?" for letter in letters), error.end

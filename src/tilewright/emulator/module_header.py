"""The three lines that a PTX module begins with: what they may say. PTX ISA, "PTX Directives"."""

from __future__ import annotations

import re

_VERSION = re.compile(r"(\d{1,3})\.(\d{1,3})$")
_TARGET = re.compile(r"(?:sm|compute)_(\d{2,3})[af]?$")
_NEWEST = 9  # major version of the PTX ISA
_ARCHS = (
    *(20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90),
    *(100, 101, 103, 110, 120, 121),
)
COUNTED = 90  # the compute capability whose counters the rules were compared with


def arch_number(target: str) -> int | None:
    """The 90 of sm_90a; None for what is no architecture that we know."""
    match = _TARGET.match(target)
    return int(match[1]) if match and int(match[1]) in _ARCHS else None


def check_line(directive: str, word: str) -> None:
    """Raises ValueError for a .version, .target or .address_size that cannot be run."""
    if directive == ".version":
        match = _VERSION.match(word)
        if match is None or int(match[1]) > _NEWEST:
            raise ValueError(
                f"version {word or '(none)'} of PTX is not known, the newest is {_NEWEST}.x: let "
                "an older compiler make the PTX, or give the CUDA C++ source"
            )
    elif directive == ".target" and arch_number(word) is None:
        known = ", ".join(f"sm_{number}" for number in _ARCHS if number >= 70)
        raise ValueError(
            f"the architecture {word or '(none)'} is not known: compile for one of {known}"
        )
    elif directive == ".address_size" and word != "64":
        raise ValueError(
            f"addresses of {word or '(none)'} bits are not modelled: compile for 64 bits, as all "
            "of CUDA from version 12 on does"
        )


def note_on_counts(target: str) -> str | None:
    """What a report says of a target whose counters nobody compared with the rules."""
    number = arch_number(target)
    if number is None or number <= COUNTED:
        return None
    return f"counted by rules that were compared with sm_{COUNTED}; {target} may count otherwise"

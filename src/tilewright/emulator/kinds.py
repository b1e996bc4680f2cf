"""The kinds of findings: a title, what each means, and whether it is an error."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """`level` is error or warning, in SARIF's words."""

    name: str
    title: str
    meaning: str
    level: str = "error"


KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "out-of-bounds",
            "Access out of bounds",
            "A lane touches memory that belongs to no array, variable or parameter of the launch. "
            "In the emulator the load gives poison and the store is dropped; on a GPU it is an "
            "illegal access, or silently someone else's data.",
        ),
        Kind(
            "misaligned",
            "Misaligned access",
            "An address is no multiple of the access's width. A GPU stops the kernel at it.",
        ),
        Kind(
            "uninitialised",
            "Read of uninitialised memory",
            "A lane reads bytes that nothing wrote before: the result depends on what was there.",
        ),
        Kind(
            "race",
            "Data race",
            "Two warps touch the same bytes, at least one of them writes, and no barrier orders "
            "them: the result depends on which comes first, also where this run happened to be "
            "right.",
        ),
        Kind(
            "deadlock",
            "Deadlock",
            "Threads wait for others that will never come, so that the launch never ends.",
        ),
        Kind(
            "barrier",
            "Barrier misused",
            "A barrier is reached by too few or by other threads than it counts.",
        ),
        Kind("trap", "Trap", "The kernel ran into its own trap instruction and stopped."),
    )
}


def kind_of(name: str) -> Kind:
    """The kind by its name; one that is not in the table is an error under its own words."""
    words = name.replace("_", "-")
    if words in KINDS:
        return KINDS[words]
    title = words.replace("-", " ").capitalize() or "Finding"
    return Kind(name, title, f"The emulator reports: {title.lower()}.")

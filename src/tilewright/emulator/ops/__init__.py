"""Instruction semantics: one builder per form of a PTX instruction, in a file per kind."""

from __future__ import annotations

from importlib import import_module

_FILES = (
    *("integer", "compare", "floating", "convert", "move"),
    *("memory", "async_copy", "matrix", "wmma", "warp"),
)


def load() -> None:
    """Fills the registry (a second call does nothing)."""
    for name in _FILES:
        import_module(f"tilewright.emulator.ops.{name}")

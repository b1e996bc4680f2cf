"""Instruction semantics: one builder per form of a PTX instruction, in a file per kind."""

from __future__ import annotations

from importlib import import_module

_FILES = (
    *("integer", "bits", "carry", "packed", "compare", "select"),
    *("floating", "approximate", "extremes", "half"),
    *("convert", "convert_float", "convert_packed", "move"),
    *("memory", "atomics", "async_copy", "mbarrier", "matrix", "wmma", "wgmma"),
    *("warp", "collective", "hints", "clusters", "calls"),
    *("bulk", "bulk_tensor", "tensormap", "async_store"),
)


def load() -> None:
    """Fills the registry (a second call does nothing)."""
    for name in _FILES:
        import_module(f"tilewright.emulator.ops.{name}")

"""Imports point one way: from left to right in ORDER, never back."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

PACKAGE = Path(str(files("tilewright")))
ORDER = ("model", "emulator", "ladder", "build", "engines", "bench", "gemm", "torch", "cli")
PART_OF = dict.fromkeys(  # files of the build part
    ("artifact", "nvrtc", "cache", "include", "host_code", "kernel_source", "missing_name"), "build"
)
ONLY_IN = {
    "cuda.bindings.nvrtc": {"nvrtc.py"},
    "cuda.bindings.driver": {"engines/driver.py", "engines/probe.py"},
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Modules imported at run time, also inside functions; TYPE_CHECKING blocks don't count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def part(module: str) -> str | None:
    """The part of ORDER that a dotted name belongs to; None for what stands below all of them."""
    words = module.split(".")
    if len(words) < 2 or words[0] != "tilewright":
        return None
    name = PART_OF.get(words[1], words[1])
    return name if name in ORDER else None


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_import_points_to_the_right(path: Path) -> None:
    relative = path.relative_to(PACKAGE).with_suffix("")
    here = part(".".join(("tilewright", *relative.parts)))
    if here is None:
        return
    for module in imports(path):
        there = part(module)
        if there is not None:
            assert ORDER.index(there) <= ORDER.index(here), f"{relative} imports {module}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_one_file_a_foreign_interface(path: Path) -> None:
    relative = str(path.relative_to(PACKAGE))
    text = path.read_text(encoding="utf-8")
    for interface, allowed in ONLY_IN.items():
        if relative not in allowed:
            assert f'"{interface}"' not in text, relative
            assert interface not in set(imports(path)), relative


def test_the_model_needs_the_standard_library_only() -> None:
    for path in (PACKAGE / "model").glob("*.py"):
        for module in imports(path):
            assert not module.startswith(("numpy", "rich", "cuda")), f"{path.name}: {module}"


def test_modules_stay_readable() -> None:
    for path in modules():
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, path


def test_nothing_loaded_runs_code() -> None:
    for path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        called = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call)
                  and isinstance(n.func, ast.Name)}  # fmt: skip
        assert not called & {"eval", "exec"}, path
        assert "pickle" not in set(imports(path)), path

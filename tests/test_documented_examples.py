"""The Python examples of README and docs/emulator.md work as they stand, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.usefixtures("compiler")


def blocks(name: str) -> list[tuple[str, str]]:
    """Language and text of each block of a document."""
    return BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))


def ran(folder: Path, *words: str) -> str:
    """What a Python in the folder prints. It must end with 0."""
    root = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_readmes_emulation_prints_what_it_says(tmp_path: Path) -> None:
    found = blocks("README.md")
    at = next(i for i, (_, text) in enumerate(found) if "tilewright.emulate(" in text)
    language, expected = found[at + 1]
    assert language == ""
    assert ran(tmp_path, "-c", found[at][1]) == expected


def test_the_readmes_ladder_from_python(tmp_path: Path) -> None:
    (text,) = (text for name, text in blocks("README.md") if "tilewright.ladder(" in text)
    emulated = text.replace("k=192)", 'k=192, engine="emulator")')
    assert ran(tmp_path, "-c", emulated) == "59904 0\n"


def test_the_examples_of_the_emulators_page(tmp_path: Path) -> None:
    """In their order, in one folder, as a reader would paste them."""
    examples = [text for language, text in blocks("docs/emulator.md") if language == "python"]
    kinds = []
    for number, text in enumerate(examples):
        is_test = "def test_" in text
        kinds.append(is_test)
        if is_test:
            (tmp_path / f"test_{number}.py").write_text(text)
            plugin = [] if _registered() else ["-p", "tilewright.testing"]
            assert "1 passed" in ran(tmp_path, "-m", "pytest", *plugin, f"test_{number}.py")
        else:
            assert ran(tmp_path, "-c", text)
    assert kinds == [False, True, True, False]
    names = {path.name for path in tmp_path.iterdir()}
    assert {"transpose.cu", "transpose.html", "transpose.xml", "transpose.sarif"} <= names


def _registered() -> bool:
    """Whether tilewright is installed, and pytest finds the plugin by itself."""
    from importlib.metadata import entry_points

    return any(it.value == "tilewright.testing" for it in entry_points(group="pytest11"))

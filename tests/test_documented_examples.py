"""The Python examples of README, docs/emulator.md and docs/matmul.md work, in an empty folder."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli.emulate_check import Verdict
from tilewright.emulator.findings import Finding
from tilewright.emulator.report import Access

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


def shell(folder: Path, text: str) -> str:
    """What a shell in the folder prints for commands of `tilewright`, which must end with 0."""
    words = f'tilewright() {{ {shlex.quote(sys.executable)} -m tilewright "$@"; }}\n{text}'
    root = os.pathsep.join(str(Path(p).resolve()) for p in sys.path if p)
    done = subprocess.run(
        ["bash", "-ec", words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": root, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_commands_work_on_the_kernel_that_is_shown(tmp_path: Path) -> None:
    (readme,) = (text for _, text in blocks("README.md") if "emulate transpose.cu" in text)
    (page,) = (text for _, text in blocks("docs/emulator.md") if "emulate transpose.cu" in text)
    (kernel,) = (text for _, text in blocks("README.md") if "__global__" in text)
    source = re.search(r'"""\n(.*?)"""', kernel, re.DOTALL)
    assert source is not None
    (tmp_path / "transpose.cu").write_text(source[1])
    said = shell(tmp_path, readme)
    assert "↳ ld.shared.f32: 32-way bank conflicts" in said
    assert "✓ out == in.T" in said
    (tmp_path / "transpose.cu").write_text(source[1].replace("[32][32]", "[32][33]"))
    assert "✓ 0 bank conflicts" in shell(tmp_path, page)
    assert {"transpose.html", "transpose.json"} <= {path.name for path in tmp_path.iterdir()}


def test_every_field_of_the_json_is_documented(tmp_path: Path) -> None:
    page = (ROOT / "docs/emulator.md").read_text(encoding="utf-8")
    table = page[page.index("## The JSON") : page.index("In SARIF, files")]
    named = set(re.findall(r"`(\w+)`", table))
    (tmp_path / "k.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n"
    )
    words = "emulate k.ptx --grid 1 --block 32 --max-excess 0 --json -"
    document = json.loads(ran(tmp_path, "-m", "tilewright", *words.split()))
    (row,) = document["rows"]
    assert document["schema"] in table
    assert set(row) <= named
    assert set(row["demands"][0]) <= named
    for fields in (Access, Finding, Verdict):
        assert {field.name for field in dataclasses.fields(fields)} <= named


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
    assert kinds == [False, True, True, False, False]
    names = {path.name for path in tmp_path.iterdir()}
    assert {"transpose.cu", "transpose.html", "transpose.xml", "transpose.sarif"} <= names


def test_the_examples_of_matmuls_page(tmp_path: Path) -> None:
    examples = [text for language, text in blocks("docs/matmul.md") if language == "python"]
    assert len(examples) == 3
    ran(tmp_path, "-c", "\n".join(examples))


def _registered() -> bool:
    """Whether tilewright is installed, and pytest finds the plugin by itself."""
    from importlib.metadata import entry_points

    return any(it.value == "tilewright.testing" for it in entry_points(group="pytest11"))

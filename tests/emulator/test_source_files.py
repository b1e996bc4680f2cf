"""Names as seen from the working folder, and texts of what is a source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tilewright.emulator.source_files import local_name, texts_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_local_names(here: Path) -> None:
    assert local_name(f"{here}/src/k.cu") == "src/k.cu"
    assert local_name("src/k.cu") == "src/k.cu"
    assert local_name("/elsewhere/k.cu") == "/elsewhere/k.cu"
    assert local_name("") == ""


def test_texts(here: Path) -> None:
    other = here / "other"
    other.mkdir()
    Path("a.cu").write_text("here")
    (other / "a.cu").write_text("there")
    (other / "b.PY").write_text("\ufeffthere")
    Path("key.pem").write_text("secret")
    Path("d.cu").mkdir()
    os.mkfifo("e.cu")
    Path("f.cu").write_bytes(b"\xff")
    Path("g.cu").write_bytes(b" " * (5 << 20))
    names = ["a.cu", "b.PY", "key.pem", "d.cu", "e.cu", "f.cu", "g.cu", "no.cu", "n\0.cu", ""]
    assert texts_of(names, other) == {"a.cu": "here", "b.PY": "there"}

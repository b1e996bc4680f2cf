"""Advice that can be pasted, in a checkout and where the package is installed."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright
from tilewright.installing import install


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    install.cache_clear()
    yield
    install.cache_clear()


def test_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.0")
    assert install("cu13") == 'pip install "tilewright[cu13]"'


def test_a_checkout_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    root = Path(tilewright.__file__).resolve().parents[2]
    assert install("cu13") == f'pip install -e "{root}[cu13]"'
    assert (root / "pyproject.toml").is_file()


def test_files_copied_somewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    monkeypatch.setattr("tilewright.installing.__file__", str(tmp_path / "a" / "b" / "c.py"))
    assert install("cu13") == 'pip install "tilewright[cu13]"'

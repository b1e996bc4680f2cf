"""Fixtures for all tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tilewright import nvrtc
from tilewright.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keeps the user's cache out of it; one folder for the run, so that kernels compile once."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # of this run, shared by its workers
    folder = base / "kernels"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def compiler() -> str:
    """NVRTC's name and version; a test that asks for it is skipped where there is none."""
    try:
        return nvrtc.compiler()
    except ToolchainError as error:
        pytest.skip(str(error))

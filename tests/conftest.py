"""Fixtures for all tests."""

from __future__ import annotations

import gc
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tilewright import nvrtc
from tilewright.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from tilewright.emulator.report import Report
    from tilewright.gpus import Gpu
    from tilewright.ladder.rungs import KernelRung
    from tilewright.problem import Problem

# Workers of xdist are as many as there are cores: NumPy's own threads would only be in their way,
# and take a third of the time. Read when NumPy is loaded, in the workers and other child processes.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_collection_finish() -> None:
    """14,000 tests stay to the end: Python's collector need not go through them again and again."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture(scope="session", autouse=True)
def every_rung_kept() -> Iterator[None]:
    """Tests go over all rungs again and again: the emulator reads each but once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tilewright.emulator.loaded.MOST_KEPT", 400_000)
        yield


@pytest.fixture(scope="session")
def blocks_counted_once() -> Iterator[None]:
    """A block of a rung costs the same on any problem: `limited` counts it for the first one."""
    from tilewright.bench import rung_limits

    count = rung_limits.one_block
    known: dict[object, Report] = {}

    def once(rung: KernelRung, problem: Problem, gpu: Gpu, steps: int) -> Report:
        key = rung.name, rung.text, problem.dtype.name, gpu.name, steps
        if key not in known:
            known[key] = count(rung, problem, gpu, steps)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rung_limits, "one_block", once)
        yield


@pytest.fixture(scope="session")
def compiler() -> str:
    """NVRTC's name and version; a test that asks for it is skipped where there is none."""
    try:
        return nvrtc.compiler()
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def load_script() -> Callable[[str], ModuleType]:
    """Loads a script of scripts/ by its name, as a module whose `main` can be called."""

    def load(name: str) -> ModuleType:
        path = Path(__file__).parents[1] / "scripts" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load

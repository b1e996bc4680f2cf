"""The driver probe, with stand-ins for the driver: it never raises, whatever is there."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tilewright.engines import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Puts modules, or exceptions to raise, in the place of those that reach the driver."""

    def install(modules: dict[str, Any]) -> None:
        def load(name: str) -> Any:
            found = modules[name]
            if isinstance(found, Exception):
                raise found
            return found

        _forget()
        monkeypatch.setattr(importlib, "import_module", load)

    yield install
    _forget()


def _forget() -> None:
    probe.driver_available.cache_clear()
    probe._probed.cache_clear()


def _pathfinder(error: Exception | None = None) -> SimpleNamespace:
    def load(name: str) -> None:
        assert name == "cuda"
        if error:
            raise error

    return SimpleNamespace(load_nvidia_dynamic_lib=load)


def _answer(answer: tuple[Any, ...], *_: object) -> tuple[Any, ...]:
    return answer


def _driver(**answers: tuple[Any, ...]) -> SimpleNamespace:
    kinds = SimpleNamespace(
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR="major",
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR="minor",
    )
    usual: dict[str, tuple[Any, ...]] = {
        "cuDriverGetVersion": (0, 13010),
        "cuInit": (0,),
        "cuDeviceGetCount": (0, 2),
        "cuDeviceGetName": (0, b"NVIDIA H200\0\0\0"),
    }
    functions: dict[str, Callable[..., tuple[Any, ...]]] = {
        name: partial(_answer, answer) for name, answer in (usual | answers).items()
    }
    functions["cuDeviceGet"] = lambda index: (0, index)
    functions["cuDeviceGetAttribute"] = lambda kind, device: (0, 9 if kind == "major" else device)
    return SimpleNamespace(CUdevice_attribute=kinds, **functions)


@pytest.mark.parametrize(
    "found",
    [
        ModuleNotFoundError("No module named 'cuda'"),
        _pathfinder(RuntimeError("can only be found via system search")),
        _pathfinder(OSError("invalid ELF header")),
        SimpleNamespace(),
    ],
)
def test_no_driver(stand_in: Callable[[dict[str, Any]], None], found: Any) -> None:
    stand_in({"cuda.pathfinder": found})
    assert probe.driver_available() is False
    assert probe.gpus_found() == ()
    assert probe.cuda_version() is None
    assert probe.gpu_problem() == "no NVIDIA driver is installed"


def test_two_gpus(stand_in: Callable[[dict[str, Any]], None]) -> None:
    stand_in({"cuda.pathfinder": _pathfinder(), "cuda.bindings.driver": _driver()})
    assert probe.driver_available() is True
    assert probe.gpus_found() == (
        probe.GpuFound(0, "NVIDIA H200", 9, 0),
        probe.GpuFound(1, "NVIDIA H200", 9, 1),
    )
    assert probe.cuda_version() == (13, 1)
    assert probe.gpu_problem() is None


class _Status(int):
    """An error code of the driver: an integer with a name."""

    name: str


def _status(code: int, name: str) -> _Status:
    status = _Status(code)
    status.name = name
    return status


@pytest.mark.parametrize(
    "answer",
    [{"cuDeviceGetCount": (0, 0)}, {"cuInit": (_status(100, "CUDA_ERROR_NO_DEVICE"),)}],
    ids=["none", "all hidden"],
)
def test_driver_without_a_gpu(
    stand_in: Callable[[dict[str, Any]], None], answer: dict[str, Any]
) -> None:
    driver = _driver(**answer)
    stand_in({"cuda.pathfinder": _pathfinder(), "cuda.bindings.driver": driver})
    assert probe.gpus_found() == ()
    assert probe.gpu_problem() == "the NVIDIA driver shows no GPU"


@pytest.mark.parametrize("call", ["cuDriverGetVersion", "cuInit", "cuDeviceGetCount"])
def test_a_driver_that_fails(stand_in: Callable[[dict[str, Any]], None], call: str) -> None:
    driver = _driver(**{call: (_status(803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), None)})
    stand_in({"cuda.pathfinder": _pathfinder(), "cuda.bindings.driver": driver})
    assert probe.gpus_found() == ()
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in str(probe.gpu_problem())


def test_a_driver_without_the_binding(stand_in: Callable[[dict[str, Any]], None]) -> None:
    missing = ModuleNotFoundError("No module named 'cuda.bindings'")
    stand_in({"cuda.pathfinder": _pathfinder(), "cuda.bindings.driver": missing})
    assert probe.gpus_found() == ()
    assert "cuda.bindings" in str(probe.gpu_problem())


def test_the_drivers_own_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "version"
    monkeypatch.setattr(probe, "_VERSION_FILES", (str(tmp_path / "none"), str(file)))
    assert probe.driver_version() is None
    file.write_text("580.159.03\n")
    assert probe.driver_version() == "580.159.03"
    file.write_bytes(b"\xff\xfe")
    assert probe.driver_version() is None


def test_the_probe_here_answers_and_the_next_driver_call_does_not_hang() -> None:
    """In a process of its own, as a hang or a crash must not take the run down."""
    code = (
        "from tilewright.engines import probe\n"
        "assert probe.driver_available() in (True, False)\n"
        "assert (probe.gpu_problem() is None) == bool(probe.gpus_found())\n"
        "assert probe.driver_available() or probe.cuda_version() is None\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")

"""tilewright doctor: never crashes, and its exit code says whether the ladder can run."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tilewright import nvrtc
from tilewright.cli import doctor as module
from tilewright.cli.doctor import doctor, examine
from tilewright.engines import probe
from tilewright.errors import ToolchainError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NAMES = [
    "tilewright",
    "python",
    "numpy",
    "ml_dtypes",
    "nvrtc",
    "cache",
    "driver",
    "gpu",
    "headers",
    "cublas",
    "torch",
    "engine emulator",
    "engine gpu",
]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A machine with these parts; what is not given is as on a good one without a GPU."""

    def setup(
        compiler: str | Exception = "NVRTC 13.5.37",
        archs: tuple[int, ...] = (75, 80, 90, 120),
        gpus: tuple[probe.GpuFound, ...] = (),
        packages: dict[str, str] | None = None,
    ) -> None:
        def say_compiler() -> str:
            if isinstance(compiler, Exception):
                raise compiler
            return compiler

        installed = {"numpy": "2.4.6", "ml_dtypes": "0.6.0"} if packages is None else packages
        problem = None if gpus else "no NVIDIA driver is installed"
        monkeypatch.setattr(nvrtc, "compiler", say_compiler)
        monkeypatch.setattr(nvrtc, "archs", lambda: archs)
        monkeypatch.setattr(nvrtc, "library_path", lambda: "/lib/libnvrtc.so.13")
        monkeypatch.setattr(probe, "driver_available", lambda: bool(gpus))
        monkeypatch.setattr(probe, "gpus_found", lambda: gpus)
        monkeypatch.setattr(probe, "gpu_problem", lambda: problem)
        monkeypatch.setattr(probe, "cuda_version", lambda: (13, 0))
        monkeypatch.setattr(probe, "driver_version", lambda: "580.159.03")
        monkeypatch.setattr(module, "_package_version", installed.get)
        monkeypatch.setattr(module, "_pathfinder", lambda *_: None)

    return setup


def found() -> dict[str, module.Row]:
    return {row.name: row for row in examine()}


def test_without_a_gpu_the_emulator_does(machine: Callable[..., None]) -> None:
    machine()
    rows = found()
    assert list(rows) == NAMES
    assert rows["nvrtc"].found == "13.5.37, sm_75 to sm_120, /lib/libnvrtc.so.13"
    assert rows["engine emulator"].status == "ok"
    assert rows["engine gpu"].status == "optional"
    assert rows["engine gpu"].found == "no NVIDIA driver is installed"
    assert doctor() == 0


def test_with_a_gpu_both_do(machine: Callable[..., None]) -> None:
    machine(gpus=(probe.GpuFound(0, "NVIDIA H200", 9, 0),))
    rows = found()
    assert rows["driver"].found == "580.159.03, CUDA 13.0"
    assert rows["gpu"].found == "NVIDIA H200, compute capability 9.0"
    assert rows["engine gpu"] == module.Row("engine gpu", "ok", "NVIDIA H200 runs sm_90")
    assert doctor() == 0


@pytest.mark.parametrize(
    ("gpu", "says", "fix"),
    [
        (probe.GpuFound(0, "Tesla T4", 7, 5), "7.5 is not supported", None),
        (probe.GpuFound(0, "NVIDIA B300", 10, 3), "sm_103 is not known to NVRTC", nvrtc.INSTALL),
    ],
)
def test_a_gpu_that_cannot_be_used(
    machine: Callable[..., None], gpu: probe.GpuFound, says: str, fix: str | None
) -> None:
    machine(gpus=(gpu,))
    row = found()["engine gpu"]
    assert (row.status, row.fix) == ("missing", fix)
    assert says in str(row.found)
    assert doctor() == 0, "the emulator still runs"


def test_without_nvrtc_nothing_runs(
    machine: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    gone = ToolchainError("NVRTC, the CUDA compiler library, cannot be loaded (No module).")
    machine(compiler=gone, gpus=(probe.GpuFound(0, "NVIDIA H200", 9, 0),))
    rows = found()
    assert rows["nvrtc"] == module.Row("nvrtc", "missing", str(gone), nvrtc.INSTALL)
    assert rows["engine gpu"].found == "needs nvrtc"
    assert rows["engine emulator"].found == (
        "needs nvrtc; runs PTX without (tilewright emulate FILE.ptx)"
    )
    assert doctor() == 2
    assert 'pip install "tilewright[cu13]"' in capsys.readouterr().out


def test_without_bf16_arrays_the_ladder_does_not_run(machine: Callable[..., None]) -> None:
    machine(packages={"numpy": "2.4.6"})
    assert found()["ml_dtypes"] == module.Row("ml_dtypes", "missing", None, "pip install ml_dtypes")
    assert doctor() == 2


def test_fixes_match_the_installed_cuda_version(machine: Callable[..., None]) -> None:
    for version, wanted in [("12.9.10", "12"), ("13.5.0", "13"), (None, "13")]:
        machine(packages={"cuda-bindings": version} if version else {})
        assert found()["headers"].fix == f'pip install "cuda-toolkit[cudart]=={wanted}.*"'


def test_peers_are_not_asked_for_without_a_gpu(machine: Callable[..., None]) -> None:
    machine()
    for name in ("cublas", "torch"):
        row = found()[name]
        assert (row.status, row.found, row.fix) == ("optional", "only of use with a GPU", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("__version__ = '2.14.1'\ncuda: Optional[str] = '13.0'\nhip = None\n", "CUDA 13.0"),
        ("cuda: Optional[str] = None\n", "no CUDA"),
        ("cuda = '12.4'\n", "CUDA 12.4"),
        ("", "CUDA unknown"),
        (None, "CUDA unknown"),
    ],
)
def test_torch_is_read_from_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, said: str
) -> None:
    (tmp_path / "torch").mkdir()
    info = tmp_path / "torch-2.14.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.14.1\n")
    (tmp_path / "torch" / "__init__.py").write_text("raise RuntimeError('imported')\n")
    if text is not None:
        (tmp_path / "torch" / "version.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert found()["torch"].found == f"2.14.1, {said}"


BROKEN: list[tuple[Any, str]] = [
    (nvrtc, "compiler"),
    (nvrtc, "archs"),
    (probe, "driver_available"),
    (probe, "gpus_found"),
    (probe, "gpu_problem"),
    (module, "_package_version"),
    (module, "_pathfinder"),
    (importlib.metadata, "distribution"),
]


@pytest.mark.parametrize(("owner", "name"), BROKEN, ids=[name for _, name in BROKEN])
def test_whatever_is_broken_is_a_row(
    machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    def explode(*_: object) -> None:
        raise AttributeError("half-installed")

    machine()
    monkeypatch.setattr(owner, name, explode)
    rows = found()
    assert list(rows) == NAMES
    assert any("half-installed" in str(row.found) for row in rows.values())
    assert doctor() in (0, 2)


@pytest.mark.parametrize("folder", ["a file", None])
def test_an_unusable_cache_is_told_and_does_no_harm(
    machine: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: str | None,
) -> None:
    machine()
    (tmp_path / "a file").write_text("")
    if folder:
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / folder))
    else:
        monkeypatch.setattr("tilewright.cache.default_root", lambda: None)
    row = found()["cache"]
    assert row.status == "optional"
    assert row.fix == "export TILEWRIGHT_CACHE_DIR=$PWD/cache"
    assert doctor() == 0


def test_looking_creates_nothing(
    machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine()
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "a" / "b"))
    assert found()["cache"].status == "ok"
    assert list(tmp_path.iterdir()) == []


def test_json_on_stdout_and_the_table_on_stderr(
    machine: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    machine()
    assert doctor(json="-") == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["schema"] == "tilewright.doctor/1"
    assert [row["name"] for row in document["rows"]] == NAMES
    assert all(set(row) == {"name", "status", "found", "fix"} for row in document["rows"])
    assert {row["status"] for row in document["rows"]} <= {"ok", "missing", "optional"}
    assert "engine emulator" in err


def test_fixes_are_whole_lines_in_a_narrow_terminal(
    machine: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine(compiler=ToolchainError("gone"))
    monkeypatch.setenv("COLUMNS", "40")
    doctor()
    lines = capsys.readouterr().out.splitlines()
    assert 'pip install "tilewright[cu13]"            # missing: nvrtc' in lines
    assert 'pip install "cuda-toolkit[cudart]==13.*"  # optional: headers' in lines
    assert lines[-1] == "not ready for tilewright ladder"


@pytest.mark.parametrize("path", ["", "/nowhere"])
def test_on_this_machine_as_it_is(path: str, shared_cache: Path) -> None:
    """Without nvcc on the path; in its own process, with a limit, since drivers can hang."""
    code = "import sys; from tilewright.cli.doctor import doctor; sys.exit(doctor(json='-'))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PATH": path,
            "CUDA_HOME": ":/usr/local/cuda",
            "TILEWRIGHT_CACHE_DIR": str(shared_cache),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    rows = {row["name"]: row for row in json.loads(run.stdout)["rows"]}
    can = any(rows[f"engine {name}"]["status"] == "ok" for name in ("emulator", "gpu"))
    assert run.returncode == (0 if can else 2)
    assert "Traceback" not in run.stderr
    assert not any(module._PROBE_FAILED in str(row["found"]) for row in rows.values())


def test_importing_the_commands_is_light() -> None:
    code = (
        "import sys, tilewright.cli.doctor, tilewright.cli.cache\n"
        "heavy = {'numpy', 'rich', 'cuda.bindings', 'torch', 'ml_dtypes', 'platformdirs'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.check_output([sys.executable, "-c", code], env=env, text=True)
    assert out == "[]\n"

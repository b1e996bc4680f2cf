"""`tilewright doctor`: what this machine has, what it lacks and what to paste to get it."""

from __future__ import annotations

import importlib
import platform
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, console, emit
from tilewright.errors import TilewrightError
from tilewright.installing import install

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table
    from rich.text import Text

_STYLES = {"ok": "green", "missing": "bold red", "optional": "dim"}
_PROBE_FAILED = "the check failed"


@dataclass(frozen=True)
class Row:
    """One line: `status` is "ok", "missing" (the ladder needs it) or "optional" (absent, fine).

    `fix` can be pasted into a shell, or is None where nothing can be installed.
    """

    name: str
    status: str
    found: str | None
    fix: str | None = None


def doctor(*, json: JsonTarget = None) -> int:
    """Show what was found on this machine and what to install.

    Exits with 0 if `tilewright ladder` can run on a GPU or in the emulator, else with 2. To
    emulate PTX NumPy is enough; NVRTC is for CUDA C++, which the ladder is written in.

    Example: tilewright doctor --json doctor.json
    """
    check_targets(json)
    rows = examine()
    emit("doctor", [asdict(row) for row in rows], _table(rows), json)
    # Not a part of the table: a narrow terminal must not break what is there to be pasted.
    console(json).print(_fixes(rows), soft_wrap=True, end="")
    ready = [row.name.removeprefix("engine ") for row in rows if _runs(row)]
    verdict = (
        f"ready: tilewright ladder runs on {' and '.join(ready)}"
        if ready
        else "not ready for tilewright ladder"
    )
    console(json).print(verdict, style="green" if ready else "bold red")
    return 0 if ready else 2


def _runs(row: Row) -> bool:
    return row.name.startswith("engine ") and row.status == "ok"


def examine() -> tuple[Row, ...]:
    """All rows. Never raises: a check that breaks is a row that says so."""
    checks: dict[str, Callable[[], Row]] = {
        "tilewright": _tilewright,
        "python": lambda: Row("python", "ok", platform.python_version()),
        "numpy": lambda: _package("numpy", "missing", "pip install numpy"),
        "ml_dtypes": lambda: _package("ml_dtypes", "missing", "pip install ml_dtypes"),
        "nvrtc": _nvrtc,
        "cache": _cache,
        "driver": _driver,
        "gpu": _gpu,
        "headers": _headers,
        "cublas": _cublas,
        "torch": _torch,
        "engine emulator": _engine_emulator,
        "engine gpu": _engine_gpu,
    }
    return tuple(_guarded(name, check) for name, check in checks.items())


def _guarded(name: str, check: Callable[[], Row]) -> Row:
    try:
        return check()
    except Exception as error:  # whatever is broken here is what the user wants to read about
        return Row(name, "missing", f"{_PROBE_FAILED}: {type(error).__name__}: {error}")


def _package_version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _package(name: str, otherwise: str, fix: str) -> Row:
    version = _package_version(name)
    return Row(name, "ok", version) if version else Row(name, otherwise, None, fix)


def _tilewright() -> Row:
    return Row("tilewright", "ok", _package_version("tilewright") or "a source folder")


def _nvrtc() -> Row:
    from tilewright import nvrtc

    try:
        version, known = nvrtc.compiler(), nvrtc.archs()
    except TilewrightError as error:
        return Row("nvrtc", "missing", str(error), nvrtc.INSTALL)
    path = nvrtc.library_path() or "path unknown"
    found = f"{version.removeprefix('NVRTC ')}, sm_{known[0]} to sm_{known[-1]}, {path}"
    return Row("nvrtc", "ok", found)


def _cache() -> Row:
    from tilewright.cache import ENV, default_cache

    cache = default_cache()
    if not cache.writable():
        what = f"{cache.root} cannot be written" if cache.root else "no home folder is known"
        return Row(
            "cache", "optional", f"{what}; kernels are built anew", f"export {ENV}=$PWD/cache"
        )
    return Row("cache", "ok", f"{cache.root}, {cache.size_bytes() / 2**20:.1f} MiB")


def _driver() -> Row:
    from tilewright.engines import probe

    if not probe.driver_available():
        return Row("driver", "optional", "none found")
    cuda = probe.cuda_version()
    parts = [probe.driver_version(), f"CUDA {cuda[0]}.{cuda[1]}" if cuda else None]
    return Row("driver", "ok", ", ".join(filter(None, parts)) or "version unknown")


def _gpu() -> Row:
    from tilewright.engines import probe

    gpus = probe.gpus_found()
    if not gpus:
        return Row("gpu", "optional", "none found")
    found = "; ".join(f"{gpu.name}, compute capability {gpu.major}.{gpu.minor}" for gpu in gpus)
    return Row("gpu", "ok", found)


def _headers() -> Row:
    folder = _pathfinder("find_nvidia_header_directory", "cudart")
    return _or_toolkit("headers", None if folder is None else str(folder), "cudart")


def _cublas() -> Row:
    loaded = _pathfinder("load_nvidia_dynamic_lib", "cublas")
    return _peer(_or_toolkit("cublas", getattr(loaded, "abs_path", None), "cublas"))


def _peer(row: Row) -> Row:
    """What the ladder is timed against has nothing to do where there is no GPU."""
    from tilewright.engines import probe

    if row.status == "ok" or probe.gpus_found():
        return row
    return Row(row.name, row.status, "only of use with a GPU")


def _pathfinder(function: str, library: str) -> object:
    """What cuda-pathfinder says of a library, None when it finds none or is not there itself."""
    try:
        return getattr(importlib.import_module("cuda.pathfinder"), function)(library)
    except Exception:
        return None


def _or_toolkit(name: str, found: str | None, part: str) -> Row:
    if found:
        return Row(name, "ok", found)
    return Row(name, "optional", None, f'pip install "cuda-toolkit[{part}]=={_cuda_major()}.*"')


def _cuda_major() -> str:
    """The CUDA major version of the installed binding: a venv must not mix two."""
    return "12" if (_package_version("cuda-bindings") or "13").startswith("12.") else "13"


def _torch() -> Row:
    """From its files: importing torch takes seconds and may load a driver."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        torch = distribution("torch")
    except PackageNotFoundError:
        return _peer(Row("torch", "optional", None, install("torch")))
    try:
        text = str(torch.locate_file("torch/version.py"))
        with open(text, encoding="utf-8") as file:
            match = re.search(r"^cuda\b[^=\n]*=\s*(?:['\"]([\d.]+)['\"]|None)", file.read(), re.M)
    except OSError:
        match = None
    build = "CUDA unknown" if match is None else f"CUDA {match[1]}" if match[1] else "no CUDA"
    return Row("torch", "ok", f"{torch.version}, {build}")


def _engine_emulator() -> Row:
    lacks = _lacks()
    found = f"needs {' and '.join(lacks)}" if lacks else "runs every rung that NVRTC compiles"
    if lacks and "numpy" not in lacks:
        found += "; runs PTX without (tilewright emulate FILE.ptx)"
    return Row("engine emulator", "missing" if lacks else "ok", found)


def _engine_gpu() -> Row:
    from tilewright import nvrtc
    from tilewright.engines import probe
    from tilewright.gpus import arch_of

    problem = probe.gpu_problem()
    lacks = _lacks()
    if problem is not None:
        return Row("engine gpu", "optional", problem)
    if lacks:
        return Row("engine gpu", "missing", f"needs {' and '.join(lacks)}")
    gpu = probe.gpus_found()[0]
    try:
        arch = arch_of(gpu.major, gpu.minor)
        nvrtc.check_arch(arch)
    except TilewrightError as error:
        return Row("engine gpu", "missing", str(error), nvrtc.INSTALL if gpu.major >= 8 else None)
    return Row("engine gpu", "ok", f"{gpu.name} runs {arch}")


def _lacks() -> list[str]:
    """What both engines need and this machine has not."""
    return [
        row.name for row in (_nvrtc(), *map(_needed, ("numpy", "ml_dtypes"))) if row.status != "ok"
    ]


def _needed(package: str) -> Row:
    return _package(package, "missing", f"pip install {package}")


def _table(rows: Sequence[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("name", "status", "found"):
        table.add_column(title, overflow="fold")
    for row in rows:
        style = _STYLES[row.status]
        table.add_row(Text(row.name), Text(row.status, style), Text(row.found or "-"))
    return table


def _fixes(rows: Sequence[Row]) -> Text:
    """One fix a line, each with a shell comment that says what it is for."""
    from rich.text import Text

    fixes = [(row.fix, f"# {row.status}: {row.name}\n") for row in rows if row.fix]
    width = max((len(fix) for fix, _ in fixes), default=0)
    return Text("".join(["\n", *(f"{fix:{width}}  {comment}" for fix, comment in fixes)]))

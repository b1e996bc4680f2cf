"""NVRTC, the CUDA compiler as a library: the only file that touches `cuda.bindings.nvrtc`.

It needs neither nvcc nor a driver. Tried with NVRTC 12.4.127, 13.0.88 and 13.5.37.
"""

from __future__ import annotations

import importlib
import os
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from tilewright.artifact import Resources
from tilewright.errors import CompileError, ToolchainError
from tilewright.host_code import explain
from tilewright.include import missing
from tilewright.installing import install
from tilewright.missing_name import hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

INSTALL = install("cu13")
INSTALL_OLDER = install("cu12")

_OLDEST_OF_12 = 50  # the compute capability that NVRTC 12 begins with; NVRTC 13 dropped some

_LONGEST_LINE = 500
_ERROR_LINE = re.compile(
    r"^(?:.+\(\d+\): (?:\w+ )?error\b|\s*ptxas\b.*\b(?:error|fatal)\s*:|(?:nvrtc: )?error:).*$",
    re.MULTILINE,
)
_NEWER = re.compile(r"requires \.target (sm_\d+\w*) or higher")
_OF_SM_90A = re.compile(r"'(?:wgmma|setmaxnreg)\.[\w.]+' not supported on \.target")
_NO_FILE = re.compile(r'open source file "([^"]+)"')
_FILE_LINE = re.compile(r'^(\s*\.file\s+\d+\s+")([^"]*)(".*)$', re.MULTILINE)
_ENTRY = re.compile(r"^\s*(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)", re.MULTILINE)
_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")


@dataclass(frozen=True)
class Compiled:
    """What one compilation gives; the same on every machine but for the cubin's line table."""

    ptx: str
    cubin: bytes
    log: str
    resources: Mapping[str, Resources]


def compiler() -> str:
    """The compiler's name and full version, "NVRTC 13.5.37".

    Raises: ToolchainError without NVRTC. Cost: 70 ms once (it loads the library), then nothing.
    """
    return f"NVRTC {_loaded()[1]}"


def archs() -> tuple[int, ...]:
    """The compute capabilities this NVRTC compiles for, ascending: (75, …, 90, …, 121)."""
    return _loaded()[2]


def library_path() -> str | None:
    """Where the loaded NVRTC lies, or None where that cannot be told."""
    _loaded()
    try:
        pathfinder = importlib.import_module("cuda.pathfinder")
        return str(pathfinder.load_nvidia_dynamic_lib("nvrtc").abs_path)
    except Exception:
        return None


def check_arch(arch: str) -> None:
    """Raises ToolchainError unless this NVRTC knows `arch` ("sm_90", "sm_90a")."""
    known = archs()
    number = int(arch.removeprefix("sm_").rstrip("af"))
    if number not in known:
        newer = "a newer NVRTC" if number > known[-1] else "another NVRTC"
        command = INSTALL_OLDER if _OLDEST_OF_12 <= number < known[0] else INSTALL
        raise ToolchainError(
            f"arch={arch} is not known to {compiler()}, which compiles for {_listed(known)}: "
            f"choose one of those or {newer}, {command}."
        )
    if (arch.endswith("a") and number < 90) or (arch.endswith("f") and number < 100):
        raise ToolchainError(
            f"arch={arch}: {arch[-1]} marks the features of one architecture, which there are from "
            f"sm_{'90a' if arch[-1] == 'a' else '100f'} on; give sm_{number}."
        )


def _listed(known: Sequence[int]) -> str:
    *most, last = (f"sm_{number}" for number in known)
    return f"{', '.join(most)} and {last}" if most else last


def compile_source(
    name: str, text: str, headers: Mapping[str, str], options: Sequence[str]
) -> Compiled:
    """Compiles to PTX and cubin in one go; `headers` are in memory, by include name.

    Raises: CompileError with the compiler's first error line (its `log` has the rest).
    Cost: 80 to 130 ms for a GEMM kernel.
    """
    api = _loaded()[0]
    program = _create(api, name, text, headers)
    try:
        encoded = [option.encode() for option in [*options, *_no_cache(compiler())]]
        status = api.nvrtcCompileProgram(program, len(encoded), encoded)[0]
        log = _text(_read(api, program, "ProgramLog"))
        if int(status) != 0:
            raise CompileError(_first_error(name, text, log, status), log)
        ptx = _text(_read(api, program, "PTX"))
        cubin = _read(api, program, "CUBIN")
    finally:
        api.nvrtcDestroyProgram(program)
    if not ptx or not cubin:
        missing = "cubin" if ptx else "PTX"
        raise CompileError(f"{name}: {compiler()} gave an empty {missing}.", log)
    return Compiled(ptx, cubin, log, resources_of(name, ptx, log))


def relative_files(ptx: str, names: Iterable[str]) -> str:
    """The PTX with the `.file` paths cut down to these names.

    NVRTC writes the working folder in front of each name; without it the PTX would differ from
    machine to machine. Paths that end in none of the names lose the working folder only.
    """
    longest_first = sorted(names, key=len, reverse=True)
    try:
        folder = os.getcwd().replace("\\", "/").rstrip("/") + "/"
    except FileNotFoundError:  # the working folder was deleted; NVRTC then has none to write
        folder = "/"

    def cut(match: re.Match[str]) -> str:
        path = re.sub(r"\\+", "/", match[2])
        short = next((n for n in longest_first if path.endswith("/" + n)), None)
        return match[1] + (short or path.removeprefix(folder)) + match[3]

    return _FILE_LINE.sub(cut, ptx)


def resources_of(name: str, ptx: str, log: str) -> dict[str, Resources]:
    """Each kernel's registers, spills, stack and shared memory, from the lines of ptxas -v.

    ptxas lists functions that were not inlined after the kernels and does not say who calls
    them; their spills are added to every kernel, so that none is overlooked.
    Raises: ToolchainError when the log lacks a kernel of the PTX.
    """
    found: dict[str, dict[str, int]] = {}
    entry, owner, stray = "", "", 0
    for line in log.splitlines():
        if match := _COMPILING.search(line):
            entry = match[1]
            found[entry] = {"shared": 0}
        elif match := _PROPERTIES.search(line):
            owner = match[1]
        elif match := _FRAME.search(line):
            frame, stores, loads = map(int, match.groups())
            if owner in found:
                found[owner] |= {"stack": frame, "spill": stores + loads}
            else:
                stray += stores + loads
        elif (match := _REGISTERS.search(line)) and entry:
            found[entry]["registers"] = int(match[1])
            if shared := _SHARED.search(line):
                found[entry]["shared"] = sum(int(part) for part in shared.groups("0"))
    missing = [kernel for kernel in _ENTRY.findall(ptx) if len(found.get(kernel, ())) < 4]
    if missing:
        raise ToolchainError(
            f"{name}: {compiler()} did not report the registers of {missing[0]}; "
            f"install an NVRTC between 12.4 and 13.5, {INSTALL}."
        )
    return {
        kernel: Resources(r["registers"], r["spill"] + stray, r["stack"], r["shared"])
        for kernel, r in found.items()
    }


@cache
def _loaded() -> tuple[Any, str, tuple[int, ...]]:
    """The binding, NVRTC's full version and its architectures. Failures are not cached."""
    try:
        api = importlib.import_module("cuda.bindings.nvrtc")
        _, major, minor = _call(api, "nvrtcVersion")
        _, known = _call(api, "nvrtcGetSupportedArchs")
        numbers = tuple(sorted(int(number) for number in known))
        return api, _full_version(api, f"{major}.{minor}", numbers[-1]), numbers
    # The binding loads the library at the first call: ImportError, RuntimeError and its own
    # kinds of "not found" all mean the same to the user.
    except Exception as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        reason = said if len(said) <= 80 else said[:79] + "…"  # some list all folders searched
        raise ToolchainError(
            f"NVRTC, the CUDA compiler library, cannot be loaded ({reason}): {INSTALL}."
        ) from None


def _full_version(api: Any, short: str, arch: int) -> str:
    """With the patch number, which nvrtcVersion leaves out; the PTX's own banner has it."""
    program = _create(api, "version.cu", "", {})
    try:
        options = [
            f"--gpu-architecture=compute_{arch}".encode(),
            *map(str.encode, _no_cache(short)),
        ]
        _call(api, "nvrtcCompileProgram", program, len(options), options)
        banner = re.search(r"\bV(\d+\.\d+\.\d+)", _text(_read(api, program, "PTX")))
    finally:
        api.nvrtcDestroyProgram(program)
    return banner[1] if banner and banner[1].startswith(short + ".") else short


def _no_cache(version: str) -> list[str]:
    """Switches NVRTC's own cache off, which with a driver gives results without ptxas's log.

    Seen with NVRTC 13.0.88 on an H200, 2026-11-30; the option is known from 12.9 on.
    """
    major, minor = version.removeprefix("NVRTC ").split(".")[:2]
    return ["--no-cache"] if (int(major), int(minor)) >= (12, 9) else []


def _create(api: Any, name: str, text: str, headers: Mapping[str, str]) -> Any:
    return _call(
        api,
        "nvrtcCreateProgram",
        text.encode(),
        name.encode(),
        len(headers),
        [header.encode() for header in headers.values()],
        [include.encode() for include in headers],
    )[1]


def _call(api: Any, function: str, *args: Any) -> Any:
    result = getattr(api, function)(*args)
    if int(result[0]) != 0:
        raise ToolchainError(f"NVRTC's {function} failed: {result[0]!r}.")
    return result


def _read(api: Any, program: Any, what: str) -> bytes:
    """One of NVRTC's two-call outputs: its size, then its bytes."""
    buffer = b"\0" * int(_call(api, f"nvrtcGet{what}Size", program)[1])
    if buffer:
        _call(api, f"nvrtcGet{what}", program, buffer)  # fills the bytes in place
    return buffer


def _text(raw: bytes) -> str:
    return raw.replace(b"\0", b"").decode(errors="replace")  # a log may hold some in the middle


def _target(error: str) -> str | None:
    """Which architecture an instruction that this one lacks is of, where ptxas or we know it."""
    if match := _NEWER.search(error):
        return f"compile for {match[1]}: arch={match[1]!r}, or --arch {match[1]}"
    if _OF_SM_90A.search(error):
        return "compile for sm_90a: arch='sm_90a', or --arch sm_90a"
    return None


def _first_error(name: str, text: str, log: str, status: Any) -> str:
    """The log's first error line, and what to do where we know it."""
    if sentence := explain(name, text, log):
        return sentence
    match = _ERROR_LINE.search(log)
    if match is None:
        said = f"{name}: {compiler()} failed with {status!r} and said nothing; "
        return said + "most likely it does not know the architecture asked for."
    line = "".join(c if c.isprintable() else " " for c in match[0]).strip()
    if line.startswith(("ptxas", "nvrtc", "error")):  # these know the lines of the PTX at best
        line = f"{name}: " + re.sub(r"(error|fatal)\s+:", r"\1:", line, count=1)
    if len(line) > _LONGEST_LINE:
        return line[: _LONGEST_LINE - 1] + "…"
    if (header := _NO_FILE.search(line)) and not os.path.isabs(header[1]):
        line += f" -- {missing(header[1], compiler())}"
    elif (way_out := hint(line) or _target(line)) is not None:
        line += f" -- {way_out}"
    return line

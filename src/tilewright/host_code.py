"""Host code in a source for NVRTC, which compiles device code alone: one sentence about it.

Only a source that NVRTC refused is looked at, at the place of its first error, so that a host part
behind `#ifndef __CUDACC_RTC__` and a device-only file are never taken for a mistake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

WAY_OUT = (
    "NVRTC compiles device code alone, put the host part between #ifndef __CUDACC_RTC__ and "
    "#endif, or pass the PTX that nvcc -ptx makes."
)

_ERROR = re.compile(
    r"^(?P<file>[^\n]+?)\((?P<line>\d+)\): (?:\w+ )?error(?: #[\w-]+)?: (?P<what>[^\n]*)"
    r"(?:\n(?P<echo>[^\n]*))?",
    re.MULTILINE,
)
_NO_FILE = re.compile(r'open source file "([^"]+)"')
_NO_SPACE = "without execution space annotations"
_HOST_SPACE = "explicitly marked as a __host__ function"
_NO_MEMORY = "namespace scope variable without memory space"

# Headers that no device code can use.
_HOST_HEADERS = re.compile(
    r"any|array|atomic|bitset|chrono|c?complex|condition_variable|c?ctype|deque|exception|execution"
    r"|c?fenv|filesystem|format|forward_list|fstream|functional|future|iomanip|ios|iosfwd|iostream"
    r"|istream|iterator|c?inttypes|list|locale|map|memory|memory_resource|mutex|numeric|optional"
    r"|ostream|queue|random|ratio|regex|set|shared_mutex|csignal|span|sstream|stack|stdexcept"
    r"|streambuf|string|string_view|system_error|thread|ctime|tuple|typeindex|typeinfo"
    r"|unordered_map|unordered_set|valarray|variant|vector|cerrno|cstdarg|csetjmp"
    r"|(?:errno|signal|time|unistd|getopt|pthread|omp|stdarg|ctype|fcntl|dlfcn)\.h|sys/.+\.h"
    r"|cublas\w*\.h|cudnn\w*\.h|cusparse\w*\.h|curand\.h|cusolver\w*\.h|nccl\.h|nvml\.h|mpi\.h"
    r"|torch/.+|ATen/.+|c10/.+|pybind11/.+|nanobind/.+|gtest/.+|benchmark/.+|helper_\w+\.h"
)
# Words of device code are not among them: printf, malloc, assert, cudaError_t.
_MARK = re.compile(
    r"\bmain\s*\(|<<<|\bcuda(?!GridDependency|TriggerProgrammatic)[A-Z]\w*\s*\(|\bcuda(?:Stream|Event|Graph\w*|DeviceProp)_?t?\s+\w"
    r"|\bcu[A-Z]\w+\s*\(|\bcu(?:blas|dnn|sparse|rand|solver)[A-Z]\w*|\bnvrtc[A-Z]\w*\s*\("
    r"|\b(?:std::)?(?:cout|cerr|endl)\b|\bthrust::|\btorch::|\bat::|\bPYBIND11_MODULE\b"
    r"|\bstd::(?:vector|string|map|unordered_map|unique_ptr|shared_ptr|function|chrono|thread"
    r"|ostream|\w*stringstream|mt19937\w*|runtime_error|random_device|ofstream|ifstream|mutex)\b"
    r"|\b(?:exit|abort|fprintf|fopen|scanf|getenv|s?rand|puts|strcmp|atoi|atof)\s*\("
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_LONGEST = 60


def explain(name: str, text: str, log: str) -> str | None:
    """A sentence when the first error of the log is host code; None when it is anything else."""
    error = _First.of(name, text, log)
    if error is None:
        return None
    if header := _NO_FILE.search(error.what):
        if not _HOST_HEADERS.fullmatch(header[1]):
            return None
        return f"{error.place}: {error.shown} is a header for host code: as {WAY_OUT}"
    if _HOST_SPACE in error.what or _MARK.search(error.code):
        return f"{error.place}: {error.shown} is host code: as {WAY_OUT}"
    if _NO_SPACE in error.what:
        if _MARK.search(error.body):
            return f"{error.place}: {error.shown} is host code: as {WAY_OUT}"
        return (
            f"{error.place}: {error.shown} is a function of the host; write __device__ before it, "
            f"or, as {WAY_OUT}"
        )
    if _NO_MEMORY in error.what:
        return (
            f"{error.place}: {error.shown} is a variable of the host; write __device__, "
            f"__constant__ or constexpr before it, or, as {WAY_OUT}"
        )
    return None


def is_unmarked_function(name: str, text: str, log: str) -> bool:
    """Whether the first error is a function without __device__ that might do on a device.

    Such as a constexpr one whose values are only wanted while compiling.
    """
    error = _First.of(name, text, log)
    return error is not None and _NO_SPACE in error.what and not _MARK.search(error.body)


@dataclass(frozen=True)
class _First:
    """The first error of a log, with its line as it stands, its code, and what begins there."""

    what: str
    place: str
    shown: str
    code: str
    body: str

    @staticmethod
    def of(name: str, text: str, log: str) -> _First | None:
        error = _ERROR.search(log)
        if error is None:
            return None
        own, at = error["file"] == name, int(error["line"]) - 1
        lines = text.split("\n")
        if own and 0 <= at < len(lines):
            code = _blanked(text).split("\n")
        else:  # of a header the log shows the line
            lines, at = [error["echo"] or ""], 0
            code = [_blanked(lines[0])]
        place = f"{error['file']}({error['line']})"
        return _First(error["what"], place, _shown(lines[at]), code[at], _body(code, at))


def _shown(line: str) -> str:
    """The line for a sentence: printable, short."""
    text = " ".join("".join(c if c.isprintable() else " " for c in line).split())
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}`"


def _blanked(text: str) -> str:
    """Without comments and strings; lines stay where they are."""
    return _COMMENT.sub(lambda match: "\n" * match[0].count("\n") or " ", text)


def _body(code: list[str], start: int) -> str:
    """The function that begins in this line, to its closing brace or semicolon."""
    depth = 0
    for end in range(start, len(code)):
        for char in code[end]:
            depth += (char in "({") - (char in ")}")
        if depth <= 0 and re.search(r"[};]", code[end]):
            return "\n".join(code[start : end + 1])
    return "\n".join(code[start:])

"""Host code in a source for NVRTC, which compiles device code alone: one sentence about it.

Only a source that NVRTC refused is looked at, at the place of its first error, so that a host part
behind `#ifndef __CUDACC_RTC__` and a device-only file are never taken for a mistake.
"""

from __future__ import annotations

import re

WAY_OUT = (
    "NVRTC compiles device code alone; put the host part between #ifndef __CUDACC_RTC__ and "
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
_FUNCTION = re.compile(r"([A-Za-z_~]\w*)\s*\(")
_LONGEST = 60


def explain(name: str, text: str, log: str) -> str | None:
    """A sentence when the first error of the log is host code; None when it is anything else."""
    error = _ERROR.search(log)
    if error is None:
        return None
    number, what = int(error["line"]), error["what"]
    own = error["file"] == name and number <= text.count("\n") + 1
    lines = (text if own else "").splitlines()
    line = lines[number - 1] if number <= len(lines) else error["echo"] or ""
    place, shown = f"{error['file']}({number})", _shown(line)
    if header := _NO_FILE.search(what):
        if not _HOST_HEADERS.fullmatch(header[1]):
            return None
        return f"{place}: {shown} is a header for host code; {WAY_OUT}"
    code = _blanked(text).splitlines() if own else [_blanked(line)]
    at = number - 1 if own else 0
    if _NO_SPACE in what or _HOST_SPACE in what:
        if _HOST_SPACE in what or _MARK.search(_body(code, at)):
            return f"{place}: {shown} is host code; {WAY_OUT}"
        function = _FUNCTION.search(code[at] if at < len(code) else "")
        called = f"{function[1]} is" if function else "this function is"
        return f"{place}: {called} a host function; write __device__ before it. {WAY_OUT}"
    if _MARK.search(code[at] if at < len(code) else ""):
        return f"{place}: {shown} is host code; {WAY_OUT}"
    if _NO_MEMORY in what:
        return (
            f"{place}: {shown} is a variable of the host; write __device__, __constant__ or "
            f"constexpr before it. {WAY_OUT}"
        )
    return None


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

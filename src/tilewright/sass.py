"""The machine code of a cubin, read with nvdisasm where it is installed.

nvdisasm comes with the CUDA toolkit and in a wheel of 5 MB, `pip install "tilewright[sass]"`; it
needs neither a GPU nor a driver.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path

from tilewright.cache import default_cache
from tilewright.errors import ToolchainError

WHEEL = "nvidia-cuda-nvdisasm"
_NAMES = ("nvdisasm", "nvdisasm.exe")
_SECONDS = 120

_SECTION = re.compile(r"\s*\.section\s+([^\s,]+)")
_PLACE = re.compile(r'\s*//## File "(?P<file>.*?)", line (?P<line>\d+)(?P<inlined> inlined at)?')
_INSTRUCTION = re.compile(
    r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@(?P<guard>!?\w+)\s+)?(?P<opcode>[A-Z][\w.]*)"
)


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One machine instruction; `file` and `line` are the outermost source line, if known."""

    opcode: str
    file: str | None = None
    line: int | None = None

    @property
    def mnemonic(self) -> str:
        return self.opcode.split(".", 1)[0]


def find_nvdisasm() -> Path | None:
    """The program of the wheel, which is as new as the compiler's wheel, or the one on PATH."""
    try:
        files = metadata.distribution(WHEEL).files or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        path = Path(str(file.locate()))
        if path.name in _NAMES and path.is_file():
            return path
    found = shutil.which("nvdisasm")
    return None if found is None else Path(found)


def disassemble(cubin: bytes) -> dict[str, list[SassInstruction]] | None:
    """The instructions of each kernel, by its symbol; None where there is no nvdisasm.

    Raises: ToolchainError when nvdisasm cannot read the cubin, as one older than the compiler.
    Cost: 0.1 s to start nvdisasm, and about 0.3 s for a GEMM kernel; what it printed is kept in
    the cache beside the artifact, so that it takes 10 ms from then on.
    """
    program = find_nvdisasm()
    return None if program is None else read(_listing(program, cubin))


@lru_cache(maxsize=4)
def _listing(program: Path, cubin: bytes) -> str:
    """What nvdisasm prints, from the cache if this very program has printed it."""
    info = program.stat()
    origin = f"nvdisasm\0{program}\0{info.st_size}\0{info.st_mtime_ns}\0".encode()
    key = hashlib.sha256(origin + cubin).hexdigest()
    store = default_cache()
    listing = store.text(key)
    if listing is None:
        listing = _printed(program, cubin)
        store.put_text(key, listing)
    return listing


def _printed(program: Path, cubin: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [program, "-c", "-gi", path], capture_output=True, text=True, timeout=_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolchainError(f"{program} did not run: {error}.") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise ToolchainError(f"{program} cannot read the cubin; it says: {said}")
    return done.stdout


def read(listing: str) -> dict[str, list[SassInstruction]]:
    """What `nvdisasm -c -gi` prints. Instructions that never run (@!PT) are left out.

    ptxas puts three such LDS before the first cp.async of a stretch of code.
    """
    kernels: dict[str, list[SassInstruction]] = {}
    code: list[SassInstruction] | None = None
    file: str | None = None
    line: int | None = None
    for text in listing.splitlines():
        if match := _SECTION.match(text):
            name = match[1].strip('"')
            is_code = name.startswith(".text.")
            code = kernels.setdefault(name.removeprefix(".text."), []) if is_code else None
            file = line = None
        elif match := _PLACE.match(text):
            if not match["inlined"]:  # of a chain of inlined lines the last one is the user's
                file, line = match["file"], int(match["line"])
        elif code is not None and (match := _INSTRUCTION.match(text)) and match["guard"] != "!PT":
            code.append(SassInstruction(match["opcode"], file, line))
    return kernels

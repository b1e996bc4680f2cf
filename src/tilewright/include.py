"""What a source includes: the package's headers, the user's, CUDA's, and small stand-ins.

A name is looked for in this order: the package's device headers; the folders of the user; the
folders of CUDA's own headers, where they are installed; `cuda/std`, whose stand-ins hold what
device code needs of <cstdint> and its like, which NVRTC lacks.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import stat
from functools import cache as remember
from functools import lru_cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tilewright.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from tilewright.artifact import Source

# Whatever could make the compiler open a file: includes, macros that hold a header's name, and
# __has_include, where a file that is missing matters too. (A name pasted together by macros is
# not seen: editing such a file takes a `tilewright cache clear`.)
_MENTION = re.compile(
    rb"^[ \t]*#[ \t]*(?:include(?:_next)?|define[ \t]+\w+)[ \t]*[\"<]([^\">\n]+)[\">]"
    rb"|__has_include\w*[ \t]*\([ \t]*[\"<]([^\">\n]+)[\">]",
    re.MULTILINE,
)
_LARGEST = 64 * 1024 * 1024  # bytes of a header

# CUDA's own declares hundreds of host functions, which NVRTC refuses.
_ALWAYS_OURS = frozenset({"cuda.h"})

_WHEELS = (  # by the beginning of a header's name: the wheels for CUDA 13 and for CUDA 12
    (("cuda/", "nv/", "cub/", "thrust/"), "nvidia-cuda-cccl"),
    (("mma.h", "crt/"), "nvidia-cuda-crt"),
    (("curand",), "nvidia-curand"),
    (("cuda", "cooperative_groups", "vector_", "device_", "library_types", "math_constants",
      "driver_types", "builtin_types", "channel_descriptor", "texture_", "surface_", "sm_"),
     "nvidia-cuda-runtime"),
)  # fmt: skip


@remember
def headers() -> Mapping[str, str]:
    """The package's device headers, by include name ("ptx/mma.cuh")."""
    found = {
        name: text
        for name, text in _texts(resources.files("tilewright") / "cuda", "")
        if name.endswith(".cuh")
    }
    return MappingProxyType(dict(sorted(found.items())))


@remember
def stand_ins() -> Mapping[str, str]:
    """The package's stand-ins for headers that NVRTC lacks, by include name ("cstdint")."""
    found = dict(_texts(resources.files("tilewright") / "cuda" / "std", ""))
    return MappingProxyType(dict(sorted(found.items())))


def _texts(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _texts(item, f"{prefix}{item.name}/")
        elif not item.name.startswith("."):
            yield prefix + item.name, item.read_text(encoding="utf-8")


@remember
def cuda_headers() -> tuple[str, ...]:
    """The folders of CUDA's own headers, from their wheels or a toolkit; none without them.

    They hold cuda_fp16.h and its like; mma.h and its parts where nvidia-cuda-crt is installed;
    cuda/…, which cooperative_groups.h needs, where nvidia-cuda-cccl is.
    """
    found: dict[str, None] = {}
    for part in ("cudart", "nvcc", "cccl", "curand"):
        try:
            pathfinder = importlib.import_module("cuda.pathfinder")
            folder = pathfinder.find_nvidia_header_directory(part)
        except Exception:  # not installed, or a version without the function or the part
            continue
        if folder:
            found[str(folder)] = None
    return tuple(found)


def missing(header: str, compiler: str) -> str:
    """What to do about a header that was not found, for a sentence; `compiler` is NVRTC 13.5.37."""
    wheel = next((each for starts, each in _WHEELS if header.startswith(starts)), None)
    if wheel is None:
        return f"NVRTC brings no system headers; give the folder of {header} in include_path."
    major = re.search(r"\d+", compiler)
    if major and major[0] == "12":
        wheel = wheel.replace("-crt", "-nvcc") + "-cu12"
    elif major and not wheel.endswith("curand"):
        wheel = f'"{wheel}=={major[0]}.*"'
    return f"CUDA's own {header} is not installed: pip install {wheel}"


class Closure:
    """The files that a source can reach besides the package's.

    `digests` by include name, of stand-ins too; `folders` for the compiler to look in, and
    `stand_ins` for it to take from memory. A header may include its neighbour by the bare name.
    The compiler is not let to look there by itself, so the neighbour's folder joins `folders`,
    and files are looked for in exactly the order in which the compiler will look.
    Raises: InputError for a file of more than 64 MiB.
    """

    def __init__(self, source: Source) -> None:
        self.folders = [Path(folder) for folder in source.include_path]
        self._cuda = {Path(folder) for folder in cuda_headers()}
        self.folders += [Path(each) for each in cuda_headers() if Path(each) not in self.folders]
        self.digests: dict[str, str] = {}
        self.stand_ins: dict[str, str] = {}
        macros = "\n".join(f"#define {name} {value}" for name, value in source.defines)
        root = f"{macros}\n{source.text}".encode(errors="surrogatepass")
        while self._walk(root):  # a folder joined: names missed before may resolve now
            pass

    def _walk(self, root: bytes) -> bool:
        """Fills `digests` from the root text on; true when a folder joined on the way."""
        self.digests.clear()
        self.stand_ins.clear()
        before = len(self.folders)
        todo: list[tuple[tuple[str, ...], Path | None]] = [(_mentions(root), None)]
        while todo:
            names, folder = todo.pop()
            for name in names:
                if name in self.digests or name in headers():
                    continue
                digest, inner, home = self._read(name, folder)
                if home is None and name in stand_ins():
                    self.stand_ins[name] = stand_ins()[name]
                    content = stand_ins()[name].encode()
                    digest, inner = hashlib.sha256(content).hexdigest(), _mentions(content)
                self.digests[name] = digest
                todo.append((inner, home))
        return len(self.folders) > before

    def _read(self, name: str, beside: Path | None) -> tuple[str, tuple[str, ...], Path | None]:
        """The file's digest, the names in it and its folder; of one that is absent, no folder."""
        absolute = Path(name).is_absolute()
        for folder in [Path()] if absolute else [*self.folders, *([beside] if beside else [])]:
            if name in _ALWAYS_OURS and folder in self._cuda:
                continue
            path = folder / name
            try:
                digest, names = self._scanned(path, path.stat(), folder)
            except InputError:
                raise
            except (OSError, ValueError):
                continue
            if not absolute and folder not in self.folders:
                self.folders.append(folder)
            return digest, names, path.parent
        return "absent", (), None

    def _scanned(
        self, path: Path, info: os.stat_result, folder: Path
    ) -> tuple[str, tuple[str, ...]]:
        if not stat.S_ISREG(info.st_mode):  # reading /dev/zero or a pipe would not end
            raise FileNotFoundError
        if info.st_size > _LARGEST:
            raise InputError(f"the source includes {str(path)!r}, of {info.st_size} bytes.")
        if any(folder.is_relative_to(each) for each in self._cuda):
            return _installed(path, info.st_mtime_ns, info.st_size)
        content = path.read_bytes()
        return hashlib.sha256(content).hexdigest(), _mentions(content)


def _mentions(text: bytes) -> tuple[str, ...]:
    found = ((match[1] or match[2]).decode(errors="replace") for match in _MENTION.finditer(text))
    return tuple(dict.fromkeys(found))


@lru_cache(8192)
def _installed(path: Path, changed_ns: int, size: int) -> tuple[str, tuple[str, ...]]:
    """A file of CUDA's own, read once: there are hundreds, and nobody edits them meanwhile."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), _mentions(content)

"""Source → Artifact: PTX, cubin and resources by NVRTC, kept on disk.

The key covers all that decides the result and nothing else: texts, macros, options,
architecture and compiler by content, no modification times and no absolute paths.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache as remember
from importlib import resources
from pathlib import Path
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING

from tilewright import nvrtc
from tilewright.artifact import Artifact, Resources, Source
from tilewright.cache import Cache, default_cache
from tilewright.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

__all__ = ["Artifact", "Resources", "Source", "build", "headers", "key"]

_SCHEMA = "tilewright.build/1"
_OPTIONS = (
    "--std=c++17",
    "-lineinfo",  # the emulator's reports name source lines
    "--ptxas-options=-v",  # registers and spills come from the log
    # Without it files beside the working folder would be found, and the key not know of them.
    "--no-source-include",
)
_ARCH = re.compile(r"sm_[0-9]{2,3}[af]?\Z")

# Whatever could make the compiler open a file: includes, macros that hold a header's name, and
# __has_include, where a file that is missing matters too. (A name pasted together by macros is
# not seen: editing such a file takes a `tilewright cache clear`.)
_MENTION = re.compile(
    rb"^[ \t]*#[ \t]*(?:include(?:_next)?|define[ \t]+\w+)[ \t]*[\"<]([^\">\n]+)[\">]"
    rb"|__has_include\w*[ \t]*\([ \t]*[\"<]([^\">\n]+)[\">]",
    re.MULTILINE,
)


def build(source: Source, arch: str, *, cache: Cache | EllipsisType | None = ...) -> Artifact:
    """Compiles `source` for `arch` ("sm_90", "sm_90a", "sm_120"), or finds it in the cache.

    `cache` is the user's cache on disk unless given; None compiles every time. A cache that
    cannot be read or written never makes a build fail.
    Raises: InputError for a malformed arch; ToolchainError when NVRTC is missing or does not
    know the arch; CompileError with the first error line of the compiler.
    Cost: 70 ms once a process to load NVRTC; then 80 to 130 ms for a GEMM kernel, 1 ms from
    disk, 0.1 ms when this process has seen it.
    """
    if not _ARCH.match(str(arch)):
        raise InputError(f'arch={arch!r} must look like "sm_90" or "sm_90a".')
    nvrtc.check_arch(arch)
    store = default_cache() if isinstance(cache, EllipsisType) else cache
    digest = key(source, arch, nvrtc.compiler())
    if store is not None and (hit := store.get(digest)) is not None:
        return hit
    artifact = _compile(source, arch, digest)
    if store is not None:
        store.put(artifact)
    return artifact


def key(source: Source, arch: str, compiler: str) -> str:
    """The 64 hex digits that name the artifact of this source, arch and compiler version.

    The files that the source's includes reach through `include_path` count by their contents
    and by the name they are included by; where the folders lie does not matter.
    """
    parts = [
        _SCHEMA,
        source.name,
        source.text,
        sorted(source.defines),
        arch,
        compiler,
        _OPTIONS,
        _headers_digest(),
        sorted(_Closure(source).digests.items()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@remember
def headers() -> Mapping[str, str]:
    """The package's device headers, by include name ("ptx/mma.cuh")."""
    found = dict(_texts(resources.files("tilewright") / "cuda", ""))
    return MappingProxyType(dict(sorted(found.items())))


def _texts(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _texts(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".cuh"):
            yield prefix + item.name, item.read_text(encoding="utf-8")


@remember
def _headers_digest() -> str:
    return hashlib.sha256(json.dumps(sorted(headers().items())).encode()).hexdigest()


def _compile(source: Source, arch: str, digest: str) -> Artifact:
    closure = _Closure(source)
    options = [
        f"--gpu-architecture={arch}",
        *_OPTIONS,
        *(f"-D{macro}={value}" for macro, value in sorted(source.defines)),
        *(f"-I{folder}" for folder in closure.folders),
    ]
    made = nvrtc.compile_source(source.name, source.text, headers(), options)
    return Artifact(
        name=source.name,
        arch=arch,
        ptx=nvrtc.relative_files(made.ptx, {source.name, *headers(), *closure.digests}),
        cubin=made.cubin,
        log=made.log,
        compiler=nvrtc.compiler(),
        resources=made.resources,
        key=digest,
    )


class _Closure:
    """The user's files that a source can reach: `digests` by include name, and `folders`.

    A header may include its neighbour by the bare name. The compiler is not let to look there
    by itself, so the neighbour's folder joins `folders`, and files are looked for in exactly the
    order in which the compiler will look.
    """

    def __init__(self, source: Source) -> None:
        self.folders = [Path(folder) for folder in source.include_path]
        self.digests: dict[str, str] = {}
        macros = "\n".join(f"#define {name} {value}" for name, value in source.defines)
        root = f"{macros}\n{source.text}".encode(errors="surrogatepass")
        while self._walk(root):  # a folder joined: names missed before may resolve now
            pass

    def _walk(self, root: bytes) -> bool:
        """Fills `digests` from the root text on; true when a folder joined on the way."""
        self.digests.clear()
        before = len(self.folders)
        todo: list[tuple[bytes, Path | None]] = [(root, None)]
        while todo:
            text, folder = todo.pop()
            for match in _MENTION.finditer(text):
                name = (match[1] or match[2]).decode(errors="replace")
                if name in self.digests or name in headers():
                    continue
                content, home = self._read(name, folder)
                self.digests[name] = hashlib.sha256(content).hexdigest() if home else "absent"
                if home:
                    todo.append((content, home))
        return len(self.folders) > before

    def _read(self, name: str, beside: Path | None) -> tuple[bytes, Path | None]:
        """The file's bytes and its folder; the folder is None where there is no such file."""
        absolute = Path(name).is_absolute()
        for folder in [Path()] if absolute else [*self.folders, *([beside] if beside else [])]:
            path = folder / name
            try:
                content = path.read_bytes()
            except (OSError, ValueError):
                continue
            if not absolute and folder not in self.folders:
                self.folders.append(folder)
            return content, path.parent
        return b"", None

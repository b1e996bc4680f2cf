"""Source → Artifact: PTX, cubin and resources by NVRTC, kept on disk.

The key covers all that decides the result and nothing else: texts, macros, options,
architecture and compiler by content, no modification times and no absolute paths.
"""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache as remember
from types import EllipsisType

from tilewright import nvrtc
from tilewright.artifact import Artifact, Resources, Source
from tilewright.cache import Cache, default_cache
from tilewright.errors import CompileError, InputError
from tilewright.host_code import is_unmarked_function
from tilewright.include import Closure, headers

__all__ = ["Artifact", "Resources", "Source", "build", "headers", "key"]

_SCHEMA = "tilewright.build/1"
_OPTIONS = (
    "--std=c++17",
    "--device-int128",  # nvcc takes __int128 without being asked
    "-lineinfo",  # the emulator's reports name source lines
    "--ptxas-options=-v",  # registers and spills come from the log
    # Without it files beside the working folder would be found, and the key not know of them.
    "--no-source-include",
)
_ARCH = re.compile(r"sm_[0-9]{2,3}[af]?\Z")


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
    _check_text(source)
    nvrtc.check_arch(arch)
    store = default_cache() if isinstance(cache, EllipsisType) else cache
    digest = key(source, arch, nvrtc.compiler())
    if store is not None and (hit := store.get(digest)) is not None:
        return hit
    artifact = _compile(source, arch, digest)
    if store is not None:
        store.put(artifact)
    return artifact


def _check_text(source: Source) -> None:
    """Raises InputError for what a compiler written in C cannot be handed."""
    macros = [f"{macro}={value}" for macro, value in source.defines]
    for what, text in (
        ("its name", source.name),
        ("its text", source.text),
        *(("defines", macro) for macro in macros),
        *(("include_path", folder) for folder in source.include_path),
    ):
        if "\0" in text or (what == "defines" and "\n" in text):
            sign = "NUL character" if "\0" in text else "newline"
            raise InputError(f"source {source.name!r}: {what} must not hold a {sign}.")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(
                f"source {source.name!r}: {what} holds half a surrogate pair, which is no text."
            ) from None


def key(source: Source, arch: str, compiler: str) -> str:
    """The 64 hex digits that name the artifact of this source, arch and compiler version.

    The files that the source's includes reach, CUDA's own among them, count by their contents
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
        sorted(Closure(source).digests.items()),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@remember
def _headers_digest() -> str:
    return hashlib.sha256(json.dumps(sorted(headers().items())).encode()).hexdigest()


def _compile(source: Source, arch: str, digest: str) -> Artifact:
    closure = Closure(source)
    options = [
        f"--gpu-architecture={arch}",
        *_OPTIONS,
        *(f"-D{macro}={value}" for macro, value in sorted(source.defines)),
        *(f"-I{folder}" for folder in closure.folders),
    ]
    memory = {**headers(), **closure.stand_ins}
    try:
        made = nvrtc.compile_source(source.name, source.text, memory, options)
    except CompileError as error:
        if not is_unmarked_function(source.name, source.text, error.log):
            raise
        options.append("--device-as-default-execution-space")
        made = nvrtc.compile_source(source.name, source.text, memory, options)
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

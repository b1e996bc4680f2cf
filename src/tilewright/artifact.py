"""The nouns of a build: what goes into the compiler and what comes out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_SERIALIZED = re.compile(r"^.*\(?\bC75\d\d\b.*$", re.MULTILINE)
_NOT_A_NAME = re.compile(r'[\x00-\x1f"]')


@dataclass(frozen=True)
class Source:
    """A CUDA C++ source.

    `name` is what diagnostics and the PTX's `.file` lines show, e.g. "hgemm/10_hgemm_naive.cu";
    it is part of the key, so give a relative one. `defines` are macros, ("BM", "128").
    `include_path` holds folders for a user's own headers; the package's headers come by
    themselves and win over files of the same name.
    Raises: InputError for a name or a macro that no compiler accepts.
    """

    name: str
    text: str
    defines: tuple[tuple[str, str], ...] = ()
    include_path: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.name or _NOT_A_NAME.search(self.name):
            raise InputError(f"name={self.name!r} must be a file name without quotes or newlines.")
        seen: set[str] = set()
        for macro, _ in self.defines:
            if not _IDENTIFIER.match(macro):
                raise InputError(f"defines: {macro!r} is not the name of a macro.")
            if macro in seen:
                raise InputError(f"defines: {macro} is given twice; keep one.")
            seen.add(macro)


@dataclass(frozen=True)
class Resources:
    """What one kernel takes, from ptxas: 32-bit registers a thread, and bytes.

    `spill_bytes` adds the bytes of spill stores and of spill loads of one thread's program text;
    `stack_bytes` is a thread's stack frame; `static_shared_bytes` is a block's.
    """

    registers: int
    spill_bytes: int
    stack_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Artifact:
    """A compiled source: `cubin` for the GPU of this `arch`, `ptx` for the emulator.

    `resources` has one record a kernel, by its name in the PTX (extern "C" or mangled).
    `compiler` reads "NVRTC 13.5.37"; `log` is all it said; `key` names the entry in the cache.
    """

    name: str
    arch: str
    ptx: str
    cubin: bytes
    log: str
    compiler: str
    resources: Mapping[str, Resources] = field(hash=False)  # a dict cannot be hashed
    key: str

    @property
    def serialized(self) -> tuple[str, ...]:
        """What ptxas says, by its codes C75xx, of products by wgmma that it made wait: lines of
        `log`. Such a kernel is right and slow; wgmma_fence_operands() is in the wrong place then,
        or something touches accumulators before the wait.
        """
        return tuple(line.strip() for line in _SERIALIZED.findall(self.log))

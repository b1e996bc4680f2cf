"""A user's own CUDA kernel on the bench: `kernel.cu:gemm,block=16x16,tile=64x64,BM=64`.

What a launch needs and the word leaves out is read from the kernel itself: launch bounds and the
sizes of its parameters from the PTX, their meaning and the constants BM and BN from the source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.bench.includes import code_of
from tilewright.bench.kernel_launch import (
    GRIDS,
    block_of,
    check_macros,
    entry_of,
    grid_of,
    shared_bytes_of,
    tile_of,
    times,
)
from tilewright.bench.kernel_params import Argument, arguments
from tilewright.bench.record import source_hash
from tilewright.build import Artifact, Source, build
from tilewright.emulator.parse import parse as parse_ptx
from tilewright.engines import emulator
from tilewright.errors import InputError
from tilewright.kernel_source import read_source
from tilewright.launch import (
    BLOCK_LIMITS,
    Dim3,
    Launch,
    dim3,
    gemm_args,
)
from tilewright.problem import LAYOUTS

if TYPE_CHECKING:
    from tilewright.engines.base import Buffer
    from tilewright.problem import Problem

EXAMPLE = "kernel.cu:gemm,block=16x16,tile=64x64,BM=64"
KEYS = ("block", "tile", "shared_bytes", "grid", "layout", "include_path")

_FINITE = 0x7B  # 61280 in fp16, 1.3e36 in bf16 and fp32 when every byte is this one

_WORD = re.compile(r"(?P<file>.*?\.cuh?):(?P<name>[^,<]*(?:<.*>)?[^,]*)(?:,(?P<options>.*))?", re.S)
_NAME = re.compile(r"[A-Za-z_][\w:]*(?:<[\w:<>*&,+-]*>)?", re.ASCII)
_MACRO = re.compile(r"[A-Z_][A-Z0-9_]*")


@dataclass(frozen=True)
class CudaKernel:
    """A kernel in a .cu or .cuh file and what the word says about its launch.

    `name` is its symbol, or a unique part of its C++ name, as ns::gemm<128>. `tile` is rows ×
    columns of C that a block computes. `grid`: "nm" (blockIdx.x walks over columns, y over rows),
    "mn" or "flat" (all tiles along x). `include_path` is a folder of headers besides the kernel's
    own and CUDA's, `layout` the only one that the kernel takes, such as "nt". What else is None is
    found out by `plan`.
    """

    word: str
    path: Path
    name: str
    block: Dim3 | None = None
    tile: tuple[int, int] | None = None
    shared_bytes: int | None = None
    grid: str = "nm"
    defines: tuple[tuple[str, str], ...] = ()
    include_path: str | None = None
    layout: str | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the user's own headers are looked for, in this order."""
        own = (Path(self.include_path),) if self.include_path else ()
        return (self.path.parent.resolve(), *own)

    @property
    def label(self) -> str:
        """What a table shows."""
        return self.name

    @cached_property
    def text(self) -> str:
        """The file's text. Raises: InputError when it cannot be read."""
        return read_source(self.path)[0]

    @cached_property
    def code(self) -> str:
        """The text with the files it includes that are the package's or the user's, each once."""
        return code_of(self.text, self.folders)

    @cached_property
    def source_hash(self) -> str:
        """Of the code and the macros given: other macros are another kernel."""
        macros = "".join(f"#define {name} {value}\n" for name, value in self.defines)
        return source_hash(macros + self.code)


@dataclass(frozen=True)
class KernelPlan:
    """All that a launch of the kernel needs but the addresses; `tile` is rows × columns of C."""

    label: str
    problem: Problem
    artifact: Artifact
    symbol: str
    grid: Dim3
    block: Dim3
    tile: tuple[int, int]
    shared_bytes: int
    arguments: tuple[Argument, ...]

    @property
    def poison_byte(self) -> int:
        """What to fill C with before a run: NaN, or, for a kernel that adds beta · C with a beta
        of 0, numbers that are finite and as wrong."""
        scaled = any(argument.meaning == "beta" for argument in self.arguments)
        return _FINITE if scaled else 0xFF


def parse(word: str) -> CudaKernel:
    """Reads `FILE.cu:NAME,key=value,…`; an uppercase key is a macro for the compiler.

    The path may hold colons and commas. Raises: InputError for what is none, an unknown key or
    a file that cannot be read.
    """
    match = _WORD.fullmatch(word)
    if match is None and ".ptx" in word:
        raise InputError(f"kernel={word!r}: PTX has no names of parameters; give the CUDA source.")
    if match is None:
        raise InputError(f"kernel={word!r} must name a .cu or .cuh file and a kernel: {EXAMPLE}.")
    name, options = re.sub(" *, *", ",", match["name"]), _options(word, match["options"])
    if not _NAME.fullmatch(name):
        raise InputError(
            f"kernel={word!r}: {name!r} is not the name of a kernel; give its C++ name or a unique "
            f"part of it, gemm or ns::gemm<128>, or its symbol, as in {EXAMPLE}."
        )
    tile, shared = _extents(word, options, "tile", 2), _extents(word, options, "shared_bytes", 1)
    _check_options(word, options)
    kernel = CudaKernel(
        word,
        Path(match["file"]),
        name,
        _block_given(word, options),
        (tile[0], tile[1]) if tile else None,
        shared[0] if shared else None,
        options.get("grid", "nm"),
        tuple(sorted(item for item in options.items() if item[0] not in KEYS)),
        options.get("include_path"),
        options.get("layout"),
    )
    if not kernel.text.strip():  # read here, so that a missing file is told at once
        raise InputError(f"kernel={word!r}: {kernel.path.name} is empty.")
    return kernel


def plan(kernel: CudaKernel, problem: Problem, arch: str) -> KernelPlan:
    """Compiles the kernel and finds out how it is launched on this problem.

    Raises: InputError when that cannot be told, naming what to give, or is beyond CUDA's limits;
    ToolchainError without NVRTC; CompileError.
    Cost: one build (cached), and 10 ms to read the PTX.
    """
    if kernel.layout not in (None, problem.layout):
        raise InputError(f"{kernel.label} takes layout={kernel.layout}, not {problem.layout}.")
    folders = tuple(map(str, kernel.folders))
    source = Source(kernel.path.name, kernel.text, kernel.defines, folders)
    check_macros(kernel)
    artifact = build(source, arch)
    module = parse_ptx(artifact.ptx)
    entry = entry_of(kernel, module)
    block = block_of(kernel, entry)
    tile = tile_of(kernel, block)
    grid = grid_of(kernel, entry, problem, tile)
    return KernelPlan(
        kernel.label,
        problem,
        artifact,
        entry.name,
        grid,
        block,
        tile,
        shared_bytes_of(kernel, artifact, module, entry),
        arguments(kernel.code, kernel.label, entry, problem),
    )


def launch(plan: KernelPlan, a: Buffer, b: Buffer, c: Buffer) -> Launch:
    """The launch that computes C = A·B into the third buffer."""
    problem = plan.problem
    addresses = {"A": a.address, "B": b.address, "C": c.address}
    params = []
    for argument in plan.arguments:
        if argument.meaning in addresses:
            params.append(addresses[argument.meaning].to_bytes(8, "little"))
        elif argument.meaning == "GemmArgs":
            extents = problem.m, problem.n, problem.k
            params.append(gemm_args(a.address, b.address, c.address, *extents))
        else:
            params.append(argument.raw)
    return Launch(
        plan.artifact, plan.symbol, plan.grid, plan.block, tuple(params), plan.shared_bytes
    )


def describe(plan: KernelPlan) -> str:
    """One line for the notes: how the kernel is launched."""
    meanings = [argument.meaning for argument in plan.arguments]
    shared = f"{plan.shared_bytes} bytes of dynamic shared memory, " if plan.shared_bytes else ""
    return (
        f"{plan.label}: grid {times(plan.grid)}, block {times(plan.block)}, tile "
        f"{plan.tile[0]}×{plan.tile[1]} of C, {shared}arguments {', '.join(meanings)}"
    )


# --- the word -----------------------------------------------------------------------------


def _options(word: str, text: str | None) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in text.split(",") if text is not None else ():
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or (key not in KEYS and not _MACRO.fullmatch(key)):
            raise InputError(
                f"kernel={word!r}: {part!r} is not understood; give {'=, '.join(KEYS)}=, or a "
                "macro in uppercase with its value, as BM=128."
            )
        if key in options:
            raise InputError(f"kernel={word!r}: {key} is given twice; keep one.")
        options[key] = value
    return options


def _check_options(word: str, options: dict[str, str]) -> None:
    """Those that are words. Raises: InputError."""
    if (grid := options.get("grid", "nm")) not in GRIDS:
        raise InputError(f"kernel={word!r}: grid={grid} must be one of {', '.join(GRIDS)}.")
    if (layout := options.get("layout", "nn")) not in LAYOUTS:
        raise InputError(f"kernel={word!r}: layout={layout} must be one of {', '.join(LAYOUTS)}.")
    if "include_path" in options and not Path(options["include_path"] or "?").is_dir():
        raise InputError(f"kernel={word!r}: include_path={options['include_path']} is no folder.")


def _block_given(word: str, options: dict[str, str]) -> Dim3 | None:
    extents = _extents(word, options, "block", 3)
    if (threads := prod(extents)) > emulator.MOST_THREADS:
        raise InputError(
            f"kernel={word!r}: the block has {threads} threads; CUDA allows "
            f"{emulator.MOST_THREADS}."
        )
    return dim3("block", extents, BLOCK_LIMITS) if extents else None


def _extents(word: str, options: dict[str, str], key: str, most: int) -> list[int]:
    """The numbers of 16x16; empty where the key is not given."""
    if key not in options:
        return []
    pieces = re.split("[x×]", options[key])
    right = all(re.fullmatch(r"[0-9]{1,9}", piece) for piece in pieces)
    if right and len(pieces) <= most and (key != "tile" or len(pieces) == 2):
        values = [int(piece) for piece in pieces]
        if key == "shared_bytes" or all(values):
            return values
    example = {"block": "256 or 16x16", "tile": "128x64, ROWSxCOLUMNS of C"}.get(key, "49152")
    raise InputError(f"kernel={word!r}: {key}={options[key]} must look like {example}.")

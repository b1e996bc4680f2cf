"""How a user's CUDA kernel is launched, where its word leaves that out: read from the kernel.

Launch bounds and what it reads come from the PTX, the constants BM, BN and TILE from the source.
"""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING

from tilewright.bench.kernel_params import without_comments
from tilewright.emulator.ir import Special, Symbol
from tilewright.engines import emulator
from tilewright.errors import InputError
from tilewright.gpus import GPUS
from tilewright.kernel_source import kernel_named
from tilewright.launch import GRID_LIMITS, Dim3, check_dims

if TYPE_CHECKING:
    from tilewright.artifact import Artifact
    from tilewright.bench.user_kernel import CudaKernel
    from tilewright.emulator.ir import Kernel, Module
    from tilewright.problem import Problem

GRIDS = ("nm", "mn", "flat")
# Constants that name the side of a square block with one element of C a thread.
_SQUARES = ("TILE", "TILE_SIZE", "TILE_DIM", "TILE_WIDTH", "BLOCK_SIZE", "BLOCKSIZE", "BLOCK_DIM")


def times(dims: Dim3) -> str:
    """Without the extents of 1 at the end: 3×2, 256."""
    shown = list(dims)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "×".join(map(str, shown))


def entry_of(kernel: CudaKernel, module: Module) -> Kernel:
    try:
        return kernel_named(module, kernel.name)
    except InputError as error:
        raise InputError(
            f"{kernel.path.name}: {error} Give one of these; a template is compiled only where "
            f"it is instantiated: template __global__ void {kernel.name}<128>(…);"
        ) from None


def block_of(kernel: CudaKernel, entry: Kernel) -> Dim3:
    """The word's, else what the kernel itself says.

    Raises: InputError for a block that the kernel cannot mean, or that a GPU would refuse.
    """
    block = kernel.block or entry.required_threads or _block_meant(kernel, entry)
    emulator.check_threads(entry, block)
    return block


def _block_meant(kernel: CudaKernel, entry: Kernel) -> Dim3:
    """The launch bounds; a square tile's constant; 16×16 where the kernel asks for blockDim.

    Raises: InputError where nothing says it: a guess would make a right kernel wrong.
    """
    bound = entry.most_threads
    if not _reads(entry, "%tid.y"):
        if bound is not None:
            return bound, 1, 1
        if not _reads(entry, "%tid.x"):
            return 16, 16, 1
        raise InputError(
            f"{kernel.label} reads threadIdx.x alone and has no __launch_bounds__; give its "
            "threads, as block=256."
        )
    for name in _SQUARES:
        if side := _constant(kernel, name):
            return side, side, 1
    if bound is None and _reads(entry, "%ntid.x") and _reads(entry, "%ntid.y"):
        return 16, 16, 1
    raise InputError(
        f"{kernel.label} reads threadIdx.y and does not say how large its block is; give it, as "
        "block=16x16 (x, y)."
    )


def _reads(entry: Kernel, register: str) -> bool:
    return any(Special(register) in instruction.operands for instruction in entry.instructions)


def tile_of(kernel: CudaKernel, block: Dim3) -> tuple[int, int]:
    """Rows and columns of C a block. Raises: InputError where nothing says it."""
    if kernel.tile:
        return kernel.tile
    bm, bn = _constant(kernel, "BM"), _constant(kernel, "BN")
    if bm and bn:
        return bm, bn
    if block[1] > 1 and not (bm or bn):  # one element a thread, x along the axis of blockIdx.x
        return (block[0], block[1]) if kernel.grid == "mn" else (block[1], block[0])
    raise InputError(
        f"{kernel.label}: neither the word nor numbers for BM and BN in {kernel.path.name} say "
        "what a block computes; give tile=ROWSxCOLUMNS."
    )


def check_macros(kernel: CudaKernel) -> None:
    """Raises: InputError for a macro of the word that the source defines whatever is given."""
    code = without_comments(kernel.text)
    for name, _ in kernel.defines:
        defined = re.search(rf"^[ \t]*#[ \t]*define[ \t]+{name}\b", code, re.M)
        guarded = re.search(rf"#[ \t]*ifndef[ \t]+{name}\b|defined[ \t(]*{name}\b", code)
        if defined and not guarded:
            raise InputError(
                f"{kernel.path.name} defines {name} itself, so {name}= would change nothing; put "
                f"#ifndef {name} before it and #endif behind."
            )


def _constant(kernel: CudaKernel, name: str) -> int | None:
    """The macro of the word, else the number that the source defines; None if there is none."""
    given = dict(kernel.defines).get(name)
    if given is not None:
        return int(given) if re.fullmatch("[0-9]{1,9}", given) else None
    patterns = (
        rf"^[ \t]*#[ \t]*define[ \t]+{name}[ \t]+\(?[ \t]*(\d{{1,9}})u?[ \t]*\)?[ \t]*$",
        rf"\bconst(?:expr)?\b[^;(){{}}]*?\b{name}\s*=\s*(\d{{1,9}})u?\s*[,;]",
    )
    code = without_comments(kernel.code)
    values = {int(value) for pattern in patterns for value in re.findall(pattern, code, re.M)}
    if len(values) > 1:
        shown = " and ".join(map(str, sorted(values)))
        raise InputError(
            f"{kernel.path.name} defines {name} as {shown}; give tile=ROWSxCOLUMNS or {name}=."
        )
    return values.pop() if values else None


def grid_of(kernel: CudaKernel, entry: Kernel, problem: Problem, tile: tuple[int, int]) -> Dim3:
    """Raises: InputError for more blocks than CUDA allows, or where y would not be looked at."""
    rows, cols = ceil(problem.m / tile[0]), ceil(problem.n / tile[1])
    grids = {"nm": (cols, rows, 1), "mn": (rows, cols, 1), "flat": (rows * cols, 1, 1)}
    grid = grids[kernel.grid]
    try:
        check_dims("grid", grid, GRID_LIMITS)
    except InputError as error:
        raise InputError(
            f"{kernel.label}: {error} Give a larger tile, or another grid ({', '.join(GRIDS)}) "
            "if the kernel can take it."
        ) from None
    reads_x, reads_y = _reads(entry, "%ctaid.x"), _reads(entry, "%ctaid.y")
    if grid[1] > 1 and reads_x and not reads_y:
        raise InputError(
            f"{kernel.label} never reads blockIdx.y, and its grid is {times(grid)}; give "
            "grid=flat (all tiles along x), or another tile."
        )
    return grid


def shared_bytes_of(kernel: CudaKernel, artifact: Artifact, module: Module, entry: Kernel) -> int:
    """Dynamic shared memory of a block. Raises: InputError when it is missing or too much."""
    dynamic = {v.name for v in module.variables.values() if v.space == "shared" and not v.nbytes}
    if kernel.shared_bytes is None and any(
        isinstance(operand, Symbol) and operand.name in dynamic
        for instruction in entry.instructions
        for operand in instruction.operands
    ):
        raise InputError(f"{kernel.label} uses extern __shared__ memory; give shared_bytes=BYTES.")
    wanted = kernel.shared_bytes or 0
    limits = {gpu.arch: gpu.shared_bytes_per_block for gpu in GPUS.values()}
    most = limits.get(artifact.arch.rstrip("af"), max(limits.values()))
    static = artifact.resources[entry.name].static_shared_bytes
    if wanted + static > most:
        raise InputError(
            f"{kernel.label}: shared_bytes={wanted} must be at most {most - static}: a block on "
            f"{artifact.arch} has {most} bytes, of which the kernel's own variables take {static}."
        )
    return wanted

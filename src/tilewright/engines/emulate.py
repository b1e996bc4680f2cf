"""`tilewright.emulate`: one launch of any kernel in the emulator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import index
from pathlib import Path
from reprlib import repr as clipped
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.arguments import argument_bytes, pack
from tilewright.emulator.arrays import Array
from tilewright.emulator.cluster_order import whole_clusters
from tilewright.emulator.loaded import loaded
from tilewright.emulator.machine_code import MachineCode
from tilewright.emulator.memory import GlobalMemory
from tilewright.emulator.part import part_of
from tilewright.emulator.program import Program
from tilewright.emulator.report import Report, with_sources
from tilewright.emulator.run import How, Progress, run
from tilewright.emulator.source_files import local_name, texts_of
from tilewright.emulator.trace import STEP_LIMIT, Shape
from tilewright.emulator.wgmma_log import said_of_wgmma
from tilewright.engines.emulator import check_shared, check_threads, cluster_of
from tilewright.engines.estimate import Estimate
from tilewright.errors import InputError
from tilewright.kernel_signature import formals_of, misfits
from tilewright.kernel_source import compiled, is_ptx, kernel_named, plain_name, read_source
from tilewright.launch import BLOCK_LIMITS, GRID_LIMITS, dim3

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel

_BLOCKS = re.compile(r"(first|sample):(\d{1,10})", re.ASCII)
_MOST_DRAWN = 1_000_000  # blocks; drawing takes up to 400 bytes each
SCHEDULES = ("lockstep", "random")


def emulate(
    source: str | Path,
    kernel: str | None,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    cluster: int | Sequence[int] = (1, 1, 1),
    shared_bytes: int = 0,
    arch: str = "sm_80",
    defines: Mapping[str, object] | None = None,
    include_path: Sequence[str] = (),
    schedule: str = "lockstep",
    seed: int = 0,
    blocks: str | Sequence[int] | None = None,
    checks: bool = True,
    shapes: Mapping[int, Sequence[int]] | Sequence[Sequence[int] | None] | None = None,
    step_limit: int = STEP_LIMIT,
    labels: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Runs one launch of a kernel in the emulator and reports counts and findings.

    Shapes   `grid` and `block` have 1 to 3 extents; a number is one. `args` bind by position to
             the parameters. `shapes` gives, for arguments by position, the part [: rows,
             : columns] of an array that the kernel may touch, where rows are padded: the rest is
             out of bounds.
    Types    `source` is CUDA C++ or PTX, as text or as the path of a .cu or .ptx file. An
             argument is a C-contiguous NumPy array (changed in place; it may be read-only where
             the kernel stores nothing; one of NaN alone counts as never written), a number (takes
             the parameter's size), bytes, a NumPy void or a tuple of its members for a struct by
             value, or None for null. In a tuple whole numbers and floats of Python take 4 bytes.
             `kernel` is a symbol or a unique part of the demangled name; None takes the only
             kernel. `schedule` is "lockstep", or "random" for warps in an order drawn from
             `seed`. `blocks` runs only "first:N", "sample:N" (drawn from `seed`) or blocks of
             these linear ids. `checks=False` leaves out races, unset memory and unwritten
             outputs. `step_limit` is how many basic blocks the blocks of a chunk may take before
             their loop counts as endless. `labels` are what messages call the arguments, one each.
             `cluster` has 1 to 3 extents in blocks; where the kernel was compiled for one
             (`__cluster_dims__`), it need not be given. With clusters, `blocks` runs the whole
             clusters of the blocks it names.
    Raises   InputError for arguments that don't fit; CompileError; UnsupportedError. Findings
             never raise. Warns, with LongRunWarning, when the first blocks show that the rest
             will take more than an hour.
    Cost     compiles with NVRTC unless `source` is PTX; then milliseconds a block and K step.
             The machine code is read when the report is first shown or written, see
             `Report.machine_code`.
             Checks cost 30 to 100 % more time.
    """
    full_grid = dim3("grid", _extents("grid", grid), GRID_LIMITS)
    full_block = dim3("block", _extents("block", block), BLOCK_LIMITS)
    full_cluster = dim3("cluster", _extents("cluster", cluster), GRID_LIMITS)
    how = How(
        _seed(schedule, seed),
        _block_ids(blocks, full_grid, seed),
        _flag("checks", checks),
        _step_limit(step_limit),
    )
    text, name = read_source(source)
    file = None if text == source else Path(source)
    artifact = None if is_ptx(text) else compiled(text, name, arch, defines, include_path)
    ptx = text if artifact is None else artifact.ptx
    owner = "" if artifact is None else artifact.key
    module = loaded(ptx, name if artifact is None and file is not None else None, owner)
    found = kernel_named(module.module, kernel)
    check_threads(found, full_block)
    full_cluster = cluster_of(found, full_grid, full_cluster)
    if how.blocks is not None and full_cluster != (1, 1, 1):
        whole = whole_clusters(full_grid, full_cluster, how.blocks)
        how = replace(how, blocks=np.sort(np.asarray(whole, np.int64)))
    _check_count(found, args)
    program = module.program(found)
    check_shared(program, shared_bytes)
    memory, names = GlobalMemory(), _labels(found, labels)
    params = _params(program, args, memory, names)
    _limit(memory, args, shapes)
    for allocation in memory.allocations:
        allocation.unset = how.checks and _is_unset(allocation.array)
    shape = Shape(full_grid, full_block, shared_bytes, pack(found, params), full_cluster)
    report = run(program, shape, memory, Estimate(progress), how)
    if artifact is not None:
        report.findings.extend(said_of_wgmma(artifact.log, program.kernel))
    return with_sources(
        report,
        _sources(report, name, text, ptx, file),
        kernel=found.name,
        grid=full_grid,
        block=full_block,
        part=None if how.blocks is None else part_of(how.blocks, shape.blocks),
        paths={} if file is None else {name: local_name(str(file))},
        machine_code=MachineCode(artifact, found.name),
        remarks=misfits(
            [arg.dtype if isinstance(arg, np.ndarray) else None for arg in args],
            names,
            formals_of(found, text, artifact is not None),
        ),
    )


def _sources(report: Report, name: str, text: str, ptx: str, file: Path | None) -> dict[str, str]:
    """The texts of what was compiled and run, and of the files on disk that PTX was made of."""
    if ptx is not text:
        return {name: text, "<ptx>": ptx}
    own = "<ptx>" if file is None else name
    named = dict.fromkeys(access.file for access in report.accesses)
    named |= dict.fromkeys(finding.file for finding in report.findings)
    named |= dict.fromkeys(report.issues)
    named.pop(own, None)
    folder = Path() if file is None else file.parent
    return {**texts_of(named, folder), own: ptx}


def _labels(kernel: Kernel, labels: Sequence[str] | None) -> list[str]:
    """What messages call the parameters: the user's labels, else names that can be read."""
    if labels is None:
        plain = plain_name(kernel.name)
        return [p.name.replace(kernel.name, plain, 1) for p in kernel.params]
    if isinstance(labels, str) or len(labels) != len(kernel.params):
        raise InputError(
            f"labels={clipped(labels)} must be one word a parameter; {plain_name(kernel.name)} has "
            f"{len(kernel.params)}."
        )
    return [str(label) for label in labels]


def _params(
    program: Program, args: Sequence[Any], memory: GlobalMemory, labels: Sequence[str]
) -> list[bytes]:
    """Each argument's bytes; a message calls it by its place and its label."""
    stored = program.written_params
    return [
        argument_bytes(
            value,
            replace(parameter, name=label),
            memory,
            what=f"argument {place} ({label})",
            written=stored is None
            or any(0 <= each - parameter.offset < parameter.nbytes for each in stored),
        )
        for place, (value, parameter, label) in enumerate(
            zip(args, program.kernel.params, labels, strict=True), 1
        )
    ]


def _seed(schedule: str, seed: int) -> int | None:
    if schedule not in SCHEDULES:
        raise InputError(f"schedule={schedule!r} is not known; use {' or '.join(SCHEDULES)}.")
    if not hasattr(seed, "__index__") or isinstance(seed, bool) or not 0 <= index(seed) < 2**63:
        raise InputError(f"seed={seed!r} must be a whole number from 0 up.")
    return index(seed) if schedule == "random" else None


def _step_limit(limit: int) -> int:
    if not hasattr(limit, "__index__") or isinstance(limit, bool) or index(limit) < 1:
        raise InputError(f"step_limit={limit!r} must be a whole number from 1 up.")
    return index(limit)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name}={value!r} must be True or False.")
    return bool(value)


def _block_ids(
    blocks: str | Sequence[int] | None, grid: tuple[int, int, int], seed: int
) -> Array | range | None:
    """Linear ids in ascending order. Raises: InputError for blocks that the grid has not."""
    if blocks is None:
        return None
    total = grid[0] * grid[1] * grid[2]
    if isinstance(blocks, str):
        match = _BLOCKS.fullmatch(blocks)
        if match is None or int(match[2]) < 1:
            raise InputError(f"blocks={blocks!r} must be first:N or sample:N, N being 1 or more.")
        count = min(int(match[2]), total)
        if count == total:
            return None
        if match[1] == "first":
            return range(count)
        if count > _MOST_DRAWN:
            raise InputError(
                f"blocks={blocks!r} draws more than {_MOST_DRAWN:,} blocks; use fewer."
            )
        drawn = np.random.default_rng(seed).choice(total, count, replace=False)
        return np.sort(drawn.astype(np.int64))
    try:
        ids = sorted(index(block) for block in blocks)
    except TypeError:
        raise InputError(f"blocks={clipped(blocks)} must be whole numbers, or first:N.") from None
    if not ids or not 0 <= ids[0] <= ids[-1] < total:
        raise InputError(
            f"blocks={clipped(blocks)} must be ids from 0 to {total - 1}, at least one."
        )
    if twice := [one for one, other in pairwise(ids) if one == other]:
        raise InputError(
            f"blocks={clipped(blocks)} names block {twice[0]} twice; give each id once."
        )
    return None if len(ids) == total else np.array(ids, np.int64)


def _limit(memory: GlobalMemory, args: Sequence[Any], shapes: Any) -> None:
    """Marks what lies outside the shapes given. Raises: InputError for one that does not fit."""
    if shapes is None:
        return
    given = dict(shapes) if isinstance(shapes, Mapping) else dict(enumerate(shapes))
    for place, shape in given.items():
        if shape is None:
            continue
        array = args[place] if isinstance(place, int) and 0 <= place < len(args) else None
        if not isinstance(array, np.ndarray):
            raise InputError(f"shapes[{place}]: args[{place}] is no array; give places of arrays.")
        extents = tuple(_extents(f"shapes[{place}]", shape))
        fits = len(extents) == array.ndim and all(
            1 <= part <= whole for part, whole in zip(extents, array.shape, strict=False)
        )
        if not fits:
            raise InputError(
                f"shapes[{place}]={extents} must have {array.ndim} extents, each at most that of "
                f"the array, {array.shape}."
            )
        memory.limit(array, extents)


def _is_unset(array: npt.NDArray[Any]) -> bool:
    """An array of NaN alone: an output that waits to be written."""
    flat = np.asarray(array).reshape(-1)
    if flat.dtype.kind not in "fV" or not flat.size:
        return False
    if flat.dtype.kind == "V" and flat.dtype.names is not None:
        return False
    try:
        with np.errstate(all="ignore"):
            values = flat[:1].astype(np.float32), flat.astype(np.float32)
    except (TypeError, ValueError):  # a struct or bytes
        return False
    return bool(np.isnan(values[0]).all() and np.isnan(values[1]).all())


def _extents(what: str, extents: int | Sequence[int]) -> list[int]:
    """A grid or block as integers; 1.5 and "32" are not. One number stands for itself."""
    try:
        several = [extents] if isinstance(extents, (int, np.integer)) else extents
        values = [index(extent) for extent in several]
    except TypeError:
        raise InputError(f"{what}={extents!r} must be 1 to 3 integers, as (32, 8).") from None
    return values


def _check_count(kernel: Kernel, args: Sequence[Any]) -> None:
    if isinstance(args, (str, bytes, np.ndarray)) or not isinstance(args, Sequence):
        raise InputError(f"args is a {type(args).__name__}; give a list, one value a parameter.")
    if len(args) != len(kernel.params):
        raise InputError(
            f"args has {len(args)} values; {plain_name(kernel.name)} takes {len(kernel.params)} "
            "parameters."
        )

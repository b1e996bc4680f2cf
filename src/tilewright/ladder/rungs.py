"""The table of rungs: what a `.cu` file leaves to its host (grid, block, shared bytes), as data.

Those that are no kernels stand in python_rungs.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from difflib import get_close_matches

from tilewright.dtypes import DType
from tilewright.errors import InputError
from tilewright.ladder.python_rungs import CPU, TRITON
from tilewright.ladder.rung import Rung, alternatives
from tilewright.launch import GEMM_ARGS, Dim3
from tilewright.problem import Problem, nearest_multiple

KERNEL = "gemm"  # the symbol in every file, so that a diff of two rungs holds no rename


@dataclass(frozen=True)
class Tile:
    """Elements of C and of K that a block works on at once, and of C those of a thread.

    Field `bm` is the macro `BM`. A kernel whose threads' shares are an instruction's has no `tm`
    and `tn`, and no such macros.
    """

    bm: int
    bn: int
    bk: int
    tm: int | None = None
    tn: int | None = None

    def defines(self) -> dict[str, str]:
        given = ((name, value) for name, value in asdict(self).items() if value is not None)
        return {name.upper(): str(value) for name, value in given}


@dataclass(frozen=True)
class KernelRung(Rung):
    """A rung that is a `.cu` file with one kernel, A, B and C row-major.

    `buffers` tiles of A and B lie in shared memory at a time, and `staged` elements
    of C beside them; `pad_m` elements behind each K column of A's tile hold nothing. `order` is
    the way of its blocks over the tiles (model/raster.py); `step_m` and `step_n` what m and n must
    be multiples of where that is less than a tile: the last tile may then be cut.
    """

    tile: Tile
    threads: int
    buffers: int
    staged: int = 0
    order: str = "panels:8"
    step_m: int | None = None
    persistent: bool = False  # one block a multiprocessor, which works off many tiles
    fragment_sets: int = 1  # that a warp holds: with two it loads one and multiplies the other
    pad_m: int = 0
    step_n: int | None = None

    def shared_bytes(self, dtype: DType) -> int:
        """Dynamic shared memory of a block, in bytes; the kernel asserts it against its Smem."""
        tile = self.tile
        ab = self.buffers * (tile.bm + self.pad_m + tile.bn) * tile.bk
        return (ab + self.staged) * dtype.bytes

    def defines(self, dtype: DType) -> tuple[tuple[str, str], ...]:
        macros = {
            **self.tile.defines(),
            "STAGES": str(self.buffers),
            "ELEMENT": dtype.cpp,
            "SMEM_BYTES": str(self.shared_bytes(dtype)),
            "GEMM_ARGS_BYTES": str(GEMM_ARGS.itemsize),
        }
        return tuple(sorted(macros.items()))

    def tiles(self, problem: Problem) -> int:
        """Tiles of C, those counted that its edge cuts."""
        return -(-problem.m // self.tile.bm) * -(-problem.n // self.tile.bn)

    def grid(self, problem: Problem, sms: int | None = None) -> Dim3:
        """All tiles along x, whose limit no matrix reaches; the kernel finds its tile itself.

        A persistent rung has no more blocks than the GPU has multiprocessors (`sms`); where
        their number is not known it is launched like the others, and each block has one tile.
        """
        tiles = self.tiles(problem)
        return (min(tiles, sms) if self.persistent and sms else tiles, 1, 1)

    @property
    def steps(self) -> tuple[int, int, int]:
        """What m, n and k must be multiples of."""
        return self.step_m or self.tile.bm, self.step_n or self.tile.bn, self.tile.bk

    def refusal(self, problem: Problem, shared_bytes_limit: int | None = None) -> str | None:
        if problem.layout != "nn":
            return f"{self.name} takes A and B row-major (nn), not {problem.layout}."
        if why := super().refusal(problem):
            return why
        for axis, multiple in zip("mnk", self.steps, strict=True):
            extent = getattr(problem, axis)
            if extent % multiple:
                return (
                    f"{axis}={extent} is not a multiple of {multiple}, as {self.name} needs; "
                    f"the nearest accepted value is {nearest_multiple(extent, multiple)}."
                )
        needed = self.shared_bytes(problem.dtype)
        if shared_bytes_limit is not None and needed > shared_bytes_limit:
            return (
                f"{self.name} needs {needed} bytes of shared memory a block, and this GPU gives "
                f"{shared_bytes_limit}; an A100, H100 or H200 has enough."
            )
        return None


def _hgemm(
    number: int,
    name: str,
    buffers: int,
    *,
    bk: int = 32,
    threads: int = 256,
    order: str = "panels:8",
    fragment_sets: int = 1,
) -> KernelRung:
    return KernelRung(
        name,
        "hgemm",
        f"hgemm/{number}_{name}.cu",
        ("bf16", "fp16"),
        Tile(128, 128, bk),
        threads,
        buffers,
        order=order,
        fragment_sets=fragment_sets,
    )


# Tiles of 256 rows, of which the last may be half a one; eight warps stage 16 rows of 64 each.
_HGEMM_BEST = KernelRung(
    "hgemm_best",
    "hgemm",
    "hgemm/90_hgemm_best.cu",
    ("bf16", "fp16"),
    Tile(256, 128, 64),
    threads=256,
    buffers=3,
    staged=8 * 16 * 64,
    order="panels:16",
    step_m=128,
    persistent=True,
    fragment_sets=2,
)


def _simt(number: int, name: str, tile: Tile, buffers: int) -> KernelRung:
    file = f"simt/{number}_{name}.cu"
    threads = tile.bm // (tile.tm or 1) * (tile.bn // (tile.tn or 1))
    return KernelRung(name, "simt", file, ("fp32",), tile, threads, buffers)


_ELEMENT = Tile(32, 32, 1, 1, 1)  # of C a thread, straight from global memory
_REGISTERS = Tile(128, 128, 16, 8, 8)

# Tiles of 256 columns, of which the last may be half a one; panels are four of them wide.
_SGEMM_BEST = KernelRung(
    "sgemm_best",
    "simt",
    "simt/95_sgemm_best.cu",
    ("fp32",),
    Tile(128, 256, 16, 8, 16),
    threads=256,
    buffers=3,
    order="panels:4",
    pad_m=4,
    step_n=128,
)


KERNELS: dict[str, KernelRung] = {
    rung.name: rung
    for rung in (
        _hgemm(10, "hgemm_naive", buffers=1),
        _hgemm(20, "hgemm_bcf", buffers=1),
        _hgemm(30, "hgemm_bcf_dbf", buffers=2),
        _hgemm(40, "hgemm_bcf_dbf_rw", buffers=2),
        _hgemm(50, "hgemm_raster", buffers=2, order="rows"),
        _hgemm(60, "hgemm_k_stages", buffers=3),
        _hgemm(70, "hgemm_bk64", buffers=3, bk=64),
        _hgemm(80, "hgemm_w64", buffers=3, bk=64, threads=128, fragment_sets=2),
        _HGEMM_BEST,
        _simt(10, "sgemm_naive", _ELEMENT, buffers=0),
        _simt(20, "sgemm_coalesced", _ELEMENT, buffers=0),
        _simt(30, "sgemm_shared", Tile(32, 32, 32, 1, 1), buffers=1),
        _simt(40, "sgemm_register", _REGISTERS, buffers=1),
        _simt(50, "sgemm_tiling", _REGISTERS, buffers=1),
        _simt(60, "sgemm_at_tiling", _REGISTERS, buffers=1),
        _simt(70, "sgemm_at_bcf_swizzling", _REGISTERS, buffers=1),
        _simt(80, "sgemm_at_bcf_swizzling_rw", _REGISTERS, buffers=1),
        _simt(90, "sgemm_at_bcf_swizzling_dbf_rw", _REGISTERS, buffers=2),
        _SGEMM_BEST,
    )
}

RUNGS: dict[str, Rung] = {**KERNELS, **{rung.name: rung for rung in (*CPU, *TRITON)}}

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(rung.family for rung in RUNGS.values()))

_LIST = "tilewright ladder --list names them all."


def select(family: str | None, names: tuple[str, ...] = ()) -> list[Rung]:
    """The rungs of a family (None: of all), or those named, in the ladder's order.

    Raises: InputError for an unknown family or rung, with the nearest known one.
    """
    if family in RUNGS:
        raise InputError(f"family={family!r} is a rung; use --rung {family}.")
    if family is not None and family not in FAMILIES:
        raise InputError(f"family={family!r} is not known; {_hint(family, FAMILIES)}")
    for name in names:
        if name not in RUNGS:
            raise InputError(f"rung={name!r} is not known; {_hint(name, tuple(RUNGS), _LIST)}")
    return [
        rung
        for rung in RUNGS.values()
        if (rung.name in names if names else family in (None, rung.family))
    ]


def select_kernels(family: str | None, names: tuple[str, ...] = ()) -> list[KernelRung]:
    """As `select`, for what only a kernel has: a tile, threads, shared memory.

    Raises: InputError also for a rung that is no kernel.
    """
    found = []
    for rung in select(family, names):
        if not isinstance(rung, KernelRung):
            raise InputError(
                f"{rung.name} is a function in Python: it has no tile, threads and shared memory "
                f"of its own to look at; take a kernel, as {next(iter(KERNELS))}."
            )
        found.append(rung)
    return found


def _hint(word: str, known: tuple[str, ...], otherwise: str = "") -> str:
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else otherwise or f"use {alternatives(known)}."

"""KernelRung: a rung that is a `.cu` file, and what that leaves to its host, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tilewright.dtypes import DType
from tilewright.ladder.rung import Rung
from tilewright.launch import GEMM_ARGS, Dim3, Param, gemm_args
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
    overlap: bool = False  # its launch may begin before the one before has ended: it waits itself

    def shared_bytes(self, dtype: DType) -> int:
        """Dynamic shared memory of a block, in bytes; the kernel asserts it against its Smem."""
        tile = self.tile
        ab = self.buffers * (tile.bm + self.pad_m + tile.bn) * tile.bk
        return (ab + self.staged) * dtype.bytes

    def defines(self, dtype: DType, layout: str = "nn") -> tuple[tuple[str, str], ...]:
        """The macros of its file, for elements of this type and A and B that lie so."""
        macros = {
            **self.tile.defines(),
            "STAGES": str(self.buffers),
            "ELEMENT": dtype.cpp,
            "SMEM_BYTES": str(self.shared_bytes(dtype)),
            "GEMM_ARGS_BYTES": str(GEMM_ARGS.itemsize),
        }
        return tuple(sorted(macros.items()))

    def target(self, arch: str) -> str:
        """The architecture that it is compiled for where the GPU is of this one."""
        return arch

    @property
    def cluster(self) -> Dim3:
        """How many blocks run together, a whole number of which the grid has."""
        return 1, 1, 1

    def params(self, problem: Problem, a: int, b: int, c: int) -> tuple[Param, ...]:
        """The kernel's parameters, for A, B and C at these device addresses."""
        return (gemm_args(a, b, c, problem.m, problem.n, problem.k),)

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

    def refusal(
        self,
        problem: Problem,
        shared_bytes_limit: int | None = None,
        arch: str | None = None,
    ) -> str | None:
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
        return self.too_large(problem.dtype, shared_bytes_limit, "an A100, H100 or H200")

    def too_large(self, dtype: DType, limit: int | None, enough: str) -> str | None:
        """The sentence for a GPU whose blocks have too little shared memory, if it is that."""
        needed = self.shared_bytes(dtype)
        if limit is None or needed <= limit:
            return None
        return (
            f"{self.name} needs {needed} bytes of shared memory a block, and this GPU gives "
            f"{limit}; {enough} has enough."
        )

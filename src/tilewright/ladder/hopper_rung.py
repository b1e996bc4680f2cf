"""HopperRung: a kernel that copies by TMA and multiplies by wgmma, and its tensor maps.

A, B and C arrive as tensor maps, whose boxes are what cuda/tile/operand.cuh copies:

    operand                 in memory   box               in shared memory
    A, layout n             [M, K]      64 of K, rows     K-major
    A, layout t             [K, M]      64 of M, BK       MN-major, BM / 64 panels
    B, layout n             [K, N]      64 of N, BK       MN-major, BN / 64 panels
    B, layout t             [N, K]      64 of K, rows     K-major
    C                       [M, N]      64 of N, rows     as tile/wgmma_stage.cuh leaves it

All are swizzled by 128 bytes, the length of a box's row. What lies beyond the edges is read as
zeros and not stored, so that any extent will do whose rows TMA can reach.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.dtypes import DType
from tilewright.ladder.kernel_rung import KernelRung
from tilewright.ladder.rung import Rung, alternatives
from tilewright.launch import TMA_GEMM_ARGS, Dim3, Param
from tilewright.problem import Problem, nearest_multiple
from tilewright.tensormap import TensorMap

ARCH = "sm_90a"  # wgmma and setmaxnreg are in no other
_HOPPER = 90
PANEL = 64  # elements of 16 bits in the 128 bytes of a box's row
_PATTERN_BYTES = 1024  # of shared memory after which the swizzle repeats: what tiles begin at
_PITCH_BYTES = 16  # what the distance of two rows in memory must be a multiple of


@dataclass(frozen=True)
class HopperRung(KernelRung):
    """A rung for Hopper, whose A and B may each lie row-major (n) or transposed (t).

    `cluster_m` × `cluster_n` blocks run together on as many neighbouring tiles of C: the
    `cluster_n` blocks of a row of tiles share A, those of a column B, and each loads its part.
    Without `wgmma` a rung is compiled for any architecture that has TMA: sm_90 and newer.
    `store_rows` are the rows of C in one TMA store. `barriers` is the number of mbarriers. A
    persistent rung that is `even` has as few blocks as end no later: all of them work off the same
    number of tiles, or one less.
    In shared memory lie the tiles of A and B, `staged` elements of C and the barriers, and the
    whole is a multiple of 1024 bytes.
    """

    layouts: tuple[str, ...] = ("nn", "nt")
    cluster_m: int = 1
    cluster_n: int = 1
    store_rows: int = PANEL
    barriers: int = 0
    wgmma: bool = True
    even: bool = False

    def shared_bytes(self, dtype: DType) -> int:
        used = super().shared_bytes(dtype) + 8 * self.barriers
        return -(-used // _PATTERN_BYTES) * _PATTERN_BYTES

    def defines(self, dtype: DType, layout: str = "nn") -> tuple[tuple[str, str], ...]:
        macros = {
            **dict(super().defines(dtype, layout)),
            **TMA_GEMM_ARGS.defines(),
            "A_MAJOR": "MN" if layout[0] == "t" else "K",
            "B_MAJOR": "K" if layout[1] == "t" else "MN",
            "CLUSTER_M": str(self.cluster_m),
            "CLUSTER_N": str(self.cluster_n),
        }
        return tuple(sorted(macros.items()))

    def target(self, arch: str) -> str:
        return ARCH if self.wgmma else arch

    @property
    def cluster(self) -> Dim3:
        return self.cluster_m * self.cluster_n, 1, 1

    def tiles(self, problem: Problem) -> int:
        """Tiles of C, those counted that its edge cuts, and in whole clusters."""
        blocks = self.cluster_m * self.cluster_n
        rows = -(-problem.m // (self.tile.bm * self.cluster_m))
        return rows * -(-problem.n // (self.tile.bn * self.cluster_n)) * blocks

    def grid(self, problem: Problem, sms: int | None = None) -> Dim3:
        """All tiles along x, or, of a persistent rung, as many whole clusters as the GPU holds."""
        blocks = self.cluster_m * self.cluster_n
        if sms is None:
            return super().grid(problem)
        clusters = max(sms // blocks, 1)
        if self.even:
            tiles = self.tiles(problem) // blocks
            clusters = -(-tiles // -(-tiles // clusters))
        return super().grid(problem, clusters * blocks)

    @property
    def steps(self) -> tuple[int, int, int]:
        """Any extent will do; `refusal` looks at the rows in memory."""
        return 1, 1, 1

    def params(self, problem: Problem, a: int, b: int, c: int) -> tuple[Param, ...]:
        return (
            TMA_GEMM_ARGS.pack(
                **self.maps(problem, a, b, c), C=c, M=problem.m, N=problem.n, K=problem.k
            ),
        )

    def maps(self, problem: Problem, a: int, b: int, c: int) -> dict[str, TensorMap]:
        """The tensor maps by the names of their fields, for matrices at these addresses."""
        m, n, k = problem.m, problem.n, problem.k
        flip_a, flip_b = (letter == "t" for letter in problem.layout)
        tile = self.tile
        a_box = tile.bk if flip_a else tile.bm // self.cluster_n
        b_box = tile.bn // self.cluster_m if flip_b else tile.bk
        return {
            "A_map": _map(problem.dtype, a, (k, m) if flip_a else (m, k), a_box),
            "B_map": _map(problem.dtype, b, (n, k) if flip_b else (k, n), b_box),
            "C_map": _map(problem.dtype, c, (m, n), self.store_rows),
        }

    def refusal(
        self,
        problem: Problem,
        shared_bytes_limit: int | None = None,
        arch: str | None = None,
    ) -> str | None:
        if arch is not None and not self._runs_on(int(arch.rstrip("af").removeprefix("sm_"))):
            what = "TMA and wgmma of an H100 or H200" if self.wgmma else "TMA of an H100 and newer"
            return f"{self.name} uses {what}, and this GPU is {arch}."
        if problem.layout not in self.layouts:
            return f"{self.name} takes {alternatives(self.layouts)}, not {problem.layout}."
        return (
            Rung.refusal(self, problem)
            or self._unreachable(problem)
            or self.too_large(problem.dtype, shared_bytes_limit, "an H100 or H200")
        )

    def _runs_on(self, number: int) -> bool:
        return number == _HOPPER if self.wgmma else number >= _HOPPER

    def _unreachable(self, problem: Problem) -> str | None:
        """The sentence for rows that TMA cannot reach."""
        flip_a, flip_b = (letter == "t" for letter in problem.layout)
        inner = {"A": "m" if flip_a else "k", "B": "k" if flip_b else "n", "C": "n"}
        step = _PITCH_BYTES // problem.dtype.bytes
        for matrix, axis in inner.items():
            extent = getattr(problem, axis)
            if extent % step:
                return (
                    f"{axis}={extent} makes rows of {matrix} {extent * problem.dtype.bytes} bytes "
                    f"long, and TMA reaches multiples of {_PITCH_BYTES}: pad {axis} to a multiple "
                    f"of {step}; the nearest is {nearest_multiple(extent, step)}."
                )
        return None


def _map(dtype: DType, address: int, shape: tuple[int, int], rows: int) -> TensorMap:
    """A row-major matrix in boxes of so many rows by 64 elements."""
    return TensorMap(
        dtype.name,
        address,
        shape[::-1],
        (shape[1] * dtype.bytes,),
        (PANEL, rows),
        swizzle="128B",
        l2_promotion="256B",
    )

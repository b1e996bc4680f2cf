"""One launch of wgmma.cu: its configurations, tensor maps, parameters and macros.

    operand                 in memory     box               in shared memory
    a, rows contiguous      [m, k]        64 of k, rows     K-major
    a, columns contiguous   [k, m]        64 of m, 64 of k  MN-major
    b, columns contiguous   [n, k]        64 of n's k, rows K-major
    b, rows contiguous      [k, n]        64 of n, 64 of k  MN-major
    out                     [m, n]        128 bytes, 64 rows

Maps have a third dimension, the matrices of a batch: of one where all share it. Boxes are swizzled
by 128 bytes; beyond the edges zeros are read and nothing is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tilewright.gemm.kernels.source import KERNEL, columns, epilogue_struct, kernel_source
from tilewright.gemm.matrix import LARGEST_VECTOR, Matrix
from tilewright.gemm.part import Part
from tilewright.gemm.step import ANYWHERE, Address, MapAt, Step, Struct, Value
from tilewright.launch import Dim3
from tilewright.tensormap import TensorMap

ARCH = "sm_90a"  # wgmma and setmaxnreg are in no other
BK = 64
PANEL = 64  # elements of 16 bits in the 128 bytes of a box's row
MMA_M = 64  # rows of a wgmma
_BYTES = 2  # of an element of a and b
_PATTERN_BYTES = 1024  # of shared memory after which the swizzle repeats: what tiles begin at
_SHARED_BYTES = 227 * 1024  # that a block of an H100 or H200 may have
_BOXES = 2  # of out that wait for their store, 8 KiB each, a consumer
_BOX_BYTES = 8192
_BARRIER_BYTES = 16  # of a stage: full and empty
_MOST_STAGES = 8  # more bytes under way than any latency asks for
_SWIZZLE, _PROMOTION = "128B", "256B"


@dataclass(frozen=True)
class Config:
    """How the product is cut: the macros of wgmma.cu by their names.

    `consumers` warpgroups share a tile's rows (`turns` = 1) or take turns at tiles (`turns` =
    `consumers`). The blocks of a cluster lie below each other and share b (`cluster_m`) or beside
    each other and share a (`cluster_n`). `splits` ranges of k are summed apart.
    """

    bm: int
    bn: int
    consumers: int
    turns: int = 1
    cluster_m: int = 1
    cluster_n: int = 1
    splits: int = 1

    def __str__(self) -> str:
        words = [f"{self.bm}x{self.bn}x{BK}", f"{self.stages} stages"]
        if self.cluster > 1:
            words.append(f"clusters {self.cluster_m}x{self.cluster_n}")
        if self.turns > 1:
            words.append("in turns")
        if self.splits > 1:
            words.append(f"{self.splits} splits")
        return ", ".join(words)

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def threads(self) -> int:
        return 128 * (1 + self.consumers)

    @property
    def stage_bytes(self) -> int:
        return (self.bm + self.bn) * BK * _BYTES

    @property
    def stages(self) -> int:
        """As many as shared memory holds beside the boxes of out."""
        room = _SHARED_BYTES - self.consumers * _BOXES * _BOX_BYTES
        return min(_MOST_STAGES, room // (self.stage_bytes + _BARRIER_BYTES))

    @property
    def shared_bytes(self) -> int:
        """Of wgmma.cu's Smem, which asserts it: a multiple of 1024."""
        used = self.stages * (self.stage_bytes + _BARRIER_BYTES)
        used += self.consumers * _BOXES * _BOX_BYTES
        return -(-used // _PATTERN_BYTES) * _PATTERN_BYTES

    def takes(self, a_k_major: bool, b_k_major: bool, gated: bool) -> bool:
        """Whether tiles of these operands can be cut into boxes for each block of a cluster."""
        if gated and self.bn % (2 * PANEL):
            return False  # halves of a gate's tile are whole panels
        a_boxes = self.cluster_n if a_k_major else self.bm // PANEL
        b_boxes = self.cluster_m if b_k_major else self.bn // PANEL
        return a_boxes % self.cluster_n == 0 and b_boxes % self.cluster_m == 0


@dataclass(frozen=True)
class Product:
    """One launch: out = epilogue(a · b), `batch` matrices of each, at three addresses.

    With `config.splits`, `out` holds so many results for each of the batch, the splits outermost,
    and there is no epilogue. `swapped` says that all three are transposed, and that the epilogue's
    rows are columns here.
    """

    config: Config
    a: Matrix
    b: Matrix
    out: Matrix
    batch: int
    epilogue: Sequence[Part]
    swapped: bool
    at: tuple[Address, Address, Address]

    @property
    def gated(self) -> bool:
        return columns(self.epilogue) == 2

    @property
    def tiles(self) -> int:
        """Of one result, those counted that its edge cuts, in whole clusters: clusters."""
        config = self.config
        width = config.bn // (2 if self.gated else 1) * config.cluster_n
        return -(-self.out.rows // (config.bm * config.cluster_m)) * -(-self.out.cols // width)

    @property
    def idle(self) -> bool:
        """Whether a block of each cluster has nothing to do, as the result ends before its tile."""
        config = self.config
        width = config.bn // (2 if self.gated else 1)
        below, beside = self.out.rows <= config.bm, self.out.cols <= width
        return (below and config.cluster_m > 1) or (beside and config.cluster_n > 1)

    @property
    def works(self) -> int:
        """Tiles of all results, in clusters."""
        return self.tiles * self.batch * self.config.splits

    @property
    def steps(self) -> int:
        """Of k, in one split."""
        whole = -(-self.a.cols // BK)
        return -(-whole // self.config.splits)

    @property
    def by_tma(self) -> bool:
        return self.out.tma_refusal() is None

    def waves(self, sms: int) -> int:
        """Tiles that a cluster works off one after the other."""
        return -(-self.works // max(sms // self.config.cluster, 1))

    def step(self, sms: int) -> Step:
        """The launch, with as few blocks as end no later than one for each multiprocessor would."""
        config = self.config
        struct = self._struct()
        blocks = -(-self.works // self.waves(sms)) * config.cluster
        return Step(
            kernel_source("wgmma.cu", self._macros(struct), self.epilogue),
            ARCH,
            KERNEL,
            (blocks, 1, 1),
            (config.threads, 1, 1),
            (struct, epilogue_struct(self.epilogue)),
            config.shared_bytes,
            (config.cluster, 1, 1),
            overlap=True,
        )

    def _macros(self, struct: Struct) -> dict[str, str]:
        config = self.config
        numbers = {
            "BM": config.bm,
            "BN": config.bn,
            "BK": BK,
            "STAGES": config.stages,
            "CONSUMERS": config.consumers,
            "TURNS": config.turns,
            "CLUSTER_M": config.cluster_m,
            "CLUSTER_N": config.cluster_n,
            "SMEM_BYTES": config.shared_bytes,
            "GATED": int(self.gated),
            "SWAPPED": int(self.swapped),
            "OUT_PAIRS": int(self.out.vector > 1),
        }
        return {
            **{name: str(value) for name, value in numbers.items()},
            "ELEMENT": self.a.dtype.cpp,
            "OUT": self.out.dtype.cpp,
            "A_MAJOR": "K" if k_major(self.a) else "MN",
            "B_MAJOR": "K" if k_major(self.b.transposed) else "MN",
            **struct.record.defines(),
        }

    def _struct(self) -> Struct:
        config, (a_at, b_at, out_at) = self.config, self.at
        results = self.batch * config.splits
        a_parts = config.cluster_n
        b_parts = 2 if self.gated and config.cluster_m == 1 else config.cluster_m
        fields: list[tuple[str, str, Value]] = [
            ("A_map", "map", _operand(self.a, a_at, self.batch, config.bm // a_parts)),
            ("B_map", "map", _operand(self.b.transposed, b_at, self.batch, config.bn // b_parts)),
        ]
        if self.by_tma:
            box = (2 * PANEL // self.out.dtype.bytes, MMA_M, 1)
            fields.append(("out_map", "map", _map(self.out, out_at, results, box)))
        fields += [
            ("out", "u8", out_at),
            ("out_row", "i8", self.out.row_stride),
            ("out_col", "i8", self.out.col_stride),
            ("out_matrix", "i8", self.out.batch_stride),
            ("M", "i4", self.out.rows),
            ("N", "i4", self.out.cols),
            ("K", "i4", self.a.cols),
            ("batch", "i4", self.batch),
            ("split_steps", "i4", self.steps),
            ("splits", "i4", config.splits),
            ("A_step", "i4", int(self.a.batch_stride != 0)),
            ("B_step", "i4", int(self.b.batch_stride != 0)),
        ]
        return Struct(
            "WGMMA_ARGS",
            tuple((name, kind) for name, kind, _ in fields),
            tuple((name, value) for name, _, value in fields),
        )


def k_major(matrix: Matrix) -> bool:
    """Whether an operand [rows of a or columns of b, k] is copied along k, else along the rows."""
    return matrix.tma_refusal() is None


def alone(matrix: Matrix, batch: int) -> Matrix:
    """The matrix without a stride that leads nowhere, as there is but one."""
    return matrix if batch > 1 else replace(matrix, batch_stride=0)


def _operand(matrix: Matrix, at: Address, batch: int, rows: int) -> MapAt:
    """The map of a, or of b transposed: [rows, k]. A K-major box has so many `rows`."""
    if k_major(matrix):
        return _map(matrix, at, batch, (PANEL, rows, 1))
    return _map(matrix.transposed, at, batch, (PANEL, BK, 1))


def _map(matrix: Matrix, at: Address, count: int, box: Dim3) -> MapAt:
    """Of `count` row-major matrices, or of one that is all of them."""
    row = _pitch(matrix.rows, matrix.row_stride * matrix.dtype.bytes)
    many = count if matrix.batch_stride else 1
    between = _pitch(many, matrix.batch_stride * matrix.dtype.bytes)
    form = TensorMap(
        matrix.dtype.name,
        ANYWHERE,
        (matrix.cols, matrix.rows, many),
        (row, between),
        box,
        swizzle=_SWIZZLE,
        l2_promotion=_PROMOTION,
    )
    return MapAt(at, form)


def _pitch(count: int, pitch: int) -> int:
    """The bytes between so many rows or matrices; of one alone, some that a map may have."""
    return pitch if count > 1 else LARGEST_VECTOR

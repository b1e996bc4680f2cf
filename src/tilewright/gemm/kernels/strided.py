"""What the kernels for any strides share: parameters, refusals, and how they read an operand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from tilewright.gemm.kernels.source import KERNEL, columns, epilogue_struct, kernel_source
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.plan import Plan
from tilewright.gemm.request import Request
from tilewright.gemm.step import Address, Step, Struct, Value
from tilewright.gpus import Gpu

OUT_TYPES = ("bf16", "fp16", "fp32")
TOO_MANY_BLOCKS = "the result has more tiles than a grid has blocks (2³¹)"
MOST_BLOCKS = 2**31 - 1  # of a grid, along x
_LARGEST = 2**31 - 1024  # of an extent: kernels count in 32 bits, a tile beyond the edge too
_MOST_STAGES = 4
_LAUNCH_US = 2.0
_FILL_US = 1.0  # until the first tile has come from memory, and the last one is stored
_MEMORY_SHARE = 0.85  # of the rate in the table that a kernel reaches

# What is left of a kernel's rate by the bytes of one copy: single elements of 16 bits take an
# instruction each to load and to put down. Estimates, unmeasured.
_COPY_SHARES = {16: 1.0, 8: 0.85, 4: 0.7, 2: 0.4}

_ADDRESSES = ("A", "B", "D")
_STRIDES = ("row", "col", "batch")
_EXTENTS = ("M", "N", "K")


@dataclass(frozen=True)
class Tile:
    """A block's tile, a warp's part of the product, and how many blocks share a multiprocessor.

    `share` is what it reaches of the GPU's rate where nothing else binds.
    """

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    blocks: int
    share: float

    @property
    def threads(self) -> int:
        return 32 * (self.bm // self.wm) * (self.bn // self.wn)

    @property
    def name(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk} by {self.threads} threads"

    def macros(self) -> dict[str, str]:
        fields = ("bm", "bn", "bk", "wm", "wn", "blocks")
        return {name.upper(): str(getattr(self, name)) for name in fields}

    def stages(self, stage_bytes: int, gpu: Gpu) -> int:
        """As many as lie in the multiprocessor's shared memory beside those of its other blocks."""
        each = gpu.shared_bytes_per_sm // self.blocks - gpu.shared_bytes_reserved
        return min(_MOST_STAGES, min(each, gpu.shared_bytes_per_block) // stage_bytes)


@dataclass(frozen=True)
class Operand:
    """How a kernel copies A[m, k] or B[n, k]: along K or across it, `vector` elements at once."""

    along_k: bool
    vector: int


@dataclass(frozen=True)
class Product:
    """The product as the kernel is told it: D[m, n / columns] = e(A[m, k] · B[k, n]).

    `swapped` where D is the transposed result: a result that lies column by column is one that lies
    row by row for the kernel, whose A then is the request's b, transposed.
    """

    a: Matrix
    b: Matrix
    out: Matrix
    names: tuple[str, str]  # of A and B among the request's operands
    swapped: bool


def product(request: Request, columns: int) -> Product:
    """The request, or its transpose where that stores along rows. With a gate, never that one:
    the columns of a gate are columns."""
    if columns == 1 and _rather_transposed(request.out):
        return Product(
            request.b.transposed, request.a.transposed, request.out.transposed, ("b", "a"), True
        )
    return Product(request.a, request.b, request.out, ("a", "b"), False)


def _rather_transposed(out: Matrix) -> bool:
    return min(out.rows, out.cols) > 1 and abs(out.row_stride) < abs(out.col_stride)


def vector(matrix: Matrix) -> int:
    """Elements along a row that one access may take, where the last one of a row may be cut:
    unlike `Matrix.vector` it does not ask what the row's length is a multiple of."""
    return replace(matrix, cols=0).vector if matrix.cols > 1 else 1


def operand(lines: Matrix, part: int | None = None) -> Operand:
    """How to copy a matrix whose rows run along K.

    `part` is the extent along the other axis of one part of a gate, where there are two: vectors
    must not cross from one to the other.
    """
    across = vector(lines.transposed)
    while part is not None and part % across:
        across //= 2
    along = vector(lines)
    if along == across:
        return Operand(abs(lines.col_stride) <= abs(lines.row_stride), along)
    return Operand(along > across, max(along, across))


def refusal(request: Request, columns: int) -> str | None:
    """The sentence for what no kernel for any strides takes, whatever its types are."""
    if request.a.dtype != request.b.dtype:
        return f"a is {request.a.dtype.name} and b {request.b.dtype.name}: both must be one type"
    if request.out.dtype.name not in OUT_TYPES:
        return f"stores {', '.join(OUT_TYPES)}, not {request.out.dtype.name}"
    for axis, extent in (("m", request.m), ("n", request.n), ("k", request.k)):
        if extent < 1:
            return f"{axis}={extent} leaves nothing to multiply"
        if extent > _LARGEST:
            return f"{axis}={extent} is above {_LARGEST}, which is as far as its indices count"
    if request.n % columns:
        return f"n={request.n} must be even: a gate has as many columns as what it gates"
    return None


def _bytes(matrix: Matrix, batch: int) -> int:
    """What lies in memory of a batch of matrices: no element twice that a stride of 0 repeats."""
    extents = (
        (matrix.rows, matrix.row_stride),
        (matrix.cols, matrix.col_stride),
        (batch, matrix.batch_stride),
    )
    return matrix.dtype.bytes * prod(extent for extent, stride in extents if stride)


def arguments(made: Product) -> Struct:
    """The kernel's StridedArgs, see cuda/tile/strided_args.cuh."""
    matrices = (made.a, made.b, made.out)
    values: dict[str, Value] = dict(
        zip(_ADDRESSES, map(Address, (*made.names, "out")), strict=True)
    )
    for letter, matrix in zip(_ADDRESSES, matrices, strict=True):
        for name in _STRIDES:
            values[f"{letter}_{name}"] = getattr(matrix, f"{name}_stride")
    extents = (made.a.rows, made.b.cols, made.a.cols)
    values |= dict(zip(_EXTENTS, extents, strict=True))
    kinds = dict.fromkeys(_ADDRESSES, "u8") | dict.fromkeys(_EXTENTS, "i4")
    fields = tuple((name, kinds.get(name, "i8")) for name in values)
    return Struct("STRIDED_ARGS", fields, tuple(values.items()))


@dataclass(frozen=True)
class Job:
    """One tile's way through a request: all that a plan of a family says, but for its own macros.

    `tflops` is the GPU's rate at what the family multiplies with, of which a tile reaches a share.
    """

    request: Request
    gpu: Gpu
    tile: Tile
    stage_bytes: int
    tflops: float

    @property
    def columns(self) -> int:
        return columns(self.request.epilogue)

    @property
    def product(self) -> Product:
        return product(self.request, self.columns)

    @property
    def blocks(self) -> int:
        """Tiles of all matrices, those counted that an edge cuts."""
        tile, made = self.tile, self.product
        rows = -(-made.a.rows // tile.bm)
        return rows * -(-made.b.cols // tile.bn) * self.request.batch

    @property
    def fits(self) -> bool:
        """A grid can count the blocks, and two tiles at least lie in shared memory."""
        stages = self.tile.stages(self.stage_bytes, self.gpu)
        return self.blocks <= MOST_BLOCKS and stages >= 2

    def copies(self) -> tuple[Operand, Operand]:
        """How A and B are copied."""
        made = self.product
        part = made.b.cols // 2 if self.columns == 2 else None
        return operand(made.a), operand(made.b.transposed, part)

    def plan(self, file: str, macros: Mapping[str, str]) -> Plan:
        """The plan of one launch. `macros` are those that only the family knows."""
        made, stages = self.product, self.tile.stages(self.stage_bytes, self.gpu)
        struct = arguments(made)
        shared = stages * self.stage_bytes
        every = {
            **self.tile.macros(),
            **struct.record.defines(),
            "STAGES": str(stages),
            "SMEM_BYTES": str(shared),
            "ELEMENT": made.a.dtype.cpp,
            "OUT": made.out.dtype.cpp,
            "COLUMNS": str(self.columns),
            "SWAPPED": str(int(made.swapped)),
            "VEC_D": str(vector(made.out)),
            **macros,
        }
        step = Step(
            kernel_source(f"{file}.cu", every, self.request.epilogue),
            self.gpu.arch,
            KERNEL,
            (self.blocks, 1, 1),
            (self.tile.threads, 1, 1),
            (struct, epilogue_struct(self.request.epilogue)),
            shared,
        )
        config = f"{self.tile.name}, {stages} stages"
        return Plan(file, config, (step,), us=self.us())

    def us(self) -> float:
        """What the model expects: the tiles that the busiest multiprocessor works off at its part
        of the rate, or the bytes that memory has to move, whichever takes longer."""
        tile, gpu, request = self.tile, self.gpu, self.request
        steps = -(-request.k // tile.bk)
        flops = 2 * tile.bm * tile.bn * tile.bk * steps * -(-self.blocks // gpu.sms)
        rate = self.tflops * 1e6 / gpu.sms * tile.share  # FLOP a µs
        rate *= min(
            _COPY_SHARES[min(copy.vector * request.a.dtype.bytes, 16)] for copy in self.copies()
        )
        moved = sum(_bytes(matrix, request.batch) for matrix in (request.a, request.b, request.out))
        memory = moved / (gpu.memory_gbps * 1e3 * _MEMORY_SHARE)
        return _LAUNCH_US + _FILL_US + max(flops / rate, memory)

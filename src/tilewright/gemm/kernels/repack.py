"""A copy of a matrix that TMA does not reach: aligned, its lines at multiples of 16 bytes."""

from __future__ import annotations

from math import prod

from tilewright.errors import InputError
from tilewright.gemm.kernels.source import KERNEL, kernel_source
from tilewright.gemm.matrix import LARGEST_VECTOR, Matrix
from tilewright.gemm.step import Address, Step, Struct, Value
from tilewright.launch import GRID_LIMITS

_THREADS = 256
_LINE_BYTES = 128  # of a square that a block copies
_ALIGNMENT = 256  # bytes, of the sizes, so that copies may lie one behind the other
_KINDS = {"from": "u8", "to": "u8", "lines": "i4", "length": "i4"}  # all others: i8


def repacked(matrix: Matrix, batch: int = 1, row_major: bool | None = None) -> Matrix:
    """The copy of a batch of matrices: row-major, column-major, or, if `row_major` is not given,
    whichever way the source lies together. Matrices that are all the same one stay one."""
    if row_major is None:
        row_major = _read_along_rows(matrix)
    lines, length = (matrix.rows, matrix.cols) if row_major else (matrix.cols, matrix.rows)
    step = LARGEST_VECTOR // matrix.dtype.bytes
    pitch = -(-length // step) * step
    strides = (pitch, 1) if row_major else (1, pitch)
    between = lines * pitch if _copies(matrix, batch) > 1 else 0
    return Matrix(matrix.dtype, matrix.rows, matrix.cols, *strides, between, LARGEST_VECTOR)


def repack_bytes(matrix: Matrix, batch: int = 1, row_major: bool | None = None) -> int:
    """Bytes of the copy, rounded up to a multiple of 256."""
    copy = repacked(matrix, batch, row_major)
    lines = copy.rows if copy.col_stride == 1 else copy.cols
    pitch = max(copy.row_stride, copy.col_stride)
    size = _copies(matrix, batch) * lines * pitch * matrix.dtype.bytes
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def repack_step(
    matrix: Matrix,
    source: Address,
    to: Address,
    arch: str,
    batch: int = 1,
    row_major: bool | None = None,
) -> tuple[Step, Matrix]:
    """The launch that copies a batch of matrices from `source` to `to`, and what lies there then.

    Types    elements of 2 or 4 bytes, which are moved as they are.
    Raises   InputError for a `to` that is no multiple of 16 bytes, for empty matrices, and for more
             of them than a grid has blocks.
    """
    if to.offset % LARGEST_VECTOR:
        raise InputError(f"to.offset={to.offset} must be a multiple of {LARGEST_VECTOR} bytes.")
    copy = repacked(matrix, batch, row_major)
    along_rows = copy.col_stride == 1
    lying, copied = (matrix, copy) if along_rows else (matrix.transposed, copy.transposed)
    values: dict[str, Value] = {
        "from": source,
        "to": to,
        "line": lying.row_stride,
        "along": lying.col_stride,
        "batch": lying.batch_stride,
        "pitch": copied.row_stride,
        "to_batch": copied.batch_stride,
        "lines": lying.rows,
        "length": lying.cols,
    }
    kinds = tuple((name, _KINDS.get(name, "i8")) for name in values)
    struct = Struct("REPACK_ARGS", kinds, tuple(values.items()))
    side = _LINE_BYTES // matrix.dtype.bytes
    blocks = prod(-(-extent // side) for extent in (lying.rows, lying.cols))
    blocks *= _copies(matrix, batch)
    if not 0 < blocks <= GRID_LIMITS[0]:
        raise InputError(
            f"{batch} matrices of {matrix.rows}×{matrix.cols} take {blocks} blocks to copy; a grid "
            f"has 1 to {GRID_LIMITS[0]}."
        )
    macros = {
        **struct.record.defines(),
        "ELEMENT_BYTES": str(matrix.dtype.bytes),
        "SQUARE": str(side),
        "READ_ALONG": str(int(along_rows == _read_along_rows(matrix))),
    }
    step = Step(
        kernel_source("repack.cu", macros),
        arch,
        KERNEL,
        (blocks, 1, 1),
        (_THREADS, 1, 1),
        (struct,),
    )
    return step, copy


def _read_along_rows(matrix: Matrix) -> bool:
    """Whether neighbours in a row are nearer than those in a column. A single row is a row."""
    if min(matrix.rows, matrix.cols) == 1:
        return matrix.rows == 1
    return abs(matrix.col_stride) <= abs(matrix.row_stride)


def _copies(matrix: Matrix, batch: int) -> int:
    return batch if matrix.batch_stride else 1

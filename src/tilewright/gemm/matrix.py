"""Matrix: where an operand lies in memory, without the memory: what a plan may depend on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilewright.dtypes import DType

LARGEST_VECTOR = 16  # bytes that one load or store of a thread may take
_TMA_LARGEST_PITCH = 2**40  # bytes; a tensor map's strides are below it
_TMA_LARGEST_EXTENT = 2**32


@dataclass(frozen=True)
class Matrix:
    """A batch of matrices [rows, cols] of one type.

    Strides count elements and may be 0 or negative; `batch_stride` lies between the matrices of a
    batch, 0 where all are the same one. `alignment` is the largest power of two, 16 at most, that
    divides the address of element (0, 0), in bytes.
    """

    dtype: DType
    rows: int
    cols: int
    row_stride: int
    col_stride: int
    batch_stride: int = 0
    alignment: int = LARGEST_VECTOR

    @property
    def transposed(self) -> Matrix:
        """The same memory with rows and columns exchanged."""
        return replace(
            self,
            rows=self.cols,
            cols=self.rows,
            row_stride=self.col_stride,
            col_stride=self.row_stride,
        )

    @property
    def row_major(self) -> bool:
        """The elements of a row lie next to each other. A single column counts, too."""
        return self.col_stride == 1 or self.cols == 1

    @property
    def col_major(self) -> bool:
        """The elements of a column lie next to each other. A single row counts, too."""
        return self.transposed.row_major

    @property
    def vector(self) -> int:
        """How many elements along a row one access may take: a power of two, 1 at least.

        So many that every such piece of every row of every matrix begins at a multiple of its
        own size, and that a row's length is a multiple of it. Of a matrix that is not row-major: 1.
        """
        if self.col_stride != 1:
            return 1
        vector = self.alignment // self.dtype.bytes
        strides = (self.row_stride if self.rows > 1 else 0, self.batch_stride, self.cols)
        while vector > 1 and any(stride % vector for stride in strides):
            vector //= 2
        return max(vector, 1)

    def tma_refusal(self) -> str | None:
        """Why a tensor map cannot describe this row-major matrix; None where it can.

        Rows and matrices must begin at multiples of 16 bytes and lie upwards in memory. (A row
        may be of any length: what lies beyond it is read as zeros and never written.)
        """
        if self.col_stride != 1 and self.cols > 1:
            return "its rows are not contiguous"
        if self.alignment < LARGEST_VECTOR:
            return f"its address is a multiple of {self.alignment} bytes, not of 16"
        for what, stride, count in (
            ("rows", self.row_stride, self.rows),
            ("matrices", self.batch_stride, 2 if self.batch_stride else 1),
        ):
            pitch = stride * self.dtype.bytes
            if count > 1 and (pitch % LARGEST_VECTOR or not 0 < pitch < _TMA_LARGEST_PITCH):
                return f"its {what} are {pitch} bytes apart, which TMA does not reach"
        if max(self.rows, self.cols) > _TMA_LARGEST_EXTENT:
            return "it has an extent above 2³²"
        return None

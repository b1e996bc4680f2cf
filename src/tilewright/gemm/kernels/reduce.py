"""The end of a product whose K was split: partial sums added in order, epilogue, one rounding."""

from __future__ import annotations

from tilewright.errors import InputError
from tilewright.gemm.kernels.source import KERNEL, columns, epilogue_struct, kernel_source
from tilewright.gemm.kernels.strided import vector
from tilewright.gemm.matrix import LARGEST_VECTOR
from tilewright.gemm.request import Request
from tilewright.gemm.step import Address, Step, Struct, Value
from tilewright.launch import GRID_LIMITS

_THREADS = 256
_RUN = 4  # neighbours of a row that a thread adds
_KINDS = {"from": "u8", "D": "u8", "M": "i4", "N": "i4", "splits": "i4"}  # all others: i8


def reduce_steps(
    request: Request, splits: int, source: Address, arch: str, swapped: bool = False
) -> tuple[Step, ...]:
    """The launch that makes `out` of partial sums at `source`.

    Shapes   [splits, batch, m, n] in fp32, with a gate in all its 2·n columns; where `swapped`,
             those of the transposed product: [splits, batch, n, m].
    Raises   InputError for a `source` that is no multiple of 16 bytes, for a gate of a transposed
             product, and for more elements than a grid has threads for.
    Cost     reads all of it once; the order of the additions is that of the splits, always.
    """
    wide = columns(request.epilogue)
    if source.offset % LARGEST_VECTOR:
        raise InputError(
            f"source.offset={source.offset} must be a multiple of {LARGEST_VECTOR} bytes."
        )
    if swapped and wide == 2:
        raise InputError("a gate's columns are not those of the transposed product; do not swap.")
    out = request.out.transposed if swapped else request.out
    rows, cols = (request.n, request.m) if swapped else (request.m, request.n)
    lines, result = request.batch * rows, cols // wide
    runs = lines * -(-result // _RUN)
    if not 0 < runs <= GRID_LIMITS[0] * _THREADS:
        raise InputError(
            f"{request.batch} results of {rows}×{result} take {runs} threads to reduce; a grid has "
            f"1 to {GRID_LIMITS[0] * _THREADS}."
        )
    values: dict[str, Value] = {
        "from": source,
        "D": Address("out"),
        "D_row": out.row_stride,
        "D_col": out.col_stride,
        "D_batch": out.batch_stride,
        "split": lines * cols,
        "runs": runs,
        "M": rows,
        "N": cols,
        "splits": splits,
    }
    kinds = tuple((name, _KINDS.get(name, "i8")) for name in values)
    struct = Struct("REDUCE_ARGS", kinds, tuple(values.items()))
    macros = {
        **struct.record.defines(),
        "OUT": request.out.dtype.cpp,
        "THREADS": str(_THREADS),
        "COLUMNS": str(wide),
        "SWAPPED": str(int(swapped)),
        "VEC_FROM": str(1 if result % _RUN else _RUN),
        "VEC_D": str(vector(out)),
    }
    step = Step(
        kernel_source("reduce.cu", macros, request.epilogue),
        arch,
        KERNEL,
        (-(-runs // _THREADS), 1, 1),
        (_THREADS, 1, 1),
        (struct, epilogue_struct(request.epilogue)),
    )
    return (step,)

# cpu_blas: one call of the library that NumPy was built with.
#
# Idea      OpenBLAS, MKL or Accelerate do what cpu_blocked does, and the rest: a tile for each
#           level of cache and for the registers, copies of A and B in the order in which they are
#           read, vector multiply-adds, all cores.
# Expect    near the processor's peak in fp32. bf16 and fp16 are made fp32 first, as C is rounded
#           afterwards: both cost a pass over memory.
# Found     a 53rd of what torch does on the GPU. 4096³ fp32 on 16 cores of a Xeon, an H200's host:
#           141,159.4 µs, 1.0 TFLOP/s (2026-11-30T14:16:07Z).
# Next      the GPU: sgemm_naive (tilewright ladder simt) begins again with one element at a time.
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def gemm(a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any]) -> None:
    """C[m, n] = A[m, k] · B[k, n] in fp32, rounded once to C's type."""
    rows, columns = a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
    if c.dtype == np.float32:
        np.matmul(rows, columns, out=c)
    else:
        c[...] = rows @ columns

# cpu_loops: three loops, one multiplication and one addition at a time.
#
# Idea      the formula as it stands: C[i, j] is the sum over x of A[i, x]·B[x, j]. Each element of
#           C is independent of the others, each of A is read n times, each of B m times.
# Expect    Python takes 0.1 µs for a product, whatever the memory does; so it takes small sizes
#           only. In a compiled language these loops would wait for B, whose columns they walk.
# Found     as expected. 256x384x192 fp32 on one core of a Xeon, an H200's host: 1,894,341.6 µs
#           (2026-11-30T14:52:28Z). The results are as exact as fp32 sums in the order of K are.
# Next      cpu_blocked walks over tiles instead of elements.
from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def gemm(a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any]) -> None:
    """C[m, n] = A[m, k] · B[k, n] in fp32, rounded once to C's type."""
    (m, k), n = a.shape, b.shape[1]
    rows = [list(row) for row in a.astype(np.float32)]  # np.float32 each: a float would be fp64
    columns = [list(column) for column in b.astype(np.float32).T]
    for i in range(m):
        for j in range(n):
            total = np.float32(0)
            for x in range(k):
                total += rows[i][x] * columns[j][x]
            c[i, j] = total

"""The process in which Triton's interpreter runs rungs, for bench/interpreted.py.

TRITON_INTERPRET=1 must be set when triton is first imported and changes it for good. So it is set
for this process alone, and nobody's own triton is touched.

    python -m tilewright.bench.triton_child FOLDER m n k layout dtype RUNG...

reads a.npy and b.npy as they lie in memory, writes RUNG.npy for each C, and prints a line of JSON
when a rung is done: its name, and what it failed with or null.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.bench.inputs import logical
from tilewright.bench.user_function import told
from tilewright.dtypes import DTYPES
from tilewright.ladder.python_rungs import TRITON
from tilewright.problem import Problem


def main(arguments: list[str]) -> None:
    folder, m, n, k, layout, dtype, *names = arguments
    problem = Problem(int(m), int(n), int(k), DTYPES[dtype], layout)
    torch: Any = importlib.import_module("torch")
    stored = (np.load(Path(folder, name), allow_pickle=False) for name in ("a.npy", "b.npy"))
    a, b = (torch.from_numpy(each) for each in logical(problem, *stored))
    for name in names:
        error = None
        c = torch.full((problem.m, problem.n), float("nan"), dtype=a.dtype)
        try:
            next(rung for rung in TRITON if rung.name == name).gemm(a, b, c)
        except Exception as raised:  # whatever triton raises: the next rung may do better
            error = told(raised)
        np.save(Path(folder, f"{name}.npy"), c.numpy())
        print(json.dumps({"name": name, "error": error}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

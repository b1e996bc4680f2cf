"""Which files a picture is made of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.bench.charts import is_kernel
from tilewright.bench.ladder import ON_GPU
from tilewright.bench.record import load

if TYPE_CHECKING:
    import os

    from tilewright.bench.record import Measurement

TRIED = "tried"  # the folder of kernels that were tried and not kept


def read(
    path: str | os.PathLike[str], kind: str, dtype: str = "bf16", gpu: str | None = None
) -> tuple[list[Measurement], list[Path]]:
    """The lines for a kind of picture, and the files that they are from.

    Of a folder its *.jsonl files, then those of its subfolders but "tried". A ladder is of the
    folder's own files where they have a kernel at 4096×4096×4096 nn of this type and GPU.
    Raises: InputError naming file and line.
    """
    source = Path(path)
    if not source.is_dir():
        return load(source), [source]
    own = sorted(source.glob("*.jsonl"))
    lines = [line for file in own for line in load(file)]
    if kind == "ladder" and any(_on_the_ladder(line, dtype, gpu) for line in lines):
        return lines, own
    below = sorted(file for file in source.glob("*/*.jsonl") if file.parent.name != TRIED)
    return lines + [line for file in below for line in load(file)], own + below


def _on_the_ladder(line: Measurement, dtype: str, gpu: str | None) -> bool:
    here = line.dtype == dtype and (gpu or "").lower() in line.machine.lower()
    return here and is_kernel(line) and (line.m, line.n, line.k, line.layout) == (*ON_GPU, "nn")

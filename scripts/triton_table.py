"""Writes the table of docs/triton.md: naive, shared, Triton and cuBLAS on one shape and type.

python scripts/triton_table.py          # writes it
python scripts/triton_table.py --check  # fails where the page is stale

All figures of a table are of one run: the newest on an H200 that timed a Triton rung, else the
newest that timed the naive one. A kernel that this run did not time is not measured yet.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tilewright.bench.record import Measurement, load
from tilewright.bench.report import between
from tilewright.ladder.rungs import select

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "triton.md"
MEASUREMENTS = ROOT / "measurements"
BEGIN = "<!-- begin: scripts/triton_table.py -->"
END = "<!-- end: scripts/triton_table.py -->"
SIZE, GPU = 4096, "NVIDIA H200"
TRITON = [rung.name for rung in select("triton")]
# By type: the kernel that each word stands for.
ROLES = {
    "bf16": [("naive", "hgemm_naive"), ("shared", "hgemm_bcf"), ("cuBLAS", "hgemm_cublas")],
    "fp32": [("naive", "sgemm_naive"), ("shared", "sgemm_shared"), ("cuBLAS", "sgemm_cublas")],
}


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    lines = load(MEASUREMENTS)
    part = "\n\n".join(table(dtype, lines) for dtype in ROLES)
    fresh = between(text, BEGIN, END, part)
    if "--check" in arguments:
        if fresh != text:
            print(f"{PAGE} is stale; run {Path(__file__).name}", file=sys.stderr)
        return int(fresh != text)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


def table(dtype: str, lines: Sequence[Measurement]) -> str:
    """The Markdown table of a type."""
    naive, shared, library = ROLES[dtype]
    kernels = [naive, shared, *(("Triton", name) for name in TRITON), library]
    run = {line.name: line for line in run_of(dtype, lines, naive[1])}
    title = f"**{SIZE}×{SIZE}×{SIZE} nn, {dtype}, {GPU}**"
    for line in list(run.values())[:1]:
        title += f" (driver {line.driver}, {line.taken})"
    head = ["", "| | kernel | time (µs) | TFLOP/s | speed ÷ torch |", "|:--|:--|--:|--:|--:|"]
    return "\n".join([title, *head, *(row(word, name, run.get(name)) for word, name in kernels)])


def run_of(dtype: str, lines: Sequence[Measurement], naive: str) -> list[Measurement]:
    """The right lines of the run that the table shows; none where nothing was measured."""
    here = [
        line
        for line in lines
        if (line.gpu, line.dtype, line.layout) == (GPU, dtype, "nn")
        and (line.m, line.n, line.k) == (SIZE, SIZE, SIZE)
        and line.correct
    ]
    for wanted in (TRITON, [naive]):
        if taken := max((line.taken for line in here if line.name in wanted), default=None):
            return [line for line in here if line.taken == taken]
    return []


def row(word: str, name: str, line: Measurement | None) -> str:
    if line is None:
        return f"| {word} | {name} | not measured yet | – | – |"
    ratio = "–" if line.rival != "torch" or line.ratio is None else f"{line.ratio:.2f}"
    return f"| {word} | {name} | {line.us:,.1f} | {line.tflops:.1f} | {ratio} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`tilewright ladder`: run a family of kernels, rung by rung."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tilewright.cli.options import JsonTarget, MaybeWhole, Whole
from tilewright.cli.output import check_targets, emit, progress_bar
from tilewright.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table


def ladder(
    family: str | None = None,
    /,
    *,
    m: Annotated[MaybeWhole, Parameter(name=["-m", "--m"])] = None,
    n: Annotated[MaybeWhole, Parameter(name=["-n", "--n"])] = None,
    k: Annotated[MaybeWhole, Parameter(name=["-k", "--k"])] = None,
    dtype: str | None = None,
    layout: str = "nn",
    rung: Annotated[list[str] | None, Parameter(negative=())] = None,
    engine: str = "auto",
    gpu: str | None = None,
    all_: Annotated[bool, Parameter(name="--all", negative=())] = False,
    list_: Annotated[bool, Parameter(name="--list", negative=())] = False,
    seed: Whole = 0,
    record: Path | None = None,
    json: JsonTarget = None,
) -> int:
    """Run a family of kernels, each one idea better than the one before, and say why.

    On a GPU every rung is timed against PyTorch and cuBLAS; without one the emulator runs its
    compiled PTX and counts what the hardware would count. Every result is checked in float64.

    Example: tilewright ladder -m 256 -n 384 -k 192 --engine emulator

    Parameters
    ----------
    family
        The family of rungs: hgemm (Tensor Cores), simt (fp32), cpu (NumPy on the host) or triton
        (without a GPU in Triton's interpreter); hgemm if none is named.
    m
        Rows of A and C (multiples of 128); 4096 on a GPU, 256 in the emulator.
    n
        Columns of B and C (multiples of 128); 4096 on a GPU, 384 in the emulator.
    k
        Columns of A, rows of B (multiples of 32); 4096 on a GPU, 192 in the emulator.
    dtype
        Type of A, B and C: bf16 or fp16 for hgemm, fp32 for simt, any for cpu and triton;
        the family's first if none is named. Sums are fp32.
    layout
        How A and B lie: nn, nt (B stored [N, K]), tn or tt. hgemm and simt take nn.
    rung
        Only this rung; give the option again for another one. --list names them.
    engine
        auto (the GPU if there is one), gpu or emulator.
    gpu
        The GPU to count for in the emulator: a100, h100, h200, l40s, rtx3080, rtx3090, rtx4090,
        rtx5060, rtx5090.
    all_
        Run all families, each in its own type unless --dtype names one.
    list_
        List families and rungs, and run nothing.
    seed
        Seed of the random operands.
    record
        Append each timed rung as a line to this .jsonl file (GPU only).
    """
    from tilewright.bench.ladder import climb  # NumPy and the engines: not for --help
    from tilewright.bench.record import append
    from tilewright.engines.choose import which

    check_targets(json, record)
    if all_ and (family is not None or rung):
        raise InputError("--all runs every family; leave out the family and --rung.")
    if record is not None and which(engine, gpu) == "emulator":
        raise InputError("--record keeps times, and the emulator has none; it needs a GPU.")
    if list_:
        rows = listing(family, rung or ())
        emit("ladder-list", rows, _listing_table(rows), json)
        return 0
    with progress_bar(json) as progress:
        result = climb(
            family,
            m=m,
            n=n,
            k=k,
            dtype=dtype,
            layout=layout,
            rungs=rung or (),
            engine=engine,
            gpu=gpu,
            every_family=all_,
            seed=seed,
            progress=progress,
        )
    if record is not None:
        append(record, result.measurements)
    emit("ladder", result.to_dicts(), result, json)
    if not result.ran:  # for want of a library, which the rows' reasons name
        return 2
    return 0 if result.correct else 1


def listing(family: str | None, names: Sequence[str]) -> list[dict[str, str]]:
    """Families and rungs with the idea of each."""
    from tilewright.ladder.rungs import select

    return [
        {"family": rung.family, "name": rung.name, "idea": rung.idea, "file": rung.file}
        for rung in select(family, tuple(names))
    ]


def _listing_table(rows: list[dict[str, str]]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("family", no_wrap=True)
    table.add_column("rung", no_wrap=True)
    table.add_column("idea, and its file under tilewright/ladder/")
    for row in rows:
        table.add_row(row["family"], row["name"], f"{row['idea']}\n{row['file']}")
    return table

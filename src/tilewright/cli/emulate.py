"""`tilewright emulate`: one launch of any kernel, without a GPU."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tilewright.cli.options import JsonTarget, MaybeWhole, Whole
from tilewright.cli.output import emit, late_progress, warnings_as_notes

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from tilewright.cli.emulate_run import Outcome

Words = Annotated[list[str] | None, Parameter(negative=())]


def emulate(
    file: Path,
    /,
    *,
    grid: str,
    block: str,
    kernel: str | None = None,
    arg: Words = None,
    check: Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)] = None,
    save: Words = None,
    data_seed: Whole = 0,
    define: Words = None,
    include: Words = None,
    arch: str | None = None,
    shared_bytes: MaybeWhole = None,
    cluster: str | None = None,
    schedule: str | None = None,
    seed: MaybeWhole = None,
    blocks: str | None = None,
    shape: Words = None,
    no_checks: Annotated[bool, Parameter(negative=())] = False,
    json: JsonTarget = None,
) -> int:
    """Run one launch of a kernel, CUDA C++ or PTX, without a GPU; say what it did.

    The emulator counts wavefronts and sectors by source line and looks for faults;
    results are checked against float64.

    Example, to paste into an empty folder:

    echo 'extern "C" __global__ void transpose(const float* in, float* out) {
      __shared__ float tile[32][33];
      tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 32 + threadIdx.x];
      __syncthreads();
      out[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
    }' > transpose.cu
    tilewright emulate transpose.cu --grid 1 --block 32,32 \\
      --arg in=randn:32x32 --arg out=empty:32x32 --check "out == in.T"

    With 32 for 33 reading the tile takes 1,024 wavefronts, not 32.

    Exit codes: 0 fine; 1 a finding, a failed check or a run that did not complete;
    2 bad input.

    Parameters
    ----------
    file
        A .cu or .cuh file of CUDA C++, or a .ptx file.
    grid
        Blocks of the grid: 8 or 8,2 or 8,2,1.
    block
        Threads of a block: 256 or 32,8.
    kernel
        Its name, if the file has several.
    arg
        LABEL=VALUE for each parameter, in order.
        VALUE is FILL:SHAPE[:DTYPE], as in
        a=randn:256x128:bf16, with randn, uniform,
        zeros, ones, arange, empty (NaN) or full(1.5);
        or load:FILE.npy, a number, null, or bytes:HEX
        for a struct. DTYPE: fp16, bf16, fp32 (default),
        fp64, i8 to i64, u8 to u64, bool, e4m3, e5m2.
        load:FILE.npy:bf16 reads bytes as that type;
        1.5:fp16 is a number of that type.
    check
        "c ~ a @ b" is close, "c == a.T" exact (the
        right side rounded once). c is an array after
        the launch; the right side is before it: names,
        numbers, + - * / @ .T ( ), abs(x), exp(x),
        max(x, y), sum(x), sum(x, axis). ~ allows the
        rounding of c's type and of fp32 sums. NaN is
        wrong. May be given again.
    save
        LABEL=FILE.npy, an array after the launch, over
        what is there but not over a file that this run
        reads. May be given again.
    data_seed
        For randn and uniform; every label has random
        numbers of its own.
    define
        A macro: BM=128 or DEBUG. May be given again.
    include
        A folder of headers; the file's own is known.
    arch
        What to compile and count for, such as sm_90.
    shared_bytes
        Dynamic shared memory of a block.
    cluster
        Blocks of a cluster, such as 2 or 2,1.
    schedule
        The order in which warps run, as of lockstep.
    seed
        For a schedule or a sample that is drawn.
    blocks
        Only these blocks: first:N or sample:N.
    shape
        LABEL=SHAPE, the part of a padded array that is
        data, and that checks see. May be given again.
    no_checks
        Only count; do not look for faults.
    """
    from tilewright.cli.emulate_run import Request, emulate_request  # NumPy: not for --help
    from tilewright.emulator.by_line import printable

    request = Request(
        file=file,
        kernel=kernel,
        grid=grid,
        block=block,
        arguments=tuple(arg or ()),
        checks=tuple(check or ()),
        saves=tuple(save or ()),
        data_seed=data_seed,
        defines=tuple(define or ()),
        includes=tuple(include or ()),
        arch=arch,
        shared_bytes=shared_bytes,
        cluster=cluster,
        schedule=schedule,
        seed=seed,
        blocks=blocks,
        shapes=tuple(shape or ()),
        look_for_faults=not no_checks,
        json=json,
    )
    with late_progress(f"running {printable(file.name)}") as progress, warnings_as_notes():
        outcome = emulate_request(request, progress)
    emit("emulate", [outcome.to_dict()], _render(outcome), json)
    return 0 if outcome.fine else 1


def _render(outcome: Outcome) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from tilewright.emulator.by_line import inlined_words, machine_code_words

    report = outcome.report
    said = "completed" if report.completed else "did not complete"
    if outcome.blocks is not None:
        said += f", {outcome.blocks:,} of {prod(outcome.grid):,} blocks ran"
    head = f"{outcome.kernel}, grid {outcome.grid}, block {outcome.block}: {said}"
    parts: list[RenderableType] = [Text(head, style="bold" if report.completed else "bold red")]
    if report.accesses:
        parts.append(_accesses(outcome))
    parts += [Text(line) for line in _totals(outcome)]
    parts += [Text(words, style="yellow") for words in machine_code_words(report)]
    parts += [Text(line) for text in report.printed for line in ("", *text.splitlines())[:1000]]
    parts.append(Text(""))
    for finding in report.findings:
        said = f"{finding.message}{inlined_words(finding)}"
        where = f"{finding.file}:{finding.line}"
        parts.append(Text(f"✗ {finding.kind}, {where}: {said}", style="red"))
    if not report.findings:
        parts.append(Text("no findings"))
    for verdict in outcome.verdicts:
        if verdict.correct:
            error = f"rel. error {verdict.rel_error:.1e}, {verdict.elements:,} elements"
            parts.append(Text(f"✓ {verdict.check}   {error}", style="green"))
        else:
            parts.append(Text(f"✗ {verdict.check}   {verdict.message}", style="red"))
    parts += [Text(f"{label} is in {path}") for label, path in outcome.saved]
    return Group(*parts)


def _accesses(outcome: Outcome) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("line", "opcode"):
        table.add_column(heading, overflow="fold")
    for heading in ("requests", "wave-\nfronts", "ideal", "sectors", "ideal"):
        table.add_column(heading, justify="right", no_wrap=True)
    for a in outcome.report.accesses:
        shared = (a.wavefronts, a.wavefronts_ideal) if "shared" in a.space else (None, None)
        sectors = (a.sectors, a.sectors_ideal) if "global" in a.space else (None, None)
        figures = (a.requests, *shared, *sectors)
        cells = ("–" if figure is None else f"{figure:,}" for figure in figures)
        table.add_row(f"{a.file}:{a.line}", a.opcode, *cells)
    return table


def _totals(outcome: Outcome) -> list[str]:
    totals, issued = outcome.report.totals, outcome.report.instructions
    most = sorted(issued.items(), key=lambda item: -item[1])[:6]
    rest = len(issued) - len(most)
    words = [f"{opcode} {count:,}" for opcode, count in most]
    more = f", and {rest} more opcodes" if rest > 0 else ""
    lines = [f"{totals.get('instructions', 0):,} instructions: {', '.join(words)}{more}"]
    if totals.get("shared_wavefronts"):
        lines.append(
            f"{totals['shared_wavefronts']:,} wavefronts of shared memory "
            f"({totals['shared_wavefronts_ideal']:,} ideal), "
            f"{totals['bank_conflicts']:,} bank conflicts"
        )
    if totals.get("global_sectors"):
        lines.append(
            f"{totals['global_sectors_load']:,} sectors loaded, "
            f"{totals['global_sectors_store']:,} stored ({totals['global_sectors_ideal']:,} ideal)"
        )
    return lines

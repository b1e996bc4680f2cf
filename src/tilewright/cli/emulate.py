"""`tilewright emulate`: one launch of any kernel, without a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from tilewright.cli.options import JsonTarget, MaybeWhole, Whole
from tilewright.cli.output import emit, late_progress, note, warnings_as_notes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tilewright.cli.emulate_run import Outcome

_MOST_PRINTED = 1000  # lines of printf
_MOST_OPCODES = 6

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
    arch: str = "sm_80",
    shared_bytes: MaybeWhole = None,
    cluster: str | None = None,
    schedule: str | None = None,
    seed: MaybeWhole = None,
    blocks: str | None = None,
    step_limit: MaybeWhole = None,
    shape: Words = None,
    no_checks: Annotated[bool, Parameter(negative=())] = False,
    max_excess: str | None = None,
    order: Literal["worst", "source"] = "worst",
    html: str | None = None,
    junit: str | None = None,
    sarif: str | None = None,
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

    In the view ✗ marks a line with a finding, ! one above its ideal; × ideal is
    what it took over what its bytes need without bank conflicts and gaps.

    Exit codes: 0 fine; 1 a finding, a failed check, an exceeded --max-excess or
    a run that did not complete; 2 bad input, a kernel that does not compile or
    has what is not modelled; 130 interrupted.

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
        fp64 (or f16, f32, f64), i8 to i64, u8 to u64, bool, e4m3, e5m2.
        load:FILE.npy:bf16 reads bytes as that type;
        1.5:fp16 is a number of that type.
    check
        "c ~ a @ b" is close, "c == a.T" exact (the
        right side rounded once). c is an array after
        the launch; the right side is before it: names,
        numbers, + - * / @ .T ( ), abs(x), exp(x),
        max(x, y), sum(x), sum(x, axis). ~ allows the
        rounding of c's type and of fp32 sums (of fp64
        ones if c and all arrays are fp64), == none.
        For more room --save c and compare it yourself.
        A number a row takes .T: "y.T ~ exp(x.T) /
        sum(exp(x), 1)". NaN is wrong. May be given again.
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
        What to compile and count CUDA C++ for.
    shared_bytes
        Dynamic shared memory of a block.
    cluster
        Blocks of a cluster, such as 2 or 2,1.
    schedule
        The order in which warps run: lockstep or random.
    seed
        For a schedule or a sample that is drawn.
    blocks
        Only these blocks: first:N, sample:N, or ids as 0,3.
        Outputs are not checked for gaps then.
    step_limit
        Basic blocks after which a loop counts as endless;
        500000 unless given.
    shape
        LABEL=SHAPE, the part of a padded array that is
        data, and that checks see. May be given again.
    no_checks
        Only count; do not look for races, unset memory
        and unwritten outputs. The report says so.
    max_excess
        Fail beyond so many bank conflicts, or sectors, above
        the ideal: 0, or wavefronts=0,sectors=64,copies=8
        (copies being the wavefronts of cp.async).
    order
        Of the view: the worst lines, or all in the source's
        order.
    html
        Write the report as a page to this file.
    junit
        Write it as JUnit XML, for continuous integration.
    sarif
        Write it as SARIF, for code hosts.
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
        step_limit=step_limit,
        shapes=tuple(shape or ()),
        look_for_faults=not no_checks,
        max_excess=max_excess,
        files={"--json": json, "--html": html, "--junit": junit, "--sarif": sarif},
    )
    with late_progress(f"running {printable(file.name)}") as progress, warnings_as_notes():
        outcome = emulate_request(request, progress)
    for words in outcome.warnings:
        note(words)
    emit("emulate", [outcome.to_dict()], _render(outcome, order), json)
    return 0 if outcome.fine else 1


def _render(outcome: Outcome, order: str) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from tilewright.emulator.by_line import printable
    from tilewright.emulator.source_view import SourceView, terminal_width, wrapped

    report, width = outcome.report, terminal_width()
    parts: list[RenderableType] = [SourceView(report, order=order, width=width)]
    printed = "".join(report.printed).splitlines()
    if printed:
        parts += [Text(""), Text("The kernel printed:", style="bold")]
        parts += [Text(printable(line)) for line in printed[:_MOST_PRINTED]]
    if len(printed) > _MOST_PRINTED:
        parts.append(Text(f"… and {len(printed) - _MOST_PRINTED:,} more lines"))
    if report.instructions:
        parts += [Text(""), *wrapped(Text(_most_issued(report.instructions)), width)]
    parts += [Text(printable(f"{label} is in {path}")) for label, path in outcome.saved]
    return Group(*parts)


def _most_issued(instructions: dict[str, int]) -> str:
    most = sorted(instructions.items(), key=lambda item: -item[1])[:_MOST_OPCODES]
    rest = len(instructions) - len(most)
    words = ", ".join(f"{opcode} {count:,}" for opcode, count in most)
    return f"Most issued: {words}" + (
        f", and {rest} more opcode{'s' * (rest != 1)}" if rest else ""
    )

"""`tilewright bench`: shapes and suites, every kernel beside its peers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from tilewright.cli.options import JsonTarget, Whole
from tilewright.cli.output import check_targets, emit, progress_bar, write_text
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.bench.record import Measurement
    from tilewright.bench.suites import Shape

Words = Annotated[list[str] | None, Parameter(negative=())]


def bench(
    *,
    suite: Words = None,
    shape: Words = None,
    layout: str | None = None,
    dtype: str = "bf16",
    rung: Words = None,
    kernel: Words = None,
    against: Words = None,
    inputs: str = "normal",
    cache: str = "cold",
    noise: Annotated[bool, Parameter(negative=())] = False,
    roofs: bool = True,
    rounds: Whole = 11,
    budget: float | None = None,
    engine: str = "auto",
    gpu: str | None = None,
    seed: Whole = 0,
    record: Path | None = None,
    csv: str | None = None,
    markdown: str | None = None,
    json: JsonTarget = None,
) -> int:
    """Measure shapes and suites: every kernel beside PyTorch and cuBLASLt, interleaved.

    Each kernel is checked in float64 before and after it is timed, at the clock that it
    sustains, and set against what the GPU can do at most. Without a GPU the small shapes are
    counted in the emulator.

    Example: tilewright bench --shape 256x384x192 --engine emulator

    A kernel of your own: tilewright bench --shape 4096x4096x4096 --kernel mine.cu:gemm

    Parameters
    ----------
    suite
        square, llm, decode, odd or all; may be given again.
    shape
        MxNxK or MxNxK:layout (nn, nt, tn, tt); an extent may be a range first:last:step. May be
        given again.
    layout
        nn, nt, tn or tt: how A and B lie where a shape names no layout; nn if none is named. nt is
        B stored [N, K].
    dtype
        Type of A, B and C: bf16 or fp16, with fp32 sums; fp32 for kernels of your own.
    rung
        Only these rungs; all kernels that take the shape if neither a rung nor a kernel is named.
        Those of the family triton, which are tuned for seconds a shape, and of cpu, which run on
        the host by the wall clock and after the others, are measured only when named.
    kernel
        Your own kernel beside the peers, FILE.cu:NAME or MODULE:FUNCTION; may be given again. How
        a CUDA kernel is launched is read from its source and can be said behind its name:
        gemm.cu:mine,block=256,tile=128x128 (rows and columns of C a block), shared_bytes=32768,
        grid=nm (x over columns), mn or flat, layout=nt (the only one it takes),
        include_path=FOLDER, and macros (BM=128). A function takes torch tensors (a, b) and
        returns C, or writes it to a parameter named out.
    against
        Only these peers: torch, hgemm_cublas or, in fp32, sgemm_cublas, lt_first (cuBLASLt's
        first choice), lt_best (the fastest of all it proposes), and, only when named, inductor,
        inductor_triton (TorchInductor max-autotune, with and without cuBLAS), triton (the last
        rung of that family), quack and cute, which compile for long.
    inputs
        normal, uniform, integers or zeros. Zeros run faster than real data: they use less power.
    cache
        cold (inputs walk over twice the L2 cache) or warm (one set of inputs).
    noise
        Time the first peer a second time: how far two timings of one thing lie apart.
    roofs
        Measure what the GPU can do first (10 s), and show each row's share of the roof that binds.
    rounds
        Interleaved rounds; each gives one sample a kernel.
    budget
        Stop before the next shape once so many seconds are spent.
    engine
        auto (the GPU if there is one), gpu or emulator.
    gpu
        The GPU to count for in the emulator, as `tilewright ladder` takes it; h200 if none is
        named.
    seed
        Seed of the random operands.
    record
        Append the measurements to this .jsonl file as they are made (GPU only).
    csv
        Write all rows to this file as CSV.
    markdown
        Write the timed rows to this file as a Markdown table.
    """
    from tilewright.bench import suite_table
    from tilewright.bench.contest import Conditions
    from tilewright.bench.peers import check_names
    from tilewright.bench.record import append
    from tilewright.bench.suite_run import Plan, measure_suites
    from tilewright.bench.user_function import kernel_named
    from tilewright.bench.user_kernel import CudaKernel
    from tilewright.dtypes import dtype_of
    from tilewright.engines.choose import open_engine, which
    from tilewright.ladder.rungs import KERNELS, select

    kernels = tuple(kernel_named(word) for word in dict.fromkeys(kernel or ()))
    sources = [it.path for it in kernels if isinstance(it, CudaKernel)]
    check_targets(json, record, csv, markdown, reads=sources)
    if budget is not None and not 0 <= budget < math.inf:
        raise InputError(f"budget={budget} must be 0 or more seconds.")
    check_names(against or ())
    if cache not in ("cold", "warm"):
        raise InputError(f"cache={cache!r} is not known; use cold or warm.")
    if not suite and not shape:
        raise InputError("name what to measure: --suite square, or --shape 4096x4096x4096.")
    if layout is not None and not shape:
        raise InputError("--layout is for shapes in words; those of a suite have their own.")
    kind = dtype_of(dtype)
    usual = [] if kernel else [it for it in KERNELS.values() if kind.name in it.dtypes]
    rungs = select(None, tuple(rung)) if rung else usual
    plan = Plan(
        shapes=_shapes(suite or (), shape or (), layout or "nn"),
        dtype=kind,
        rungs=tuple(rungs),
        kernels=kernels,
        conditions=Conditions(seed, inputs, cache == "cold", rounds),
        against=tuple(dict.fromkeys(against or ())),
        roofs=roofs,
        noise=noise,
        budget_s=budget,
    )
    if record is not None and which(engine, gpu) == "emulator":
        raise InputError("--record keeps times, and the emulator has none; it needs a GPU.")

    def keep(lines: Sequence[Measurement]) -> None:
        if record is not None:
            append(record, lines)

    with progress_bar(json) as progress:
        run = measure_suites(open_engine(engine, gpu), plan, progress, keep)
    if csv is not None:
        write_text(csv, suite_table.to_csv(run))
    if markdown is not None:
        write_text(markdown, suite_table.to_markdown(run))
    emit("bench", run.to_dicts(), suite_table.render(run), json)
    if not run.correct:
        return 1
    return 2 if run.never_ran(plan.labels.values()) else 0


def _shapes(
    suite_names: Sequence[str], words: Sequence[str], layout: str
) -> tuple[tuple[str, Shape], ...]:
    """Every shape under the name of its suite; those given in words under "shape"."""
    from tilewright.bench.suites import parse_shapes, suite, suites

    found: list[tuple[str, Shape]] = []
    for name in suite_names:
        for one in suites() if name == "all" else (name,):
            found += [(one, shape) for shape in suite(one)]
    found += [("shape", shape) for shape in parse_shapes(words, layout)]
    return tuple(dict.fromkeys(found))

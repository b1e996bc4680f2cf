"""From the words of `tilewright emulate` to its outcome; all input is checked before any work."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewright.build import Source, build
from tilewright.cli.emulate_args import Argument, make, parse_arguments, parse_shape, short
from tilewright.cli.emulate_check import Verdict, check_shapes, judge
from tilewright.cli.emulate_files import labelled_word, parse_saves, save, write_reports
from tilewright.cli.emulate_limits import parse_limits
from tilewright.cli.emulate_parameters import check_parameters
from tilewright.cli.emulate_words import as_typed, with_extents
from tilewright.cli.expression import Check, parse_check, show
from tilewright.emulator.demands import Demand, excess
from tilewright.emulator.loaded import loaded
from tilewright.engines.emulate import emulate
from tilewright.engines.emulator import MOST_THREADS
from tilewright.errors import CompileError, InputError, TilewrightError
from tilewright.kernel_signature import formals_of, slips
from tilewright.kernel_source import candidates, kernel_named, read_source
from tilewright.launch import BLOCK_LIMITS, GRID_LIMITS, Dim3, dim3

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel, Module
    from tilewright.emulator.report import Report
    from tilewright.emulator.run import Progress

Array = npt.NDArray[Any]

_ARCH = re.compile(r"sm_[0-9]{2,3}[af]?", re.ASCII)
_BLOCKS = re.compile(r"(?:first|sample):[1-9]\d{0,9}|(?P<ids>\d{1,10}(?:,\d{1,10})*)", re.ASCII)
_MACRO = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Request:
    """The words of one command line; None where an option was not given."""

    file: Path
    grid: str
    block: str
    kernel: str | None = None
    arguments: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    saves: tuple[str, ...] = ()
    data_seed: int = 0
    defines: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    arch: str = "sm_80"
    shared_bytes: int | None = None
    cluster: str | None = None
    schedule: str | None = None
    seed: int | None = None
    blocks: str | None = None
    step_limit: int | None = None
    shapes: tuple[str, ...] = ()
    look_for_faults: bool = True
    max_excess: str | None = None
    files: Mapping[str, str | None] = field(default_factory=dict)  # by option, as "--html"


@dataclass(frozen=True)
class Outcome:
    """What the command shows and writes."""

    file: str
    arch: str | None
    report: Report
    verdicts: tuple[Verdict, ...]
    saved: tuple[tuple[str, Path], ...]
    warnings: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        return self.report.passed

    def to_dict(self) -> dict[str, Any]:
        """The one row of the JSON document: the report's own, and what the command adds."""
        report = self.report.to_dict()
        del report["schema"]  # the document has its own
        row = {
            "file": self.file,
            "arch": self.arch,
            "passed": self.fine,
            **report,
            "checks": [asdict(verdict) for verdict in self.verdicts],
            "saved": {label: str(path) for label, path in self.saved},
            "warnings": self.warnings,
        }
        return {name: _plain(value) for name, value in row.items()}


@dataclass(frozen=True)
class _Plan:
    """A request whose words all make sense."""

    grid: Dim3
    block: Dim3
    arguments: list[Argument]
    checks: list[Check]
    saves: list[tuple[str, Path]]
    shapes: dict[str, tuple[int, ...]]
    options: dict[str, Any]  # of `emulate`
    limits: dict[str, int]
    is_cuda: bool

    def valid(self, label: str, array: Any) -> Any:
        """The part of an array that is data."""
        return array[tuple(slice(extent) for extent in self.shapes.get(label, ()))]


def emulate_request(request: Request, progress: Progress | None = None) -> Outcome:
    """Raises: InputError and what `emulate` raises, before anything is run or written.

    Messages name options as they were typed.
    """
    try:
        return _outcome(request, progress)
    except CompileError:  # quotes the source, whose words are not ours
        raise
    except TilewrightError as error:
        error.args = (with_extents(as_typed(str(error), _typed(request))),)
        raise


def _typed(request: Request) -> dict[str, str | None]:
    """What was typed for an option, by the name of the parameter of `emulate`."""
    words = ("kernel", "grid", "block", "cluster", "shared_bytes", "arch", "schedule", "seed",
             "blocks", "step_limit")  # fmt: skip
    given = {name: getattr(request, name) for name in words}
    return {name: None if value is None else str(value) for name, value in given.items()}


def _outcome(request: Request, progress: Progress | None) -> Outcome:
    plan = _plan(request)
    text, _ = read_source(request.file)
    kernel = _kernel(_module(request, plan, text), request.kernel, request.file)
    formals = formals_of(kernel, text, plan.is_cuda)
    check_parameters(kernel, plan.arguments, formals)
    odd = slips([argument.label for argument in plan.arguments], formals)
    warnings = [f"--arg binds by order, not by label; here {', '.join(odd)}."] if odd else []
    values = {a.label: make(a, request.data_seed) for a in plan.arguments}
    read = {name for check in plan.checks for name in check.names}
    before = {
        label: np.array(plan.valid(label, value)) if isinstance(value, np.ndarray) else value
        for label, value in values.items()
        if label in read
    }
    report = _run(request, kernel.name, plan, values, progress)
    for label, path in plan.saves:
        save(path, values[label])
    after = {check.label: plan.valid(check.label, values[check.label]) for check in plan.checks}
    verdicts = tuple(judge(check, after, before) for check in plan.checks)
    demands = [*map(_demand, verdicts), *excess(report, plan.limits)]
    report = replace(report, demands=demands)
    write_reports(report, request.files)
    arch = plan.options.get("arch")
    return Outcome(request.file.name, arch, report, verdicts, tuple(plan.saves), tuple(warnings))


def _run(
    request: Request, symbol: str, plan: _Plan, values: Mapping[str, Any], progress: Progress | None
) -> Report:
    watched = _Watched(progress)
    options = {**plan.options, "labels": list(values), "progress": watched}
    try:
        arrays = list(values.values())
        report = emulate(request.file, symbol, plan.grid, plan.block, arrays, **options)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(watched.words(plan.grid)) from None
    typed = _typed(request)
    found = [replace(it, message=as_typed(it.message, typed)) for it in report.findings]
    return replace(report, findings=found)


def _demand(verdict: Verdict) -> Demand:
    figures = f"rel. error {verdict.rel_error:.1e}, {verdict.elements:,} elements"
    return Demand("check", verdict.check, verdict.correct, verdict.message or figures)


class _Watched:
    """A progress that keeps what it was told last, and passes it on."""

    def __init__(self, inner: Progress | None) -> None:
        self._inner, self.done, self._total = inner, 0, 0

    def __call__(self, done: int, total: int) -> None:
        self.done, self._total = done, total
        if self._inner is not None:
            self._inner(done, total)

    def words(self, grid: Dim3) -> str:
        return f"after {self.done:,} of {self._total or prod(grid):,} blocks"


def _plan(request: Request) -> _Plan:
    is_cuda = _is_cuda(request)
    grid = _extents("--grid", request.grid, GRID_LIMITS)
    block = _extents("--block", request.block, BLOCK_LIMITS)
    if prod(block) > MOST_THREADS:
        raise InputError(
            f"--block {short(request.block)} has {prod(block)} threads; CUDA allows 1024."
        )
    if request.data_seed < 0:
        raise InputError(f"--data-seed {request.data_seed} must be 0 or more.")
    checks = [parse_check(text) for text in request.checks]
    arguments = parse_arguments(request.arguments)
    by_label = {argument.label: argument for argument in arguments}
    shapes = _shapes(request.shapes, by_label)
    options = _options(request, is_cuda)
    if shapes:
        options["shapes"] = {list(by_label).index(label): shape for label, shape in shapes.items()}
    plan = _Plan(
        grid,
        block,
        arguments,
        checks,
        parse_saves(request.saves, request.files, request.file, by_label),
        shapes,
        options,
        parse_limits(request.max_excess),
        is_cuda,
    )
    _check_checks(plan, request.blocks)
    return plan


def _is_cuda(request: Request) -> bool:
    suffix = request.file.suffix
    if suffix not in (".cu", ".cuh", ".ptx"):
        raise InputError(
            f"{short(str(request.file))} must be a .cu or .cuh file (CUDA C++) or a .ptx file."
        )
    if suffix == ".ptx" and (request.defines or request.includes):
        raise InputError("--define and --include are for CUDA C++; PTX is compiled already.")
    return suffix != ".ptx"


def _extents(what: str, word: str, limits: Dim3) -> Dim3:
    parts = word.split(",")
    if not all(re.fullmatch(r"-?\d{1,19}", part.strip(), re.ASCII) for part in parts):
        raise InputError(f"{what} {short(word)}: write 1 to 3 whole numbers, as in 8 or 8,2.")
    return dim3(what, [int(part) for part in parts], limits)


def _options(request: Request, is_cuda: bool) -> dict[str, Any]:
    """What `emulate` is told beyond the launch: only what the user said."""
    if not _ARCH.fullmatch(request.arch):
        word = short(request.arch) or repr(request.arch)
        raise InputError(f"--arch {word} must look like sm_90 or sm_90a.")
    if request.step_limit is not None and request.step_limit < 1:
        raise InputError(f"--step-limit {request.step_limit} must be 1 or more.")
    options: dict[str, Any] = {
        "arch": request.arch if is_cuda else None,
        "shared_bytes": request.shared_bytes,
        "schedule": request.schedule,
        "seed": request.seed,
        "blocks": _blocks(request.blocks),
        "step_limit": request.step_limit,
    }
    found = {name: value for name, value in options.items() if value is not None}
    if request.cluster is not None:
        found["cluster"] = _extents("--cluster", request.cluster, GRID_LIMITS)
    if not request.look_for_faults:
        found["checks"] = False
    if is_cuda:
        found |= {"defines": _defines(request.defines), "include_path": _folders(request)}
    return found


def _blocks(word: str | None) -> str | list[int] | None:
    """first:N and sample:N as they are, 0,3 as ids."""
    if word is None:
        return None
    match = _BLOCKS.fullmatch(word)
    if match is None:
        raise InputError(
            f"--blocks {short(word)}: write first:N or sample:N, N being 1 or more, or ids as 0,3."
        )
    return word if match["ids"] is None else [int(number) for number in match["ids"].split(",")]


def _defines(words: Sequence[str]) -> dict[str, str]:
    defines: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not _MACRO.fullmatch(name) or not value.isprintable():
            raise InputError(f"--define {short(word)!r}: write NAME or NAME=VALUE, as in BM=128.")
        if name in defines:
            raise InputError(f"--define {name} is given twice; keep one.")
        defines[name] = value if equals else "1"
    return defines


def _folders(request: Request) -> tuple[str, ...]:
    """The file's own folder, the user's, then CUDA's headers."""
    for folder in request.includes:
        if not folder or not Path(folder).is_dir():
            raise InputError(f"--include {short(folder) or repr(folder)} is not a folder.")
    return (str(request.file.resolve().parent), *request.includes)


def _shapes(words: Sequence[str], known: Mapping[str, Argument]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for word in words:
        label, value, whole = labelled_word("--shape", word, known, "c=256x384")
        shape = parse_shape(f"--shape {label}", value)
        if len(shape) != len(whole) or any(
            not 1 <= p <= w for p, w in zip(shape, whole, strict=True)
        ):
            raise InputError(f"--shape {label}: {show(shape)} is no part of {show(whole)}.")
        if label in shapes:
            raise InputError(f"--shape {label} is given twice; keep one.")
        shapes[label] = shape
    return shapes


def _check_checks(plan: _Plan, blocks: str | None) -> None:
    if plan.checks and blocks is not None:
        raise InputError(
            f"--check compares whole arrays, and --blocks {short(blocks)} leaves parts of them "
            "unwritten; leave out --blocks, or run a smaller problem with a smaller --grid."
        )
    values: dict[str, Any] = {}
    for argument in plan.arguments:
        if argument.dtype is not None and argument.shape is not None:
            shape = plan.shapes.get(argument.label, argument.shape)
            values[argument.label] = np.broadcast_to(np.empty((), argument.dtype), shape)
        elif argument.fill == "number":
            values[argument.label] = argument.value
    empty = {argument.label for argument in plan.arguments if argument.fill == "empty"}
    for check in plan.checks:
        check_shapes(check, values, empty)


def _module(request: Request, plan: _Plan, text: str) -> Module:
    if not plan.is_cuda:
        return loaded(text).module
    defines = tuple(sorted(plan.options["defines"].items()))
    source = Source(request.file.name, text, defines, plan.options["include_path"])
    artifact = build(source, plan.options["arch"])  # `emulate` finds it, and what is read here
    return loaded(artifact.ptx, owner=artifact.key).module


def _kernel(module: Module, name: str | None, file: Path) -> Kernel:
    if name is not None:
        return kernel_named(module, name)
    symbols = list(module.kernels)
    if len(symbols) == 1:
        return module.kernels[symbols[0]]
    if not symbols:
        raise InputError(
            f"{short(str(file))} has no kernel (a template needs an instance to be one)."
        )
    raise InputError(
        f"{short(str(file))} has {len(symbols)} kernels; name one by --kernel: "
        f"{candidates(symbols)}."
    )


def _plain(value: Any) -> Any:
    """JSON's own types alone: no tuples, no NumPy numbers; null for what is not finite."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not isfinite(value) else value

"""What every command does with its result: tables for people, one JSON document for tools."""

from __future__ import annotations

import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EISDIR
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, TextIO

from tilewright.errors import InputError, LongRunWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, RenderableType

_NARROWEST = 80  # columns; a narrower terminal wraps lines, which reads better than cut numbers


def console(json_target: str | None) -> Console:
    """Where tables and progress go: stderr when stdout is reserved for JSON."""
    from rich.console import Console  # 50 ms that --help need not pay

    stream = sys.stderr if json_target == "-" else sys.stdout
    if stream is None:  # closed by whoever started us
        stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    return Console(file=stream, width=max(Console(file=stream).width, _NARROWEST))


def show(what: RenderableType, json_target: str | None) -> None:
    """Prints to the console; into a file or pipe without the spaces that fill lines up.

    A table whose numbers need more columns gets them, and the terminal wraps its lines.
    """
    screen = console(json_target)
    if screen.is_terminal:
        _print(screen, what)
        return
    with screen.capture() as captured:
        _print(screen, what)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=screen.file)


def _print(screen: Console, what: RenderableType) -> None:
    """A sentence is not broken, tables are laid out."""
    if isinstance(what, str):
        screen.print(what, soft_wrap=True, markup=False)
        return
    from tilewright.table_width import print_whole  # and rich.table: not for --help

    print_whole(screen, what)


def check_targets(*targets: str | Path | None, reads: Iterable[Path] = ()) -> None:
    """Raises InputError for a file that cannot be written, before any work is done for it.

    Nor may two outputs be one file, or one of the files that are read; of a folder that is read,
    its .jsonl files.
    """
    for target in targets:
        if str(target) == "-" and sys.stdout is None:
            raise InputError("--json - needs a stdout, and it is closed.")
        if target is None or str(target) == "-":
            continue
        if not str(target):
            raise InputError("the name of a file to write is empty.")
        _probe(Path(target))
    files = [Path(target).resolve() for target in targets if target and str(target) != "-"]
    inputs = [path.resolve() for path in reads]
    for number, file in enumerate(files):
        if file in files[:number]:
            raise InputError(f"{file.name} is named for two outputs; give each its own file.")
        of_folder = file.suffix == ".jsonl" and any(file.is_relative_to(it) for it in inputs)
        if file in inputs or of_folder:
            raise InputError(f"{file.name} is read, and would be overwritten; name another file.")


def _probe(path: Path) -> None:
    """Makes the file and removes it, or opens the one there is. Raises: InputError."""
    try:
        real = path.resolve()
        if real.is_dir():
            raise IsADirectoryError(EISDIR, "it is a folder; name a file")
        if not real.exists():
            real.open("xb").close()
            real.unlink()
        elif real.is_file():
            real.open("r+b").close()
        elif not os.access(real, os.W_OK):  # a pipe or a device, which opening may disturb
            raise PermissionError(EACCES, "Permission denied")
    except (OSError, RuntimeError) as error:  # Python 3.12 and older: a loop of links
        why = getattr(error, "strerror", None) or str(error)
        if isinstance(error, FileNotFoundError):
            there = path.parent.is_dir()
            why = f"no file can be made in {path.parent}" if there else f"{path.parent} is missing"
        raise InputError(f"{path} cannot be written: {why}.") from None


def emit(
    command: str,
    rows: Sequence[dict[str, Any]],
    table: RenderableType,
    json_target: str | None,
) -> None:
    """Writes `{"schema": "tilewright.<command>/1", "rows": …}` if asked, then prints the table.

    Raises: InputError when the JSON file cannot be written.
    """
    if json_target is not None:
        with _reader_may_leave():
            _write_json(command, rows, json_target)
    try:
        with _reader_may_leave():
            show(table, json_target)
    except OSError:
        if json_target != "-":  # else the document is out, and the table was only for a person
            raise


@contextmanager
def _reader_may_leave() -> Iterator[None]:
    """A closed pipe has seen enough; the command goes on to its exit code."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_json(command: str, rows: Sequence[dict[str, Any]], json_target: str) -> None:
    document = {"schema": f"tilewright.{command}/1", "rows": [_finite(row) for row in rows]}
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    if json_target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(json_target, text)


def write_text(target: str, text: str) -> None:
    """Raises: InputError when the file cannot be written."""
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}.") from None


@contextmanager
def progress_bar(json_target: str | None) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that vanishes when the work is done; nothing where nobody watches."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    screen = console(json_target)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def tell(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield tell


@contextmanager
def late_progress(what: str, after_s: float = 1.0) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for work that takes longer than `after_s`; nothing where nobody watches.

    It starts by the clock, not by the first step that is told, and vanishes at the end.
    """
    if sys.stderr is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} blocks"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    task = bar.add_task(what, total=None)
    timer = Timer(after_s, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        timer.cancel()
        timer.join()  # so that it cannot start after the stop
        if bar.live.is_started:
            bar.stop()


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Shows a LongRunWarning as one line on stderr, without the place in our code."""
    with warnings.catch_warnings():
        show_others = warnings.showwarning

        def show_note(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category is not LongRunWarning:
                show_others(message, category, filename, lineno, file, line)
                return
            note(str(message))

        warnings.simplefilter("always", LongRunWarning)
        warnings.showwarning = show_note
        yield


def note(words: str) -> None:
    """One line on stderr, beside whatever is on stdout."""
    with suppress(OSError):  # nobody reads stderr
        print(f"tilewright: note: {words}", file=sys.stderr, flush=True)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no NaN or infinity: null stands for a figure that does not exist."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }

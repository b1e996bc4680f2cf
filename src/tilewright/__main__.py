"""The command line. Exit codes: 0 fine; 1 a wrong result; 2 bad input or something missing."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import Any

from cyclopts import App, CycloptsError

from tilewright import __version__
from tilewright.cli import plain_letters
from tilewright.cli.bench import bench
from tilewright.cli.cache import app as cache
from tilewright.cli.compare import compare
from tilewright.cli.doctor import doctor
from tilewright.cli.emulate import emulate
from tilewright.cli.import_record import import_record
from tilewright.cli.ladder import ladder
from tilewright.cli.pipes import pipes
from tilewright.cli.plot import plot
from tilewright.errors import InputError, TilewrightError

_DOTTED = re.compile(r"--([a-z][a-z-]*)\.[a-z][\w.-]*(?:=|$)", re.ASCII)

app = App(
    name="tilewright",
    version=__version__,
    help="Hand-built GEMM kernels that you can read, run without a GPU and measure honestly.\n\n"
    "Example: tilewright ladder -m 256 -n 384 -k 192",
    help_on_error=False,
    suppress_keyboard_interrupt=False,
)
app.command(ladder)
app.command(bench)
app.command(compare)
app.command(import_record, name="import-record")
app.command(pipes)
app.command(plot)
app.command(emulate, help_format="plaintext")  # its example keeps its lines
app.command(  # by name: its many commands cost the others no time
    "tilewright.cli.explain:app",
    name="explain",
    help="Explain the arithmetic behind the rungs, at once and without a GPU.\n\n"
    "Example: tilewright explain tile --bm 128 --bn 128 --bk 8",
)
app.command(doctor)
app.command(cache)


def main(argv: list[str] | None = None) -> None:
    """Runs a command and exits; with `--debug` anywhere an error keeps its traceback."""
    plain_letters.register()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors=plain_letters.ERRORS)
    words = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    sys.exit(run(words, debug))


def run(words: list[str], debug: bool = False) -> int:
    """The exit code of one command line. Only with `debug` does an exception leave here."""
    try:
        _check_dotted(words)
        result: Any = app(
            words, exit_on_error=False, print_error=False, result_action="return_value"
        )
    except (TilewrightError, CycloptsError) as error:
        if debug:
            raise
        return _fail(str(error))
    except KeyboardInterrupt as error:
        _fail(f"interrupted {error}".rstrip() + ".")
        return 130  # what a shell expects of a command that SIGINT ended
    except MemoryError as error:
        return _fail(f"not enough memory: {str(error) or 'try a smaller problem'}.")
    except OSError as error:  # a full disk behind stdout, say
        return _fail(f"{error.filename or 'the output'}: {error.strerror or error}.")
    except Exception as error:
        if debug:
            raise
        what = f"{type(error).__name__}: {error}"
        return _fail(
            f"this is a fault of tilewright: {what}. Run again with --debug and report it."
        )
    return result if isinstance(result, int) else 0


def _check_dotted(words: list[str]) -> None:
    """Raises InputError for --block.x=32, which the parser would take for a part of --block."""
    for word in words:
        if match := _DOTTED.match(word):
            raise InputError(
                f"{word[:80]!r} is not an option; give --{match[1]} all it takes in one word, as "
                f"--{match[1]} {'32,8' if match[1] in ('grid', 'block', 'cluster') else 'VALUE'}."
            )


def _fail(message: str) -> int:
    with suppress(OSError):  # nobody can read stderr; the exit code still tells
        print(f"tilewright: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    main()

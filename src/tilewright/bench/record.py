"""Measurements on disk: one JSON line each, appended and never changed.

A line holds all it takes to judge it: every sample, the rival's interleaved samples, the inputs,
GPU, clocks and versions, and a hash of the code without its comments, so that writing *Found*
into a header does not make the line stale. A line is data: reading one runs no code.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from tilewright.errors import InputError
from tilewright.problem import LAYOUTS

if TYPE_CHECKING:
    from collections.abc import Iterable

SCHEMA = "tilewright.measurement/1"
ROOF = "roof: "  # how the names of roofs begin
PIPE = "pipe: "  # and those of single pipes of a multiprocessor, bench/pipes.py


@dataclass(frozen=True)
class Measurement:
    """One candidate at one shape, next to its rival.

    `taken` is UTC, "2026-12-01T09:30:00Z", the same for all lines of one run. `us` is the median
    of `us_samples` (microseconds a run, one a round); `ratio` the median over rounds of rival's
    time ÷ ours, so above 1 is faster. `layout` names how A and B lie ("nn", "nt", …), `inputs`
    their distribution, `rel_error` is ‖C−R‖F ÷ ‖R‖F. `host` describes a machine without
    naming it. None is null on disk: what does not apply or could not be read. A line that the
    host's own processor was timed for has no gpu, driver and cuda, and `host` names the processor.
    """

    taken: str
    name: str
    source_hash: str | None
    m: int
    n: int
    k: int
    layout: str
    dtype: str
    inputs: str
    seed: int
    us: float
    us_samples: tuple[float, ...]
    rival: str | None
    rival_version: str | None
    rival_us: float | None
    rival_us_samples: tuple[float, ...] | None
    ratio: float | None
    correct: bool | None
    rel_error: float | None
    method: str
    gpu: str | None
    driver: str | None
    cuda: str | None
    sm_mhz: int | None
    power_w: float | None
    temperature_c: int | None
    host: str

    @property
    def is_roof(self) -> bool:
        """What the GPU or one of its pipes can do, not a kernel at a shape."""
        return self.name.startswith((ROOF, PIPE))

    @property
    def machine(self) -> str:
        """What was timed: the GPU, else the host."""
        return self.gpu or self.host

    @property
    def tflops(self) -> float:
        """2·m·n·k operations in the median time."""
        return 2 * self.m * self.n * self.k / self.us / 1e6


_TIME = "%Y-%m-%dT%H:%M:%SZ"
_TAKEN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_SHORTEST_US, _LONGEST_US = 1e-6, 1e12
# What no run can have given.
_LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("m", "n", "k"), (1, 2**53)),
    **{"seed": (0, 2**63), "ratio": (1e-9, 1e9), "rel_error": (0, 1e9)},
    **{"sm_mhz": (0, 100_000), "power_w": (0, 100_000), "temperature_c": (-273, 1000)},
}
_HINTS = {name: hint for name, hint in get_type_hints(Measurement).items() if name != "return"}
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def to_line(measurement: Measurement) -> str:
    """The measurement as one line of JSON, without the newline, fields in the contract's order.

    Raises: InputError when a field has another type than it must or a figure is not finite: what
    is written can be read back.
    """
    record = {"schema": SCHEMA, **asdict(measurement)}
    try:
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{measurement.name}'s measurement cannot be written: {error}.") from None
    parse_line(line)
    return line


def parse_line(line: str) -> Measurement:
    """The measurement in a line.

    Raises: InputError for text that is not JSON, an unknown schema, a missing, doubled or extra
    field, a value of the wrong type or one that is not finite, naming the field.
    """
    try:
        data = json.loads(line, object_pairs_hook=_no_doubles, parse_constant=_no_constant)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"a measurement must be one JSON object on a line: {error}.") from None
    if not isinstance(data, dict):
        raise InputError(f"a measurement must be a JSON object, not {type(data).__name__}.")
    if (schema := data.pop("schema", None)) != SCHEMA:
        raise InputError(f"schema={_short(schema)} is not known; this version reads {SCHEMA!r}.")
    names = [field.name for field in fields(Measurement)]
    if missing := [name for name in names if name not in data]:
        raise InputError(f"the measurement lacks {', '.join(missing)}.")
    if extra := sorted(set(data) - set(names)):
        raise InputError(f"the measurement has unknown fields: {', '.join(map(_named, extra))}.")
    measurement = Measurement(**{name: _typed(name, data[name]) for name in names})
    _check(measurement)
    return measurement


def _check(line: Measurement) -> None:
    """What no run can have given. Raises InputError naming the field."""
    for name, (least, most) in _LIMITS.items():
        value = getattr(line, name)
        if value is not None and not least <= value <= most:
            raise InputError(f"{name}={_short(value)} must be {least:g} to {most:g}.")
    for name in ("us", "us_samples", "rival_us", "rival_us_samples"):
        values = getattr(line, name)
        for us in values if isinstance(values, tuple) else (values,):
            if us is not None and not _SHORTEST_US <= us <= _LONGEST_US:
                raise InputError(f"{name}: a time of {us} µs is none; it must be above 0.")
    try:
        datetime.strptime(line.taken, _TIME)
        right = _TAKEN.fullmatch(line.taken) is not None
    except ValueError:
        right = False
    if not right:
        raise InputError(f"taken={line.taken!r} must look like 2026-12-01T09:30:00Z.")
    if line.layout not in LAYOUTS:
        raise InputError(f"layout={line.layout!r} must be one of {', '.join(LAYOUTS)}.")
    of_gpu = (line.gpu, line.driver, line.cuda)
    if None in of_gpu and of_gpu != (None, None, None):
        raise InputError("gpu, driver and cuda must be all there, or all null for a host's line.")
    for field in fields(line):
        text = getattr(line, field.name)
        if isinstance(text, str) and not (text.strip() and text.isprintable()):
            raise InputError(f"{field.name} must be one line of printable text.")
    for name in ("name", "rival", "gpu", "driver", "dtype", "inputs", "method", "host"):
        if set(getattr(line, name) or "") & set("|<>"):
            raise InputError(f"{name} must be one line of text without | < >, for tables.")


def append(path: str | os.PathLike[str], measurements: Iterable[Measurement]) -> None:
    """Adds lines to a .jsonl file, creating it and its folder.

    Raises: InputError when the file cannot be written; nothing is written then.
    """
    target = Path(path)
    text = "".join(to_line(measurement) + "\n" for measurement in measurements)
    try:
        raw = text.encode()
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            raise InputError(f"{target} is not a file.")
        with target.open("a+b") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # somebody's editor left the last line open
                    raw = b"\n" + raw
            file.write(raw)
    except UnicodeEncodeError as error:
        raise InputError(f"a measurement holds text that UTF-8 cannot: {error.reason}.") from None
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}.") from None


def load(path: str | os.PathLike[str]) -> list[Measurement]:
    """All measurements of a .jsonl file, or of a folder's *.jsonl files in order of their names.

    Raises: InputError naming file and line.
    """
    source = Path(path)
    files = sorted(source.glob("*.jsonl")) if source.is_dir() else [source]
    found = []
    for file in files:
        try:
            lines = file.read_text(encoding="utf-8").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{file} cannot be read: {why_unread(error)}.") from None
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    found.append(parse_line(line))
                except InputError as error:
                    raise InputError(f"{file}:{number}: {error}") from None
    return found


def why_unread(error: OSError | UnicodeDecodeError) -> str:
    """What kept a file from being read, without Python's number and repetition of its name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def now() -> str:
    """This moment for `taken`, in UTC to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def host(*timed: str) -> str:
    """This machine in words that do not identify it: "Linux x86_64, 16 cores, Python 3.12.3".

    `timed` are more such words, where the host itself was timed: its processor and libraries.
    """
    words = (
        f"{platform.system()} {platform.machine()}",
        f"{os.cpu_count()} cores",
        f"Python {platform.python_version()}",
        *timed,
    )
    return ", ".join(words)


# Comments and white space go, literals and words stay. A raw string ends at its own delimiter.
_TOKEN = re.compile(
    r"""
    (?P<comment> //[^\n]* | /\*.*?\*/ )
  | (?P<literal> (?:u8|[uUL])?R"(?P<end>[^()\s\\]{0,16})\(.*?\)(?P=end)"
               | (?:u8|[uUL])?"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])+' )
  | (?P<space> \s+ )
  | (?P<word> \d[\w.]*(?:'[\w.]+)* | \w+ )
  | (?P<operator> <<= | >>= | \.\.\. | -> | \+\+ | -- | << | >> | [<>=!]= | && | \|\|
                | [-+*/%&|^]= | :: | \#\# )
  | (?P<other> . )
    """,
    re.DOTALL | re.VERBOSE,
)


def source_hash(text: str) -> str:
    """16 hex digits of the C or CUDA code in `text` without comments and white space.

    Two texts that the compiler reads as the same tokens have the same hash.
    """
    lines = re.sub(r"\r\n?", "\n", text).replace("\\\n", "")
    tokens: list[str] = []
    directive, new_line, gap = False, True, ""
    for match in _TOKEN.finditer(lines):
        token = match.group()
        if match["comment"] or match["space"]:
            if match["space"] and "\n" in token:
                directive, new_line, gap = False, True, "\n" if directive else gap
            elif directive and not gap:
                gap = " "  # `#define F (x)` and `#define F(x)` differ
            continue
        if new_line and token == "#":
            directive, gap = True, "\n"
        elif tokens and tokens[-1] == "#":
            gap = ""  # `# define` is `#define`
        new_line = False
        tokens += [gap, token] if gap else [token]
        gap = ""
    return hashlib.sha256("\x1f".join(tokens).strip().encode()).hexdigest()[:16]


def _typed(name: str, value: Any) -> Any:
    hint = _HINTS[name]
    kinds = get_args(hint) if type(None) in get_args(hint) else (hint,)
    if value is None and type(None) in kinds:
        return None
    kind = kinds[0]
    if get_args(kind):  # tuple[float, ...]
        if isinstance(value, list) and value and all(_is(item, float) for item in value):
            return tuple(float(item) for item in value)
        raise InputError(f"{name} must be a list of finite numbers, not {_short(value)}.")
    if not _is(value, kind):
        null = " or null" if len(kinds) > 1 else ""
        raise InputError(f"{name} must be {_WORDS[kind]}{null}, not {_short(value)}.")
    return float(value) if kind is float else value


def _is(value: Any, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float) and abs(value) < 1e300 and math.isfinite(value)
    return type(value) is kind


def _named(field: str) -> str:
    """A field's name; one that a terminal would not show as it is, escaped."""
    return field if field.isprintable() else ascii(field)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _no_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) != len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise InputError(f"the measurement has the field {_named(double)} twice.")
    return data


def _no_constant(word: str) -> Any:
    raise InputError(f"the measurement holds {word}, which is not a figure.")

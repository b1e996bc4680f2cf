"""What the emulator counts of each rung, kept in a file, so that a page can show it at once.

A line is a JSON object of one rung: the compiler that it was built with, a hash of its code, and
the fields of its row in `tilewright ladder --all --engine emulator --gpu h200`; or the reason why
the emulator does not run it. Registers and instructions are another compiler's own, so lines
speak for theirs alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tilewright.bench.ladder import IN_EMULATOR, Row, climb
from tilewright.bench.rung_code import hash_of
from tilewright.errors import InputError
from tilewright.ladder.rung import Rung
from tilewright.ladder.rungs import RUNGS
from tilewright.nvrtc import compiler

SCHEMA = "tilewright.rung-counts/1"
GPU = "h200"
KEPT = (
    "arch", "dtype", "m", "n", "k", "instructions", "shared_wavefronts", "shared_wavefronts_ideal",
    "bank_conflicts", "global_sectors_load", "global_sectors_store", "global_sectors",
    "global_sectors_ideal", "registers", "spill_bytes", "shared_bytes", "blocks_per_sm",
    "intensity",
)  # fmt: skip


@dataclass(frozen=True)
class RungCounts:
    """`fields` are those of KEPT; all None, and a `reason`, for a rung that was not run."""

    name: str
    compiler: str
    source_hash: str
    reason: str | None
    fields: Mapping[str, Any]


def count() -> list[RungCounts]:
    """Runs all rungs in the emulator at the ladder's default problem there, in their first types.

    One that is no CUDA file has a line only where the emulator ran it all the same.

    Raises: InputError for a wrong result; ToolchainError without NVRTC. Cost: a compilation and
    half a second each.
    """
    m, n, k = IN_EMULATOR
    ladder = climb(m=m, n=n, k=k, engine="emulator", gpu=GPU, every_family=True)
    rows = [(RUNGS[row.name], row) for row in ladder]
    return [_counts(rung, row) for rung, row in rows if _is_cuda(rung) or row.instructions]


def _counts(rung: Rung, row: Row) -> RungCounts:
    if row.status == "wrong":
        raise InputError(f"{row.name} is wrong in the emulator: {row.reason}.")
    given = asdict(row)
    fields = {name: given[name] if row.status == "ok" else None for name in KEPT}
    return RungCounts(row.name, compiler(), hash_of(rung), row.reason, fields)


def write(path: Path, lines: Iterable[RungCounts]) -> None:
    """Replaces the file."""
    text = (json.dumps({"schema": SCHEMA, **asdict(line)}, ensure_ascii=False) for line in lines)
    path.write_text("".join(f"{line}\n" for line in text), encoding="utf-8")


def read(path: Path) -> dict[str, RungCounts]:
    """The lines by their rungs' names. Raises: InputError for another schema."""
    found = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        data = json.loads(text)
        if (schema := data.pop("schema", None)) != SCHEMA:
            raise InputError(f"{path}: schema={schema!r} is not known; this reads {SCHEMA!r}.")
        found[data["name"]] = RungCounts(**data)
    return found


def stale(rungs: Iterable[Rung], recorded: Mapping[str, RungCounts]) -> list[str]:
    """The names of rungs whose present code has no line, though it should have one."""
    known = {name: line.source_hash for name, line in recorded.items()}
    due = [rung for rung in rungs if _is_cuda(rung) or rung.name in known]
    return [rung.name for rung in due if known.get(rung.name) != hash_of(rung)]


def _is_cuda(rung: Rung) -> bool:
    return rung.file.endswith(".cu")

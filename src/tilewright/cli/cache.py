"""`tilewright cache`: what the compiled kernels on disk are, how much room they take, and away."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from cyclopts import App

from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from tilewright.cache import Entry

app = App(
    name="cache",
    help="Show or clear the compiled kernels kept on disk (TILEWRIGHT_CACHE_DIR moves them).\n\n"
    "Example: tilewright cache clear",
)


@app.default
@app.command
def show(*, json: JsonTarget = None) -> int:
    """List the compiled kernels, the last used first.

    Example: tilewright cache show --json -
    """
    from tilewright.cache import default_cache

    check_targets(json)
    cache = default_cache()
    entries = cache.entries()
    rows = [asdict(entry) | {"used": _time(entry).isoformat()} for entry in entries]
    emit("cache", rows, _table(str(cache.root or "no folder"), entries), json)
    return 0


@app.command
def size(*, json: JsonTarget = None) -> int:
    """Show how many kernels there are and how many bytes they take.

    Example: tilewright cache size
    """
    from tilewright.cache import default_cache

    check_targets(json)
    cache = default_cache()
    count, total = len(cache.entries()), cache.size_bytes()
    row = {"folder": _folder(cache.root), "entries": count, "bytes": total}
    emit(
        "cache-size", [row], f"{count} kernels, {_mib(total)}, in {cache.root or 'no folder'}", json
    )
    return 0


@app.command
def clear(*, json: JsonTarget = None) -> int:
    """Remove the compiled kernels; files of others in the folder stay.

    Example: tilewright cache clear
    """
    from tilewright.cache import default_cache

    check_targets(json)
    cache = default_cache()
    total = cache.size_bytes()
    removed = cache.clear()
    emit(
        "cache-clear",
        [{"folder": _folder(cache.root), "removed": removed}],
        f"removed {removed} kernels, {_mib(total)}, from {cache.root or 'no folder'}",
        json,
    )
    return 0


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MiB"


def _folder(root: object) -> str | None:
    return None if root is None else str(root)


def _time(entry: Entry) -> datetime:
    return datetime.fromtimestamp(entry.used, UTC).replace(microsecond=0)


def _table(folder: str, entries: Sequence[Entry]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=None,
        pad_edge=False,
        header_style="bold",
        title=Text(folder if entries else f"{folder} is empty"),
        title_justify="left",
    )
    for title in ("source", "arch", "KiB", "last used (UTC)", "key"):
        table.add_column(title, justify="right" if title == "KiB" else "left", no_wrap=True)
    for entry in entries:
        table.add_row(
            Text(entry.name or "damaged"),
            entry.arch or "-",
            f"{entry.bytes / 1024:.1f}",
            f"{_time(entry):%Y-%m-%d %H:%M}",
            entry.key[:12],
        )
    return table

"""How to install an extra of this package, as a line to paste."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def install(extra: str) -> str:
    """`pip install "tilewright[cu13]"` where the package is installed, in whatever way.

    pip then adds what the extra lists to the tilewright that is there, an editable one too. A
    checkout that is only on the path is named by its folder: pip would look elsewhere for it.
    """
    from importlib.metadata import PackageNotFoundError, version

    root = Path(__file__).resolve().parents[2]
    try:
        version("tilewright")
    except PackageNotFoundError:
        if (root / "pyproject.toml").is_file():
            return f'pip install -e "{root}[{extra}]"'
    return f'pip install "tilewright[{extra}]"'

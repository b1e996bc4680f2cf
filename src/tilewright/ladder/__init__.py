"""The ladder: decisions. One `.cu` file a rung, each one idea away from its neighbour.

`tilewright.ladder` is this folder and also the function that climbs it:
`tilewright.ladder("hgemm", m=256, n=384, k=192)` is `tilewright.bench.ladder.climb`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Ladder(ModuleType):
    """The module, callable. Importing a submodule binds the folder to this name in the package,
    which would replace a plain function of the same name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return import_module("tilewright.bench.ladder").climb(*args, **options)


sys.modules[__name__].__class__ = _Ladder

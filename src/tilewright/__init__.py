"""Hand-built GEMM kernels that you can read, run without a GPU, measure honestly, and ship.

tilewright.matmul(a, b, bias=bias, activation="gelu")    the product op, for arrays of any framework
tilewright.ladder("hgemm", m=256, n=384, k=192)    the rungs, checked and counted or timed
tilewright.emulate(source, "kernel", grid, block, args)    any kernel in the PTX emulator
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.bench.ladder import climb as ladder
    from tilewright.engines.emulate import emulate
    from tilewright.gemm.api import Matmul, linear, matmul

__all__ = ["Matmul", "__version__", "emulate", "ladder", "linear", "matmul"]
__version__ = "0.1.0"

_PLACES = {
    "emulate": "tilewright.engines.emulate",
    **dict.fromkeys(("Matmul", "linear", "matmul"), "tilewright.gemm.api"),
}


def __getattr__(name: str) -> Any:
    """Public names are loaded when they are first used: importing the package costs nothing."""
    if name in ("ladder", "torch"):
        return import_module(f"tilewright.{name}")
    if name in _PLACES:
        return getattr(import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

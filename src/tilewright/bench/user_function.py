"""A matmul of the user's own in Python, for `--kernel module:function`."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.bench import user_kernel
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.bench.torch_peers import FunctionPeer
    from tilewright.bench.user_kernel import CudaKernel
    from tilewright.engines.gpu import GpuEngine

_WORD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


@dataclass(frozen=True)
class FunctionKernel:
    """`function(a, b, out=c)`, or `function(a, b)` that returns C, of torch tensors on the GPU.

    `takes_out` says which. `version` is that of its package.
    """

    word: str
    function: Callable[..., Any]
    takes_out: bool
    version: str

    @property
    def label(self) -> str:
        return self.word

    def peer(self, engine: GpuEngine) -> FunctionPeer:
        """Raises: EngineError when torch is missing or sees no GPU."""
        from tilewright.bench.torch_peers import FunctionPeer

        return FunctionPeer(
            engine, self.word, lambda torch: self.function, self.version, self.takes_out
        )


def kernel_named(word: str) -> CudaKernel | FunctionKernel:
    """The kernel that "FILE.cu:NAME,key=value" or "module:function" names.

    Raises: InputError for what is neither, or is not there.
    """
    cuda = ".cu:" in word or ".cuh:" in word
    return find(word) if _WORD.fullmatch(word) and not cuda else user_kernel.parse(word)


def find(word: str) -> FunctionKernel:
    """The function named "module:function"; modules of the working folder are found too.

    Raises: InputError for a module that cannot be imported, a name that is not there, and what
    cannot be called with two matrices.
    """
    module_name, name = word.split(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        with redirect_stdout(sys.stderr):  # stdout may be for JSON alone
            found: Any = importlib.import_module(module_name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a user's module may raise anything
        what = told(error)
        raise InputError(f"kernel={word!r}: {module_name} cannot be imported: {what}.") from error
    package = sys.modules.get(module_name.split(".")[0])
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except Exception:  # not there, or a module's own __getattr__
            raise InputError(f"kernel={word!r}: {module_name} has no {name}.") from None
    if not callable(found):
        raise InputError(f"kernel={word!r} is of type {type(found).__name__}, not a function.")
    version = f"{module_name} {getattr(package, '__version__', 'of unknown version')}"
    return FunctionKernel(word, found, _takes_out(word, found), version)


def told(error: BaseException) -> str:
    """The kind of an exception and the first line of what it says."""
    try:
        lines = str(error).splitlines()
    except Exception:  # somebody's __str__
        lines = []
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _takes_out(word: str, function: Callable[..., Any]) -> bool:
    """Whether it has a parameter `out`, as torch's own functions have.

    Raises: InputError when it cannot be called as (a, b) or (a, b, out=c).
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # builtins of torch tell no signature, and take out
        return True
    takes_out = "out" in signature.parameters
    try:
        signature.bind(*"ab", **({"out": "c"} if takes_out else {}))
    except TypeError as error:
        raise InputError(
            f"kernel={word!r} must take (a, b) and return C, or take (a, b, out): {error}."
        ) from None
    return takes_out

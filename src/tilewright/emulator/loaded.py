"""Modules that were read and kernels that were compiled, kept for this process's next launches.

A test launches the same kernel on shape after shape, a notebook the same cell again: reading the
PTX takes as long as many of these launches.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from threading import Lock

from tilewright.emulator.compiler import compile_kernel
from tilewright.emulator.ir import Kernel, Module
from tilewright.emulator.parse import parse
from tilewright.emulator.program import Program
from tilewright.errors import UnsupportedError

# Instructions and registers take about 500 bytes each, compiled, and a GEMM kernel has 4,000.
MOST_KEPT = 100_000
_CHARACTERS = 500  # of a text that take as much as an instruction
_OF_A_MODULE = 50


@dataclass(slots=True, eq=False)
class Loaded:
    """A module, which nobody may change, and the programs of those kernels that were asked for."""

    module: Module
    weight: int  # in instructions
    _programs: dict[str, Program] = field(default_factory=dict)

    def program(self, kernel: Kernel) -> Program:
        """A kernel of this module, compiled. Raises: UnsupportedError, as `compile_kernel`."""
        if kernel.name not in self._programs:
            try:
                self._programs[kernel.name] = compile_kernel(self.module, kernel)
            except UnsupportedError:
                # Else the error, which the module may hold, would keep the frames of all callers.
                _forget(self)
                raise
        return self._programs[kernel.name]


_kept: dict[tuple[bytes, str | None, str, str], Loaded] = {}  # the one used last is the last
_lock = Lock()


def loaded(text: str, name: str | None = None, owner: str = "") -> Loaded:
    """The module of a PTX text; `name` as in `parse`.

    A launch's memory tells the variables of modules apart by their identity, so texts of different
    `owner`s, which are equal and must not share their variables, are read by themselves.
    Raises: UnsupportedError, as `parse`.
    Cost: that of `parse` and `compile_kernel` once, then 0.1 ms; 50 MB at most are kept.
    """
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    key = digest, name, owner, "" if name is None else _working_folder()
    with _lock:
        known = _kept.pop(key, None)
        if known is not None:
            _kept[key] = known
            return known
    module = parse(text, name)
    bodies = [*module.kernels.values(), *module.functions.values()]
    size = sum(len(body.instructions) + len(body.registers) for body in bodies)
    made = Loaded(module, _OF_A_MODULE + size + len(text) // _CHARACTERS)
    with _lock:
        _kept[key] = made
        while sum(each.weight for each in _kept.values()) > MOST_KEPT:
            del _kept[next(iter(_kept))]
    return made


def _working_folder() -> str:
    """From which the names of source files are shown."""
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return ""


def _forget(one: Loaded) -> None:
    with _lock:
        for key in [key for key, each in _kept.items() if each is one]:
            del _kept[key]

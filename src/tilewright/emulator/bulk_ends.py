"""Where bulk copies come from and go to: boxes, runs of global memory, shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, POISON, Array
from tilewright.emulator.tensor_box import CHUNK, Box

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine
    from tilewright.emulator.memory import Allocation


@dataclass(frozen=True, slots=True)
class Update:
    """A reduction: elements of this type, what is there and what comes → what stays."""

    element: np.dtype[Any]
    change: Callable[[Array, Array], Array]

    def apply(self, memory: Array, where: Array, chunks: Array) -> None:
        """Of one copy: elements `where` of the memory, in the order of the chunks."""
        there = memory.view(self.element)
        coming = np.ascontiguousarray(chunks).view(self.element).reshape(-1)
        with np.errstate(all="ignore"):
            there[where] = self.change(there[where], coming).astype(self.element, copy=False)


@dataclass(frozen=True, slots=True)
class SharedEnd:
    """Chunks [m, c] of the shared memory of rows [m], or [c], the same of all."""

    rows: Array
    chunks: Array

    def _places(self, machine: Machine, which: Array) -> Array:
        per_row = machine.shared.bytes.shape[1] // CHUNK
        chunks = self.chunks if self.chunks.ndim == 1 else self.chunks[which]
        places: Array = self.rows[which][:, None] * per_row + chunks
        return places

    def read(self, machine: Machine, which: Array) -> Array:
        memory = machine.shared.by_width[CHUNK].reshape(-1)
        chunks: Array = memory.take(self._places(machine, which))
        return chunks

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        places = self._places(machine, which)
        if update is None:
            machine.shared.by_width[CHUNK].reshape(-1)[places] = chunks
            return
        parts = np.arange(CHUNK // update.element.itemsize)
        memory = machine.shared.bytes.reshape(-1)
        for place, coming in zip(places, chunks, strict=True):
            update.apply(memory, (place[:, None] * len(parts) + parts).reshape(-1), coming)


@dataclass(frozen=True, slots=True)
class BoxEnd:
    """Boxes of a tensor that begin at coordinates [n, rank]."""

    box: Box
    coordinates: Array

    def read(self, machine: Machine, which: Array) -> Array:
        return self.box.read(self.coordinates[which])

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        """What lies outside the tensor is dropped."""
        size = self.box.map.element_bytes
        for number, coming in zip(which.tolist(), chunks, strict=True):
            where, inside = self.box.elements(self.coordinates[number])
            elements = np.ascontiguousarray(coming).view(BY_WIDTH[size])[inside]
            memory = self.box.allocation.by_width[size]
            if update is None:
                memory[where] = elements
            else:
                update.apply(memory, where, elements)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Runs of global memory: allocation and first chunk of each, and how many chunks.

    Those that lie in no array have no allocation, and are neither read nor written.
    """

    allocations: Mapping[int, Allocation]
    first: Array
    chunks: int
    _steps: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_steps", np.arange(self.chunks))

    def read(self, machine: Machine, which: Array) -> Array:
        found = np.empty((len(which), self.chunks), BY_WIDTH[CHUNK])
        for place, number in enumerate(which.tolist()):
            memory = self.allocations[number].by_width[CHUNK]
            found[place] = memory[self.first[number] + self._steps]
        return found

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        for number, coming in zip(which.tolist(), chunks, strict=True):
            memory, at = self.allocations[number].by_width, self.first[number]
            if update is None:
                memory[CHUNK][at + self._steps] = coming
                continue
            size = update.element.itemsize
            where = at * CHUNK // size + np.arange(self.chunks * CHUNK // size)
            update.apply(memory[size], where, coming)


@dataclass(frozen=True, slots=True)
class PoisonEnd:
    """In the place of a source that cannot be read."""

    chunks: int

    def read(self, machine: Machine, which: Array) -> Array:
        poison = np.full((len(which), self.chunks * CHUNK), POISON, np.uint8)
        return poison.view(BY_WIDTH[CHUNK])

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        """Nothing is there that could be written."""

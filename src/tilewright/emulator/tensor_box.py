"""Boxes of a tensor map: which bytes of the tensor a copy moves, and where in shared memory.

All lie in chunks of 16 bytes, the unit of swizzles; rows of a box are multiples of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, Array
from tilewright.tensormap import FLOATS, SWIZZLE_BYTES, TensorMap

if TYPE_CHECKING:
    from tilewright.emulator.memory import Allocation

CHUNK = 16
_SECTOR, _LINE = 32, 128
_NAN = {2: 0x7FFF, 4: 0x7FFF_FFFF, 8: 0x7FFF_FFFF_FFFF_FFFF}  # PTX's canonical NaN, by bytes


def swizzled(chunk: Array, swizzle: str) -> Array:
    """Where the chunk of 16 bytes at this place (an address / 16) lies: on absolute addresses.

    Source: PTX ISA, "Tensors: Swizzling modes"; as CUTLASS writes it, Swizzle<3|2|1, 4, 3>.
    """
    rows = SWIZZLE_BYTES[swizzle] // CHUNK - 1
    found: Array = chunk ^ (chunk >> 3 & max(rows, 0))
    return found


@dataclass(frozen=True, slots=True)
class Traffic:
    """What boxes cost at the memory's side: bytes inside the tensor, sectors, requests to L2.

    A request is a line of 128 bytes that a row of a box touches.
    """

    nbytes: int
    sectors: int
    requests: int


@dataclass(frozen=True)
class Box:
    """Those of one map, of a tensor in `allocation`."""

    map: TensorMap
    allocation: Allocation

    @cached_property
    def chunks(self) -> int:
        return self.map.box_bytes // CHUNK

    @cached_property
    def _origin(self) -> int:
        assert isinstance(self.map.base, int)  # as tokens give it
        return self.map.base - self.allocation.base

    @cached_property
    def _steps(self) -> list[Array]:
        """For each dimension, innermost first: how far its elements lie from the first, counted."""
        steps = (1, *self.map.element_strides[1:])
        pairs = zip(self.map.copied, steps, strict=True)
        return [np.arange(count) * step for count, step in pairs]

    @cached_property
    def _rows(self) -> Array:
        """Bytes from the box's first element to the first one of each of its rows."""
        rows = np.zeros((1,) * (self.map.rank - 1), np.int64)
        for dim in range(1, self.map.rank):
            shape = [1] * (self.map.rank - 1)
            shape[self.map.rank - 1 - dim] = -1
            rows = rows + (self._steps[dim] * self.map.byte_strides[dim]).reshape(shape)
        return rows.reshape(-1)

    @cached_property
    def _offsets(self) -> Array:
        """The same of each chunk, in chunks."""
        inner = np.arange(self.map.copied[0] * self.map.element_bytes // CHUNK)
        offsets: Array = (self._rows[:, None] // CHUNK + inner).reshape(-1)
        return offsets

    def places(self, offset: int) -> Array:
        """Which chunks of shared memory a box at this byte offset takes, in the box's order."""
        return swizzled(offset // CHUNK + np.arange(self.chunks), self.map.swizzle)

    def starts(self, coordinates: Array) -> Array:
        """Bytes from the allocation's begin to the first element of boxes at [n, rank]."""
        starts: Array = self._origin + coordinates @ np.array(self.map.byte_strides)
        return starts

    def inside(self, coordinates: Array) -> Array:
        """Which boxes lie in the tensor with all they have."""
        last = coordinates + np.array([steps[-1] for steps in self._steps])
        found: Array = ((coordinates >= 0) & (last < np.array(self.map.shape))).all(-1)
        return found

    @cached_property
    def fits(self) -> bool:
        """Whether the whole tensor lies in its array, as that of every map of the host's does."""
        extents = zip(self.map.shape, self.map.byte_strides, strict=True)
        reach = sum((extent - 1) * stride for extent, stride in extents) + self.map.element_bytes
        return 0 <= self._origin <= self.allocation.nbytes - reach

    def beyond(self, coordinates: Array) -> Array:
        """Which boxes have elements inside the tensor and outside of the array."""
        if self.fits:
            return np.zeros(len(coordinates), bool)
        count = self.allocation.nbytes // self.map.element_bytes
        found = []
        for one in coordinates:
            where, valid = self._elements(one)
            found.append(bool((valid & ((where < 0) | (where >= count))).any()))
        return np.array(found)

    def read(self, coordinates: Array) -> Array:
        """[n, chunks] of boxes that begin at coordinates [n, rank]."""
        inside = self.inside(coordinates)
        if inside.all():
            first = self.starts(coordinates) // CHUNK
            chunks: Array = self.allocation.by_width[CHUNK].take(first[:, None] + self._offsets)
            return chunks
        values = np.empty((len(coordinates), self.chunks), BY_WIDTH[CHUNK])
        if inside.any():
            values[inside] = self.read(coordinates[inside])
        for place in np.flatnonzero(~inside):
            where, valid = self._elements(coordinates[place])
            memory = self.allocation.by_width[self.map.element_bytes]
            found = np.where(valid, memory.take(np.where(valid, where, 0)), self._fill)
            values[place] = np.ascontiguousarray(found).reshape(-1).view(BY_WIDTH[CHUNK])
        return values

    def elements(self, coordinates: Array) -> tuple[Array, Array]:
        """Of a box: the places of its elements in the allocation, and which of the box they are."""
        where, valid = self._elements(coordinates)
        inside = np.flatnonzero(valid)
        return where.reshape(-1)[inside], inside

    def _elements(self, coordinates: Array) -> tuple[Array, Array]:
        """Places in elements and whether they lie in the tensor, of one box, outermost first."""
        rank = self.map.rank
        where: Array = np.full((1,) * rank, self._origin, np.int64)
        valid: Array = np.ones((1,) * rank, bool)
        for dim, steps in enumerate(self._steps):
            shape = [1] * rank
            shape[rank - 1 - dim] = -1
            index = coordinates[dim] + steps
            where = where + (index * self.map.byte_strides[dim]).reshape(shape)
            valid = valid & ((index >= 0) & (index < self.map.shape[dim])).reshape(shape)
        return where // self.map.element_bytes, valid

    @cached_property
    def _fill(self) -> Array:
        size = self.map.element_bytes
        is_nan = self.map.oob_fill == "nan" and self.map.dtype in FLOATS
        return np.array(_NAN[size] if is_nan else 0, BY_WIDTH[size])

    def traffic(self, coordinates: Array) -> Traffic:
        """Of the boxes at [n, rank]: only what lies in the tensor is moved."""
        first = np.clip(coordinates[:, 0], 0, self.map.shape[0])
        last = np.clip(coordinates[:, 0] + self.map.copied[0], 0, self.map.shape[0])
        row = np.ones((len(coordinates), *(1,) * (self.map.rank - 1)), bool)
        for dim in range(1, self.map.rank):
            shape = [len(coordinates)] + [1] * (self.map.rank - 1)
            shape[self.map.rank - dim] = -1
            index = coordinates[:, dim, None] + self._steps[dim]
            row = row & ((index >= 0) & (index < self.map.shape[dim])).reshape(shape)
        on = row.reshape(len(coordinates), -1) & (last > first)[:, None]
        size = self.map.element_bytes
        begin = self.starts(coordinates) + (first - coordinates[:, 0]) * size
        begin = begin[:, None] + self._rows
        end = begin + ((last - first) * size)[:, None]
        touched = [((end - 1) // unit - begin // unit + 1)[on].sum() for unit in (_SECTOR, _LINE)]
        return Traffic(int((end - begin)[on].sum()), int(touched[0]), int(touched[1]))


def traffic_of(address: Array, nbytes: int) -> Traffic:
    """Of copies of so many bytes in a row."""
    touched = [
        int(((address + nbytes - 1) // unit - address // unit + 1).sum())
        for unit in (_SECTOR, _LINE)
    ]
    return Traffic(len(address) * nbytes, touched[0], touched[1])


def ideal_sectors(traffic: Traffic) -> int:
    return -(-traffic.nbytes // _SECTOR)

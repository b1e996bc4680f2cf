"""Global memory: bounds and alignment, gathers and scatters, atomics.

Every access goes through `GlobalMemory.access`, which returns what is left of it after the checks.
Loads and stores tell the chunk's hazards of it, where these watch.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.access import Access, dropped, placed_at, poisoned, shaped
from tilewright.emulator.arrays import BY_WIDTH, POISON, Array, Mask, differ, join
from tilewright.emulator.change import Change, changed
from tilewright.emulator.tensor_tokens import TensorMaps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilewright.emulator.findings import Findings
    from tilewright.emulator.hazards import Hazards
    from tilewright.emulator.ir import Variable

GLOBAL_BASE = 0x7F00_0000_0000
_WORKSPACE_BYTES = 16
_SPACING = 1 << 36  # between allocations: an overrun never reaches a neighbour


@dataclass(slots=True)
class Allocation:
    """One array of the caller at a device address; the kernel changes it in place."""

    base: int
    array: Array
    name: str
    number: int
    unset: bool = False  # its elements count as never written until the kernel writes them
    allowed: Array | None = None  # which elements may be touched; None = all
    nbytes: int = field(init=False)
    by_width: dict[int, Array] = field(init=False)

    def __post_init__(self) -> None:
        raw = np.asarray(self.array).reshape(-1).view(np.uint8)
        self.nbytes = raw.size
        self.by_width = {
            width: raw[: raw.size // width * width].view(dtype) for width, dtype in BY_WIDTH.items()
        }


class GlobalMemory:
    """The device's memory: allocations far apart, so that no overrun meets another one."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.hazards: Hazards | None = None  # of the chunk that runs
        self.stores = 0  # so far, by which waiting blocks see that something happens
        self.maps = TensorMaps()
        self._workspace: Array | None = None
        self._variables: dict[int, tuple[Variable, int]] = {}  # by identity: names repeat

    def allocate(self, array: Array, name: str = "", unset: bool = False) -> int:
        """The address of a C-contiguous array, 256-byte aligned; the same array has one address.

        `unset`: reading an element before the kernel wrote it is a fault.
        """
        for known in self.allocations:
            if known.array is array:
                return known.base
        number = len(self.allocations)
        base = GLOBAL_BASE + number * _SPACING
        self.allocations.append(Allocation(base, array, name or f"array {number}", number, unset))
        return base

    def variable(
        self, variable: Variable, others: Mapping[str, Variable], code: Mapping[str, int]
    ) -> int:
        """The address of a variable of a module; it keeps its value from launch to launch.

        The addresses that it begins with are those of `others`, by name, or of functions, `code`.
        """
        todo, new = [variable], []
        while todo:
            one = todo.pop()
            if id(one) in self._variables:
                continue
            content = np.zeros(max(one.nbytes, 1), np.uint8)
            if one.data is not None:
                content[: len(one.data)] = np.frombuffer(one.data, np.uint8)
            self._variables[id(one)] = one, self.allocate(content, one.name)
            new.append((one, content))
            todo += [others[link.name] for link in one.links if link.name in others]
        for one, content in new:
            for link in one.links:
                linked = others.get(link.name)
                base = code[link.name] if linked is None else self._variables[id(linked)][1]
                value = ((base + link.offset) % (1 << 64) >> link.shift).to_bytes(8, "little")
                content[link.at : link.at + link.nbytes] = np.frombuffer(
                    value[: link.nbytes].ljust(link.nbytes, b"\0"), np.uint8
                )
        return self._variables[id(variable)][1]

    def workspace(self) -> int:
        """The address of what the blocks of a cooperative launch meet at: zeros, the same for all.

        Its first word is its size; the kernel does the rest.
        """
        if self._workspace is None:
            self._workspace = np.array([_WORKSPACE_BYTES, 0, 0, 0], np.uint32)
        return self.allocate(self._workspace, "grid workspace")

    def access(
        self,
        findings: Findings,
        at: int,
        address: Array,
        mask: Mask,
        width: int,
        full: tuple[int, int, int],
        span: Array | None = None,
    ) -> Access:
        """Checks an access of the lanes `full`: one outside every array is reported and off.

        `span` holds the bytes that each lane touches where they are fewer than the width.
        """
        address, mask = shaped(address, mask, full[0], full[1])
        access = Access(address, mask, width, at)
        one = self._within_one(address, width)
        if one is not None and one.allowed is None and not (address & (width - 1)).any():
            return access
        outside = self._owner(address, width if span is None else span) < 0
        outside |= self._beyond_shape(address, width)
        misaligned = (address & (width - 1)) != 0
        on = True if mask is None else mask
        if not ((outside | misaligned) & on).any():
            return access
        if outside.shape != address.shape:  # a span may differ between blocks
            access = Access(np.broadcast_to(address, outside.shape), mask, width, at)
        return dropped(findings, access, outside, misaligned, full[0], self)

    def load(self, access: Access) -> Array:
        """Elements [b, W, 32] of the access's width; poison in lanes that are off."""
        if (one := self._within_one(access.address, access.width)) is not None:
            self._watch(one, access, access.active, write=False)
            index = (access.address - one.base) // access.width
            return poisoned(one.by_width[access.width].take(index), access.active)
        poison = np.full(access.address.size * access.width, POISON, np.uint8)
        values: Array = poison.view(BY_WIDTH[access.width]).reshape(access.address.shape)
        for allocation, lanes in self._parts(access):
            self._watch(allocation, access, lanes, write=False)
            index = (access.address[lanes] - allocation.base) // access.width
            values[lanes] = allocation.by_width[access.width][index]
        return values

    def load_parts(self, access: Access, span: Array) -> Array:
        """Like `load`, but a lane reads only its first `span` bytes, and the rest are zeros."""
        parts = []
        for byte in range(access.width):
            on: Array = span > byte
            active = on if access.active is None else on & access.active
            shape = np.broadcast_shapes(access.address.shape, active.shape)
            address = np.broadcast_to(access.address + byte, shape)
            part = self.load(Access(address, np.broadcast_to(active, shape), 1, access.at))
            parts.append(np.where(on, part, np.uint8(0)))
        return join(parts, access.width)

    def store(self, access: Access, values: Array) -> None:
        shape = np.broadcast_shapes(access.address.shape, values.shape)
        values = np.broadcast_to(values, shape)
        access = Access(
            np.broadcast_to(access.address, shape), access.active, access.width, access.at
        )
        self.stores += 1
        one = self._within_one(access.address, access.width)
        if one is not None and access.active is None:
            self._put(one, access, None, access.address, values)
            return
        for allocation, lanes in self._parts(access):
            self._put(allocation, access, lanes, access.address[lanes], values[lanes])

    def _put(
        self, allocation: Allocation, access: Access, on: Mask, address: Array, values: Array
    ) -> None:
        """Of lanes that store to one place, the last one wins; the others are a finding."""
        self._watch(allocation, access, on, write=True)
        memory = allocation.by_width[access.width]
        index = (address - allocation.base) // access.width
        memory[index] = values
        if self.hazards is not None and (lost := differ(memory[index], values)).any():
            self.hazards.overlap(
                access, lost if on is None else placed_at(on, lost), allocation.name
            )

    def _watch(self, allocation: Allocation, access: Access, on: Mask, write: bool) -> None:
        if self.hazards is not None:
            self.hazards.array(allocation, access, on, write)

    def change(
        self,
        access: Access,
        values: list[Array],
        element: np.dtype[Any],
        change: Change,
        full: tuple[int, int, int],
    ) -> Array:
        """An atomic: what each lane found, of the shape `full`."""
        address = np.broadcast_to(access.address, full)
        on = None if access.active is None else np.broadcast_to(access.active, full)
        access = Access(address, on, access.width, access.at)
        old = np.zeros(full, BY_WIDTH[access.width])
        for allocation, lanes in self._parts(access):
            self._watch(allocation, access, lanes, write=True)
            index = (address[lanes] - allocation.base) // access.width
            given = [np.broadcast_to(value, full)[lanes] for value in values]
            memory = allocation.by_width[access.width]
            found = changed(memory, index, given, element, change)
            if differ(memory[index], found).any():  # else a poll, like a swap that fails
                self.stores += 1
            old[lanes] = found
        return old

    def text(self, address: int) -> str:
        """The C string at an address, as far as it lies in an array."""
        number = (address - GLOBAL_BASE) // _SPACING
        if not 0 <= number < len(self.allocations):
            return "?"
        one = self.allocations[number]
        raw = one.by_width[1][address - one.base :].tobytes()
        return raw.split(b"\0")[0].decode("utf-8", "replace")

    def limit(self, array: Array, shape: tuple[int, ...]) -> None:
        """Only this corner of the array may be touched, and no access may cross its rows."""
        for allocation in self.allocations:
            if allocation.array is array:
                allowed = np.zeros(array.shape, np.int64)
                rows = np.arange(1, 1 + int(np.prod(shape[:-1], dtype=np.int64)))
                corner = tuple(slice(extent) for extent in shape)
                allowed[corner] = rows.reshape(*shape[:-1], 1)
                allocation.allowed = allowed.reshape(-1)

    def _beyond_shape(self, address: Array, width: int) -> Array:
        """Accesses that leave the rows that an array was limited to."""
        beyond = np.zeros(address.shape, bool)
        for allocation in self.allocations:
            if allocation.allowed is None:
                continue
            offset = address - allocation.base
            inside = (offset >= 0) & (offset + width <= allocation.nbytes)
            element = np.asarray(allocation.array).dtype.itemsize
            first = np.where(inside, offset, 0) // element
            last = np.where(inside, offset + width - 1, 0) // element
            row = allocation.allowed[first]
            beyond |= inside & ((row == 0) | (row != allocation.allowed[last]))
        return beyond

    def number_of(self, address: int) -> int | None:
        """The place of the array that holds an address, or lies before it."""
        number = (address - GLOBAL_BASE) // _SPACING
        return number if 0 <= number < len(self.allocations) else None

    def is_variable(self, number: int) -> bool:
        """Whether it is a variable of the module and no array of the caller's."""
        base = self.allocations[number].base
        return any(address == base for _, address in self._variables.values())

    def nearest(self, address: int) -> Allocation | None:
        """The array that an address lies in, before or behind."""
        number = (address - GLOBAL_BASE + _SPACING // 2) // _SPACING
        return self.allocations[number] if 0 <= number < len(self.allocations) else None

    def owner_name(self, address: int) -> str:
        one = self.nearest(address)
        return "no array" if one is None else one.name

    def _within_one(self, address: Array, width: int) -> Allocation | None:
        low, high = int(address.min()), int(address.max())
        number = (low - GLOBAL_BASE) // _SPACING
        if not 0 <= number < len(self.allocations):
            return None
        one = self.allocations[number]
        return one if high + width <= one.base + one.nbytes else None

    def _owner(self, address: Array, width: int | Array) -> Array:
        """The number of the allocation that holds each access, −1 for none."""
        number = (address - GLOBAL_BASE) // _SPACING
        known = (number >= 0) & (number < len(self.allocations))
        sizes = np.array([a.nbytes for a in self.allocations] or [0], np.int64)
        inside = (address - GLOBAL_BASE) % _SPACING + width <= sizes[np.where(known, number, 0)]
        return np.where(known & inside, number, -1)

    def _parts(self, access: Access) -> list[tuple[Allocation, Array]]:
        owner = self._owner(access.address, access.width)
        if access.active is not None:
            owner = np.where(access.active, owner, -1)
        return [(self.allocations[n], owner == n) for n in np.unique(owner).tolist() if n >= 0]

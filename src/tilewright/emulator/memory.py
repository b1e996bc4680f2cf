"""The memories of a launch: bounds and alignment, gathers and scatters, counts.

Every access goes through `SharedMemory.access` or `GlobalMemory.access`, which return what is
left of it after the checks. That is the one place where shadow state (who wrote a word last, was
it ever written) belongs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, LANES, POISON, Array, Mask, join

if TYPE_CHECKING:
    from tilewright.emulator.findings import Findings
    from tilewright.emulator.ir import Variable

GLOBAL_BASE = 0x7F00_0000_0000
_SPACING = 1 << 36  # between allocations: an overrun never reaches a neighbour
_KEEP = 4096  # address patterns of shared memory found good; a kernel repeats a few dozen


@dataclass(frozen=True, slots=True)
class Access:
    """An access after its checks: byte addresses [b, W, lanes] and the lanes that go on."""

    address: Array
    active: Mask
    width: int


class SharedMemory:
    """Shared memory of the blocks of a chunk, poisoned at the start."""

    def __init__(self, blocks: int, warps: int, nbytes: int) -> None:
        self.blocks, self.warps, self.nbytes = blocks, warps, nbytes
        padded = max(16, -(-nbytes // 16) * 16)
        self.bytes = np.full((blocks, padded), POISON, np.uint8)
        self.by_width = {width: self.bytes.view(dtype) for width, dtype in BY_WIDTH.items()}
        self._starts = {w: np.arange(blocks)[:, None, None] * (padded // w) for w in BY_WIDTH}
        self._checked: dict[tuple[int, int, bytes], Access] = {}

    def access(
        self, findings: Findings, at: int, address: Array, mask: Mask, width: int, lanes: int
    ) -> Access:
        """Checks the first `lanes` lanes. A lane out of bounds or misaligned is reported and off.

        Cost: a dictionary look-up where all blocks and earlier steps share the addresses.
        """
        address, mask = _shape(address, mask, self.blocks, self.warps)
        address = address[..., :lanes]
        mask = None if mask is None else mask[..., :lanes]
        key = None
        if mask is None and address.shape[0] == 1:
            key = (width, lanes, address.tobytes())
            if (known := self._checked.get(key)) is not None:
                return known
        outside = (address < 0) | (address > self.nbytes - width)
        misaligned = (address & (width - 1)) != 0
        access = Access(address, mask, width)
        if outside.any() or misaligned.any():
            return _drop(findings, at, access, outside, misaligned, self.blocks)
        if key is not None:
            if len(self._checked) >= _KEEP:
                self._checked.clear()
            self._checked[key] = access
        return access

    def load(self, access: Access) -> Array:
        """[blocks, W, lanes] elements of the access's width; poison in lanes that are off."""
        memory = self.by_width[access.width]
        index = access.address // access.width
        if access.active is not None:
            index = np.where(access.active, index, 0)
        if index.shape[0] == 1:
            values = memory.take(index[0], axis=1)
        else:
            values = memory.reshape(-1).take(index + self._starts[access.width])
        return _poisoned(values, access.active)

    def store(self, access: Access, values: Array) -> None:
        memory = self.by_width[access.width]
        index = access.address // access.width
        values = np.broadcast_to(values, (self.blocks, *index.shape[1:]))
        if access.active is None and index.shape[0] == 1:
            memory[:, index[0]] = values
            return
        flat = memory.reshape(-1)
        where = np.broadcast_to(index + self._starts[access.width], values.shape)
        if access.active is None:
            flat[where] = values
        else:
            on = np.broadcast_to(access.active, values.shape)
            flat[where[on]] = values[on]


@dataclass(slots=True)
class Allocation:
    """One array of the caller at a device address; the kernel changes it in place."""

    base: int
    array: Array
    name: str
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
        self._variables: dict[int, tuple[Variable, int]] = {}  # by identity: names repeat

    def allocate(self, array: Array, name: str = "") -> int:
        """The address of a C-contiguous array, 256-byte aligned; the same array has one address."""
        for known in self.allocations:
            if known.array is array:
                return known.base
        base = GLOBAL_BASE + len(self.allocations) * _SPACING
        self.allocations.append(Allocation(base, array, name or f"array {len(self.allocations)}"))
        return base

    def variable(self, variable: Variable) -> int:
        """The address of a variable of a module; it keeps its value from launch to launch."""
        if id(variable) not in self._variables:
            content = np.zeros(max(variable.nbytes, 1), np.uint8)
            if variable.data is not None:
                content[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
            self._variables[id(variable)] = variable, self.allocate(content, variable.name)
        return self._variables[id(variable)][1]

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
        address, mask = _shape(address, mask, full[0], full[1])
        access = Access(address, mask, width)
        if self._within_one(address, width) is not None and not (address & (width - 1)).any():
            return access
        outside = self._owner(address, width if span is None else span) < 0
        misaligned = (address & (width - 1)) != 0
        on = True if mask is None else mask
        if not ((outside | misaligned) & on).any():
            return access
        if outside.shape != address.shape:  # a span may differ between blocks
            access = Access(np.broadcast_to(address, outside.shape), mask, width)
        return _drop(findings, at, access, outside, misaligned, full[0], self)

    def load(self, access: Access) -> Array:
        """Elements [b, W, 32] of the access's width; poison in lanes that are off."""
        if (one := self._within_one(access.address, access.width)) is not None:
            index = (access.address - one.base) // access.width
            return _poisoned(one.by_width[access.width].take(index), access.active)
        poison = np.full(access.address.size * access.width, POISON, np.uint8)
        values: Array = poison.view(BY_WIDTH[access.width]).reshape(access.address.shape)
        for allocation, lanes in self._parts(access):
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
            part = self.load(Access(address, np.broadcast_to(active, shape), 1))
            parts.append(np.where(on, part, np.uint8(0)))
        return join(parts, access.width)

    def store(self, access: Access, values: Array) -> None:
        shape = np.broadcast_shapes(access.address.shape, values.shape)
        values = np.broadcast_to(values, shape)
        access = Access(np.broadcast_to(access.address, shape), access.active, access.width)
        one = self._within_one(access.address, access.width)
        if one is not None and access.active is None:
            one.by_width[access.width][(access.address - one.base) // access.width] = values
            return
        for allocation, lanes in self._parts(access):
            index = (access.address[lanes] - allocation.base) // access.width
            allocation.by_width[access.width][index] = values[lanes]

    def owner_name(self, address: int) -> str:
        """The array that an address belongs to, or lies behind."""
        number = (address - GLOBAL_BASE + _SPACING // 2) // _SPACING
        if 0 <= number < len(self.allocations):
            return self.allocations[number].name
        return "no array"

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


def _blocks(mask: Mask) -> int:
    return 1 if mask is None else mask.shape[0]


def _shape(address: Array, mask: Mask, blocks: int, warps: int) -> tuple[Array, Mask]:
    """Full warps and lanes; the block axis stays 1 where neither depends on the block."""
    b = 1 if address.shape[0] == 1 and _blocks(mask) == 1 else blocks
    address = np.broadcast_to(address, (b, warps, LANES))
    if mask is None or mask.all():
        return address, None
    return address, np.broadcast_to(mask, (b, warps, LANES))


def _drop(
    findings: Findings,
    at: int,
    access: Access,
    outside: Array,
    misaligned: Array,
    blocks: int,
    memory: GlobalMemory | None = None,
) -> Access:
    """Reports the lanes that are off and leaves the others; `memory` is None for shared memory."""
    on = np.ones(access.address.shape, bool) if access.active is None else access.active
    what = f"{access.width} bytes of {'global' if memory else 'shared'} memory"
    for kind, why, bad in (
        ("out-of-bounds", "outside every array" if memory else "beyond its end", outside),
        (
            "misaligned",
            f"at an address that is no multiple of {access.width}",
            misaligned & ~outside,
        ),
    ):
        findings.lanes(kind, at, f"{what} {why}", access.address, bad & on, blocks, memory)
    return Access(access.address, on & ~outside & ~misaligned, access.width)


def _poisoned(values: Array, active: Mask) -> Array:
    if active is None:
        return values
    poison = np.full(values.dtype.itemsize, POISON, np.uint8).view(values.dtype)[0]
    return np.where(active, values, poison)

"""Shared memory of the blocks of a chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright.emulator.access import Access, dropped, poisoned, shaped
from tilewright.emulator.arrays import BY_WIDTH, POISON, Array, Mask, differ
from tilewright.emulator.change import Change, changed

if TYPE_CHECKING:
    from tilewright.emulator.findings import Findings
    from tilewright.emulator.hazards import Hazards

_KEEP = 4096  # address patterns found good; a kernel repeats a few dozen


class SharedMemory:
    """Shared memory of the blocks of a chunk, poisoned at the start."""

    def __init__(
        self, blocks: int, warps: int, nbytes: int, hazards: Hazards | None = None
    ) -> None:
        self.blocks, self.warps, self.nbytes = blocks, warps, nbytes
        self.hazards = hazards
        padded = max(16, -(-nbytes // 16) * 16)
        self.bytes = np.full((blocks, padded), POISON, np.uint8)
        self.by_width = {width: self.bytes.view(dtype) for width, dtype in BY_WIDTH.items()}
        self._starts = {w: np.arange(blocks)[:, None, None] * (padded // w) for w in BY_WIDTH}
        self._checked: dict[tuple[int, int, int, bytes], Access] = {}

    def access(
        self,
        findings: Findings,
        at: int,
        address: Array,
        mask: Mask,
        width: int,
        lanes: int,
        rows: Array | None = None,
    ) -> Access:
        """Checks the first `lanes` lanes. A lane out of bounds or misaligned is reported and off.

        `rows` [blocks, W, 32] says whose memory each lane means, None that of its own block.
        Cost: a dictionary look-up where all blocks and earlier steps share the addresses.
        """
        if rows is not None:
            address = np.broadcast_to(address, rows.shape)
        address, mask = shaped(address, mask, self.blocks, self.warps)
        address = address[..., :lanes]
        mask = None if mask is None else mask[..., :lanes]
        key = None
        if mask is None and address.shape[0] == 1 and rows is None:
            key = (at, width, lanes, address.tobytes())
            if (known := self._checked.get(key)) is not None:
                return known
        outside = (address < 0) | (address > self.nbytes - width)
        misaligned = (address & (width - 1)) != 0
        access = Access(address, mask, width, at, rows=rows)
        if outside.any() or misaligned.any():
            return dropped(findings, access, outside, misaligned, self.blocks)
        if key is not None:
            if len(self._checked) >= _KEEP:
                self._checked.clear()
            self._checked[key] = access
        return access

    def load(self, access: Access) -> Array:
        """[blocks, W, lanes] elements of the access's width; poison in lanes that are off."""
        if self.hazards is not None:
            self.hazards.shared_read(access)
        return self.gather(access)

    def gather(self, access: Access) -> Array:
        """What `load` gives, for the emulator's own use: no access of the kernel."""
        memory = self.by_width[access.width]
        index = access.address // access.width
        if access.active is not None:
            index = np.where(access.active, index, 0)
        if index.shape[0] == 1 and access.rows is None:
            values = memory.take(index[0], axis=1)
        else:
            values = memory.reshape(-1).take(index + self._start(access))
        return poisoned(values, access.active)

    def store(self, access: Access, values: Array) -> None:
        """Of lanes that store to one place, the last one wins."""
        if self.hazards is not None:
            self.hazards.shared_write(access, lambda: self._changes(access, values))
        self._scatter(access, values)
        if self.hazards is not None and self.hazards.overlapping(access):
            stored = self.gather(access)
            lost = differ(stored, np.broadcast_to(values, stored.shape))
            if access.active is not None:
                lost = lost & access.active
            if lost.any():
                self.hazards.overlap(access, lost)

    def _changes(self, access: Access, values: Array) -> Array:
        before = self.gather(access)
        return differ(before, np.broadcast_to(values, before.shape))

    def change(
        self, access: Access, values: list[Array], element: np.dtype[Any], change: Change
    ) -> Array:
        """An atomic: what each lane found, [blocks, W, 32]."""
        if self.hazards is not None:
            self.hazards.shared_write(access)
        index, on = self.places(access)
        old = np.zeros(on.shape, BY_WIDTH[access.width])
        given = [np.broadcast_to(value, on.shape)[on] for value in values]
        memory = self.by_width[access.width].reshape(-1)
        old[on] = changed(memory, index[on], given, element, change)
        return old

    def places(self, access: Access) -> tuple[Array, Array]:
        """Where each lane's element lies in the memory of all blocks, and which lanes go on."""
        shape = (self.blocks, *access.address.shape[1:])
        index = access.address // access.width + self._start(access)
        active = True if access.active is None else access.active
        return np.broadcast_to(index, shape), np.broadcast_to(active, shape)

    def _start(self, access: Access) -> Array:
        """Where the memory that each lane means begins in that of all blocks."""
        if access.rows is None:
            return self._starts[access.width]
        start: Array = access.rows * (self.bytes.shape[1] // access.width)
        return start

    def _scatter(self, access: Access, values: Array) -> None:
        memory = self.by_width[access.width]
        index = access.address // access.width
        values = np.broadcast_to(values, (self.blocks, *index.shape[1:]))
        if access.active is None and index.shape[0] == 1 and access.rows is None:
            memory[:, index[0]] = values
            return
        flat = memory.reshape(-1)
        where = np.broadcast_to(index + self._start(access), values.shape)
        if access.active is None:
            flat[where] = values
        else:
            on = np.broadcast_to(access.active, values.shape)
            flat[where[on]] = values[on]

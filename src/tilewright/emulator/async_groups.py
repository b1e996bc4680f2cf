"""cp.async: copies in flight. They land at the wait, the latest moment the program allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.shared import SharedMemory


@dataclass(slots=True)
class _Copy:
    into: Access
    values: Array
    group: Array  # the number of its group in each lane, counted from 0
    pending: Mask  # lanes whose part has not landed; None = all
    number: int  # of all copies, in the order of their issue


class AsyncGroups:
    """The copies of a chunk. Groups are numbered in each lane, so that warps may differ."""

    def __init__(self) -> None:
        self._copies: list[_Copy] = []
        self._open = np.zeros((1, 1, 1), np.int64)  # the group that new copies join
        self.issued = 0

    @property
    def pending(self) -> bool:
        return bool(self._copies)

    def issue(self, shared: SharedMemory, into: Access, values: Array) -> None:
        """Starts a copy whose source has been read."""
        self._copies.append(_Copy(into, values, self._open, into.active, self.issued))
        self.issued += 1
        if shared.hazards is not None:
            shared.hazards.copy_starts(into)

    def commit(self, mask: Mask) -> None:
        self._open = self._open + (1 if mask is None else mask.astype(np.int64))

    def wait(self, shared: SharedMemory, pending: int | None, mask: Mask) -> None:
        """Lands all groups but the newest `pending` of each lane; None lands every copy."""
        self._land(
            shared,
            lambda copy: np.True_ if pending is None else copy.group < self._open - pending,
            np.ones((1, 1, 1), bool) if mask is None else mask,
        )

    def land(self, shared: SharedMemory, before: int, lanes: Array) -> None:
        """Lands the copies of these lanes whose number is below `before`."""
        self._land(shared, lambda copy: np.bool_(copy.number < before), lanes)

    def flying(self, before: int, lanes: Array) -> Array:
        """Which of these lanes have copies on their way whose number is below `before`."""
        found: Array = np.zeros(lanes.shape, bool)
        for copy in self._copies:
            if copy.number < before:
                found |= True if copy.pending is None else copy.pending
        return found & lanes

    def _land(
        self, shared: SharedMemory, chosen: Callable[[_Copy], Array | np.bool], lanes: Array
    ) -> None:
        left: list[_Copy] = []
        for copy in self._copies:
            due: Array = lanes & chosen(copy)
            if copy.pending is not None:
                due = due & copy.pending
            if due.all():
                _land(shared, copy, copy.into)
            elif due.any():
                self._land_part(shared, copy, due, left)
            else:
                left.append(copy)
        self._copies = left

    def _land_part(self, shared: SharedMemory, copy: _Copy, due: Array, left: list[_Copy]) -> None:
        address = copy.into.address
        on = np.broadcast_to(due, (max(due.shape[0], address.shape[0]), *address.shape[1:]))
        _land(shared, copy, Access(address, on, copy.into.width, copy.into.at))
        before = np.ones((1, 1, 1), bool) if copy.pending is None else copy.pending
        rest = before & ~due
        if rest.any():
            left.append(_Copy(copy.into, copy.values, copy.group, rest, copy.number))


def _land(shared: SharedMemory, copy: _Copy, access: Access) -> None:
    if shared.hazards is not None:
        shared.hazards.copy_lands(access)
    shared.store(access, copy.values)

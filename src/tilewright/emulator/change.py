"""Atomic changes of a memory: lanes that meet at one place follow each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, Array

Change = Callable[[Array, Array, Array], Array]  # old, b, c → new


def changed(
    memory: Array, index: Array, values: list[Array], element: np.dtype[Any], change: Change
) -> Array:
    """Changes memory[index] one lane after the other; what each lane found there.

    All are flat. `memory` holds unsigned words of the access's width; a word may hold two elements.
    """
    width = memory.dtype.itemsize
    old = np.empty(index.size, memory.dtype)
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    starts = np.flatnonzero(np.r_[True, sorted_index[1:] != sorted_index[:-1]])
    rank = np.arange(index.size) - np.repeat(starts, np.diff(np.r_[starts, index.size]))
    words = [np.ascontiguousarray(value).view(BY_WIDTH[width]) for value in values]
    words += [words[0]] * (2 - len(words))
    for turn in range(int(rank.max()) + 1 if index.size else 0):
        lanes = order[rank == turn]
        found = memory[index[lanes]]
        parts = [part[lanes].view(element) for part in words]
        new = change(found.view(element), parts[0], parts[1])
        memory[index[lanes]] = np.ascontiguousarray(new.astype(element, copy=False)).view(
            memory.dtype
        )
        old[lanes] = found
    return old

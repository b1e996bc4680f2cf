"""Special registers. PTX ISA, "Special Registers".

%clock, %clock64 and %globaltimer change while a kernel runs: `mov` reads them from the machine.
%smid deals the blocks out to the SMs of one H200 in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import LANES, Array
from tilewright.emulator.cluster_order import clusters_and_ranks

if TYPE_CHECKING:
    from tilewright.emulator.trace import Shape
    from tilewright.launch import Dim3

_ONE = np.uint32(1)
_ALL = np.uint32(0xFFFF_FFFF)

_OF_LANE: dict[str, Callable[[Array], Array]] = {
    "%laneid": lambda lane: lane,
    "%lanemask_eq": lambda lane: _ONE << lane,
    "%lanemask_lt": lambda lane: (_ONE << lane) - _ONE,
    "%lanemask_le": lambda lane: (_ONE << lane << _ONE) - _ONE,
    "%lanemask_ge": lambda lane: _ALL << lane,
    "%lanemask_gt": lambda lane: _ALL << lane << _ONE,
}
CARRY = "%cc"  # CC.CF, the carry flag: no text can name it, ops/carry.py reads and writes it
CLOCKS = {"%clock": "u32", "%clock64": "u64", "%globaltimer": "u64"}  # and what reads them
# The two halves of the address where a grid's blocks meet (cooperative groups' grid_group).
WORKSPACE = {"%envreg1": 32, "%envreg2": 0}  # and how far down each lies
_SMS = 132
_OF_LAUNCH: dict[str, Callable[[Shape, int], int]] = {
    "%nwarpid": lambda shape, shared_bytes: shape.warps,
    "%dynamic_smem_size": lambda shape, shared_bytes: shape.shared_bytes,
    "%total_smem_size": lambda shape, shared_bytes: shared_bytes,
    "%nsmid": lambda shape, shared_bytes: _SMS,
    "%gridid": lambda shape, shared_bytes: 0,
    "%aggr_smem_size": lambda shape, shared_bytes: shared_bytes,
    "%cluster_nctarank": lambda shape, shared_bytes: shape.peers,
    CARRY: lambda shape, shared_bytes: 0,
}
_AXES = "xyz"
_OF_AXIS = ("tid", "ntid", "ctaid", "nctaid")
_OF_CLUSTER = ("clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")

KNOWN = {
    *_OF_LANE,
    *_OF_LAUNCH,
    *WORKSPACE,
    "%warpid",
    "%smid",
    "%cluster_ctarank",
    *(f"%{name}.{axis}" for name in (*_OF_AXIS, *_OF_CLUSTER) for axis in _AXES),
}


def special(name: str, shape: Shape, ids: Array, shared_bytes: int) -> Array:
    """The value of a register of KNOWN but WORKSPACE in every lane that it depends on.

    `ids` are the linear ids of the blocks, `shared_bytes` all shared memory of one.
    """
    thread = np.arange(shape.warps * LANES, dtype=np.uint32).reshape(1, shape.warps, LANES)
    if name in _OF_LANE:
        return _OF_LANE[name](thread[:, :1])
    if name in _OF_LAUNCH:
        return np.full((1, 1, 1), _OF_LAUNCH[name](shape, shared_bytes), np.uint32)
    if name == "%warpid":
        return thread[..., :1] >> np.uint32(5)
    if name == "%smid":
        return (ids.reshape(-1, 1, 1) % _SMS).astype(np.uint32)
    if name == "%cluster_ctarank":
        rank = clusters_and_ranks(shape.grid, shape.cluster, ids)[1]
        return _uniform(rank.reshape(-1, 1, 1).astype(np.uint32))
    register, axis = name[1:].split(".")
    at = _AXES.index(axis)
    if register in _OF_CLUSTER:
        return _of_cluster(register, shape, ids, at)
    extents = shape.block if register in ("tid", "ntid") else shape.grid
    if register.startswith("n"):
        return np.full((1, 1, 1), extents[at], np.uint32)
    linear = thread if register == "tid" else ids.reshape(-1, 1, 1)
    return _along(linear, extents, at).astype(np.uint32)


def _along(linear: Array, extents: Dim3, at: int) -> Array:
    """The index along axis `at` of what has these linear indices."""
    index: Array = linear.astype(np.int64) // prod(extents[:at]) % extents[at]
    return index


def _of_cluster(register: str, shape: Shape, ids: Array, at: int) -> Array:
    size, extent = shape.cluster[at], shape.grid[at]
    if register == "cluster_nctaid":
        return np.full((1, 1, 1), size, np.uint32)
    if register == "nclusterid":
        return np.full((1, 1, 1), extent // size, np.uint32)
    block = _along(ids.reshape(-1, 1, 1), shape.grid, at)
    index = block // size if register == "clusterid" else block % size
    return _uniform(index.astype(np.uint32))


def _uniform(value: Array) -> Array:
    """One value where all blocks have the same."""
    return value[:1] if bool((value == value[:1]).all()) else value

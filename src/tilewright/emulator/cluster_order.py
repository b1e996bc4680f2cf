"""Which blocks of a grid are a cluster, and the order in which a launch runs them.

A chunk holds whole clusters, the blocks of each beside each other by rank: the block in row `b`
of a chunk has rank `b % peers`, and its cluster begins at row `b - b % peers`.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tilewright.emulator.arrays import Array
from tilewright.launch import Dim3


def clusters_and_ranks(grid: Dim3, cluster: Dim3, ids: Array) -> tuple[Array, Array]:
    """Of blocks by their linear ids: the number of the cluster, and the rank in it."""
    number, rank = np.zeros_like(ids), np.zeros_like(ids)
    blocks = clusters = ranks = 1
    for extent, size in zip(grid, cluster, strict=True):
        at = ids // blocks % extent
        number += at // size * clusters
        rank += at % size * ranks
        blocks, clusters, ranks = blocks * extent, clusters * (extent // size), ranks * size
    return number, rank


def blocks_of(grid: Dim3, cluster: Dim3, clusters: Array) -> Array:
    """The linear ids of these clusters' blocks, each cluster's by rank."""
    ids = np.zeros((len(clusters), prod(cluster)), np.int64)
    ranks = np.arange(prod(cluster))
    below_clusters = below_ranks = below_blocks = 1
    for extent, size in zip(grid, cluster, strict=True):
        first = clusters // below_clusters % (extent // size) * size
        ids += (first[:, None] + ranks // below_ranks % size) * below_blocks
        below_clusters *= extent // size
        below_ranks, below_blocks = below_ranks * size, below_blocks * extent
    return ids.reshape(-1)


def whole_clusters(grid: Dim3, cluster: Dim3, ids: Array | range | None) -> Array | range:
    """The blocks `ids` (None: all) and those of their clusters, in the order that they run in."""
    if prod(cluster) == 1:
        return range(prod(grid)) if ids is None else ids
    if ids is None:
        return blocks_of(grid, cluster, np.arange(prod(grid) // prod(cluster)))
    numbers, _ = clusters_and_ranks(grid, cluster, np.asarray(ids, np.int64))
    return blocks_of(grid, cluster, np.unique(numbers))

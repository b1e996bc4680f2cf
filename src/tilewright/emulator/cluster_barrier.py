"""barrier.cluster: who of a cluster has arrived, and who waits behind it.

Every thread arrives, and then waits, once a phase; those that have exited count as arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import Array

if TYPE_CHECKING:
    from tilewright.emulator.machine import Machine

_TWICE = "it arrives at the barrier of its cluster again without having waited behind it"
_NEVER = "it waits at the barrier of its cluster without having arrived there"


class ClusterBarrier:
    """That of each cluster of a chunk."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._phase = np.zeros(machine.blocks // machine.peers, np.int64)  # of each cluster
        self._arrived = machine.nobody  # lanes [B, W, 32], in the present phase
        self._owing = machine.nobody  # lanes that have arrived and not waited yet
        self._of_lane = np.full(machine.full, -1, np.int64)  # the phase that it arrived in last
        self._waiting: dict[int, Array] = {}  # basic block → lanes
        self._told: Array | None = None  # what those know that have arrived [clusters, N]
        self._ended: Array | None = None  # the same of the phase that ended last

    def arrive(self, at: int, lanes: Array, releases: bool) -> None:
        machine = self._machine
        lanes = lanes & ~machine.absent
        machine.fault("invalid-barrier", at, _TWICE, lanes & self._owing)
        if machine.hazards is not None:
            warps: Array = np.logical_or.reduce(lanes, axis=-1)
            told = machine.hazards.clocks.arrive(warps, releases)
            self._told = told if self._told is None else np.maximum(self._told, told)
        self._arrived, self._owing = self._arrived | lanes, self._owing | lanes
        self._of_lane[lanes] = np.broadcast_to(self._of_block(self._phase), machine.full)[lanes]
        self.release()

    def wait(self, number: int, lanes: Array) -> None:
        """Lanes come to basic block `number`, which is a wait."""
        machine = self._machine
        if (astray := lanes & ~self._owing).any():
            machine.fault("invalid-barrier", machine.program.blocks[number].first, _NEVER, astray)
            self._go_on(number, astray)
            lanes = lanes & ~astray
        if lanes.any():
            there = self._waiting.get(number)
            self._waiting[number] = lanes if there is None else there | lanes
            self._let_go()

    def release(self) -> None:
        """Ends the phase of the clusters all of whose threads have arrived or exited."""
        if not self._arrived.any():
            return
        there = self._by_cluster(self._arrived | self._machine.exited)
        complete: Array = np.logical_and.reduce(there, axis=1)
        complete = complete & np.logical_or.reduce(self._by_cluster(self._arrived), axis=1)
        if not complete.any():
            return
        self._phase = self._phase + complete
        self._arrived = self._arrived & ~self._of_block(complete)
        if self._told is not None:
            ended = self._told if self._ended is None else self._ended
            self._ended = np.where(complete[:, None], self._told, ended)
            self._told = np.where(complete[:, None], 0, self._told)
        self._let_go()

    def deadlock(self) -> None:
        """Reports those that still wait when no lane is left that could run."""
        for number, lanes in self._waiting.items():
            machine = self._machine
            machine.trace.completed = False
            block, warp, lane = (int(i) for i in np.argwhere(lanes)[0])
            first = block - block % machine.peers
            mine = slice(first, first + machine.peers)
            came = int((self._arrived & ~machine.exited)[mine].sum())
            alive = int((~machine.exited)[mine].sum())
            what = (
                f"{int(lanes[mine].sum())} lanes wait here for their cluster, of whose {alive} "
                f"threads {came} have arrived"
            )
            at = machine.program.blocks[number].first
            machine.fault_at("deadlock", at, what, block, warp, lane)

    def clear(self) -> None:
        """Forgets those that wait: the chunk is given up."""
        self._waiting.clear()

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    def _let_go(self) -> None:
        for number, lanes in list(self._waiting.items()):
            go = lanes & (self._of_lane < self._of_block(self._phase))
            if go.any():
                left = lanes & ~go
                del self._waiting[number]
                if left.any():
                    self._waiting[number] = left
                self._owing = self._owing & ~go
                self._go_on(number, go)

    def _go_on(self, number: int, lanes: Array) -> None:
        machine = self._machine
        if machine.hazards is not None and self._ended is not None:
            warps: Array = np.logical_or.reduce(lanes, axis=-1)
            machine.hazards.clocks.pass_barrier(warps, self._ended)
        machine.issued(number, lanes)
        machine.put(number + 1, lanes)

    def _of_block(self, clusters: Array) -> Array:
        """[B, 1, 1] from a value for each cluster."""
        return np.repeat(clusters, self._machine.peers).reshape(-1, 1, 1)

    def _by_cluster(self, lanes: Array) -> Array:
        return lanes.reshape(len(self._phase), -1)

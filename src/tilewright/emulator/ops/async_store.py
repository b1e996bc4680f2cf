"""st.async and red.async: stores to other blocks of a cluster that signal an mbarrier there.

PTX ISA, "Data Movement: st.async" and "Parallel Synchronization: red.async"; the forms of global
memory are of sm_100. Each lane's value is on its way until somebody waits at the mbarrier and only
bytes are missing there. They go through the generic proxy, so that no proxy fence is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tilewright.emulator.arrays import BY_WIDTH, TYPES, Array, Mask
from tilewright.emulator.bulk import Signalled
from tilewright.emulator.bulk_ends import Update
from tilewright.emulator.bulk_issue import Issue
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.counters import Tally
from tilewright.emulator.ir import TYPE_BYTES, Instruction, Operand, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.mbarrier_inits import WIDTH
from tilewright.emulator.ops.bulk import update_of
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

_SPACE = r"(?:\.shared::cluster)?"
_SIGNAL = r"\.mbarrier::complete_tx::bytes"
_WIDEST = 16  # bytes of a lane
_CHANGES = {
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
    **dict.fromkeys(("and", "or", "xor"), ("b32",)),
    "add": ("u32", "s32", "u64"),
}


@op("st", rf"\.async(?:\.weak|\.cluster)?{_SPACE}{_SIGNAL}(?:\.(?P<vector>v2|v4))?"
    r"\.(?P<type>[bus](?:32|64)|f32|f64)", "Data Movement: st.async")  # fmt: skip
def store(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, value, barrier = ins.operands
    count = int((g["vector"] or "v1")[1:])
    items: tuple[Operand, ...] = value.items if isinstance(value, Vector) else (value,)
    if len(items) != count or count * TYPE_BYTES[g["type"]] > _WIDEST:
        raise ValueError(f"{count} registers of together {_WIDEST} bytes at most are wanted")
    fetches = [compiler.source(item, g["type"]) for item in items]
    return _step(compiler, into, fetches, barrier, g["type"], None)


@op("red", rf"\.async\.relaxed\.cluster{_SPACE}{_SIGNAL}"
    r"\.(?P<change>inc|dec|min|max|and|or|xor|add)\.(?P<type>[bus]32|u64)",
    "Parallel Synchronization: red.async")  # fmt: skip
def reduce(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, value, barrier = ins.operands
    update = update_of(g, _CHANGES)
    fetches = [compiler.source(value, g["type"])]
    return _step(compiler, into, fetches, barrier, g["type"], update)


def _step(
    compiler: Compiler,
    into: Operand,
    fetches: list[Fetch],
    barrier: Operand,
    kind: str,
    update: Update | None,
) -> Step:
    to, word, at = compiler.address(into), compiler.address(barrier), compiler.at

    def step(machine: Machine, mask: Mask) -> None:
        issue = Issue.of(machine, at, mask)
        if not len(issue):
            return
        who, parts = issue.who, []
        for fetch in fetches:
            full = np.broadcast_to(fetch(machine.regs), machine.full)
            parts.append(full[who.block, who.warp, who.lane].astype(TYPES[kind]))
        values = np.ascontiguousarray(np.stack(parts, axis=1)).view(np.uint8)
        _send(issue, values, issue.values(to), issue.values(word), update)

    return step


def _send(issue: Issue, values: Array, into: Array, word: Array, update: Update | None) -> None:
    """Bytes [n, width] to the addresses `into` [n], which the mbarriers at `word` [n] count."""
    machine, width = issue.machine, values.shape[1]
    rows, offset = issue.shared(into)
    signal, at_word = issue.shared(word)
    alone = np.full(len(issue), machine.peers == 1)
    issue.fault("invalid-copy", "it needs a cluster of several blocks", alone)
    issue.fault("invalid-copy", "its target and its mbarrier are of different blocks",
                rows != signal)  # fmt: skip
    if update is not None:
        own = (rows == issue.who.block) & ~alone
        issue.fault("invalid-copy", "its target must be another block of the cluster", own)
    good = issue.usable(rows, offset, width, width, "fills") & (rows == signal) & ~alone
    known = issue.known_words(signal, at_word, through_copies=False)
    words = signal * (machine.shared.bytes.shape[1] // WIDTH) + at_word // WIDTH
    machine.timeline.issues(issue.at, words, width)
    warps = len(np.unique(np.stack([issue.who.block, issue.who.warp]), axis=1).T)
    machine.counters.add(issue.at, Tally(warps, bytes=values.size))
    some = issue.some(np.flatnonzero(known))
    if not len(some):
        return
    good, rows, offset = good[known], rows[known], offset[known]
    who = replace(some.who, rows=rows)
    span = [(int(one), int(one) + width) if fine else (0, 0)
            for one, fine in zip(offset, good, strict=True)]  # fmt: skip
    if machine.hazards is not None:
        for place in np.flatnonzero(good).tolist():
            one = np.array([place])
            machine.hazards.beside.writes(issue.at, who.of(one), span[place], through_copies=False)
    machine.bulk.signal(
        Signalled(
            issue.at, Values(values[known]), Places(rows, np.where(good, offset, -1), width),
            np.arange(len(some)), who, words[known], np.ones(len(some), bool), span, width,
            np.ones(len(some), bool), update,
        )
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Values:
    """What lanes send, [n, width] bytes."""

    values: Array

    def read(self, machine: Machine, which: Array) -> Array:
        found: Array = self.values[which]
        return found

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        """Registers are no target."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where that goes: bytes of the shared memory of rows [n]; −1 for what goes nowhere."""

    rows: Array
    offset: Array
    width: int

    def _place(self, machine: Machine, number: int) -> int:
        per_row = machine.shared.bytes.shape[1] // self.width
        return int(self.rows[number]) * per_row + int(self.offset[number]) // self.width

    def read(self, machine: Machine, which: Array) -> Array:
        memory = machine.shared.by_width[self.width].reshape(-1)
        found: Array = memory[[self._place(machine, number) for number in which.tolist()]]
        return found.view(np.uint8).reshape(len(which), self.width)

    def write(self, machine: Machine, which: Array, chunks: Array, update: Update | None) -> None:
        """One lane after the other."""
        memory = machine.shared.by_width[self.width].reshape(-1)
        coming = np.ascontiguousarray(chunks).view(BY_WIDTH[self.width])[:, 0]
        for value, number in zip(coming, which.tolist(), strict=True):
            if self.offset[number] < 0:
                continue
            place = self._place(machine, number)
            if update is None:
                memory[place] = value
            else:
                update.apply(memory, np.array([place]), np.array([value]))

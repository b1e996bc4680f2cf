"""cp.async.bulk, its reductions, prefetches and groups. PTX ISA, "Data Movement: Bulk copy"."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tilewright.emulator.arrays import TYPES, Array, Mask
from tilewright.emulator.async_shadow import Ticket
from tilewright.emulator.bulk_ends import RunEnd, SharedEnd, Update
from tilewright.emulator.bulk_issue import MOST_BYTES, Issue
from tilewright.emulator.bulk_watch import watch_runs
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.ir import Immediate, Instruction, Operand
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.atomics import change_of
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.emulator.tensor_box import CHUNK

_ISA = "Data Movement: cp.async.bulk"
_HINT = r"(?:\.L2::cache_hint)?"
_SIGNAL = r"\.mbarrier::complete_tx::bytes"
_OF_SHARED = {  # cp.reduce.async.bulk between blocks
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    "add": ("u32", "s32", "u64"),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32")),
}
_OF_GLOBAL = {
    **dict.fromkeys(("and", "or", "xor"), ("b32", "b64")),
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
    **dict.fromkeys(("min", "max"), ("u32", "s32", "u64", "s64", "f16", "bf16")),
}
_REDUCE = (
    r"\.(?P<change>and|or|xor|add|inc|dec|min|max)(?:\.noftz)?"
    r"\.(?P<type>[bus](?:32|64)|f16|bf16|f32|f64)"
)


def by_size(issue: Issue, size: Fetch) -> list[tuple[Issue, int, Array]]:
    """The lanes that copy so many bytes each; a size that a GPU refuses is reported."""
    sizes = issue.values(size)
    bad = (sizes % CHUNK != 0) | (sizes > MOST_BYTES)
    what = f"it copies a number of bytes that is no multiple of {CHUNK}, or above {MOST_BYTES:,}"
    issue.fault("misaligned", what, bad)
    found = []
    for one in np.unique(sizes[~bad & (sizes > 0)]).tolist():
        which = np.flatnonzero(sizes == one)
        found.append((issue.some(which), one, which))
    return found


@op("cp", rf"\.async\.bulk\.shared::(?:cluster|cta)\.global{_SIGNAL}"
    rf"(?P<multicast>\.multicast::cluster)?{_HINT}", _ISA)  # fmt: skip
def load(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, source, size, barrier, *rest = ins.operands
    if len(rest) != bool(g["multicast"]):
        raise ValueError("behind the mbarrier comes a mask of blocks with .multicast, else nothing")
    to, origin, word = (compiler.address(each) for each in (into, source, barrier))
    count, at = _size(compiler, size), compiler.at
    cta_mask = compiler.source(rest[0], "u16") if rest else None

    def step(machine: Machine, mask: Mask) -> None:
        for issue, nbytes, _ in by_size(Issue.of(machine, at, mask), count):
            address = issue.values(origin)
            runs, good = issue.runs(address, nbytes, "copies")
            named = None if cta_mask is None else issue.values(cta_mask)
            receivers = len(issue)
            if named is not None:
                receivers = sum(map(int.bit_count, named.tolist()))
            issue.count_runs(address, nbytes, receivers)
            watch_runs(machine, at, issue.who, runs, np.flatnonzero(good), nbytes, write=False)
            issue.load(runs, good, issue.values(to), None, issue.values(word), nbytes, named,
                       alignment=CHUNK)  # fmt: skip

    return step


@op("cp", rf"\.async\.bulk\.shared::cluster\.shared::cta{_SIGNAL}", _ISA)
@op("cp", rf"\.reduce\.async\.bulk\.shared::cluster\.shared::cta{_SIGNAL}{_REDUCE}", _ISA)
def to_peer(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, source, size, barrier = ins.operands
    to, origin, word = (compiler.address(each) for each in (into, source, barrier))
    count, at = _size(compiler, size), compiler.at
    update = update_of(g, _OF_SHARED) if g.get("change") else None

    def step(machine: Machine, mask: Mask) -> None:
        for issue, nbytes, _ in by_size(Issue.of(machine, at, mask), count):
            rows, offset = issue.shared(issue.values(origin))
            good = issue.usable(rows, offset, nbytes, CHUNK, "reads")
            chunks = np.where(good, offset, 0)[:, None] // CHUNK + np.arange(nbytes // CHUNK)
            targets = issue.values(word)
            tickets = _tickets(issue, rows, offset, nbytes, good, targets)
            end = SharedEnd(rows, chunks)
            issue.load(end, good, issue.values(to), None, targets, nbytes, None, update, tickets,
                       CHUNK)  # fmt: skip

    return step


def _tickets(
    issue: Issue, rows: Array, offset: Array, nbytes: int, good: Array, word: Array
) -> list[Ticket | None] | None:
    """Of the sources: who sees the mbarrier's phase end knows that they have been read."""
    if issue.machine.hazards is None or not good.all():
        return None
    clocks, peers = issue.machine.hazards.clocks, issue.machine.peers
    to, place = issue.shared(word)
    columns = []
    for row, at in zip(to.tolist(), place.tolist(), strict=True):
        column = clocks.agent(row % peers, at // 8)
        columns.append((-1 if column is None else column,))
    return issue.reads(rows, offset, nbytes, tuple(columns))


@op("cp", rf"\.async\.bulk\.global\.shared::cta\.bulk_group{_HINT}", _ISA)
@op("cp", rf"\.reduce\.async\.bulk\.global\.shared::cta\.bulk_group{_HINT}{_REDUCE}", _ISA)
def store(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, source, size = ins.operands
    to, origin = compiler.address(into), compiler.address(source)
    count, at = _size(compiler, size), compiler.at
    update = update_of(g, _OF_GLOBAL) if g.get("change") else None

    def step(machine: Machine, mask: Mask) -> None:
        for issue, nbytes, _ in by_size(Issue.of(machine, at, mask), count):
            address = issue.values(to)
            runs, good = issue.runs(address, nbytes, "writes" if update is None else "updates")
            issue.count_runs(address, nbytes, len(issue))

            def tell(
                done: Array, who: Issue = issue, to_: RunEnd = runs, size: int = nbytes
            ) -> None:
                watch_runs(machine, at, who.some(done).who, to_, done, size, write=True)

            issue.store(issue.values(origin), None, runs, good, nbytes, update, CHUNK, tell)

    return step


@op("cp", rf"\.async\.bulk\.prefetch\.L2\.global{_HINT}", _ISA)
def prefetch(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    source, size = ins.operands
    compiler.address(source)
    _size(compiler, size)
    return lambda machine, mask: None


@op("cp", r"\.async\.bulk\.commit_group", _ISA)
def commit_group(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    return lambda machine, mask: machine.bulk.commit(mask)


@op("cp", r"\.async\.bulk\.wait_group(?P<read>\.read)?", _ISA)
def wait_group(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (count,) = ins.operands
    if not isinstance(count, Immediate) or count.value < 0:
        raise ValueError("the number of groups must be a constant from 0 up")
    pending, read = count.value, bool(g["read"])
    return lambda machine, mask: machine.bulk.wait(pending, mask, read)


def _size(compiler: Compiler, operand: Operand) -> Fetch:
    if isinstance(operand, Immediate) and (operand.value % CHUNK or operand.value > MOST_BYTES):
        raise ValueError(
            f"{operand.value} bytes must be a multiple of {CHUNK}, at most {MOST_BYTES}"
        )
    return compiler.source(operand, "u32")


def update_of(g: Groups, known: Mapping[str, tuple[str, ...]]) -> Update:
    """A reduction by its words. Raises: ValueError for a type that it does not go with."""
    change, kind = g["change"], g["type"]
    if kind not in known[change]:
        raise ValueError(f".{kind} does not go with {change}; it takes {', '.join(known[change])}")
    function: Callable[[Array, Array, Array], Array] = change_of(kind, change)
    element = TYPES[kind if kind != "bf16" else "b16"]
    return Update(element, lambda there, coming: function(there, coming, coming))

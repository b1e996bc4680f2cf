"""cp.async.bulk.tensor: loads, stores, reductions and prefetches of boxes of a tensor map.

PTX ISA, "Data Movement: Tensor copy". Of the modes there is .tile; im2col and the gathers and
scatters of newer chips are refused.
"""

from __future__ import annotations

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.bulk_ends import BoxEnd, Update
from tilewright.emulator.bulk_issue import Issue
from tilewright.emulator.bulk_watch import watch_boxes
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.ir import Address, Coordinates, Instruction, Operand, Register, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.bulk import update_of
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.emulator.tensor_box import CHUNK, Box

_ISA = "Data Movement: cp.async.bulk.tensor"
_DIMS = r"\.(?P<dims>1|2|3|4|5)d"
_HINT = r"(?:\.L2::cache_hint)?"
_SIGNAL = r"\.mbarrier::complete_tx::bytes"
_REDUCE = r"\.(?P<change>add|min|max|inc|dec|and|or|xor)"
_TYPES = {  # of a reduction: what the elements of a map are to it
    "u8": "", "u16": "", "u32": "u32", "s32": "s32", "u64": "u64", "s64": "s64", "fp16": "f16",
    "bf16": "bf16", "fp32": "f32", "fp32_ftz": "f32", "fp64": "f64", "tf32": "", "tf32_ftz": "",
}  # fmt: skip
_INTEGERS = ("u32", "s32", "u64", "s64")
_BY_TYPE = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16"),
    **dict.fromkeys(("min", "max"), (*_INTEGERS, "f16", "bf16")),
    **dict.fromkeys(("and", "or", "xor"), _INTEGERS),
    **dict.fromkeys(("inc", "dec"), ("u32",)),
}


@op("cp", rf"\.async\.bulk\.tensor{_DIMS}\.shared::(?:cluster|cta)\.global(?:\.tile)?{_SIGNAL}"
    rf"(?P<multicast>\.multicast::cluster)?{_HINT}", _ISA)  # fmt: skip
def load(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    into, tensor, barrier, *rest = ins.operands
    if len(rest) != bool(g["multicast"]):
        raise ValueError("behind the mbarrier comes a mask of blocks with .multicast, else nothing")
    where, coordinates = _tensor(compiler, tensor, g)
    to, word, at = compiler.address(into), compiler.address(barrier), compiler.at
    cta_mask = compiler.source(rest[0], "u16") if rest else None
    dims = int(g["dims"])

    def step(machine: Machine, mask: Mask) -> None:
        every = Issue.of(machine, at, mask)
        for which, box in every.boxes(every.values(where), dims):
            if box is None:
                continue
            issue = every.some(which)
            start, readable = _starts(issue, box, coordinates)
            address = issue.values(to)
            named = None if cta_mask is None else issue.values(cta_mask)
            _count(issue, box, start, named)
            watch_boxes(machine, at, issue.who, box, start, write=False)
            issue.load(BoxEnd(box, start), readable, address, _places(issue, box, address),
                       issue.values(word), box.map.box_bytes, named)  # fmt: skip

    return step


@op("cp", rf"\.async\.bulk\.tensor{_DIMS}\.global\.shared::cta(?:\.tile)?\.bulk_group{_HINT}", _ISA)
@op("cp", rf"\.reduce\.async\.bulk\.tensor{_DIMS}\.global\.shared::cta{_REDUCE}(?:\.tile)?"
    rf"\.bulk_group{_HINT}", _ISA)  # fmt: skip
def store(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    tensor, source = ins.operands
    where, coordinates = _tensor(compiler, tensor, g)
    origin, at, dims = compiler.address(source), compiler.at, int(g["dims"])
    change = g.get("change")

    def step(machine: Machine, mask: Mask) -> None:
        every = Issue.of(machine, at, mask)
        for which, box in every.boxes(every.values(where), dims):
            if box is None:
                continue
            issue = every.some(which)
            update = _update(issue, box, change)
            start, writable = _starts(issue, box, coordinates)
            address = issue.values(origin)
            _count(issue, box, start, None)

            def tell(done: Array, who: Issue = issue, box: Box = box, at_: Array = start) -> None:
                watch_boxes(machine, at, who.some(done).who, box, at_[done], write=True)

            issue.store(address, _places(issue, box, address), BoxEnd(box, start), writable,
                        box.map.box_bytes, update, watch=tell)  # fmt: skip

    return step


@op("cp", rf"\.async\.bulk\.prefetch\.tensor{_DIMS}\.L2\.global(?:\.tile)?{_HINT}", _ISA)
def prefetch(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    (tensor,) = ins.operands
    _tensor(compiler, tensor, g)
    return lambda machine, mask: None


def _tensor(compiler: Compiler, operand: Operand, g: Groups) -> tuple[Fetch, list[Fetch]]:
    """Of [map, {c0, …}]: the map's address and the coordinates, innermost first."""
    if not isinstance(operand, Coordinates) or len(operand.items) != 2:
        raise ValueError("a tensor map and coordinates in one pair of brackets are wanted")
    where, place = operand.items
    items = place.items if isinstance(place, Vector) else (place,)
    if len(items) != int(g["dims"]):
        raise ValueError(f"{len(items)} coordinates for {g['dims']} dimensions")
    base = where if isinstance(where, Address) else None
    if isinstance(where, Register):
        base = Address(where)
    address = compiler.source(where, "s64") if base is None else compiler.address(base)
    return address, [compiler.source(item, "s32") for item in items]


def _starts(issue: Issue, box: Box, coordinates: list[Fetch]) -> tuple[Array, Array]:
    """Where boxes begin [n, rank], and which of them a GPU copies; the others are reported."""
    start = np.stack([issue.values(each) for each in coordinates], axis=1)
    size = box.map.element_bytes
    crooked = start[:, 0] * size % CHUNK != 0
    first = int(start[np.flatnonzero(crooked)[0], 0]) if crooked.any() else 0
    issue.fault(
        "misaligned",
        f"its innermost coordinate {first} is {first * size} bytes, which is no multiple of "
        f"{CHUNK}: a GPU stops the kernel with an illegal instruction",
        crooked,
    )
    beyond = box.beyond(start)
    what = f"the part of its box that lies in the tensor reaches out of {box.allocation.name}"
    issue.fault("out-of-bounds", what, beyond)
    bad = crooked | beyond  # such a box is put where nothing of the tensor lies
    return np.where(bad[:, None], box.map.shape, start), ~bad


def _places(issue: Issue, box: Box, address: Array) -> Array:
    """Which chunks of shared memory each box takes [n, chunks]."""
    _, offset = issue.shared(address)
    known: dict[int, Array] = {}
    for one in np.unique(offset).tolist():
        known[one] = box.places(one)
    if len(known) == 1:
        return np.broadcast_to(known[one], (len(offset), box.chunks))
    return np.stack([known[one] for one in offset.tolist()])


def _count(issue: Issue, box: Box, start: Array, cta_mask: Array | None) -> None:
    receivers = len(issue)
    if cta_mask is not None:
        receivers = sum(map(int.bit_count, cta_mask.tolist()))
    issue.count(box.traffic(start), box.map.box_bytes, receivers)


def _update(issue: Issue, box: Box, change: str | None) -> Update | None:
    if change is None:
        return None
    kind = _TYPES[box.map.dtype]
    if kind not in _BY_TYPE[change]:
        takes = ", ".join(word for word, its in _TYPES.items() if its in _BY_TYPE[change])
        every = np.ones(len(issue), bool)
        issue.fault("invalid-copy", f"it cannot {change} elements of {box.map.dtype}; it takes "
                    f"{takes}", every)  # fmt: skip
        return None
    bits = kind if change in ("add", "min", "max", "inc", "dec") else f"b{kind[1:]}"
    known = {change: (bits,)}
    return update_of({"change": change, "type": bits}, known)

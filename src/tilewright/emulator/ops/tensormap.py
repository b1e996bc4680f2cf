"""Tensor maps that a kernel changes: tensormap.replace, tensormap.cp_fenceproxy and its fences.

PTX ISA, "Data Movement: tensormap.replace" and "Parallel Synchronization: tensormap.cp_fenceproxy".
What they read and write is looked at like any thread's loads and stores; it counts as no access,
since what it costs is not published.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.emulator.access import Access
from tilewright.emulator.arrays import BY_WIDTH, LANES, Array, Mask
from tilewright.emulator.compiler import Compiler
from tilewright.emulator.generic import spaces
from tilewright.emulator.ir import Immediate, Instruction, Operand
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op
from tilewright.emulator.tensor_tokens import WORDS, count_of, replaced
from tilewright.tensormap import MAP_ALIGNMENT, MAP_BYTES

_ISA = "Data Movement: tensormap.replace"
_SYNC = "Parallel Synchronization and Communication Instructions"
_SCOPE = r"(?:cta|cluster|gpu|sys)"
_PIECE = 16  # bytes that one access moves
_WIDE = r"(?P<wide>global_address|global_stride)"
_NARROW = (
    r"(?P<narrow>rank|box_dim|global_dim|element_stride|elemtype|interleave_layout|swizzle_mode"
    r"|fill_mode)"
)
_SPACE = r"(?:\.(?P<space>global|shared(?:::cta)?))?"


@op("tensormap", rf"\.replace\.tile\.{_WIDE}{_SPACE}\.b1024\.b64", _ISA)
@op("tensormap", rf"\.replace\.tile\.{_NARROW}{_SPACE}\.b1024\.b32", _ISA)
def replace(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """One number of the map at an address; of those with several the ordinal says which."""
    field = g.get("wide") or g["narrow"]
    where, *ordinal, value = ins.operands
    address, at, kind = compiler.address(where), compiler.at, "b64" if g.get("wide") else "b32"
    place = _ordinal(field, ordinal)
    if field in WORDS:
        _check_word(field, value)
    number, space = compiler.source(value, kind), g["space"]

    def step(machine: Machine, mask: Mask) -> None:
        given = np.broadcast_to(number(machine.regs), machine.full)
        for name, base, lanes in _of(machine, at, space, address(machine.regs), mask):
            maps = _Maps(machine, at, name, base, lanes)
            changed = {}
            for lane, raw in maps.load().items():
                new = replaced(raw, field, place, int(given[lane]))
                if new is None:
                    what = f"no tensor map lies at {int(maps.address[lane]):#x}, and no zeros"
                    machine.fault_at("invalid-copy", at, what, *lane)
                else:
                    changed[lane] = new
            maps.store(changed)

    return step


def _ordinal(field: str, operands: list[Operand]) -> int:
    count = count_of(field)
    if len(operands) != (count > 1):
        what = "which of them" if count > 1 else "nothing"
        raise ValueError(f"between the address and the new value of {field} stands {what}")
    if not operands:
        return 0
    (one,) = operands
    if not isinstance(one, Immediate) or not 0 <= one.value < count:
        raise ValueError(f"the ordinal of {field} must be a constant from 0 to {count - 1}")
    return one.value


def _check_word(field: str, value: Operand) -> None:
    known = WORDS[field]
    if not isinstance(value, Immediate):
        raise ValueError(f"the new {field} must be a constant")
    if not 0 <= value.value < len(known):
        words = ", ".join(f"{number} = {word}" for number, word in enumerate(known))
        raise ValueError(f"the new {field} {value.value} is not modelled; there is {words}")
    if field == "interleave_layout" and value.value:
        raise ValueError(
            "an interleaved tensor map is not modelled; use 0, and the slices as a dimension"
        )


@op("tensormap", rf"\.cp_fenceproxy\.global\.shared::cta\.tensormap::generic\.release\.{_SCOPE}"
    r"\.sync\.aligned", f"{_SYNC}: tensormap.cp_fenceproxy")  # fmt: skip
def cp_fenceproxy(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """One copy of a map a warp, and a release of it for the copies of other threads."""
    into, source, size = ins.operands
    _check_size(size)
    to, origin, at = compiler.address(into), compiler.address(source), compiler.at

    def step(machine: Machine, mask: Mask) -> None:
        target, place = (np.broadcast_to(it(machine.regs), machine.full) for it in (to, origin))
        lanes = ~machine.absent if mask is None else np.broadcast_to(mask, machine.full)
        first = lanes & (lanes.cumsum(-1) == 1)
        differs = lanes & ((target != _lead(target, first)) | (place != _lead(place, first)))
        machine.fault("invalid-copy", at, "the lanes of a warp name different maps", differs)
        read = _Maps(machine, at, "shared", place, first)
        write = _Maps(machine, at, "global", target, read.on)
        write.store({lane: raw for lane, raw in read.load().items() if write.on[lane]})
        machine.fence(mask)

    return step


def _lead(values: Array, first: Array) -> Array:
    """Of each warp the value of its first lane [B, W, 1]."""
    lead: Array = np.where(first, values, 0).sum(-1, keepdims=True)
    return lead


@op("fence", rf"\.proxy\.tensormap::generic\.release\.{_SCOPE}", f"{_SYNC}: fence")
def release(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    return lambda machine, mask: machine.map_fences.release(mask)


@op("fence", rf"\.proxy\.tensormap::generic\.acquire\.{_SCOPE}", f"{_SYNC}: fence")
def acquire(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    where, size = ins.operands
    _check_size(size)
    address = compiler.address(where)
    return lambda machine, mask: machine.map_fences.acquire(address(machine.regs), mask)


def _check_size(size: Operand) -> None:
    if not isinstance(size, Immediate) or size.value != MAP_BYTES:
        raise ValueError(f"the size must be {MAP_BYTES}")


# --- maps in memory ---------------------------------------------------------------------


def _of(
    machine: Machine, at: int, space: str | None, address: Array, mask: Mask
) -> Iterator[tuple[str, Array, Mask]]:
    """The lanes of each space, without those that name their own memory."""
    if space is not None:
        yield space.partition("::")[0], address, mask
        return
    for name, base, lanes in spaces(machine, address, mask):
        if name == "local":
            on = machine.everyone if lanes is None else lanes
            machine.fault("invalid-copy", at, "its tensor map lies in local memory", on)
        else:
            yield name, base, lanes


_Lane = tuple[int, int, int]  # block of the chunk, warp, lane


class _Maps:
    """The maps at addresses [B, W, 32] of shared or global memory, of the lanes `on`."""

    def __init__(self, machine: Machine, at: int, space: str, address: Array, mask: Mask) -> None:
        self._machine, self._at, self._space = machine, at, space
        self._memory = machine.shared if space == "shared" else machine.memory
        self.address = np.broadcast_to(address, machine.full)
        lanes = ~machine.absent if mask is None else np.broadcast_to(mask, machine.full)
        crooked = lanes & (self.address % MAP_ALIGNMENT != 0)
        what = f"its tensor map lies at an address that is no multiple of {MAP_ALIGNMENT}"
        machine.fault("misaligned", at, what, crooked)
        self.on: Array = lanes & ~crooked
        for access in self._checked():  # one that lies in memory in part only is left alone
            self.on = self.on if access.active is None else self.on & access.active

    def _checked(self) -> list[Access]:
        machine, found = self._machine, []
        findings, at, on = machine.findings, self._at, self.on
        for offset in range(0, MAP_BYTES, _PIECE):
            where = self.address + offset
            if self._space == "shared":
                found.append(machine.shared.access(findings, at, where, on, _PIECE, LANES))
            else:
                found.append(machine.memory.access(findings, at, where, on, _PIECE, machine.full))
        return found

    def _pieces(self, on: Array) -> list[Access]:
        offsets = range(0, MAP_BYTES, _PIECE)
        return [Access(self.address + offset, on, _PIECE, self._at) for offset in offsets]

    def load(self) -> dict[_Lane, bytes]:
        full = self._machine.full
        parts = [np.broadcast_to(self._memory.load(it), full) for it in self._pieces(self.on)]
        lanes = [(block, warp, lane) for block, warp, lane in np.argwhere(self.on).tolist()]
        return {lane: b"".join(part[lane].tobytes() for part in parts) for lane in lanes}

    def store(self, values: dict[_Lane, bytes]) -> None:
        on = np.zeros(self._machine.full, bool)
        whole = np.zeros((*self._machine.full, MAP_BYTES), np.uint8)
        for lane, raw in values.items():
            on[lane], whole[lane] = True, np.frombuffer(raw, np.uint8)
        parts = whole.view(BY_WIDTH[_PIECE])
        for number, access in enumerate(self._pieces(on)):
            self._memory.store(access, np.ascontiguousarray(parts[..., number]))

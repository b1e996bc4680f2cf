"""What messages call instructions, threads and addresses: the names of the user's source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.emulator.arrays import LANES

if TYPE_CHECKING:
    from tilewright.emulator.ir import Instruction
    from tilewright.emulator.memory import Allocation, GlobalMemory

_NEAR_NULL = 1 << 16
_LOCAL_STATIC = re.compile(r"_ZZ.*E(\d+)([A-Za-z_]\w*)")
_VERBS = {
    **dict.fromkeys(("ld", "ldu", "ldmatrix"), "reads"),
    **dict.fromkeys(("st", "stmatrix"), "writes"),
    **dict.fromkeys(("atom", "red"), "updates"),
    "cp": "copies",
}


def does(instruction: Instruction) -> str:
    """`st.global.f32 writes`: the opcode, and what it does to memory."""
    verb = _VERBS.get(instruction.mnemonic, "touches")
    if instruction.mnemonic == "wmma":
        verb = "writes" if ".store." in instruction.opcode else "reads"
    return f"{instruction.opcode} {verb}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of shared memory: `nbytes` is 0 for the dynamic one, which takes the rest."""

    name: str
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Naming:
    """Of one launch: extents of grid and block, its arrays and its variables in shared memory."""

    memory: GlobalMemory
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (1, 1, 1)
    shared: tuple[Variable, ...] = ()
    static_bytes: int = 0
    dynamic_bytes: int = 0

    def thread(self, block: int, warp: int, lane: int) -> str:
        """`block 3 = (1, 1), warp 0, lane 15 = thread (3, 1)`; indices where they say more."""
        flat = warp * LANES + lane
        grid, threads = _index(block, self.grid), _index(flat, self.block)
        where = f"block {block}"
        if max(self.grid[1:]) > 1:
            where += f" = {_listed(grid, self.grid)}"
        where += f", warp {warp}, lane {lane}"
        if warp or max(self.block[1:]) > 1:
            where += f" = thread {_listed(threads, self.block)}"
        return where

    # --- arrays -------------------------------------------------------------------------

    def array(self, address: int) -> str:
        """The array that holds an address, or that it lies behind or before."""
        return self.memory.owner_name(address)

    def element(self, address: int) -> str:
        """`out[3, 7]`, for an address in an array of the caller's; else the array's name."""
        one = self.memory.nearest(address)
        if one is None:
            return "no array"
        element, offset = _itemsize(one), address - one.base
        if not 0 <= offset < one.nbytes or offset // element >= np.size(one.array):
            return one.name
        index = np.unravel_index(offset // element, np.shape(one.array))
        return f"{one.name}[{', '.join(str(int(i)) for i in index)}]"

    def outside(self, address: int, width: int) -> str:
        """How an access of so many bytes misses: `outside every array: …`."""
        one = self.memory.nearest(address)
        if 0 <= address < _NEAR_NULL:
            return f"of a null pointer{f' + {address:,}' if address else ''}"
        if one is None:
            return "outside every array"
        offset = address - one.base
        if offset >= 0 and offset + width <= one.nbytes:
            return f"outside the valid part of {one.name}, at {self.element(address)}"
        size = f"{_extents(one)} {np.asarray(one.array).dtype}"
        return f"outside every array: {_miss(one, offset, width)} ({size})"

    # --- shared memory ------------------------------------------------------------------

    def shared_place(self, address: int) -> str:
        """`tile, byte 64`: the variable that holds an address, or nothing."""
        for variable in self.shared:
            end = variable.offset + variable.nbytes
            if not variable.nbytes:
                end = self.static_bytes + self.dynamic_bytes
            if variable.offset <= address < end:
                return f"{variable.name}, byte {address - variable.offset}"
        return ""

    def beyond_shared(self) -> str:
        total = self.static_bytes + self.dynamic_bytes
        dynamic = next((v.name for v in self.shared if not v.nbytes), None)
        if dynamic is not None and not self.dynamic_bytes:
            return (
                f"beyond the end of shared memory: {dynamic}[] has the size that the launch "
                "gives, and shared_bytes is 0"
            )
        return f"beyond the end of shared memory, which has {total:,} bytes"


def variable_name(symbol: str) -> str:
    """`tile` for `_ZZ4gemmPfE4tile`, a variable inside a function; else the symbol."""
    found = _LOCAL_STATIC.fullmatch(symbol)
    if found is None or len(found[2]) < int(found[1]):
        return symbol
    return found[2][: int(found[1])]


def _index(flat: int, extents: tuple[int, int, int]) -> tuple[int, int, int]:
    return (
        flat % extents[0],
        flat // extents[0] % extents[1],
        flat // (extents[0] * extents[1]),
    )


def _listed(index: tuple[int, int, int], extents: tuple[int, int, int]) -> str:
    """`(x, y, z)` without those behind the last extent that is more than 1; `x` alone."""
    count = max((i + 1 for i, extent in enumerate(extents) if extent > 1), default=1)
    text = ", ".join(map(str, index[:count]))
    return f"({text})" if count > 1 else text


def _itemsize(one: Allocation) -> int:
    return max(1, int(np.asarray(one.array).dtype.itemsize))


def _extents(one: Allocation) -> str:
    return " x ".join(f"{extent:,}" for extent in np.shape(one.array)) or "1"


def _miss(one: Allocation, offset: int, width: int) -> str:
    if offset < 0:
        return f"{-offset:,} bytes before {one.name}"
    if offset < one.nbytes:
        return f"{offset + width - one.nbytes:,} of them past the end of {one.name}"
    element = offset // _itemsize(one)
    behind = offset - one.nbytes
    far = f"{behind:,} bytes past its end" if behind else "right behind its end"
    return f"element {element:,} of {one.name}, {far}"

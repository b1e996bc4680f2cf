"""wgmma: products of a warpgroup, four warps together. PTX ISA, "Asynchronous Warpgroup Level
Matrix Multiply-Accumulate Instructions".

What an instruction multiplies is decided here; when it happens and what that means for the
registers is in `wgmma_flight`, where operands lie in shared memory in `wgmma_descriptors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.compiler import Compiler, Fetch
from tilewright.emulator.fp8_sums import fp8_total
from tilewright.emulator.fragments import BITS, mma_a, mma_c, values
from tilewright.emulator.ir import Immediate, Instruction, Operand, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.matrix import Product
from tilewright.emulator.ops.registry import Step, op, unsupported
from tilewright.emulator.wgmma_flight import Form, Multiply
from tilewright.emulator.wgmma_operand import SharedOperand
from tilewright.emulator.wgmma_sums import ROWS, WARPS, Registers

_ISA = "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"
_TARGET = "sm_90a"
_K_BITS = 256  # of one instruction, along k
_TYPES: dict[str, tuple[str, ...]] = {  # of a and b → of d
    **{"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",)},
    **dict.fromkeys(("e4m3", "e5m2"), ("f16", "f32")),
    **dict.fromkeys(("s8", "u8", "b1"), ("s32",)),
}
_COLUMNS = range(8, 257, 8)
_INTEGER_COLUMNS = (8, *range(16, 32, 8), *range(32, 257, 16))
_FRAGMENTS = 4  # registers of a

_FORM = (
    r"\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k(?P<k>\d+)(?:"
    r"\.(?P<d>f16|f32)\.(?P<a>f16|bf16|tf32|e4m3|e5m2)\.(?P<b>f16|bf16|tf32|e4m3|e5m2)"
    r"|(?P<sat0>\.satfinite)?\.s32(?P<sat1>\.satfinite)?\.(?P<ia>s8|u8)\.(?P<ib>s8|u8)"
    r"(?P<sat2>\.satfinite)?"
    r"|\.s32\.(?P<bits>b1)\.b1\.and\.popc)"
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """The types and extents of one opcode."""

    d: str
    a: str
    b: str
    columns: int
    saturates: bool

    @property
    def k(self) -> int:
        return _K_BITS // BITS[self.a]

    @property
    def accumulators(self) -> int:
        """Registers of d."""
        return self.columns // (4 if self.d == "f16" else 2)

    @property
    def constants(self) -> int:
        """How many constants follow scale-d where a and b lie in shared memory."""
        signs = 0 if self.d == "s32" else 2
        return signs + (2 if BITS[self.a] == 16 else 0)


def _kind(g: Groups) -> _Kind:
    """Raises ValueError for types and shapes that the ISA does not have together."""
    if g["bits"]:
        kind = _Kind("s32", "b1", "b1", int(g["n"]), False)
    elif g["ia"]:
        saturates = any(g[name] for name in ("sat0", "sat1", "sat2"))
        kind = _Kind("s32", g["ia"], g["ib"], int(g["n"]), saturates)
    else:
        kind = _Kind(g["d"], g["a"], g["b"], int(g["n"]), False)
    if kind.d not in _TYPES[kind.a] or (kind.a != kind.b and BITS[kind.a] + BITS[kind.b] != 16):
        raise ValueError(f".{kind.a} and .{kind.b} do not go together into .{kind.d}")
    if int(g["k"]) != kind.k:
        raise ValueError(f"k must be {kind.k} for .{kind.a}, not {g['k']}")
    allowed = _INTEGER_COLUMNS if kind.d == "s32" else _COLUMNS
    if kind.columns not in allowed:
        steps = "8, 16, 24 or 32 to 256 in steps of 16" if kind.d == "s32" else "8 to 256 by 8"
        raise ValueError(f"n={kind.columns} must be {steps}")
    return kind


@dataclass(frozen=True, slots=True)
class _Constants:
    """What follows scale-d: signs and orders."""

    negates: bool = False
    a_along: bool = False  # along m, else along k
    b_along: bool = False


def _constants(kind: _Kind, operands: Sequence[Operand], in_registers: bool) -> _Constants:
    """Raises ValueError for another number of them, or another value."""
    wanted = kind.constants - (in_registers and BITS[kind.a] == 16)
    if len(operands) != wanted:
        raise ValueError(f"{wanted} constants must follow scale-d, not {len(operands)}")
    numbers = [each.value if isinstance(each, Immediate) else None for each in operands]
    signs, orders = numbers[:2], numbers[2:]
    if any(sign not in (1, -1) for sign in signs):
        raise ValueError("imm-scale-a and imm-scale-b must be 1 or -1")
    if any(order not in (0, 1) for order in orders):
        raise ValueError("imm-trans-a and imm-trans-b must be 0 or 1")
    negates = len(signs) == 2 and signs[0] != signs[1]
    if in_registers or not orders:
        return _Constants(negates, False, orders == [1])
    return _Constants(negates, orders[0] == 1, orders[1] == 1)


# --- mma_async --------------------------------------------------------------------------


@op("wgmma", _FORM, f"{_ISA}: wgmma.mma_async")
def mma_async(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """D = A·B + D, or A·B where scale-d is false; see `_total` for how it sums."""
    _check_target(compiler, ins)
    kind = _kind(g)
    _, left, right, scale, *rest = ins.operands
    in_registers = isinstance(left, Vector)
    constants = _constants(kind, rest, in_registers)
    form = _form(compiler, ins, kind, constants)
    overlapping = compiler.register_sets.overlapping(ins)
    fragments = _fetches(compiler, left, _FRAGMENTS, "b32") if in_registers else []
    descriptors = [
        compiler.source(each, "b64") for each in ([right] if in_registers else [left, right])
    ]
    adds = compiler.source(scale, "pred")

    def step(machine: Machine, mask: Mask) -> None:
        warpgroups = machine.warpgroups
        groups = warpgroups.of(mask)
        if not _whole(machine, form.at, mask) or not groups.any():
            return
        sums = warpgroups.sums(form, groups, overlapping)
        given = [_uniform(machine, form.at, fetch(machine.regs), mask) for fetch in descriptors]
        b = SharedOperand(machine, form.at, given[-1], kind.columns, constants.b_along)
        a: SharedOperand | Array
        if in_registers:
            a = _in_registers(machine, [fetch(machine.regs) for fetch in fragments], kind)
        else:
            a = SharedOperand(machine, form.at, given[0], ROWS, constants.a_along)
        flags = np.broadcast_to(adds(machine.regs), machine.full)[:, ::WARPS, 0]
        warpgroups.issue(form, sums, a, b, flags[:, : groups.shape[1]], groups)

    return step


@op("wgmma", r"\.mma_async\.sp\.sync\.aligned\.(?P<rest>[\w.]+)", f"{_ISA}: wgmma.mma_async.sp")
def sparse(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    raise unsupported(ins, "sparse matrices (.sp) are not modelled; run it on a GPU instead")


def _check_target(compiler: Compiler, ins: Instruction) -> None:
    if compiler.module.target != _TARGET:
        why = f"wgmma needs .target {_TARGET}, not {compiler.module.target}: build with --arch "
        raise unsupported(ins, f"{why}{_TARGET}, or emulate the kernel's sm_80 build")


def _form(compiler: Compiler, ins: Instruction, kind: _Kind, constants: _Constants) -> Form:
    into, left, *_ = ins.operands
    if not isinstance(into, Vector) or len(into.items) != kind.accumulators:
        raise ValueError(f"d takes {kind.accumulators} registers")
    word = "f32" if kind.d == "f32" else "b32"
    sets = compiler.register_sets
    registers = Registers(
        sets.sums[sets.names(into)],
        kind.d,
        kind.columns,
        _fetches(compiler, into, kind.accumulators, word),
        [compiler.dest(item, word) for item in into.items],
    )
    fragments = sets.fragments[sets.names(left)] if isinstance(left, Vector) else None
    total = _total(kind)

    def multiply(a: Array, b: Array, c: Array) -> Array:
        return total(-a if constants.negates else a, b, c)

    def left_numbers(words: Array) -> Array:
        numbers = values(words, kind.a)
        return numbers.swapaxes(-1, -2) if constants.a_along else numbers

    def right_numbers(words: Array) -> Array:
        numbers = values(words, kind.b)
        return numbers if constants.b_along else numbers.swapaxes(-1, -2)

    shape = f"{kind.columns}k{kind.k}"
    return Form(compiler.at, shape, registers, fragments, multiply, left_numbers, right_numbers)


def _total(kind: _Kind) -> Multiply:
    """a·b + c: of fp8 in wgmma's own way, of all other types as `mma` has it."""
    if kind.a in ("e4m3", "e5m2"):
        kinds = (kind.d, kind.a, kind.b)
        return lambda a, b, c: fp8_total(a, b, c, kinds)
    half = mma_c(16, BITS[kind.d])
    return Product((kind.d, kind.a, kind.b, kind.d), (half,) * 4, kind.saturates).total


def _fetches(compiler: Compiler, operand: Operand, count: int, word: str) -> list[Fetch]:
    items = operand.items if isinstance(operand, Vector) else ()
    if len(items) != count:
        raise ValueError(f"{count} registers are needed, not {len(items)}")
    return [compiler.source(item, word) for item in items]


def _in_registers(machine: Machine, regs: list[Array], kind: _Kind) -> Array:
    """A [blocks, warpgroups, 64, k]: warp w of a warpgroup has rows 16·w and on, as for mma."""
    blocks, warps = machine.full[:2]
    matrix = machine.fragments.matrix(regs, mma_a(16, kind.k, BITS[kind.a]), kind.a)
    whole = matrix.reshape(blocks, warps, 16, kind.k)[:, : warps // WARPS * WARPS]
    return whole.reshape(blocks, -1, ROWS, kind.k)


def _uniform(machine: Machine, at: int, words: Array, mask: Mask) -> Array:
    """A descriptor of each warpgroup, [b, warpgroups]; its threads must have the same one.

    Threads on another path are another finding, and what they hold does not count.
    """
    if words.shape[0] > 1 and bool((words == words[:1]).all()):
        words = words[:1]
    count = machine.warps // WARPS
    here = machine.everyone if mask is None else np.broadcast_to(mask, machine.full)
    here = here[:, : WARPS * count].reshape(machine.blocks, count, -1)
    lanes = np.broadcast_to(words, (len(words), *machine.full[1:]))[:, : WARPS * count]
    lanes = lanes.reshape(len(words), count, -1)
    first = lanes[..., :1]
    if mask is not None:
        lanes = np.broadcast_to(lanes, here.shape)
        first = np.take_along_axis(lanes, here.argmax(-1)[..., None], -1)
    differs = ((lanes != first) & here).any(-1)
    if differs.any():
        machine.warpgroups.fault("divergent-aligned", at, _DIFFERENT, differs)
    return first[..., 0]


_DIFFERENT = "all threads of a warpgroup must give the same descriptor (the first one's counts)"


def _whole(machine: Machine, at: int, mask: Mask) -> bool:
    """Whether whole warpgroups are among these lanes; others are a finding."""
    if machine.warps % WARPS == 0:
        return True
    threads = machine.shape.threads
    what = f"the block has {threads} threads, and wgmma needs whole warpgroups of 128"
    rest = np.arange(machine.warps)[None, :, None] >= machine.warps // WARPS * WARPS
    here = np.broadcast_to(rest if mask is None else rest & mask, machine.full)
    machine.fault("divergent-aligned", at, what, here)
    return machine.warps > WARPS


# --- fence, commit, wait ----------------------------------------------------------------


@op("wgmma", r"\.(?P<verb>fence|commit_group)\.sync\.aligned", f"{_ISA}: wgmma.fence")
def bare(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    _check_target(compiler, ins)
    if ins.operands:
        raise ValueError(f"{ins.opcode} takes none")
    if g["verb"] == "fence":
        return lambda machine, mask: machine.warpgroups.fence(mask)
    return lambda machine, mask: machine.warpgroups.commit(mask)


@op("wgmma", r"\.wait_group\.sync\.aligned", f"{_ISA}: wgmma.wait_group")
def wait_group(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    _check_target(compiler, ins)
    (count,) = ins.operands
    if not isinstance(count, Immediate) or count.value < 0:
        raise ValueError("the number of groups must be a constant from 0 up")
    pending = count.value
    return lambda machine, mask: machine.warpgroups.wait(pending, mask)

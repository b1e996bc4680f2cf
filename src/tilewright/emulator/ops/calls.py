"""What the run time does for a kernel: printf and assert.

Source: CUDA C++ Programming Guide, "Formatted Output", "Assertion".
"""

from __future__ import annotations

import re

import numpy as np

from tilewright.emulator.arrays import Array, Mask
from tilewright.emulator.compiler import LOCAL_WINDOW, Compiler
from tilewright.emulator.ir import Instruction, Operand, Symbol, Vector
from tilewright.emulator.machine import Machine
from tilewright.emulator.ops.integer import Groups
from tilewright.emulator.ops.registry import Step, op

_WIDEST = 4096  # characters of a width or precision that a kernel computes
_MOST_LINES = 1000  # of printf; more are counted, not kept
_FORMAT = re.compile(
    r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|h|ll|l|z|j|t)?([diouxXcfFeEgGaAsp%])"
)


@op("call", r"\.vprintf", "call")
def printf(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """Kept as lines of the report, in the order of the lanes."""
    passed = ins.operands[2]
    if not isinstance(passed, Vector) or len(passed.items) != 2:
        raise ValueError("vprintf takes a format and its arguments")
    format_at, values_at = (_offset(compiler, item) for item in passed.items)
    returned = _items(ins.operands[0])
    result = _offset(compiler, returned[0]) if returned else None
    at = compiler.at

    def step(machine: Machine, mask: Mask) -> None:
        formats = _own(machine, at, format_at, mask)
        values = _own(machine, at, values_at, mask)
        if result is not None:
            where = np.full((1, 1, 1), result, np.int64)
            zero = np.zeros(machine.full, np.uint32)
            machine.local.store(machine.findings, at, where, mask, 4, zero)
        on = np.ones(machine.full, bool) if mask is None else np.broadcast_to(mask, machine.full)
        for block, warp, lane in np.argwhere(on).tolist():
            if len(machine.trace.printed) >= _MOST_LINES:
                return
            text = machine.memory.text(int(formats[block, warp, lane]))
            arguments = int(values[block, warp, lane]) - LOCAL_WINDOW
            thread = machine.local.bytes_of((block, warp, lane))
            machine.trace.printed.append(_printed(machine, text, thread[max(0, arguments) :]))

    return step


@op("call", r"\.__assertfail", "call")
def assertfail(compiler: Compiler, ins: Instruction, g: Groups) -> Step:
    """A failed assert is a finding, and its lanes end."""
    passed = _items(ins.operands[2])
    message_at = _offset(compiler, passed[0]) if passed else None
    at = compiler.at

    def step(machine: Machine, mask: Mask) -> None:
        on = np.ones(machine.full, bool) if mask is None else np.broadcast_to(mask, machine.full)
        text = "?"
        if message_at is not None:
            first = tuple(np.argwhere(on)[0])
            text = machine.memory.text(int(_own(machine, at, message_at, mask)[first]))
        machine.trace.completed = False
        machine.fault("assert", at, f"the assertion {text!r} does not hold", on)
        machine.kill(on)

    return step


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else ()


def _offset(compiler: Compiler, operand: object) -> int:
    if not isinstance(operand, Symbol) or operand.name not in compiler.local:
        raise ValueError(f"{operand} is not a .param variable of this body")
    return compiler.local[operand.name] + operand.offset


def _own(machine: Machine, at: int, offset: int, mask: Mask) -> Array:
    where = np.full((1, 1, 1), offset, np.int64)
    raw = machine.local.load(machine.findings, at, where, mask, 8)
    return np.broadcast_to(raw.view(np.uint64), machine.full)


def _printed(machine: Machine, text: str, raw: Array) -> str:
    """The line that printf makes; arguments lie at their natural alignment, floats as doubles."""
    at = 0

    def argument(size: int) -> bytes:
        nonlocal at
        at = -(-at // size) * size
        word = raw[at : at + size].tobytes().ljust(size, b"\0")
        at += size
        return word

    def one(match: re.Match[str]) -> str:
        kind = match[1]
        if kind == "%":
            return "%"
        form = match[0]
        while "*" in form:  # a width or a precision among the arguments
            extent = int.from_bytes(argument(4), "little", signed=True)
            form = form.replace("*", str(max(-_WIDEST, min(extent, _WIDEST))), 1)
        wide = kind in "fFeEgGaAsp" or re.search(r"(?:ll|l|z|j|t)", form) is not None
        word = argument(8 if wide else 4)
        plain = re.sub(r"\.-\d+", "", re.sub(r"hh|h|ll|l|z|j|t", "", form))
        if kind in "fFeEgG":
            return str(plain % np.frombuffer(word, "<f8")[0])
        if kind in "aA":
            return _hex_float(plain, float(np.frombuffer(word, "<f8")[0]))
        number = int.from_bytes(word, "little", signed=kind in "di")
        if kind == "s":
            return plain % machine.memory.text(number)
        if kind == "p":
            return f"{number:#x}"
        if kind == "o" and "#" in plain and number:  # 010, which Python writes 0o10
            return plain.replace("#", "").replace("o", "s") % f"0{number:o}"
        return plain % (chr(number & 255) if kind == "c" else number)

    return _FORMAT.sub(one, text)


def _hex_float(form: str, value: float) -> str:
    """%a without a precision, as C prints it: no zeros behind the last digit."""
    text = re.sub(r"\.?0*p", "p", value.hex(), count=1)
    shown = re.sub(r"\.\d*", "", form)[:-1] + "s"
    return shown % (text.upper() if form[-1] == "A" else text)

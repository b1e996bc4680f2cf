"""How many operands an instruction takes, whatever its modifiers. PTX ISA, "Instructions"."""

from __future__ import annotations

from tilewright.emulator.ir import Instruction

_COUNTS: dict[str, tuple[int, ...]] = {
    name: counts
    for counts, names in {
        (0,): "membar griddepcontrol",
        (0, 1): "bar",
        (0, 1, 2, 3, 4, 5): "cp",  # commit_group, wait_group N, and the copies themselves
        (0, 2): "fence",
        (1,): "activemask nanosleep prefetch prefetchu setmaxnreg",
        (1, 2, 4): "createpolicy",
        (1, 2, 3, 4): "mbarrier",
        (
            2,
        ): "abs applypriority bfind brev clz cnot cos cvta discard elect ex2 getctarank isspacep "
        "ld ldmatrix lg2 mov movmatrix neg not popc rcp rsqrt sin sqrt stmatrix tanh testp",
        (2, 3): "red st tensormap vote",
        (2, 3, 4): "cvt wmma",
        (
            3,
        ): "add addc and bmsk call copysign div mapa match mul mul24 or redux rem shl shr sub subc "
        "szext xor",
        (3, 4): "atom max min set setp",
        (4,): "bfe dp2a dp4a fma fns mad mad24 madc mma prmt sad selp shf slct vabsdiff4",
        (5,): "bfi shfl",
        (5, 6): "lop3",
    }.items()
    for name in names.split()
}


def check_count(instruction: Instruction) -> None:
    """Raises ValueError for a number of operands that no form of the instruction takes."""
    counts, given = _COUNTS.get(instruction.mnemonic), len(instruction.operands)
    if counts is not None and given not in counts:
        raise ValueError(counted(instruction, counts))


def counted(instruction: Instruction, counts: tuple[int, ...]) -> str:
    """The sentence for an instruction that has not one of these numbers of operands."""
    *some, last = counts
    many = f"{', '.join(map(str, some))} or {last}" if some else f"{last or 'no'}"
    plural = "" if counts == (1,) else "s"
    given = len(instruction.operands)
    return f"{instruction.mnemonic} takes {many} operand{plural}, not {given}"

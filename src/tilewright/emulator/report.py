"""Report: what a run counted and found, by instruction and in sum."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilewright.emulator.compiler import Program
from tilewright.emulator.counters import Tally
from tilewright.emulator.findings import Finding
from tilewright.emulator.ir import Instruction
from tilewright.emulator.machine import Trace


@dataclass(frozen=True, slots=True)
class Access:
    """One memory instruction over the whole launch.

    `space` is shared, global or global>shared. `wavefronts` are of shared memory,
    `sectors` of 32 bytes; the ideals are what the same bytes would cost without conflicts or
    gaps. `bytes` are what the lanes asked for.
    """

    opcode: str
    file: str
    line: int
    space: str
    requests: int
    wavefronts: int
    wavefronts_ideal: int
    sectors: int
    sectors_ideal: int
    bytes: int


@dataclass(frozen=True)
class Report:
    """The outcome of one launch in the emulator.

    completed      False after a deadlock or a trap
    accesses       one row a memory instruction that ran, in program order
    instructions   warp-level issues of PTX instructions, by opcode
    findings       faults, each kind once an instruction
    totals         the sums, under the field names of `tilewright ladder`
    """

    completed: bool
    accesses: list[Access] = field(default_factory=list)
    instructions: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)


def make_report(program: Program, trace: Trace) -> Report:
    """The report of a finished trace."""
    instructions = program.kernel.instructions
    issued: dict[str, int] = {}
    for number, warps in sorted(trace.issues.items()):
        block = program.blocks[number]
        for instruction in instructions[block.first : block.last]:
            issued[instruction.opcode] = issued.get(instruction.opcode, 0) + warps
    accesses = [
        _access(instructions[at], tally) for at, tally in sorted(trace.counters.tallies.items())
    ]
    return Report(
        trace.completed, accesses, issued, trace.findings.all(), _totals(issued, accesses)
    )


def _access(instruction: Instruction, tally: Tally) -> Access:
    return Access(
        instruction.opcode,
        instruction.place.file,
        instruction.place.line,
        _space(instruction),
        tally.requests,
        tally.wavefronts,
        tally.wavefronts_ideal,
        tally.sectors,
        tally.sectors_ideal,
        tally.bytes,
    )


def _space(instruction: Instruction) -> str:
    if instruction.mnemonic == "cp":
        return "global>shared"
    return "shared" if ".shared" in instruction.opcode else "global"


_KINDS = {
    "ldmatrix": ("ldmatrix", "stmatrix"),
    "cp_async": ("cp",),
    "ldst": ("ld", "st"),
}


def _totals(issued: dict[str, int], accesses: list[Access]) -> dict[str, int]:
    shared = [a for a in accesses if "shared" in a.space]
    totals = {"instructions": sum(issued.values()), **_wavefronts("", shared)}
    for kind, mnemonics in _KINDS.items():
        rows = [a for a in shared if a.opcode.split(".", 1)[0] in mnemonics]
        totals |= _wavefronts(f"_{kind}", rows)
    plain = [a for a in shared if a.space == "shared"]
    totals["bank_conflicts"] = sum(a.wavefronts - a.wavefronts_ideal for a in plain)
    stores = [a for a in accesses if a.space == "global" and a.opcode.startswith("st")]
    everything = [a for a in accesses if "global" in a.space]
    total, store = sum(a.sectors for a in everything), sum(a.sectors for a in stores)
    totals |= {
        "global_sectors_load": total - store,
        "global_sectors_store": store,
        "global_sectors": total,
        "global_sectors_ideal": sum(a.sectors_ideal for a in everything),
    }
    return totals


def _wavefronts(suffix: str, rows: list[Access]) -> dict[str, int]:
    return {
        f"shared_wavefronts{suffix}": sum(a.wavefronts for a in rows),
        f"shared_wavefronts_ideal{suffix}": sum(a.wavefronts_ideal for a in rows),
    }

"""Whether the PTX that the emulator counts is what the GPU runs: memory instructions and mma.

ptxas may merge, drop, split or repeat accesses of the PTX, and spill registers; then the counts
of a report are not those of the hardware. Static counts are compared: how many instructions of a
kind the kernel's text holds, in PTX and in the machine code (SASS) of the same artifact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewright import sass
from tilewright.emulator.ir import TYPE_BYTES, Instruction, Kernel, Module, Symbol
from tilewright.emulator.loaded import loaded
from tilewright.emulator.ops.wmma import in_machine_code
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.artifact import Artifact
    from tilewright.sass import SassInstruction

NO_NVDISASM = (
    "not compared with SASS: there is no nvdisasm on PATH and no wheel nvidia-cuda-nvdisasm; "
    'pip install "tilewright[sass]"'
)

# A kind by its name in PTX, and the machine instructions that it becomes.
KINDS: dict[str, tuple[str, ...]] = {
    "ld.shared": ("LDS",),
    "st.shared": ("STS",),
    "ldmatrix": ("LDSM",),
    "stmatrix": ("STSM",),
    "cp.async": ("LDGSTS",),
    "ld.global": ("LDG",),
    "st.global": ("STG",),
    "atom.shared": ("ATOMS",),
    "atom.global": ("ATOMG", "ATOM"),
    "red.global": ("RED", "REDG"),
    "ld.local": ("LDL",),
    "st.local": ("STL",),
    "generic ld": ("LD",),
    "generic st": ("ST",),
    "mma of floats": ("HMMA", "QMMA", "OMMA"),
    "mma of integers": ("IMMA",),
    "mma of bits": ("BMMA",),
    "mma of doubles": ("DMMA",),
    "wgmma": ("HGMMA", "QGMMA", "IGMMA", "BGMMA"),
}
_KIND_OF_SASS = {mnemonic: kind for kind, names in KINDS.items() for mnemonic in names}
_SPILLS = ("ld.local", "st.local")
_LOADS_STORES = frozenset(kind for kind in KINDS if kind.split()[-1].split(".")[0] in ("ld", "st"))
_SASS_BYTES = {
    **dict.fromkeys(("U8", "S8", "8"), 1),
    **dict.fromkeys(("U16", "S16", "16"), 2),
    **{"64": 8, "128": 16, "256": 32},
}
_SHOWN = 4  # lines in a sentence

Line = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Difference:
    """A kind of instruction of which PTX and SASS hold different numbers, or other bytes.

    `lines` has file, line, and the counts in PTX and SASS of the source lines that differ; it is
    empty without -lineinfo. `str()` gives the sentence.
    """

    kind: str
    sass: str
    ptx_count: int
    sass_count: int
    message: str
    lines: tuple[tuple[str, int, int, int], ...] = ()

    def __str__(self) -> str:
        if not self.lines:
            return self.message
        shown = [f"{file}:{line}: {ptx} → {sass}" for file, line, ptx, sass in self.lines]
        more = f" and {len(shown) - _SHOWN} more lines" if len(shown) > _SHOWN else ""
        return f"{self.message} ({'; '.join(shown[:_SHOWN])}{more})"


@dataclass(slots=True)
class _Count:
    """Of one kind in one of the two texts. `bytes` are those of one lane."""

    count: int = 0
    bytes: int = 0
    widest: int = 0
    names: Counter[str] = field(default_factory=Counter)
    lines: Counter[Line] = field(default_factory=Counter)

    def add(self, name: str, width: int, line: Line | None) -> None:
        self.count += 1
        self.bytes += width
        self.widest = max(self.widest, width)
        self.names[name] += 1
        if line is not None:
            self.lines[line] += 1


def check(artifact: Artifact, kernel: str) -> list[Difference] | None:
    """Where the PTX and the cubin of a kernel differ; None where there is no nvdisasm.

    `kernel` is the symbol, as in `artifact.resources`. Functions that the kernel calls count
    once. What ptxas reads of parameters and constants is not compared, nor are instructions that
    never run.
    Raises: InputError for a kernel that the artifact has not; ToolchainError when nvdisasm cannot
    read the cubin.
    Cost: about 0.5 s for a GEMM kernel.
    """
    code = sass.disassemble(artifact.cubin)
    if code is None:
        return None
    module = loaded(artifact.ptx, owner=artifact.key).module
    for where, known in (("PTX", list(module.kernels)), ("cubin", list(code))):
        if kernel not in known:
            listed = ", ".join(known) or "nothing"
            raise InputError(f"kernel={kernel!r} is not in the {where}, which has {listed}.")
    return compare(_ptx_text(module, module.kernels[kernel]), code[kernel])


def to_text(differences: Sequence[Difference] | None) -> str:
    """What `check` found, a sentence a line."""
    if differences is None:
        return NO_NVDISASM
    if not differences:
        return "SASS has the memory and mma instructions of the PTX"
    return "\n".join(map(str, differences))


def compare(ptx: Iterable[Instruction], code: Iterable[SassInstruction]) -> list[Difference]:
    """The differences of two texts, by kind in the order of KINDS."""
    ours, theirs = _of_ptx(ptx), _of_sass(code)
    _short_names(ours, theirs)
    found: list[Difference] = []
    _reductions(ours, theirs, found)
    for kind, names in KINDS.items():
        a, b = ours.get(kind, _Count()), theirs.get(kind, _Count())
        same_bytes = a.bytes == b.bytes or kind not in _LOADS_STORES
        if a.count == b.count and same_bytes:
            continue
        name = b.names.most_common(1)[0][0] if b.names else names[0]
        message = _sentence(kind, name, a, b)
        found.append(Difference(kind, name, a.count, b.count, message, _lines(a, b)))
    return _spills_together(found)


# --- counting ---------------------------------------------------------------------------


def _ptx_text(module: Module, kernel: Kernel) -> list[Instruction]:
    """The kernel's instructions and, once each, those of the functions that it reaches."""
    text: list[Instruction] = []
    seen, todo = {kernel.name}, [kernel]
    while todo:
        part = todo.pop()
        text += part.instructions
        for instruction in part.instructions:
            if instruction.mnemonic != "call":
                continue
            for operand in instruction.operands:
                name = operand.name if isinstance(operand, Symbol) else ""
                if name in module.functions and name not in seen:
                    seen.add(name)
                    todo.append(module.functions[name])
    return text


def _of_ptx(instructions: Iterable[Instruction]) -> dict[str, _Count]:
    counts: dict[str, _Count] = {}
    for instruction in instructions:
        place = instruction.places[-1] if instruction.places else None
        line = None if place is None else (place.file, place.line)
        for kind, width in _of_instruction(instruction):
            counts.setdefault(kind, _Count()).add(instruction.mnemonic, width, line)
    return counts


def _of_instruction(instruction: Instruction) -> list[tuple[str, int]]:
    """What an instruction counts as: kinds, and the bytes of a lane for loads and stores."""
    if instruction.mnemonic == "wmma":
        return in_machine_code(instruction.opcode)
    kind = _kind_of_ptx(instruction.opcode)
    if kind is None:
        return []
    return [(kind, _ptx_bytes(instruction.opcode) if kind in _LOADS_STORES else 0)]


def _of_sass(code: Iterable[SassInstruction]) -> dict[str, _Count]:
    counts: dict[str, _Count] = {}
    for instruction in code:
        kind = _KIND_OF_SASS.get(instruction.mnemonic)
        if kind is not None:
            known = instruction.file is not None and instruction.line is not None
            line = (str(instruction.file), int(instruction.line or 0)) if known else None
            width = _sass_bytes(instruction.opcode) if kind in _LOADS_STORES else 0
            counts.setdefault(kind, _Count()).add(instruction.mnemonic, width, line)
    return counts


def _kind_of_ptx(opcode: str) -> str | None:
    words = opcode.replace("::", ".").split(".")
    match words[0]:
        case "ldmatrix" | "stmatrix":
            return words[0]
        case "cp" if words[1:2] == ["async"] and words[2:3] in (["ca"], ["cg"]):
            return "cp.async"
        case "st" | "red" if words[1] in ("async", "bulk"):
            return None
        case "mma":
            return _kind_of_mma(words)
        case "wgmma" if words[1:2] == ["mma_async"]:
            return "wgmma"
        case "ld" | "ldu" | "st" | "atom" | "red" as head:
            head = "ld" if head == "ldu" else head
            space = next((w for w in words if w in _SPACES), "global" if head != "ld" else "")
            if head in ("atom", "red"):
                return "atom.shared" if space == "shared" else f"{head}.global"
            if space in ("param", "const"):
                return None
            generic = not any(word in _SPACES for word in words)
            return f"generic {head}" if generic else f"{head}.{space}"
    return None


_SPACES = ("shared", "global", "local", "param", "const")


def _kind_of_mma(words: list[str]) -> str:
    types = {word for word in words if word in ("f64", "b1", "s8", "u8", "s4", "u4")}
    if "f64" in types:
        return "mma of doubles"
    if "b1" in types:
        return "mma of bits"
    return "mma of integers" if types else "mma of floats"


def _ptx_bytes(opcode: str) -> int:
    words = opcode.split(".")
    lanes = next((int(w[1:]) for w in words if w in ("v2", "v4", "v8")), 1)
    return lanes * TYPE_BYTES.get(words[-1], 4)


def _sass_bytes(opcode: str) -> int:
    return next((_SASS_BYTES[w] for w in opcode.split(".")[1:] if w in _SASS_BYTES), 4)


def _short_names(ours: dict[str, _Count], theirs: dict[str, _Count]) -> None:
    """Gives the lines of SASS, whose files are absolute paths, the names of the PTX's files."""
    files = sorted({line[0] for part in ours.values() for line in part.lines}, key=len)
    for part in theirs.values():
        lines: Counter[Line] = Counter()
        for (file, line), count in part.lines.items():
            short = [name for name in files if file == name or file.endswith(f"/{name}")]
            lines[short[-1] if short else file, line] += count
        part.lines = lines


# --- sentences --------------------------------------------------------------------------


def _sentence(kind: str, name: str, ptx: _Count, code: _Count) -> str:
    has = f"SASS has {code.count:,} {name}"
    if kind in _SPILLS and not ptx.count:
        return f"{code.count:,} {name}: registers spilled"
    missing = ptx.count - code.count
    if kind not in _LOADS_STORES:
        did = "left out" if missing > 0 else "split or repeated"
        many = f"{missing:,} of {ptx.count:,}" if missing > 0 else f"{ptx.count:,}"
        return f"ptxas {did} {many} {kind}: {has}"
    if missing > 0:
        if code.bytes == ptx.bytes:
            did = "merged"
        else:
            did = "merged or dropped" if code.widest > ptx.widest else "dropped"
        return f"ptxas {did} {missing:,} of {ptx.count:,} {kind}: {has}"
    if not missing:
        return (
            f"ptxas made {ptx.count:,} {kind} of {ptx.bytes:,} bytes a lane into {code.count:,} "
            f"{name} of {code.bytes:,}"
        )
    if not ptx.count:
        return f"{has}; the PTX has no {kind}"
    did = "split" if code.bytes == ptx.bytes else "repeated"
    why = "" if did == "split" else ", as it unrolled a loop or copied code"
    return f"ptxas {did} some of {ptx.count:,} {kind}: {has}{why}"


def _reductions(
    ours: dict[str, _Count], theirs: dict[str, _Count], found: list[Difference]
) -> None:
    """An atom whose result nobody uses becomes a RED: one difference, not two."""
    atom, red = ours.get("atom.global", _Count()), ours.get("red.global", _Count())
    atoms, reds = theirs.get("atom.global", _Count()), theirs.get("red.global", _Count())
    turned = reds.count - red.count
    if turned <= 0 or atom.count - atoms.count != turned:
        return
    message = (
        f"ptxas made RED of {turned:,} of {atom.count:,} atom.global, whose result nobody uses"
    )
    found.append(Difference("atom.global", "RED", turned, turned, message))
    for side in (ours, theirs):
        side.pop("atom.global", None)
        side.pop("red.global", None)


def _lines(ptx: _Count, code: _Count) -> tuple[tuple[str, int, int, int], ...]:
    if not ptx.lines and ptx.count:  # without -lineinfo
        return ()
    return tuple(
        (*line, ptx.lines[line], code.lines[line])
        for line in sorted({*ptx.lines, *code.lines})
        if ptx.lines[line] != code.lines[line]
    )


def _spills_together(found: list[Difference]) -> list[Difference]:
    """LDL and STL of spilled registers are one sentence."""
    spills = [it for it in found if it.kind in _SPILLS and not it.ptx_count]
    if len(spills) < 2:
        return found
    total = sum(it.sass_count for it in spills)
    counts: Counter[Line] = Counter()
    for it in spills:
        counts.update({(file, line): count for file, line, _, count in it.lines})
    lines = tuple((*line, 0, count) for line, count in sorted(counts.items()))
    one = Difference("local", "LDL/STL", 0, total, f"{total:,} LDL/STL: registers spilled", lines)
    return [*(it for it in found if it not in spills), one]

"""What ptxas says of a kernel's wgmma: that it makes them run one after the other, or waits."""

from __future__ import annotations

import re

from tilewright.emulator.findings import Finding
from tilewright.emulator.ir import Instruction, Kernel

KIND = "wgmma-serialised"
_SAID = re.compile(
    r"\((?P<code>C75\d\d)\) (?:Potential Performance Loss: )?(?P<what>wgmma.*?)"
    r"(?: in (?:the )?function '(?P<kernel>[^']+)')(?: in line (?P<line>\d+))?"
)
_AROUND = re.compile(r" in around line (\d+)")


def said_of_wgmma(log: str, kernel: Kernel) -> list[Finding]:
    """A finding for each remark C75xx of the compiler's log about this kernel.

    It is placed at the instruction that ptxas names, else at the kernel's first wgmma.mma_async.
    """
    found: list[Finding] = []
    for said in _SAID.finditer(log):
        if said["kernel"] != kernel.name:
            continue
        around = _AROUND.search(said["what"])
        line = int(around[1]) if around else int(said["line"] or 0)
        instruction = _at_line(kernel, line)
        if instruction is None:
            continue
        what = _AROUND.sub("", " ".join(said["what"].split()))
        place = instruction.place
        message = f"{KIND} at {instruction.opcode}: {what} (ptxas, {said['code']})"
        one = Finding(KIND, message, place.file, place.line, inlined_from=instruction.inlined_from)
        if one not in found:
            found.append(one)
    return found


def _at_line(kernel: Kernel, line: int) -> Instruction | None:
    """The first instruction from this line of the PTX on; of no line the first wgmma."""
    if line:
        behind = [it for it in kernel.instructions if it.line >= line]
        if behind:
            return min(behind, key=lambda it: it.line)
    return next((it for it in kernel.instructions if it.opcode.startswith("wgmma.mma")), None)

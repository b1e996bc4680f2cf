"""A compiled kernel: what `compiler` makes, and machines run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright.emulator.traits import Traits

if TYPE_CHECKING:
    from tilewright.emulator.arrays import Array
    from tilewright.emulator.flow import BasicBlock
    from tilewright.emulator.gather import Meeting
    from tilewright.emulator.ir import Kernel, Variable


@dataclass(slots=True)
class Program:
    """A compiled kernel, ready for any number of launches."""

    kernel: Kernel
    target: str  # of the module, "sm_90a"
    blocks: list[BasicBlock]
    registers: list[Array]  # a slot each, as a launch finds them: poison, constants
    specials: list[tuple[int, str]]  # slots that each chunk of blocks sets for itself
    shared_offsets: dict[str, int]
    static_shared_bytes: int
    variables: dict[str, Variable]  # in global, constant or shared space
    code: dict[str, int]  # the addresses of functions that variables begin with
    variable_slots: list[tuple[int, str, int]]
    unset_reads: dict[int, tuple[str, ...]]  # instruction → the unset registers that it may read
    local_bytes: int  # of a thread: .local variables and the parameters of functions it calls
    meetings: dict[int, list[Meeting]]  # basic block → which lanes must come together for it
    leaves: frozenset[int]  # basic blocks in which lanes only end
    polling: frozenset[int]  # basic blocks that read what other threads may write meanwhile
    written_params: frozenset[int] | None  # offsets of the pointers that are stored through
    _traits: Traits | None = None

    @property
    def traits(self) -> Traits:
        """What the watch over memory wants to know of each instruction; found when first asked."""
        if self._traits is None:
            self._traits = Traits.of(self.kernel, self.blocks)
        return self._traits

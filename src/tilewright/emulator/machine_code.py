"""A report's link to the machine code: compared with the PTX when somebody looks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tilewright.emulator.sass_check import NO_NVDISASM, Difference, check
from tilewright.errors import TilewrightError

if TYPE_CHECKING:
    from tilewright.artifact import Artifact

ONLY_PTX = "not compared with SASS: the source is PTX, and ptxas has not compiled it"


@dataclass(frozen=True)
class MachineCode:
    """The artifact that a launch took its PTX from (None for PTX of the user's), and the kernel.

    The comparison happens once, when it is first asked for, and never raises.
    Cost: 0.4 s for a GEMM kernel, 50 ms once the cache holds what nvdisasm printed.
    """

    artifact: Artifact | None
    kernel: str

    @property
    def differences(self) -> tuple[Difference, ...] | None:
        """How PTX and machine code differ; None where they were not compared."""
        return self._compared[0]

    @property
    def reason(self) -> str | None:
        """Why they were not compared."""
        return self._compared[1]

    @property
    def notes(self) -> tuple[str, ...]:
        """The differences as sentences, or the reason; empty where both texts agree."""
        if self.reason is not None:
            return (self.reason,)
        return tuple(map(str, self.differences or ()))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON; `lines` as rows of file, line and the two counts."""
        rows = [
            {
                **asdict(it),
                "lines": [
                    {"file": file, "line": line, "ptx_count": ptx, "sass_count": sass}
                    for file, line, ptx, sass in it.lines
                ],
            }
            for it in self.differences or ()
        ]
        return {"compared": self.reason is None, "reason": self.reason, "differences": rows}

    @cached_property
    def _compared(self) -> tuple[tuple[Difference, ...] | None, str | None]:
        if self.artifact is None:
            return None, ONLY_PTX
        try:
            found = check(self.artifact, self.kernel)
        except (TilewrightError, OSError) as error:  # an nvdisasm older than the compiler
            return None, f"not compared with SASS: {error}"
        return (None, NO_NVDISASM) if found is None else (tuple(found), None)

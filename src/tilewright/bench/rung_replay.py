"""The machine code of a rung's K step, played through by model.replay with the emulator's costs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tilewright.emulator.report import Access, Report
from tilewright.model.machine_words import Word, kernel_words
from tilewright.model.rates import L1_REQUEST
from tilewright.model.replay import Cost, Costs, pass_clocks, step_code

SECTOR = 32
_LINE_SECTORS = 4
_WIDTHS = (4, 8, 16)  # bytes a lane


@dataclass(frozen=True)
class Played:
    """The code of `steps` K steps and its costs, as items of model.replay.Costs.

    `instructions` are those of a block and step.
    """

    code: tuple[Word, ...]
    steps: float
    costs: tuple[tuple[tuple[str, int], Cost], ...]
    warps: int

    @cached_property
    def instructions(self) -> float:
        return len(self.code) / self.steps * self.warps

    def clocks(self, blocks: int) -> float:
        """Clocks in which so many resident blocks each make one K step. Cost: 0.5 s."""
        return _pass_clocks(self.code, self.costs, self.warps, blocks) / self.steps


@lru_cache(maxsize=64)
def _pass_clocks(
    code: tuple[Word, ...], costs: tuple[tuple[tuple[str, int], Cost], ...], warps: int, blocks: int
) -> float:
    return pass_clocks(code, dict(costs), warps, blocks)


def played(
    cubin: bytes, kernel: str, warps: int, fma_issues: float, report: Report, l2_share: float
) -> Played:
    """`fma_issues` are a block's in one K step; `l2_share` what L1 leaves to L2 of loads.

    Raises: InputError for machine code whose K loop is not found.
    """
    code, steps = step_code(kernel_words(cubin, kernel), fma_issues / warps)
    costs = tuple(costs_of(report.accesses, l2_share).items())
    return Played(tuple(code), steps, costs, warps)


def costs_of(accesses: Iterable[Access], l2_share: float = 1.0) -> Costs:
    """The mean cost of a request, by kind and bytes a lane."""
    sums: dict[tuple[str, int], list[float]] = {}
    for access in accesses:
        kind = _kind(access)
        if kind is None or not access.requests:
            continue
        width = next((w for w in _WIDTHS if access.bytes <= 32 * w * access.requests), _WIDTHS[-1])
        total = sums.setdefault((kind, 4 if kind == "ldmatrix" else width), [0.0, 0.0, 0.0])
        clocks = l1_clocks(access) if kind == "ld.global" else access.wavefronts
        total[0] += access.requests
        total[1] += clocks
        total[2] += access.sectors * SECTOR * l2_share
    return {key: Cost(clocks / n, moved / n) for key, (n, clocks, moved) in sums.items()}


def l1_clocks(access: Access) -> float:
    """Clocks of L1: a look-up a line. Gaps are taken to leave one sector of each line."""
    scattered = access.sectors > access.sectors_ideal
    lines = access.sectors if scattered else -(-access.sectors // _LINE_SECTORS)
    return access.requests * (L1_REQUEST.value - 1) + max(access.requests, lines)


def _kind(access: Access) -> str | None:
    """As model.machine_words has it; None for what a K step does not wait for."""
    if access.opcode.startswith("cp.async"):
        return "cp.async"
    if access.opcode.startswith("ldmatrix"):
        return "ldmatrix"
    if access.space in ("shared", "global") and access.opcode[:3] in ("ld.", "st."):
        kind = f"{access.opcode[:3]}{access.space}"
        return None if kind == "st.global" else kind
    return None

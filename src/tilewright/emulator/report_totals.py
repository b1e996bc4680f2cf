"""Sums over the accesses of a launch, under the field names of `tilewright ladder`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.emulator.report import Access


def _is_store(opcode: str) -> bool:
    """Atomics count as stores: they write, and their sectors go the same way."""
    return opcode.startswith(("st", "red", "atom")) or ".store" in opcode


_KINDS = {
    "ldmatrix": ("ldmatrix", "stmatrix"),
    "cp_async": ("cp",),
    "ldst": ("ld", "st"),
}


def totals_of(issued: dict[str, int], accesses: Sequence[Access]) -> dict[str, int]:
    """All sums but those of bulk copies; `issued` are warp-level issues by opcode."""
    shared = [a for a in accesses if "shared" in a.space]
    totals = {"instructions": sum(issued.values()), **_wavefronts("", shared)}
    for kind, mnemonics in _KINDS.items():
        rows = [a for a in shared if a.opcode.split(".", 1)[0] in mnemonics]
        totals |= _wavefronts(f"_{kind}", rows)
    plain = [a for a in shared if a.space == "shared"]
    totals["wgmma_shared_bytes"] = sum(a.bytes for a in shared if a.opcode.startswith("wgmma"))
    totals["bank_conflicts"] = sum(a.wavefronts - a.wavefronts_ideal for a in plain)
    stores = [
        a
        for a in accesses
        if (a.space == "global" and _is_store(a.opcode)) or a.space == "shared>global"
    ]
    everything = [a for a in accesses if "global" in a.space]
    total, store = sum(a.sectors for a in everything), sum(a.sectors for a in stores)
    totals |= {
        "global_sectors_load": total - store,
        "global_sectors_store": store,
        "global_sectors": total,
        "global_sectors_ideal": sum(a.sectors_ideal for a in everything),
    }
    return totals


def _wavefronts(suffix: str, rows: Sequence[Access]) -> dict[str, int]:
    return {
        f"shared_wavefronts{suffix}": sum(a.wavefronts for a in rows),
        f"shared_wavefronts_ideal{suffix}": sum(a.wavefronts_ideal for a in rows),
    }

"""What a rung's counts mean, in a few words."""

from __future__ import annotations

from tilewright.emulator.report import Access, Report

_NAMES = {"ldmatrix": "ldmatrix", "stmatrix": "stmatrix", "ld": "loads", "st": "stores"}


def meaning(report: Report, before: Report | None) -> list[str]:
    """Short remarks on one rung; of a later rung only what is not so of the one before it."""
    facts = [fact for fact in (_copies(report), _stores(report)) if fact]
    conflicts = _conflicts(report)
    if before is None:
        return [_shown(conflicts), *facts]
    known = (_copies(before), _stores(before))
    changed = _changed(conflicts, _conflicts(before))
    return [*_changes(report, before), *changed, *(fact for fact in facts if fact not in known)]


def _conflicts(report: Report) -> dict[str, float]:
    """The worst conflict of each kind of instruction: an n-way conflict takes n passes for one."""
    worst: dict[str, float] = {}
    for access in report.accesses:
        if access.space == "shared" and access.wavefronts > access.wavefronts_ideal:
            degree = access.wavefronts / access.wavefronts_ideal
            worst[_label(access)] = max(degree, worst.get(_label(access), 1))
    return worst


def _shown(conflicts: dict[str, float]) -> str:
    if not conflicts:
        return "no bank conflicts"
    first, *others = (f"{degree:.3g}-way {{}}on {label}" for label, degree in conflicts.items())
    return ", ".join((first.format("bank conflicts "), *(other.format("") for other in others)))


def _changed(now: dict[str, float], then: dict[str, float]) -> list[str]:
    """Conflicts that went and those that came or changed; the others are known."""
    if not now:
        return [_shown(now)] if then else []
    gone = " and ".join(label for label in then if label not in now)
    other = {label: degree for label, degree in now.items() if then.get(label) != degree}
    remarks = [f"no more bank conflicts on {gone}"] if gone else []
    return remarks + ([_shown(other)] if other else [])


def _label(access: Access) -> str:
    parts = access.opcode.split(".")
    shape = [part for part in parts if part in ("x1", "x2", "x4", "trans", "v2", "v4")]
    return ".".join((_NAMES.get(parts[0], parts[0]), *shape))


def _copies(report: Report) -> str:
    copies = [access for access in report.accesses if access.space == "global>shared"]
    wavefronts = sum(access.wavefronts for access in copies)
    ideal = sum(access.wavefronts_ideal for access in copies)
    if wavefronts == ideal:
        return ""
    return f"cp.async takes {wavefronts / ideal:.3g}× its ideal passes (rows under 128 bytes)"


def _stores(report: Report) -> str:
    stores = [a for a in report.accesses if a.space == "global" and a.opcode.startswith("st")]
    sectors = sum(access.sectors for access in stores)
    if not sectors:
        return ""
    full = sum(access.sectors_ideal for access in stores) / sectors
    whole = "stores fill whole sectors"
    return whole if full >= 1 else f"stores fill {100 * full:.3g}% of each sector"


def _changes(report: Report, before: Report) -> list[str]:
    """What moved by a factor of 1.1 or more against the rung before, which had some of it."""
    fields = (
        ("shared_wavefronts_ldmatrix", "ldmatrix wavefronts"),
        ("shared_wavefronts_cp_async", "cp.async wavefronts"),
        ("shared_wavefronts_ldst", "load and store wavefronts"),
        ("global_sectors_load", "load sectors"),
        ("global_sectors_store", "store sectors"),
    )
    moves = [(what, report.totals[field], before.totals[field]) for field, what in fields]
    moves.append(("barriers", _barriers(report), _barriers(before)))
    return [
        f"{what} {_factor(now, then)}"
        for what, now, then in moves
        if now and then and max(now, then) >= 1.1 * min(now, then)
    ]


def _barriers(report: Report) -> int:
    return sum(
        times for opcode, times in report.instructions.items() if opcode.startswith("bar.sync")
    )


def _factor(now: int, then: int) -> str:
    return f"÷\u00a0{then / now:.3g}" if now < then else f"×\u00a0{now / then:.3g}"

"""The timeline of a launch's mbarriers as text: a slot's phases one under the other."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.emulator.timeline import Event, Timeline

_NOTHING = "No bulk copy and no mbarrier was used in the first cluster of the launch."
_HEAD = (
    "Steps are those of the emulator, in an order that the program allows; they are no times.",
    "phase  copies       bytes  issued at  arrivals  ends at  passed at  by warps",
)


def timeline_text(timeline: Timeline) -> str:
    """For each mbarrier of the first cluster its phases: copies, arrivals, end, who went on."""
    if not timeline.events:
        return _NOTHING
    lines = [*_HEAD]
    slots = dict.fromkeys((event.of, event.barrier) for event in timeline.events)
    for of, barrier in slots:
        here = [event for event in timeline.events if (event.of, event.barrier) == (of, barrier)]
        lines += ["", f"block {of}, mbarrier {barrier}"]
        for phase in sorted({event.phase for event in here}):
            lines.append(_row(phase, [event for event in here if event.phase == phase]))
    if timeline.dropped:
        lines += ["", f"{timeline.dropped:,} later events were not kept."]
    return "\n".join(lines)


def _row(phase: int, events: Sequence[Event]) -> str:
    by_kind = {
        kind: [event for event in events if event.kind == kind]
        for kind in ("copy", "arrive", "end", "pass")
    }
    copies = by_kind["copy"]
    nbytes = sum(event.nbytes for event in copies)
    warps = sorted({event.warp for event in by_kind["pass"] if event.warp is not None})
    cells = (
        f"{phase:5}",
        f"{len(copies) or '':>6}",
        f"{f'{nbytes:,}' if copies else '':>10}",
        f"{_steps(copies):>9}",
        f"{len(by_kind['arrive']) or '':>8}",
        f"{_steps(by_kind['end']):>7}",
        f"{_steps(by_kind['pass']):>9}",
        _ranges(warps),
    )
    return "  ".join(cells).rstrip()


def _steps(events: Sequence[Event]) -> str:
    steps = [event.step for event in events]
    if not steps:
        return ""
    first, last = min(steps), max(steps)
    return f"{first}" if first == last else f"{first}–{last}"


def _ranges(numbers: list[int]) -> str:
    """4, 5, 6, 9 as "4–6, 9"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)

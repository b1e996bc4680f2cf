"""A family's climb as a small SVG: a bar for each rung, as a share of torch. No library needed."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

BAR, GAP, NAME, WIDE, VALUE, TOP = 18, 8, 250, 460, 50, 44
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.soft{fill:#57606a}"
    ".bar{fill:#2f81f7}.mark{stroke:#bc4c00;stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}}"
)


def climb_picture(
    title: str, shares: Mapping[str, float | None], rivals: Mapping[str, float]
) -> str:
    """`shares` are speeds over torch's by rung, None for one that was not timed beside
    it; `rivals` those that stand as lines across all bars."""
    known = [share for share in shares.values() if share is not None]
    scale = WIDE / max([1.0, *known, *rivals.values()])
    height = TOP + len(shares) * (BAR + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{NAME + WIDE + VALUE}" '
        f'height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text x="{NAME}" y="16">{escape(title, quote=False)}</text>',
        *_rivals(rivals, scale, height),
    ]
    for number, (name, share) in enumerate(shares.items()):
        parts += _bar(name, share, TOP + number * (BAR + GAP), scale)
    return "\n".join([*parts, "</svg>", ""])


def _rivals(rivals: Mapping[str, float], scale: float, height: int) -> list[str]:
    """A line across for each, and their names above the rightmost."""
    if not rivals:
        return []
    places = [f"{NAME + share * scale:.1f}" for share in sorted(rivals.values())]
    names = ", ".join(f"{name} {share:.2f}" for name, share in rivals.items())
    return [
        *(f'<path class="mark" d="M{x} {TOP - 4}V{height}"/>' for x in places),
        f'<text class="soft" x="{places[-1]}" y="{TOP - 10}" text-anchor="end">{escape(names)}'
        "</text>",
    ]


def _bar(name: str, share: float | None, y: int, scale: float) -> list[str]:
    base = y + BAR - 5
    label = f'<text x="{NAME - 8}" y="{base}" text-anchor="end">{escape(name)}</text>'
    if share is None:
        return [
            label,
            f'<text class="soft" x="{NAME + 4}" y="{base}">not timed beside torch</text>',
        ]
    return [
        label,
        f'<rect class="bar" x="{NAME}" y="{y}" width="{share * scale:.1f}" height="{BAR}" rx="2"/>',
        f'<text x="{NAME + WIDE + 8}" y="{base}">{share:.2f}</text>',
    ]

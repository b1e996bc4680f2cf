"""Two records compared: has a kernel become slower, measured against its rival?

Times of two runs are not comparable, since GPUs of one name differ by 12 %; the ratio to a rival
that was timed in the same rounds is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tilewright.bench.protocol import quantile
from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.bench.record import Measurement

DEFAULT_FAIL_BELOW = 0.98
_RATIOS = (1e-6, 1e6)  # what lies outside was not measured

Key = tuple[str, str, str, int, int, int, str]  # gpu, dtype, layout, m, n, k, name


@dataclass(frozen=True)
class Row:
    """One kernel at one shape. `change` = new ratio ÷ old ratio, so above 1 is faster.

    `noise` is how far the rounds of either side lie apart, as a part of the ratio: half of p20 to
    p80, of the side where it is larger. A change below it may be none.
    `status` is "ok", "slower", "faster", "wrong" (the new result is), "gone" (the new side has
    this kernel at no shape), "only old", "only new", "other rival" or "other inputs"; `reason` a
    sentence that says more, or None.
    """

    name: str
    gpu: str
    dtype: str
    layout: str
    m: int
    n: int
    k: int
    rival: str | None
    old_ratio: float | None
    new_ratio: float | None
    change: float | None
    noise: float | None
    status: str
    reason: str | None


@dataclass(frozen=True)
class Comparison:
    """The rows of a comparison, by GPU, type and shape, then in the order of the new lines."""

    rows: tuple[Row, ...]

    @property
    def changes(self) -> tuple[float, ...]:
        return tuple(row.change for row in self.rows if row.change is not None)

    @property
    def geometric_mean(self) -> float | None:
        """Of the changes; None where nothing could be compared."""
        if not self.changes:
            return None
        return math.exp(sum(map(math.log, self.changes)) / len(self.changes))

    @property
    def counts(self) -> str:
        """How many rows there are of each status, "2 slower, 40 ok"."""
        found = Counter(row.status for row in self.rows)
        return ", ".join(f"{count} {status}" for status, count in found.most_common())

    @property
    def fine(self) -> bool:
        """Something was compared, and no kernel is slower, wrong or gone."""
        bad = ("slower", "wrong", "gone")
        return bool(self.changes) and not any(row.status in bad for row in self.rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        return [asdict(row) for row in self.rows]


def compare(
    old: Iterable[Measurement],
    new: Iterable[Measurement],
    fail_below: float = DEFAULT_FAIL_BELOW,
) -> Comparison:
    """The newest line of each kernel, shape, type and GPU of one side next to the other's.

    Lines of the rival itself are left out, for their ratio is 1 by definition, and so are roofs.
    The rounds' noise is shown and decides nothing: between two runs there is more of it.
    Raises: InputError for fail_below outside (0, 1], a ratio that is none, or two sides that have
    no line in common.
    """
    if not 0 < fail_below <= 1:
        raise InputError(f"fail_below={fail_below} must be above 0 and at most 1.")
    before, after = _newest(old), _newest(new)
    if not before.keys() & after.keys():
        raise InputError(
            f"the old side ({len(before)} kernels and shapes) and the new one ({len(after)}) have "
            "none in common: same kernel, shape, layout, type and GPU."
        )
    keys = sorted(dict.fromkeys((*after, *before)), key=lambda key: key[:-1])
    there = {key[-1] for key in after}
    rows = (_row(before.get(key), after.get(key), fail_below) for key in keys)
    return Comparison(tuple(row if row.name in there else _gone(row) for row in rows))


def _gone(row: Row) -> Row:
    return replace(row, status="gone", reason="the new side has this kernel at no shape.")


def _newest(lines: Iterable[Measurement]) -> dict[Key, Measurement]:
    """The line with the largest `taken` of each key; of equals the last."""
    found: dict[Key, Measurement] = {}
    for line in lines:
        if line.name == line.rival or line.is_roof:
            continue
        if line.ratio is not None and not _RATIOS[0] < line.ratio < _RATIOS[1]:
            raise InputError(f"ratio={line.ratio} of {line.name} ({line.taken}) is none.")
        key = (line.machine, line.dtype, line.layout, line.m, line.n, line.k, line.name)
        if key not in found or line.taken >= found[key].taken:
            found[key] = line
    return found


def _row(old: Measurement | None, new: Measurement | None, fail_below: float) -> Row:
    line = new or old
    assert line is not None  # the key came from one of them
    status, reason = _verdict(old, new)
    change = None
    if status is None and old and new and old.ratio and new.ratio:
        change = new.ratio / old.ratio
        slower, faster = change < fail_below, change > 1 / fail_below
        status = "slower" if slower else "faster" if faster else "ok"
        reason = _differences(old, new)
    return Row(
        name=line.name,
        gpu=line.machine,
        dtype=line.dtype,
        layout=line.layout,
        m=line.m,
        n=line.n,
        k=line.k,
        rival=line.rival,
        old_ratio=old.ratio if old else None,
        new_ratio=new.ratio if new else None,
        change=change,
        noise=max((_spread(line) for line in (old, new) if line), default=0) or None,
        status=status or "other rival",
        reason=reason,
    )


def _spread(line: Measurement) -> float:
    """Half the distance of p20 and p80 of the rounds' ratios ÷ their median; 0 without rounds."""
    theirs = line.rival_us_samples or ()
    if len(theirs) != len(line.us_samples):
        return 0.0
    ratios = [rival / own for own, rival in zip(line.us_samples, theirs, strict=True)]
    return (quantile(ratios, 0.8) - quantile(ratios, 0.2)) / 2 / quantile(ratios, 0.5)


def _verdict(old: Measurement | None, new: Measurement | None) -> tuple[str | None, str | None]:
    """Status and reason of lines that cannot be compared; None for those that can."""
    if new is None:
        return "only old", "the new side has no such line."
    if new.correct is False:
        return "wrong", f"the result measured {new.taken} is wrong."
    if old is None:
        return "only new", "the old side has no such line."
    if old.correct is False:
        return "only new", f"the old result, measured {old.taken}, is wrong and says nothing."
    if old.inputs != new.inputs:
        return "other inputs", f"the old inputs are {old.inputs}, the new {new.inputs}."
    if old.rival != new.rival:
        return (
            "other rival",
            f"the old rival is {old.rival or 'none'}, the new {new.rival or 'none'}.",
        )
    if old.ratio is None or new.ratio is None:
        return "other rival", "a line without a rival's ratio has nothing to compare."
    return None, None


def _differences(old: Measurement, new: Measurement) -> str | None:
    """What else than the code differs, and may be the cause of a change."""
    pairs = (
        (new.rival or "rival", old.rival_version, new.rival_version),
        ("driver", old.driver, new.driver),
        ("CUDA", old.cuda, new.cuda),
    )
    found = [f"{what} {then} → {now}" for what, then, now in pairs if then != now]
    return f"not only the code may differ: {', '.join(found)}." if found else None

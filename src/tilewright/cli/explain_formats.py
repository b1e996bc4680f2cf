"""`tilewright explain formats`: how far number formats reach, and in which steps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from tilewright.cli.explain_draw import Drawing, heading, line, sentence
from tilewright.cli.options import JsonTarget
from tilewright.cli.output import check_targets, emit
from tilewright.errors import InputError
from tilewright.model.formats import FORMATS, Format, format_named

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

_VALUES = ("0.1", "1", "257", "2049", "70000", "1e-6", "1e-9")
_DECIMAL = re.compile(r"[-+]?(\d{1,60}(\.\d{0,60})?|\.\d{1,60})([eE][-+]?\d{1,2})?", re.ASCII)
_MOST_VALUES = 100
_LOW, _HIGH = -150, 128  # powers of two that the picture spans


def formats(
    *,
    value: Annotated[list[str] | None, Parameter(negative=(), allow_leading_hyphen=True)] = None,
    dtype: Annotated[list[str] | None, Parameter(negative=())] = None,
    json: JsonTarget = None,
) -> int:
    """Show the range and the steps of number formats, on values: bf16 against fp16.

    Roundings are exact: to the nearest, ties to even.

    Example: tilewright explain formats --value 0.1 --value 70000

    Parameters
    ----------
    value
        A decimal number to round. May be given again.
    dtype
        A format to round to: fp32, tf32, bf16, fp16, e5m2, e4m3; bf16 and fp16 if none is named.
        May be given again.
    """
    check_targets(json)
    chosen = list(dict.fromkeys(format_named(name) for name in dtype or ("bf16", "fp16")))
    texts = list(dict.fromkeys(value or _VALUES))
    if len(texts) > _MOST_VALUES:
        raise InputError(f"{len(texts)} values are more than the {_MOST_VALUES} that are shown.")
    values = [(text, _exact(text)) for text in texts]
    rows = [_row(form, values if form in chosen else []) for form in FORMATS.values()]
    emit("explain-formats", rows, _picture(chosen, values), json)
    return 0


def _exact(text: str) -> Fraction:
    if not _DECIMAL.fullmatch(text.strip()):
        raise InputError(
            f"value={text[:40]!r} must be a decimal number such as 0.1 or 6e-5, with an exponent "
            "of at most two digits."
        )
    return Fraction(text.strip())


def _row(form: Format, values: list[tuple[str, Fraction]]) -> dict[str, Any]:
    return {
        "name": form.name, "bytes": form.bytes, "exponent_bits": form.exponent_bits,
        "mantissa_bits": form.mantissa_bits, "largest": float(form.largest),
        "smallest_normal": float(form.smallest_normal), "smallest": float(form.smallest),
        "epsilon": float(form.epsilon), "digits": form.digits, "infinity": form.infinity,
        "values": [_rounded(form, text, exact) for text, exact in values],
    }  # fmt: skip


def _rounded(form: Format, text: str, exact: Fraction) -> dict[str, Any]:
    nearest = form.nearest(exact)
    error = None if nearest is None or not exact else abs(nearest - exact) / abs(exact)
    return {
        "value": text,
        "nearest": None if nearest is None else float(nearest),
        "rel_error": None if error is None else float(error),
        "step": float(form.step(exact)) if nearest is not None else None,
        "bits": None if nearest is None else form.bits(nearest),
        "overflows": nearest is None,
    }


def _picture(chosen: list[Format], values: list[tuple[str, Fraction]]) -> RenderableType:
    def draw(width: int) -> Iterator[Text]:
        yield line(
            ("format  sign+exp+mantissa    largest  smallest normal  step at 1  digits", "bold")
        )
        for form in FORMATS.values():
            layout = f"1+{form.exponent_bits}+{form.mantissa_bits}"
            yield line(
                f"{form.name:<8}{layout:>17}{_short(form.largest):>11}"
                f"{_short(form.smallest_normal):>17}{_short(form.epsilon):>11}{form.digits:>8}"
            )
        yield line("")
        yield from _ranges(chosen, width)
        yield line("")
        for text, exact in values:
            yield line((text, "bold"))
            for form in chosen:
                yield line((f"  {form.name:<6}", "dim"), *_words(form, text, exact))
        yield from sentence(_verdict(chosen), width, "dim")

    return Drawing(draw)


def _ranges(chosen: list[Format], width: int) -> Iterator[Text]:
    """Which powers of two each format reaches; the lighter part has fewer and fewer digits."""
    room = max(width - 10, 40)
    yield heading("Magnitudes from 2^-150 to 2^128: █ full precision, ░ subnormal")

    def at(power: int) -> int:
        return round((power - _LOW) / (_HIGH - _LOW) * room)

    for form in FORMATS.values():
        first = at(form.lowest_exponent - form.mantissa_bits)
        normal, last = at(form.lowest_exponent), at(form.highest_exponent + 1)
        style = "green" if form in chosen else "dim"
        drawn = " " * first + "░" * (normal - first) + "█" * (last - normal)
        yield line((f"{form.name:<8}", style), (drawn, style))
    one = at(0)
    yield line((f"{'':<8}{'':>{one}}1", "dim"))


def _words(form: Format, text: str, exact: Fraction) -> Iterator[str | tuple[str, str]]:
    found = _rounded(form, text, exact)
    if found["overflows"]:
        what = "infinity" if form.infinity else "NaN (with .satfinite 448)"
        yield (f"{what}: the largest is {_short(form.largest)}", "red")
        return
    nearest = found["nearest"]
    if nearest == 0 and exact:
        yield (f"0: below half of the smallest, {_short(form.smallest)}", "red")
        return
    error = found["rel_error"] or 0.0
    said = "exact" if not error else f"off {100 * error:.2g}%"
    step = f"step {_short(Fraction(found['step']))}"
    yield f"{nearest:<14.9g} {said:<13}{step:<16}"
    yield (found["bits"], "cyan")


def _short(number: Fraction) -> str:
    value = float(number)
    return f"{value:.9g}" if 1e-3 <= abs(value) < 1e6 else f"{value:.3g}"


def _verdict(chosen: list[Format]) -> str:
    names = {form.name for form in chosen}
    if "tf32" in names:
        return (
            "mma drops the 13 low bits of an fp32 operand, which is off by up to a whole step. A "
            "cvt before it rounds: cvt.rn.tf32 (sm_90 and later) ties to even, as above, "
            "cvt.rna.tf32 away from zero."
        )
    if names != {"bf16", "fp16"}:
        return ""
    return (
        "bf16 keeps fp32's range and 8 bits of precision, fp16 11 bits up to 65504. A sum of k "
        "products in either format would lose most of them: the rungs sum in fp32."
    )

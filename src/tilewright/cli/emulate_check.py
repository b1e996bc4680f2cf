"""A check after a run: the right side in float64 beside what the kernel may differ by.

Every value carries a bound of the rounding that a kernel's own evaluation may show:

a @ b, sum(x)     (4·√k + k/8)·2⁻²⁴ of the sum of absolute terms, `tilewright.verify`'s of 16 bits
+ − *             u of the result and tiny/2: the kernel may round each step to the result's type
/                 2u: fast division is not rounded correctly
exp(x)            (2 + |x|)·u: fast exponentials multiply x by log2(e) first
numbers           2⁻²⁴ of those that fp32 does not hold, unless the result is fp64
the result        u and tiny/2, once

and what the operands' bounds become in each operation. A number times an operand of @ is taken
to scale the product. u is the unit roundoff and tiny the
smallest subnormal of the array on the left. An fp64 one is held to u = 2⁻⁵³, and its sums to 2⁻⁵³
for 2⁻²⁴ where all arrays on the right are fp64, too: sums of others may be kept in fp32. An
integer array must be exact where the right side is whole, and within 1 of what is rounded
otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.cli.emulate_args import is_float
from tilewright.cli.expression import Check, Node, RowsError, names_of, shape_of, show
from tilewright.errors import InputError

Array = npt.NDArray[Any]

_FP32, _FP64 = 2.0**-24, 2.0**-53
_WHOLE = 2.0**53  # up to here float64 holds every integer


@dataclass(frozen=True)
class Verdict:
    """What a check found. `rel_error` is ‖left − right‖F ÷ ‖right‖F; `bound` the largest one."""

    check: str
    correct: bool
    message: str  # "" when correct
    elements: int
    wrong: int
    rel_error: float
    max_error: float
    bound: float


@dataclass(frozen=True)
class _Format:
    roundoff: float
    tiny: float
    slack: float  # the unit roundoff of sums of products


@dataclass(frozen=True)
class _Value:
    exact: Array
    bound: Array
    whole: bool  # made of integers alone, without division


def check_shapes(check: Check, values: Mapping[str, Any], empty: set[str]) -> None:
    """Raises InputError for names that are no arguments or shapes that don't fit.

    `values` holds an array of the right shape and type, or a number, for every argument that a
    check may name; `empty` those that hold nothing before the launch.
    """
    for name in (check.label, *sorted(check.names)):
        if name not in values:
            known = ", ".join(values) or "none"
            raise InputError(f'--check "{check.text}": {name} is not an array or a number among '
                             f"the arguments; they are: {known}.")  # fmt: skip
        if name in empty & check.names:
            raise InputError(
                f'--check "{check.text}": {name} is empty before the launch, which is what the '
                "right side reads; fill it with zeros or randn."
            )
    left = np.shape(values[check.label])
    if not left:
        raise InputError(
            f'--check "{check.text}": {check.label} is a number, which no kernel can write.'
        )
    left = left[::-1] if check.transposed else left
    shapes = {name: np.shape(value) for name, value in values.items()}
    try:
        right = shape_of(check.right, shapes)
    except InputError as error:
        way_out = _turned(check, error) if isinstance(error, RowsError) else ""
        raise InputError(f'--check "{check.text}": {error}{way_out}') from None
    if (part := _not_finite(check.right)) is not None:
        raise InputError(f'--check "{check.text}": {part} is not a finite number.')
    try:
        fits = np.broadcast_shapes(left, right) == left
    except ValueError:
        fits = False
    if not fits:
        raise InputError(
            f'--check "{check.text}": the left side is {show(left)}, the right {show(right)}.'
        )


def _turned(check: Check, error: RowsError) -> str:
    """The check that does what was meant, where `error.node` is the whole right side or a part."""
    if error.node is not check.right:
        return f" Write ({error.turned}).T for it."
    left = check.label + ".T" * (not check.transposed)
    return f' Write "{left} {"==" if check.exact else "~"} {error.turned}".'


def _not_finite(node: Node) -> str | None:
    """The text of a part that no array can mend: numbers that give infinity, a division by 0."""
    for child in node.children:
        if (part := _not_finite(child)) is not None:
            return part
    divisor = node.children[1] if node.kind == "/" else None
    by_zero = divisor is not None and not names_of(divisor) and _constant(divisor) == 0
    overflows = not names_of(node) and not isfinite(_constant(node))
    return node.text if by_zero or overflows else None


def _constant(node: Node) -> float:
    with np.errstate(all="ignore"):
        return float(_evaluate(node, {}, _format(np.dtype(np.float64))).exact)


def judge(check: Check, after: Mapping[str, Array], before: Mapping[str, Any]) -> Verdict:
    """Compares the left side after the launch with the right side before it."""
    left = after[check.label]
    left = left.T if check.transposed else left
    form = _format(left.dtype, [before[name] for name in check.names])
    right = before[check.right.name] if check.right.kind == "name" else None
    with np.errstate(all="ignore"):
        if _integers(left) and right is not None and _integers(np.asarray(right)):
            return _verdict(check, left, np.asarray(right), left == right, np.zeros(()))
        value = _evaluate(check.right, before, form)
        got = left.astype(np.float64)
        unsafe = _integers(left) and (
            _beyond(got) or _beyond(value.exact) or any(_beyond(before[n]) for n in check.names)
        )
        want, bound = value.exact, np.zeros(())
        if check.exact:
            want = want if _integers(left) else want.astype(left.dtype).astype(np.float64)
        elif is_float(left.dtype):
            bound = form.roundoff * np.abs(want) + form.tiny / 2 + value.bound
        elif not value.whole:
            bound = 1 + value.bound
        close = (np.abs(got - want) <= bound) & np.isfinite(bound)
        verdict = _verdict(check, got, want, (got == want) | close, bound)
    if not unsafe:
        return verdict
    what = "it has integers beyond 2^53, which float64 does not hold; compare smaller ones"
    return Verdict(check.text, False, what, *_figures(verdict))


def _figures(verdict: Verdict) -> tuple[int, int, float, float, float]:
    return verdict.elements, verdict.wrong, verdict.rel_error, verdict.max_error, verdict.bound


def _verdict(check: Check, got: Array, want: Array, right: Array, bound: Array) -> Verdict:
    wrong = ~np.broadcast_to(right, got.shape)
    want, bound = np.broadcast_to(want, got.shape), np.broadcast_to(bound, got.shape)
    wide = want.astype(np.float64)
    error = np.where(got == want, 0.0, np.abs(got.astype(np.float64) - wide))
    norm = float(np.linalg.norm(wide)) or 1.0
    message = ""
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        slack = "" if check.exact else f" ± {float(bound[where]):.2g}"
        left, right_ = _figures_apart(got[where], want[where])
        message = (
            f"{int(wrong.sum())} of {wrong.size} elements are wrong, first {check.label}"
            f"{'.T' if check.transposed else ''}[{', '.join(map(str, where))}] = "
            f"{left}, expected {right_}"
            f"{' (NaN is never right)' if wide[where] != wide[where] else slack}"
            f"{_size(error, np.zeros(()) if check.exact else bound, where)}"
        )
    return Verdict(
        check.text,
        not wrong.any(),
        message,
        wrong.size,
        int(wrong.sum()),
        float(np.linalg.norm(error)) / norm,
        float(error.max(initial=0.0)),
        float(bound.max(initial=0.0)),
    )


def _figures_apart(got: Any, want: Any) -> tuple[str, str]:
    """Both numbers, with as many digits as it takes to tell them apart, 7 at least."""
    for digits in range(7, 18):
        shown = _figure(got, digits), _figure(want, digits)
        if shown[0] != shown[1]:
            break
    return shown


def _figure(value: Any, digits: int) -> str:
    return str(value) if np.asarray(value).dtype.kind in "iub" else f"{float(value):.{digits}g}"


def _size(error: Array, bound: Array, where: tuple[int, ...]) -> str:
    """How large the error is, and against its bound; then the worst of all, if that is another."""
    bound = np.broadcast_to(bound, error.shape)
    with np.errstate(all="ignore"):
        times = np.where(bound > 0, error / bound, error)
    if not np.isfinite(error[where]):
        return ""
    worst = tuple(int(i) for i in np.unravel_index(np.argmax(np.nan_to_num(times)), times.shape))
    said = f"; it is off by {_off(error[where], bound[where])}"
    if times[worst] > times[where]:
        said += (
            f"; the worst, [{', '.join(map(str, worst))}], by {_off(error[worst], bound[worst])}"
        )
    return said


def _off(error: float, bound: float) -> str:
    return f"{error:.2g}" + (f", {error / bound:.3g} × what is allowed" if bound > 0 else "")


def _integers(array: Array) -> bool:
    return array.dtype.kind in "iub"


def _beyond(value: Any) -> bool:
    array = np.asarray(value)
    if array.dtype.kind == "b" or not array.size:
        return False
    top = max(abs(float(array.max())), abs(float(array.min())))
    return top >= _WHOLE  # at 2⁵³ it may have been rounded to it


def _format(dtype: np.dtype[Any], operands: Sequence[Any] = ()) -> _Format:
    """Of an array on the left of this type; `operands` are what the right side names."""
    if not is_float(dtype):
        return _Format(_FP32, 0.0, _FP32)
    if dtype.kind == "f" and dtype.name.startswith("float") and "_" not in dtype.name:
        info: Any = np.finfo(dtype)
    else:
        import ml_dtypes

        info = ml_dtypes.finfo(dtype)
    roundoff, tiny = float(info.eps) / 2, float(info.smallest_subnormal)
    typed = [each.dtype for each in operands if isinstance(each, (np.ndarray, np.generic))]
    wide = roundoff <= _FP64 and all(each == np.float64 for each in typed)
    return _Format(roundoff, tiny, 2 * _FP64 if wide else _FP32)


def _evaluate(node: Node, values: Mapping[str, Any], form: _Format) -> _Value:
    if node.kind == "name":
        return _leaf(values[node.name], form)
    if node.kind == "number":
        return _leaf(node.value, form)
    if node.kind == "@":
        return _scaled_product(node, values, form)
    operands = [_evaluate(child, values, form) for child in node.children]
    if node.kind in _UNARY:
        return _UNARY[node.kind](operands[0])
    if node.kind == "exp":
        return _exp(operands[0], form)
    if node.kind == "sum":
        return _sum(operands[0], node.axis, form)
    left, right = operands
    whole = left.whole and right.whole
    if node.kind == "max":
        larger = np.maximum(left.exact, right.exact)
        return _Value(larger, np.maximum(left.bound, right.bound), whole)
    if node.kind == "*":
        return _times(left, right, form)
    if node.kind == "/":
        quotient = left.exact / right.exact
        room = np.maximum(np.abs(right.exact) - right.bound, 0.0)
        carried = left.bound + np.abs(quotient) * right.bound
        carried = np.where(carried > 0, carried / room, 0.0)
        return _rounded(quotient, carried, form, 2, False)
    sign = 1.0 if node.kind == "+" else -1.0
    return _rounded(left.exact + sign * right.exact, left.bound + right.bound, form, 1, whole)


def _leaf(value: Any, form: _Format) -> _Value:
    """An array has no error of its own; a number that fp32 does not hold is rounded on its way."""
    array = np.asarray(value)
    exact = array.astype(np.float64)
    whole = array.dtype.kind in "iub" or (not array.ndim and bool(exact == np.rint(exact)))
    if array.ndim or form.roundoff < _FP32:
        return _Value(exact, np.zeros(()), whole)
    short = float(exact.astype(np.float32)) == float(exact)
    return _Value(exact, np.asarray(0.0 if short else abs(float(exact)) * _FP32), whole)


def _rounded(exact: Array, carried: Array, form: _Format, units: float, whole: bool) -> _Value:
    bound = carried + units * form.roundoff * np.abs(exact) + form.tiny / 2
    return _Value(exact, np.asarray(bound), whole)


def _times(left: _Value, right: _Value, form: _Format) -> _Value:
    carried = (
        np.abs(left.exact) * right.bound
        + np.abs(right.exact) * left.bound
        + left.bound * right.bound
    )
    return _rounded(left.exact * right.exact, carried, form, 1, left.whole and right.whole)


_UNARY = {
    "neg": lambda x: _Value(-x.exact, x.bound, x.whole),
    "abs": lambda x: _Value(np.abs(x.exact), x.bound, x.whole),
    "T": lambda x: _Value(x.exact.T, np.broadcast_to(x.bound, x.exact.shape).T, x.whole),
}


def _exp(x: _Value, form: _Format) -> _Value:
    exact = np.exp(x.exact)
    own = (2 + np.abs(x.exact)) * form.roundoff * exact
    return _Value(exact, exact * np.expm1(x.bound) + own + form.tiny / 2, False)


def _sum(x: _Value, axis: int | None, form: _Format) -> _Value:
    k = x.exact.size if axis is None else x.exact.shape[axis]
    bound = np.broadcast_to(x.bound, x.exact.shape)
    slack = _slack(k) * form.slack * np.abs(x.exact).sum(axis)
    return _Value(x.exact.sum(axis), bound.sum(axis) + slack, x.whole)


def _scaled_product(node: Node, values: Mapping[str, Any], form: _Format) -> _Value:
    """alpha * a @ b as alpha * (a @ b): kernels scale the sums, and do not round alpha * a."""
    scales, matrices = [], []
    for child in node.children:
        factors = [child] if child.kind != "*" else list(child.children)
        found = [_evaluate(factor, values, form) for factor in factors]
        scales += [value for value in found if not value.exact.ndim]
        left = [value for value in found if value.exact.ndim]
        matrices.append(left[0] if len(left) == 1 else _times(left[0], left[1], form))
    result = _product(matrices[0], matrices[1], form)
    for scale in scales:
        result = _times(scale, result, form)
    return result


def _product(left: _Value, right: _Value, form: _Format) -> _Value:
    exact = left.exact @ right.exact
    sizes, k = (np.abs(left.exact), np.abs(right.exact)), left.exact.shape[-1]
    bound = np.asarray(_slack(k) * form.slack * (sizes[0] @ sizes[1]))
    if left.bound.any() or right.bound.any():
        errors = [np.broadcast_to(x.bound, x.exact.shape) for x in (left, right)]
        bound = bound + sizes[0] @ errors[1] + errors[0] @ (sizes[1] + errors[1])
    return _Value(exact, bound, left.whole and right.whole)


def _slack(k: int) -> float:
    """Units of roundoff in a sum of k terms; `tilewright.verify` says where they come from."""
    return 4 * sqrt(k) + k / 8

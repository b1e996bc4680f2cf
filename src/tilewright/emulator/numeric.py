"""Floating-point formats: bits ↔ values, and rounding in every mode. PTX ISA, "cvt"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tilewright.emulator.arrays import Array


def bf16_bits(value: Array) -> Array:
    """fp32 → bf16 bits, to nearest even; a NaN becomes 0x7FFF, the hardware's canonical one."""
    raw = np.ascontiguousarray(value).view(np.uint32)
    half = np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1))
    return np.where(np.isnan(value), np.uint16(0x7FFF), (raw + half >> np.uint32(16)).astype("u2"))


def fp16_bits(value: Array) -> Array:
    """fp32 → fp16 bits, to nearest even; a NaN becomes 0x7FFF."""
    return np.where(np.isnan(value), np.uint16(0x7FFF), value.astype(np.float16).view(np.uint16))


def bf16_value(bits: Array) -> Array:
    """bf16 bits → fp32, exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


# --- formats and roundings --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format, whose values float64 holds exactly."""

    name: str
    precision: int  # bits of the significand, the hidden one included
    least: int  # the exponent of its smallest normal number
    greatest: float  # its largest finite number
    nan: int  # bits of the canonical NaN

    @property
    def normal(self) -> float:
        """The smallest normal number."""
        return 2.0**self.least

    def value(self, bits: Array) -> Array:
        """Bits → float64, exact."""
        value: Array
        match self.name:
            case "f16":
                value = bits.view(np.float16).astype(np.float64)
            case "bf16":
                value = bf16_value(bits).astype(np.float64)
            case "f32" | "tf32":
                value = bits.view(np.float32).astype(np.float64)
            case _:
                value = _BYTES[self.name][bits]
        return value

    def bits(self, value: Array) -> Array:
        """A float64 that the format holds → its bits; a NaN becomes the canonical one."""
        raw: Array
        match self.name:
            case "f16":
                raw = value.astype(np.float16).view(np.uint16)
            case "bf16":
                raw = (value.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
            case "f32" | "tf32":
                raw = value.astype(np.float32).view(np.uint32)
            case _:
                raw = _byte(self, value)
        canonical: Array = np.where(np.isnan(value), raw.dtype.type(self.nan), raw)
        return canonical


F32 = Format("f32", 24, -126, float(np.finfo(np.float32).max), 0x7FFF_FFFF)
TF32 = Format("tf32", 11, -126, (2 - 2.0**-10) * 2.0**127, 0x7FFF_FFFF)
F16 = Format("f16", 11, -14, 65504.0, 0x7FFF)
BF16 = Format("bf16", 8, -126, (2 - 2.0**-7) * 2.0**127, 0x7FFF)
E4M3 = Format("e4m3", 4, -6, 448.0, 0x7F)
E5M2 = Format("e5m2", 3, -14, 57344.0, 0x7F)
FORMATS = {f.name: f for f in (F32, TF32, F16, BF16, E4M3, E5M2)}


def _all_bytes(to: Format) -> Array:
    """The values of all 256 bytes of an 8-bit format, as float64."""
    code = np.arange(256)
    mantissa = to.precision - 1
    exponent, fraction = code >> mantissa & (0x7F >> mantissa), code & (1 << mantissa) - 1
    hidden = np.where(exponent > 0, 1 << mantissa, 0)
    size = np.ldexp(
        (hidden | fraction).astype(np.float64), np.maximum(exponent, 1) - 1 + to.least - mantissa
    )
    beyond = np.where((to is E5M2) & (fraction == 0), np.inf, np.nan)
    size = np.where(size > to.greatest, beyond, size)
    return np.where(code < 128, size, -size)


_BYTES = {f.name: _all_bytes(f) for f in (E4M3, E5M2)}


def _byte(to: Format, value: Array) -> Array:
    positive = _BYTES[to.name][:128]
    ordered = positive[~np.isnan(positive)]
    code = np.searchsorted(ordered, np.abs(value)).astype(np.uint8)
    signed: Array = code | np.where(np.signbit(value), np.uint8(0x80), np.uint8(0))
    return signed


def _away(value: Array) -> Array:
    """To the nearest integer, ties away from zero."""
    return np.copysign(np.floor(np.abs(value) + 0.5), value)


WHOLE: dict[str, Callable[[Array], Array]] = {
    **{"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil, "rna": _away},
}


def rounded(value: Array, to: Format, mode: str) -> Array:
    """float64 rounded to a format: `mode` is rn, rz, rm, rp or rna. The result is float64.

    A number beyond the largest one becomes that or infinity, as the mode says (IEEE 754).
    """
    _, exponent = np.frexp(value)
    quantum = np.maximum(exponent - 1, to.least) - (to.precision - 1)
    result: Array = np.ldexp(WHOLE[mode](np.ldexp(value, -quantum)), quantum)
    over = (np.abs(result) > to.greatest) & np.isfinite(value)
    if not over.any():
        return result
    stays = {"rz": over, "rm": over & (result > 0), "rp": over & (result < 0)}.get(mode)
    endless = np.where(over, np.copysign(np.inf, result), result)
    if stays is None:
        return endless
    return np.where(stays, np.copysign(to.greatest, result), endless)


def flushed(value: Array, normal: float) -> Array:
    """Subnormal numbers become zeros of their sign (.ftz); `normal` is the smallest normal one."""
    small = np.abs(value) < normal
    return np.where(small, value * value.dtype.type(0), value) if small.any() else value


def clamped(value: Array) -> Array:
    """.sat: into [0, 1]; NaN and −0 become +0."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    inside: Array = np.where(value > 0, np.minimum(value, one), zero)
    return inside


def positive(value: Array) -> Array:
    """.relu: negative numbers and −0 become +0, NaN stays."""
    return np.where(value <= 0, value.dtype.type(0), value)


# --- pairs of 16-bit halves in a 32-bit word --------------------------------------------


def halves(word: Array) -> Array:
    """[…] of 32 bits → […, 2] of 16 bits, the lower half first."""
    return np.ascontiguousarray(word)[..., None].view(np.uint16)


def words(parts: Array) -> Array:
    """The opposite of `halves`."""
    return np.ascontiguousarray(parts).view(np.uint32)[..., 0]


def on_halves(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function of 16-bit patterns, done on both halves of 32-bit words."""
    return lambda *sources: words(function(*map(halves, sources)))

"""Conversions between fp32 and the 16-bit formats, on bit patterns."""

from __future__ import annotations

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

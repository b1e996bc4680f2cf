"""Sizes that arithmetic can go on with."""

from __future__ import annotations

import math

from tilewright.errors import InputError


def check_positive(**sizes: float) -> None:
    """Raises: InputError, by its name, for a size that is 0, negative, infinite or NaN."""
    for name, size in sizes.items():
        if not 0 < size < math.inf:
            raise InputError(f"{name}={size} must be positive{' and finite' * (size > 0)}.")

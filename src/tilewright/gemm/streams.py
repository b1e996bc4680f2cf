"""A caller's stream as a CUstream handle, whatever library it comes from."""

from __future__ import annotations

from operator import index
from typing import Any

from tilewright.errors import InputError

_ATTRIBUTES = ("cuda_stream", "ptr", "handle")  # of PyTorch, CuPy, and cuda.core and Numba


def handle_of(stream: Any) -> int | None:
    """None stays None: the current stream. 0 is the legacy default stream.

    Types: a handle as an int, streams of PyTorch, CuPy and Numba, and anything with
    __cuda_stream__, as cuda.core's. Raises: InputError for others.
    """
    if stream is None:
        return None
    told = getattr(stream, "__cuda_stream__", None)
    if told is not None:
        version_and_handle = told() if callable(told) else told
        return int(version_and_handle[1])
    for name in _ATTRIBUTES:
        if hasattr(stream, name):
            stream = getattr(stream, name)
            break
    try:
        return index(getattr(stream, "value", stream) or 0)
    except TypeError:
        raise InputError(
            f"stream={stream!r} is no stream; give one of PyTorch or CuPy, an object with "
            "__cuda_stream__, or the handle as an int."
        ) from None

"""A kernel's file, its macros and its epilogue as a Source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from tilewright.artifact import Source
from tilewright.gemm.part import Part
from tilewright.gemm.step import Struct

KERNEL = "gemm"  # the symbol in every file
_PLAIN = "tile::Plain"
_PLAIN_HEADER = "tile/epilogue.cuh"
_FIELD = "p{}_{}"  # the field of a part, by its place in the chain


def kernel_source(
    file: str, macros: Mapping[str, str], epilogue: Sequence[Part] | None = None
) -> Source:
    """The source of kernels/`file`.

    With an epilogue, which may be empty, the size and offsets of its fields are macros as well.
    Its headers are included ahead of the file's own text, and only then its type becomes the macro
    EPILOGUE: headers use the word themselves.
    """
    text = _text(file)
    defines = dict(macros)
    if epilogue is not None:
        defines |= _sizes(epilogue)
        text = _prefix(epilogue) + text
    return Source(f"gemm/kernels/{file}", text, tuple(sorted(defines.items())))


def epilogue_struct(epilogue: Sequence[Part]) -> Struct:
    """The kernel parameter of a chain: the fields of its parts, one behind the other."""
    fields = [
        (_FIELD.format(place, name), kind, value)
        for place, part in enumerate(epilogue)
        for name, kind, value in part.fields
    ]
    return Struct(
        "EPILOGUE",
        tuple((name, kind) for name, kind, _ in fields),
        tuple((name, value) for name, _, value in fields),
    )


def columns(epilogue: Sequence[Part]) -> int:
    """How many columns of the product one column of the result takes: 2 with a gate."""
    return max((part.columns for part in epilogue), default=1)


def _prefix(epilogue: Sequence[Part]) -> str:
    headers = dict.fromkeys((_PLAIN_HEADER, *(part.header for part in epilogue)))
    lines = [f'#include "{header}"' for header in headers]
    return "\n".join([*lines, f"#define EPILOGUE {_cpp(epilogue)}", "#line 1\n"])


def _cpp(epilogue: Sequence[Part]) -> str:
    """The C++ type: the first part, then the others."""
    if not epilogue:
        return _PLAIN
    *before, last = epilogue
    return f"tile::Then<{_cpp(before)}, {last.cpp}>" if before else last.cpp


def _sizes(epilogue: Sequence[Part]) -> dict[str, str]:
    struct = epilogue_struct(epilogue)
    return struct.record.defines() if struct.fields else {"EPILOGUE_BYTES": "1"}


@cache
def _text(file: str) -> str:
    return (resources.files(__package__) / file).read_text(encoding="utf-8")

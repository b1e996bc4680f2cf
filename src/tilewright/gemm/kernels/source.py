"""A kernel's file, its macros and its epilogue as a Source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from tilewright.artifact import Source
from tilewright.gemm.chain import chain_columns as columns
from tilewright.gemm.chain import chain_defines, chain_headers
from tilewright.gemm.chain import chain_struct as epilogue_struct
from tilewright.gemm.part import Part

__all__ = ["KERNEL", "columns", "epilogue_struct", "kernel_source"]

KERNEL = "gemm"  # the symbol in every file


def kernel_source(
    file: str, macros: Mapping[str, str], epilogue: Sequence[Part] | None = None
) -> Source:
    """The source of kernels/`file`.

    With an epilogue, which may be empty, the size and offsets of its fields are macros as well.
    Its headers are included ahead of the file's own text, and only then its type becomes the macro
    EPILOGUE: headers use the word themselves.
    """
    text, defines = _text(file), dict(macros)
    if epilogue is not None:
        defines |= chain_defines(epilogue)
        lines = [f'#include "{header}"' for header in chain_headers(epilogue)]
        lines += [f"#define EPILOGUE {defines.pop('EPILOGUE')}", "#line 1\n"]
        text = "\n".join(lines) + text
    return Source(f"gemm/kernels/{file}", text, tuple(sorted(defines.items())))


@cache
def _text(file: str) -> str:
    return (resources.files(__package__) / file).read_text(encoding="utf-8")

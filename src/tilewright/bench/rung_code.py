"""What a record keeps of a rung's code: a hash that changes with the code and not with comments."""

from __future__ import annotations

import hashlib
import io
import tokenize
from typing import TYPE_CHECKING

from tilewright.bench.includes import code_of
from tilewright.bench.record import source_hash
from tilewright.ladder.python_rungs import PythonRung

if TYPE_CHECKING:
    from tilewright.ladder.rung import Rung

_LAYOUT = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
_NOTHING = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}


def hash_of(rung: Rung) -> str:
    """16 hex digits of the rung's code, a kernel's with the headers that it includes."""
    if isinstance(rung, PythonRung):
        return python_hash(rung.text)
    return source_hash(code_of(rung.text))


def python_hash(text: str) -> str:
    """16 hex digits of the Python in `text` without comments, blank lines and the widths of
    indents and spaces."""
    tokens = (
        tokenize.tok_name[token.type] if token.type in _LAYOUT else token.string
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NOTHING
    )
    return hashlib.sha256("\x1f".join(tokens).encode()).hexdigest()[:16]

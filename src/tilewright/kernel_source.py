"""A user's kernel: its source as text or file, PTX or CUDA C++, and its name among others."""

from __future__ import annotations

import difflib
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.demangle import CppName, demangle
from tilewright.emulator.statements import without_comments
from tilewright.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tilewright.artifact import Artifact
    from tilewright.emulator.ir import Kernel, Module

_LARGEST = 256 * 1024 * 1024  # bytes of a source; generated PTX can be long
_BINARY = {
    b"\x7fELF": "an ELF file (a cubin, an object or a program)",
    b"\x50\xed\x55\xba": "a fat binary",
    b"MZ": "a Windows program",
    b"BC\xc0\xde": "LLVM bitcode",
}
_PTX_KERNEL = re.compile(r"^\s*(?:\.(?:visible|weak)\s+)*\.entry\b", re.M)
_SHOWN = 12  # candidates in a message


def read_source(source: str | Path) -> tuple[str, str]:
    """The text and the name to report it by. Text is told from a path by its ; { or newline.

    Raises: InputError for what is neither, cannot be read or is no text.
    """
    if not isinstance(source, (str, Path)):
        raise InputError(f"source is a {type(source).__name__}; give text or a path.")
    if isinstance(source, str) and any(mark in source for mark in "\n;{"):
        return source, "kernel.cu"
    if not str(source).strip():
        raise InputError("source is empty; give the text of a kernel or the path of its file.")
    path = Path(source)
    try:
        info = path.stat()
        if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):  # /dev/zero does not end
            raise InputError(f"source {str(source)!r} is a device; give text or a file.")
        if info.st_size > _LARGEST:
            raise InputError(f"source {str(source)!r} has {info.st_size} bytes, which is too much.")
        return _decoded(path.read_bytes(), path), path.name
    except OSError as error:
        raise InputError(f"source {str(source)!r}: {error.strerror or error}.") from None
    except InputError:
        raise
    except ValueError as error:  # not UTF-8, or a name that no file can have
        raise InputError(f"source {str(source)!r} is not a text file: {error}.") from None


def _decoded(raw: bytes, path: Path) -> str:
    """UTF-8, or UTF-16 where its mark says so (what `>` writes on Windows).

    Raises: InputError for binary files; ValueError for other bytes.
    """
    if kind := next((kind for magic, kind in _BINARY.items() if raw.startswith(magic)), None):
        raise InputError(
            f"source {str(path)!r} is {kind}, not text; give the .cu or the .ptx file "
            "(cuobjdump -ptx prints the PTX in a binary, if there is any)."
        )
    wide = len(raw) > 2 and raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = raw.decode("utf-16" if wide else "utf-8-sig")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_ptx(text: str) -> bool:
    """Whether a line that is no comment begins with .version, as PTX must."""
    lines = without_comments(text).splitlines()
    return any(line.lstrip().startswith(".version") for line in lines)


def compiled(
    text: str,
    name: str,
    arch: str,
    defines: Mapping[str, object] | None,
    include_path: Sequence[str | Path],
) -> Artifact:
    """CUDA C++ as PTX and cubin. Raises: InputError; ToolchainError without NVRTC; CompileError."""
    from tilewright.build import Source, build  # NVRTC, which PTX input does not need

    if _PTX_KERNEL.search(text):
        raise InputError(
            f"{name} looks like PTX, which begins with .version, .target and .address_size lines; "
            "add them."
        )
    if defines is not None and not isinstance(defines, Mapping):
        raise InputError(f"defines={defines!r} must be a mapping from macros to values.")
    if isinstance(include_path, str) or not isinstance(include_path, Sequence):
        raise InputError(f"include_path={include_path!r} must be a list of folders.")
    values: list[object] = [*include_path]
    if unfit := [each for each in values if not isinstance(each, (str, Path))]:
        raise InputError(f"include_path holds {unfit[0]!r}; give folders, as text or Path.")
    for each in map(str, include_path):
        if "\0" not in each and not Path(each).is_dir():  # `Source` refuses a NUL
            raise InputError(f"include_path holds {each!r}, which is not a folder.")
    keys: list[object] = [*(defines or ())]
    if unnamed := [each for each in keys if not isinstance(each, str)]:
        raise InputError(f"defines: {unnamed[0]!r} is not the name of a macro.")
    macros = tuple(sorted((key, str(value)) for key, value in (defines or {}).items()))
    return build(Source(name, text, macros, tuple(map(str, include_path))), arch)


# --- names --------------------------------------------------------------------------------


def kernel_named(module: Module, name: object) -> Kernel:
    """The kernel that `name` means, which may be its symbol or a unique part of its C++ name.

    None means the only kernel of the module.
    Raises: InputError for a name that is unknown or means several; it lists what there is.
    """
    return module.kernels[symbol_named(tuple(module.kernels), name)]


def candidates(symbols: Iterable[str], name: str | None = None) -> str:
    """The C++ names, the nearest first; a symbol too where its C++ name is another's as well."""
    listed = [(str(demangle(symbol)), symbol) for symbol in symbols]
    times = Counter(text for text, _ in listed)
    found = [text if times[text] == 1 else symbol for text, symbol in listed]
    if name is not None:
        short = name[:200]
        found.sort(key=lambda each: -_likeness(short, each))
    most = ", ".join(found[:_SHOWN])
    return most + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "") or "none"


def symbol_named(symbols: Sequence[str], name: object) -> str:
    """The symbol that `name` means: `gemm`, `ns::gemm<float, 128>`, `gemm<128>` or the symbol.

    A whole name goes before a part of one: gemm is the kernel gemm, also beside a gemm_fast.
    Raises: InputError, as `kernel_named`.
    """
    if name is None and len(symbols) == 1:
        return symbols[0]
    if not isinstance(name, str):
        why = f", as the module has {len(symbols)}" if name is None else ""
        raise InputError(
            f"kernel={_clipped(name)} must be a kernel's name{why}: {candidates(symbols)}."
        )
    if name in symbols:
        return name
    wanted, names = _normal(name), {symbol: demangle(symbol) for symbol in symbols}
    for fits in _FITS if wanted else ():
        near = [symbol for symbol in symbols if fits(wanted, names[symbol])]
        if len(near) == 1:
            return near[0]
        if near and fits is not _is_within:
            listed = candidates(near, name)
            raise InputError(f"kernel={_clipped(name)} is not unique; it has: {listed}.")
    raise InputError(
        f"kernel={_clipped(name)} is not in the module; it has: {candidates(symbols, name)}"
        f"{_meant(name, [each.plain for each in names.values()])}"
    )


def plain_name(symbol: str) -> str:
    """gemm for the symbol _ZN2ns4gemmILi128EEvPf, and for ns::gemm<128>(float*)."""
    if symbol.startswith("_Z"):
        return demangle(symbol).plain
    head = re.match(r"[\w:$]+", symbol)
    return head[0].rpartition("::")[2] if head else symbol


def _normal(name: str) -> str:
    """Without what may be written or not: blanks, the u of 128u, the side of const."""
    text = re.sub(r"\bconst\s+((?:unsigned |signed |long )*[\w:]+)", r"\1 const", name.strip())
    text = re.sub(r"(?<![\w.])(-?\d+)[uUlL]+\b", r"\1", text)
    text = re.sub(r"\bunsigned\b(?! (?:char|short|int|long|__int128))", "unsigned int", text)
    text = re.sub(r"\s+", " ", text).removeprefix("void ").removeprefix("::")
    return re.sub(r" ?([^\w ]) ?", r"\1", text)


def _is_whole(wanted: str, name: CppName) -> bool:
    return wanted in (_normal(str(name)), _normal(name.name))


def _is_scoped(wanted: str, name: CppName) -> bool:
    return wanted == _normal(name.scoped)


def _is_plain(wanted: str, name: CppName) -> bool:
    return wanted == name.plain


def _is_part(wanted: str, name: CppName) -> bool:
    """A part that does not cut a word: inner::gemm, gemm<128, of ns::inner::gemm<128, float>.

    gemm<128> is that too, where more arguments follow.
    """
    text = _normal(str(name) if "(" in wanted else name.name)
    open_ended = wanted[:-1] if wanted.endswith(">") and "<" in wanted else wanted
    before = r"(?<!\w)" if wanted[0].isidentifier() else ""
    after = "" if open_ended[-1] in ",<(:" else r"(?!\w)"
    return re.search(before + re.escape(open_ended) + after, text) is not None


def _is_within(wanted: str, name: CppName) -> bool:
    return wanted in _normal(str(name) if "(" in wanted else name.name)


_FITS: tuple[Callable[[str, CppName], bool], ...] = (
    _is_whole, _is_scoped, _is_plain, _is_part, _is_within,
)  # fmt: skip


def _meant(name: str, plain: Sequence[str]) -> str:
    """The end of a sentence: the name that was most likely meant, where one is near."""
    head = plain_name(name)[:200].lower()
    known = {each.lower(): each for each in plain}
    near = difflib.get_close_matches(head, known, 1)
    return (
        f"; did you mean {known[near[0]]}?" if near and known[near[0]] != plain_name(name) else "."
    )


def _clipped(name: object) -> str:
    shown = repr(name)
    return shown if len(shown) <= 120 else shown[:119] + "…"


def _likeness(name: str, candidate: str) -> float:
    heads = plain_name(name), plain_name(candidate)
    return (
        difflib.SequenceMatcher(None, heads[0].lower(), heads[1].lower()).ratio()
        + difflib.SequenceMatcher(None, name, candidate[:200]).ratio() / 4
    )

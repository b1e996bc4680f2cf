"""`--arg a=randn:256x128:bf16`: the arguments of a kernel in words, parsed and made."""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isinf, nan, prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.emulator.arrays import POISON
from tilewright.errors import InputError

Array = npt.NDArray[Any]

FILLS = ("randn", "uniform", "zeros", "ones", "arange", "empty", "full(VALUE)")
FORMS = (
    "randn:256x128:bf16 (or " + ", ".join(FILLS[1:]) + "), load:FILE.npy, a number, null, bytes:HEX"
)

MOST_BYTES = 4 << 30  # of all arguments; the emulator would take days to read more
_MOST_DIMENSIONS = 8

_NUMPY = {
    **{f"{letter}{bits}": f"float{bits}" for letter in ("fp", "f") for bits in (16, 32, 64)},
    "bool": "bool",
    **{f"{letter}{bits}": f"{kind}{bits}" for letter, kind in (("i", "int"), ("u", "uint"))
       for bits in (8, 16, 32, 64)},
}  # fmt: skip
_ML_DTYPES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
DTYPES = ("fp16", "bf16", "fp32", "fp64", *(n for n in _NUMPY if n[0] in "iu"), "bool",
          *list(_ML_DTYPES)[1:])  # fmt: skip

_LABEL = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)
_INTEGER = re.compile(r"(?P<sign>[+-]?)(?:0[xX](?P<hex>[0-9a-fA-F]{1,16})|(?P<digits>\d{1,20}))",
                      re.ASCII)  # fmt: skip
_FLOAT = re.compile(r"[+-]?(?:\d{1,40}\.?\d{0,40}|\.\d{1,40})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_FILL = re.compile(r"(?P<name>[a-z]+)(?:\((?P<value>[^()]*)\))?", re.ASCII)
_NAMED_NUMBERS = {"inf": inf, "nan": nan}


@dataclass(frozen=True)
class Argument:
    """One argument before it is made.

    `fill` is a word of FILLS (full without its value), load, number, null or bytes. `value` is
    what full, number, bytes and load hold; arrays have `shape` and `dtype`.
    """

    label: str
    word: str
    fill: str
    value: Any = None
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None
    file: Path | None = None

    @property
    def nbytes(self) -> int:
        """What it takes at most: an extent of 0 counts as 1, so that NumPy can count the others."""
        return (
            0
            if self.shape is None or self.dtype is None
            else prod(max(extent, 1) for extent in self.shape) * self.dtype.itemsize
        )

    @property
    def sample(self) -> Any:
        """Something that fits a parameter exactly if the argument does, and costs nothing."""
        return self.value if self.dtype is None else np.empty(0, self.dtype)


def parse_arguments(words: Sequence[str]) -> list[Argument]:
    """The arguments in order; files are read. Raises: InputError that names the argument."""
    found: list[Argument] = []
    for word in words:
        argument = parse_argument(word)
        if any(other.label == argument.label for other in found):
            raise InputError(
                f"--arg {argument.label} is given twice; each label names one argument."
            )
        found.append(argument)
    if (total := sum(argument.nbytes for argument in found)) > MOST_BYTES:
        raise InputError(
            f"the arguments take {total / 2**30:.3g} GiB; the emulator takes "
            f"{MOST_BYTES >> 30} GiB. Use a smaller problem."
        )
    return found


def parse_argument(word: str) -> Argument:
    """LABEL=VALUE. Raises: InputError."""
    label, equals, value = word.partition("=")
    if not equals or not _LABEL.fullmatch(label):
        raise InputError(
            f"--arg {short(word)}: write LABEL=VALUE, a label being letters, digits and _, "
            "as in a=randn:256x128:bf16."
        )
    what, full = f"--arg {label}", f"--arg {short(word)}"
    if value == "null":
        return Argument(label, word, "null")
    if value.startswith("bytes:"):
        return Argument(label, word, "bytes", _hex(full, value.removeprefix("bytes:")))
    if value.startswith("load:"):
        array, path = _load(what, value.removeprefix("load:"))
        return Argument(label, word, "load", array, array.shape, array.dtype, path)
    head, _, rest = value.partition(":")
    if (number := _number(head)) is not None:
        return Argument(
            label, word, "number", _typed(full, number, rest) if ":" in value else number
        )
    return _filled(label, word, head, rest)


def make(argument: Argument, seed: int) -> Any:
    """The value to pass to `emulate`; random ones depend on the seed and the label alone."""
    shape, dtype, fill = argument.shape, argument.dtype, argument.fill
    if shape is None or dtype is None or fill == "load":
        return argument.value
    if fill == "empty":
        array = np.empty(shape, dtype)
        array.reshape(-1).view(np.uint8).fill(POISON)
        return array
    random = np.random.default_rng([seed, *argument.label.encode()])
    with np.errstate(all="ignore"):  # too large for the type: infinity, or NaN where it has none
        if fill == "randn":
            wide: Any = np.float64 if dtype == np.float64 else np.float32
            return random.standard_normal(shape, wide).astype(dtype)
        if fill == "uniform":
            return _uniform(random, shape, dtype)
        if fill == "arange":
            return np.arange(prod(shape)).reshape(shape).astype(dtype)
        value = {"zeros": 0, "ones": 1}.get(fill, argument.value)
        return np.full(shape, _scalar(value, dtype), dtype)


def parse_shape(what: str, word: str) -> tuple[int, ...]:
    """256x128 as (256, 128). Raises: InputError."""
    parts = word.split("x")
    if not all(re.fullmatch(r"\d{1,12}", part, re.ASCII) for part in parts):
        raise InputError(f"{what}: {short(word)!r} is not a shape; write 256x128 or 1000.")
    shape = tuple(int(part) for part in parts)
    if len(shape) > _MOST_DIMENSIONS:
        raise InputError(f"{what}: a shape has 1 to {_MOST_DIMENSIONS} extents, not {len(shape)}.")
    return shape


def dtype_named(what: str, name: str) -> np.dtype[Any]:
    """The NumPy type called fp16 or f16, bf16, i32 …, or by NumPy's name. Raises: InputError."""
    if name in _NUMPY or name in _NUMPY.values():
        return np.dtype(_NUMPY.get(name, name))
    full = _ML_DTYPES.get(name, name)
    if full not in _ML_DTYPES.values():
        raise InputError(f"{what}: {short(name)!r} is not a type; use {', '.join(DTYPES)}.")
    try:
        found: np.dtype[Any] = np.dtype(getattr(importlib.import_module("ml_dtypes"), full))
    except ImportError:
        raise InputError(
            f"{what}: {name} needs the package ml_dtypes: pip install ml_dtypes."
        ) from None
    return found


def is_float(dtype: np.dtype[Any]) -> bool:
    """Floating, those of ml_dtypes among them, which NumPy takes for void or for floats."""
    return dtype.kind == "f" or dtype.name in _ML_DTYPES.values()


def _filled(label: str, word: str, head: str, rest: str) -> Argument:
    what = f"--arg {short(word)}"
    match = _FILL.fullmatch(head)
    names = [fill.partition("(")[0] for fill in FILLS]
    if match is None or match["name"] not in names:
        near = difflib.get_close_matches(head, names, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; a value is {FORMS}."
        raise InputError(f"{what}: {short(head)!r} is not known{hint}")
    fill, inner = match["name"], match["value"]
    if (fill == "full") != (inner is not None):
        way = (
            "full needs its value, as in full(1.5)" if fill == "full" else f"{fill} takes no value"
        )
        raise InputError(f"{what}: {way}.")
    shape_word, _, dtype_word = rest.partition(":")
    if not shape_word:
        raise InputError(f"{what}: the shape is missing, as in {label}={head}:256x128:bf16.")
    shape = parse_shape(what, shape_word)
    dtype = dtype_named(what, dtype_word) if ":" in rest else np.dtype(np.float32)
    if fill == "randn" and not is_float(dtype):
        raise InputError(f"{what}: randn makes floats; use uniform or arange for {dtype.name}.")
    if fill != "full":
        return Argument(label, word, fill, None, shape, dtype)
    value = _number(inner)
    if value is None:
        raise InputError(f"{what}: {short(inner)!r} is not a number, as in full(1.5).")
    _check_range(what, value, dtype)
    return Argument(label, word, fill, value, shape, dtype)


def _number(word: str) -> int | float | None:
    """An int, a float, or None for what is neither."""
    if match := _INTEGER.fullmatch(word):
        size = int(match["hex"], 16) if match["hex"] else int(match["digits"])
        return -size if match["sign"] == "-" else size
    bare = word.lstrip("+-").lower()
    if bare in _NAMED_NUMBERS and len(word) - len(bare) <= 1:
        return -_NAMED_NUMBERS[bare] if word[0] == "-" else _NAMED_NUMBERS[bare]
    if not _FLOAT.fullmatch(word):
        return None
    value = float(word)
    if isinf(value):
        raise InputError(f"{word} is beyond the largest double; write inf if that is meant.")
    return value


def _typed(what: str, number: float, name: str) -> Any:
    """1.5:fp16 as a NumPy scalar: CUDA's half and bfloat16 are structs and need it."""
    dtype = dtype_named(what, name)
    _check_range(what, number, dtype)
    with np.errstate(all="ignore"):
        return _scalar(number, dtype)


def _scalar(number: float, dtype: np.dtype[Any]) -> Any:
    wide: Any = float(number) if is_float(dtype) else number
    return np.array(wide, np.float64 if is_float(dtype) else dtype).astype(dtype)[()]


def _check_range(what: str, value: float, dtype: np.dtype[Any]) -> None:
    if is_float(dtype):
        return
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            f"{what}: {value} is not a whole number from {low} to {high} ({dtype.name})."
        )


def _uniform(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """[−1, 1) in floats; every value of an integer type."""
    if dtype.kind == "b":
        return random.integers(0, 2, shape, np.uint8).astype(bool)
    if not is_float(dtype):
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, shape, dtype.type, endpoint=True)
    wide: Any = np.float64 if dtype == np.float64 else np.float32
    values: Array = random.random(shape, wide) * wide(2) - wide(1)
    return values.astype(dtype)


def _hex(what: str, digits: str) -> bytes:
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if not raw:
        raise InputError(f"{what}: bytes: takes pairs of hexadecimal digits, as in bytes:0000803f.")
    return raw


def _load(what: str, word: str) -> tuple[Array, Path]:
    """A .npy file as a writeable, C-contiguous array; FILE.npy:bf16 takes its bytes for bf16."""
    name, colon, dtype_word = word.rpartition(":")
    given = colon and not word.endswith(".npy")
    path = Path(name if given else word)
    if not (name if given else word):
        raise InputError(f"{what}: the file is missing, as in load:x.npy.")
    dtype = dtype_named(what, dtype_word) if given else None
    if path.suffix != ".npy":
        raise InputError(
            f"{what}: {short(str(path))!r} must be a .npy file, as numpy.save writes it."
        )
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{what}: {path} is larger than {MOST_BYTES >> 30} GiB.")
        with path.open("rb") as file:
            loaded = np.lib.format.read_array(file, allow_pickle=False)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{what}: {path}: {error.strerror or error}.") from None
    except Exception as error:  # whatever a damaged header makes of NumPy's parser
        why = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise InputError(
            f"{what}: {short(str(path))} is not a usable .npy file: {why[0][:200]}"
        ) from None
    return _usable(what, path, loaded, dtype), path


def _usable(what: str, path: Path, loaded: Array, dtype: np.dtype[Any] | None) -> Array:
    if not loaded.ndim:
        raise InputError(f"{what}: {path} holds a single number; save an array, as [x].")
    native = np.array(loaded, loaded.dtype.newbyteorder("="), order="C")
    if dtype is not None:
        if dtype.itemsize != native.dtype.itemsize:
            raise InputError(
                f"{what}: {path} holds {native.dtype.itemsize} bytes an element; "
                f"{dtype.name} has {dtype.itemsize}."
            )
        return native.view(dtype)
    if native.dtype.kind == "V":
        raise InputError(
            f"{what}: {path} holds {native.dtype}; say what it is, as in load:{path}:bf16."
        )
    if native.dtype.name not in _NUMPY.values():
        raise InputError(f"{what}: {path} holds {native.dtype}; types are {', '.join(DTYPES)}.")
    return native


def short(word: str) -> str:
    """A word as a sentence shows it: on one line and not endless."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in word)
    return shown if len(shown) <= 80 else f"{shown[:77]}…"

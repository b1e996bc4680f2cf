"""What the parameters of a user's GEMM kernel mean, by their names in the CUDA source.

The PTX knows how many parameters there are and their sizes, but not what they are called; the
source knows the names. Both together give the arguments of a launch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import InputError
from tilewright.kernel_source import plain_name
from tilewright.launch import GEMM_ARGS

if TYPE_CHECKING:
    from tilewright.emulator.ir import Kernel, Parameter
    from tilewright.problem import Problem

MEANINGS = "A, B, C (or D, out), M, N, K, lda, ldb, ldc, alpha, beta, or one GemmArgs"

_AFFIX = r"(?:d|dev|device|g|gmem|p|ptr|mat|matrix)?"
_MEANING = re.compile(
    rf"(?:{_AFFIX}_?(?P<matrix>a|b|c|d|c_?out|d_?out|out|output)_?{_AFFIX}"
    r"|(?:dim|size)?_?(?P<extent>[mnk])_?(?:dim|size)?"
    r"|(?:ld|stride)_?(?P<stride>[abcd])|(?P<scale>alpha|beta))_*"
)
_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")', re.S)
_QUALIFIER = re.compile(
    r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|typename)\b"
)
_NAMED = re.compile(r"(?P<type>.*[\w*&>\]\s])\b(?P<name>\w+)\s*(?P<array>(?:\[\w*\]\s*)*)")
_NO_NAMES = {"int", "unsigned", "long", "bool", "float", "double"}  # ends of types without a name
_ELEMENTS = {
    **dict.fromkeys(("float", "float2", "float4"), "fp32"),
    **dict.fromkeys(("double", "double2"), "fp64"),
    **dict.fromkeys(("half", "__half", "half2", "__half2", "fp16"), "fp16"),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "bf16"), "bf16"),
}
_ONES = {"fp16": 0x3C00, "bf16": 0x3F80}  # the bits of 1 in the types of two bytes


@dataclass(frozen=True)
class Argument:
    """One parameter: `meaning` is A, B, C or GemmArgs, or names the value that `raw` holds."""

    meaning: str
    raw: bytes = b""


@dataclass(frozen=True)
class _Declared:
    """A parameter as the source declares it, without qualifiers; `name` is empty if it has none."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}".strip()

    @property
    def word(self) -> str:
        """The type's last word, without namespace and pointer: float for `const float*`."""
        words = self.type.split("*")[0].strip(" &").split("::")[-1].split()
        return words[-1] if words else ""


def arguments(code: str, label: str, entry: Kernel, problem: Problem) -> tuple[Argument, ...]:
    """What a launch passes for each parameter of the kernel that the messages call `label`.

    Raises: InputError for a parameter list that is not found in the code, and for a parameter
    that has no meaning, or not the type of what it means.
    """
    declared = _declared(code, label, len(entry.params))
    found = tuple(
        _argument(f"{label}: the parameter {str(each)!r}", each, parameter, problem)
        for each, parameter in zip(declared, entry.params, strict=True)
    )
    meanings = [argument.meaning for argument in found]
    for meaning in meanings:
        if meanings.count(meaning) > 1 and meaning != "C":  # a C that is read and a D may be there
            names = [d.name for d, m in zip(declared, meanings, strict=True) if m == meaning]
            raise InputError(f"{label}: {' and '.join(names)} both read as {meaning}; rename one.")
    told = [extent for extent in "MNK" if extent in meanings]
    if 0 < len(told) < 3 and not problem.m == problem.n == problem.k:
        raise InputError(
            f"{label} takes only {' and '.join(told)} of M, N and K: a kernel for square matrices; "
            f"this problem is {problem.m}×{problem.n}×{problem.k}."
        )
    missing = [name for name in "ABC" if name not in meanings]
    if missing and "GemmArgs" not in meanings:
        raise InputError(f"{label} has no parameter for {missing[0]}; known are {MEANINGS}.")
    return found


def without_comments(code: str) -> str:
    """The code with its continued lines joined and without comments; strings stay."""
    return _COMMENT.sub(lambda m: m[1] or " ", code.replace("\r\n", "\n").replace("\\\n", ""))


# --- the source ---------------------------------------------------------------------------


def _declared(code: str, label: str, count: int) -> list[_Declared]:
    """The parameters of the definition, or of a declaration where there is none."""
    code, name = without_comments(code), plain_name(label)
    head = re.compile(rf"__global__\b[^;{{}}]*?\b{name}\s*(?:<[^;{{}}()]*>\s*)?\(")
    definitions: list[list[_Declared]] = []
    declarations: list[list[_Declared]] = []
    for match in head.finditer(code):
        pieces, end = _pieces(code, match.end())
        if len(pieces) == count:
            kind = definitions if code[end:].lstrip().startswith("{") else declarations
            kind.append([_type_and_name(piece) for piece in pieces])
    found = definitions or declarations
    if not found:
        raise InputError(
            f"{label}: __global__ … {name}(…) with {count} parameters is not found in the source; "
            "write its parameter list out, without macros."
        )
    if any([each.name for each in other] != [each.name for each in found[0]] for other in found):
        raise InputError(f"{label}: the source has several parameter lists for it; rename one.")
    return found[0]


def _pieces(code: str, start: int) -> tuple[list[str], int]:
    """What stands between the commas of a list that begins at `start`, and where it ends."""
    pieces, depth, at = [""], 0, start
    for at in range(start, len(code)):
        char = code[at]
        if char == ")" and not depth:
            break
        depth += (char in "([{<") - (char in ")]}>")
        if char == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += char
    return ([] if pieces[-1].strip() in ("", "void") else pieces), at + 1


def _type_and_name(piece: str) -> _Declared:
    plain = " ".join(_QUALIFIER.sub(" ", piece).split()).replace(" *", "*")
    match = _NAMED.fullmatch(plain)
    if match is None or match["name"] in _NO_NAMES:
        return _Declared(plain, "")
    return _Declared(match["type"].strip() + ("*" if match["array"] else ""), match["name"])


# --- the arguments ------------------------------------------------------------------------


def _argument(who: str, declared: _Declared, parameter: Parameter, problem: Problem) -> Argument:
    pointer = "*" in declared.type or "&" in declared.type
    if declared.word == "GemmArgs" and not pointer:
        if parameter.nbytes != GEMM_ARGS.itemsize:
            raise InputError(
                f"{who} has {parameter.nbytes} bytes, and the package's GemmArgs has "
                f"{GEMM_ARGS.itemsize}; include tile/gemm_args.cuh."
            )
        return Argument("GemmArgs")
    match = _MEANING.fullmatch(declared.name.lower())
    if match is None:
        raise InputError(f"{who} has no meaning here; known are {MEANINGS}.")
    if matrix := match["matrix"]:
        _check_pointer(who, declared, parameter, problem)
        return Argument(matrix.upper() if matrix in "ab" else "C")
    if pointer:
        raise InputError(f"{who} is a pointer; take the number itself.")
    if match["scale"]:
        return Argument(match["scale"], _scale(who, declared, match["scale"], parameter, problem))
    if parameter.nbytes not in (4, 8) or parameter.kind[0] not in "us":
        raise InputError(f"{who} must be an integer of 4 or 8 bytes.")
    meaning = match["extent"].upper() if match["extent"] else f"ld{match['stride']}"
    return Argument(meaning, _extent(meaning, problem).to_bytes(parameter.nbytes, "little"))


def _check_pointer(who: str, declared: _Declared, parameter: Parameter, problem: Problem) -> None:
    """Raises: InputError for no pointer, or one to elements of another type than the problem's."""
    if parameter.kind != "u64":
        raise InputError(f"{who} must be a pointer to the elements.")
    element = _ELEMENTS.get(declared.word, problem.dtype.name)
    if element != problem.dtype.name:
        raise InputError(
            f"{who} points to {element} elements, and the problem's are {problem.dtype.name}; "
            "change the one or the other."
        )


def _extent(meaning: str, problem: Problem) -> int:
    """M, N, K, or the elements from one row to the next of a matrix as it lies in memory."""
    m, n, k = problem.m, problem.n, problem.k
    a, b = (letter == "t" for letter in problem.layout)
    strides = {"lda": m if a else k, "ldb": k if b else n, "ldc": n, "ldd": n}
    return ({"M": m, "N": n, "K": k} | strides)[meaning]


def _scale(
    who: str, declared: _Declared, meaning: str, parameter: Parameter, problem: Problem
) -> bytes:
    """1 for alpha and 0 for beta, in the parameter's type."""
    value = int(meaning == "alpha")
    element = _ELEMENTS.get(declared.word, problem.dtype.name)
    if parameter.kind[0] == "f":
        return np.array(float(value), f"f{parameter.nbytes}").tobytes()
    if parameter.kind == "b8" and parameter.nbytes == 2 and element in _ONES:
        return (_ONES[element] * value).to_bytes(2, "little")  # a struct: the source says which
    if parameter.kind[0] in "us" and parameter.nbytes in (4, 8):
        return value.to_bytes(parameter.nbytes, "little")
    raise InputError(f"{who} must be a float, double, __half, __nv_bfloat16 or an integer.")

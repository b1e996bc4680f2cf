"""A name that NVRTC does not know because its header is not included: which header has it.

nvcc includes CUDA's runtime header before every source, and with it much of the C library, so that
INFINITY or uint32_t work there without an include; NVRTC includes nothing.
"""

from __future__ import annotations

import re

from tilewright.include import stand_ins

_UNDEFINED = re.compile(
    r'identifier "(?P<name>\w+)" is undefined|namespace "std" has no member "(?P<member>\w+)"'
)
# Not among the stand-ins: types of CUDA's own headers, and C types that are two words.
_CUDA = (
    (re.compile(r"(?:__)?half2?|__(?:float2half|half2float)\w*"), "cuda_fp16.h"),
    (re.compile(r"(?:__)?nv_bfloat162?|__(?:float2bfloat16|bfloat162float)\w*"), "cuda_bf16.h"),
    (re.compile(r"__nv_fp8\w+"), "cuda_fp8.h"),
    (re.compile(r"CUDART_\w+"), "math_constants.h"),
)
_SHORT = {"uint": "unsigned int", "ushort": "unsigned short", "ulong": "unsigned long",
          "uchar": "unsigned char"}  # fmt: skip


def hint(error: str) -> str | None:
    """What to write, for the end of a compiler's error line; None where no header is known."""
    match = _UNDEFINED.search(error)
    if match is None:
        return None
    name = match["name"] or match["member"]
    if match["name"] in _SHORT:
        return f"it is a name of the host's C library; write {_SHORT[name]}"
    header = _std_header(name) if match["member"] else _header(name)
    if header is None:
        return None
    return (
        f"it is in <{header}>, which nvcc may include by itself and NVRTC does not; "
        f"write #include <{header}>"
    )


def _header(name: str) -> str | None:
    """The header of a name outside of namespaces: CUDA's, else the stand-in that defines it."""
    for names, header in _CUDA:
        if names.fullmatch(name):
            return header
    defined = re.compile(
        rf"^[ \t]*(?:#[ \t]*define[ \t]+{name}\b|typedef\b[^;\n]*\b{name}[ \t]*;)", re.MULTILINE
    )
    return next((each for each, text in stand_ins().items() if defined.search(text)), None)


def _std_header(name: str) -> str | None:
    """The stand-in that has a name in namespace std."""
    declared = re.compile(
        rf"^[^/\n]*(?:\busing (?:::)?{name}\b|\b(?:struct|class) {name}\b|[&\w*] ?\b{name}\()",
        re.MULTILINE,
    )
    plain = (each for each in stand_ins().items() if not each[0].endswith(".h"))
    return next((each for each, text in plain if declared.search(text)), None)

"""The order of an opcode's modifiers: people and compilers write them in any, and ptxas takes it.

The patterns of ops/ have the one order that the PTX ISA prints; an opcode is brought into it
when it is read. Where a word is not in the lists below, the order stays as it was written.
Tried with ptxas of CUDA 13.0, 2026-11-30 (tests/emulator/test_modifier_order.py).
"""

from __future__ import annotations

from tilewright.emulator.ir import TYPE_BYTES

_SCOPES = ("cta", "cluster", "gpu", "sys")
_ORDERS = ("volatile", "weak", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio")
_CHANGES = ("add", "and", "or", "xor", "min", "max", "inc", "dec", "exch", "cas")
_CACHES = ("ca", "cg", "cs", "lu", "cv", "nc", "wb", "wt", "unified", "noftz")
_SPACES = ("global", "const", "local", "param", "shared")
_TESTS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "num", "nan"),
    *("equ", "neu", "ltu", "leu", "gtu", "geu"),
)
_TYPES = (*TYPE_BYTES, "e4m3x2", "e5m2x2")


def _ranks(*groups: tuple[str, ...]) -> dict[str, int]:
    return {word: rank for rank, group in enumerate(groups) for word in group}


_ACCESS = _ranks(("async",), _ORDERS, _SCOPES, _SPACES, _CHANGES, _CACHES, ("v2", "v4", "v8"))
_ARITHMETIC = _ranks(
    ("approx", "full"),
    ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"),
    ("ftz",),
    ("NaN", "relu", "satfinite"),
    ("xorsign",),
    ("abs",),
    ("sat", "cc"),
)
_COMPARISON = _ranks(_TESTS, ("and", "or", "xor"), ("ftz",))
_SHUFFLE = _ranks(("sync",), ("up", "down", "bfly", "idx"))
_VOTE = _ranks(("sync",), ("all", "any", "uni", "ballot"))
_MATCH = _ranks(("all", "any"), ("sync",))

_MATRIX = _ranks(
    ("sync",),
    ("aligned",),
    ("m8n8", "m8n16", "m16n16", "m16n8"),
    ("x1", "x2", "x4"),
    ("trans",),
    _SPACES,
)
_MBARRIER = _ranks(
    *(("init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait", "pending_count"),),
    *(("complete_tx",), ("expect_tx", "noComplete", "parity"), _ORDERS, _SCOPES, _SPACES),
)
_BARRIER = _ranks(
    ("cta", "cluster"), ("arrive", "wait", "sync", "red"), ("popc", "and", "or"), _ORDERS,
    ("aligned",),
)  # fmt: skip

_WITH_ARITHMETIC = (
    *("add", "addc", "sub", "subc", "mul", "mad", "madc", "fma", "div", "rem", "sqrt", "rcp"),
    *("rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "min", "max", "abs", "neg", "cvt"),
)
_OF: dict[str, dict[str, int]] = {
    **dict.fromkeys(("ld", "st", "atom", "red", "fence"), _ACCESS),
    **dict.fromkeys(_WITH_ARITHMETIC, _ARITHMETIC),
    **dict.fromkeys(("setp", "set"), _COMPARISON),
    **dict.fromkeys(("ldmatrix", "stmatrix"), _MATRIX),
    **{
        "mbarrier": _MBARRIER,
        "barrier": _BARRIER,
        "shfl": _SHUFFLE,
        "vote": _VOTE,
        "match": _MATCH,
    },
}
_LAST = 99  # types keep their order, behind all else


def in_order(opcode: str) -> str:
    """The opcode with its modifiers in the ISA's order: "ld.u32.global" → "ld.global.u32"."""
    mnemonic, *words = opcode.split(".")
    ranks = _OF.get(mnemonic)
    if ranks is None or len(words) < 2:
        return opcode
    found = [_rank(word, ranks) for word in words]
    if None in found or found == sorted(found, key=lambda rank: rank or 0):
        return opcode
    order = sorted(range(len(words)), key=lambda at: found[at] or 0)
    return ".".join([mnemonic, *(words[at] for at in order)])


def _rank(word: str, ranks: dict[str, int]) -> int | None:
    if word in ranks:
        return ranks[word]
    if word in _TYPES:
        return _LAST
    head = word.split("::")[0]
    if ranks is _ACCESS and head in ("L1", "L2", "level"):
        return ranks["ca"]
    return ranks.get(head) if head in _SPACES else None

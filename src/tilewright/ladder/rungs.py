"""The table of rungs: what a `.cu` file leaves to its host (grid, block, shared bytes), as data.

Those that are no kernels stand in python_rungs.py.
"""

from __future__ import annotations

from difflib import get_close_matches

from tilewright.errors import InputError
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.kernel_rung import KERNEL, KernelRung, Tile
from tilewright.ladder.python_rungs import CPU, TRITON
from tilewright.ladder.rung import Rung, alternatives

__all__ = [
    "FAMILIES",
    "KERNEL",
    "KERNELS",
    "RUNGS",
    "KernelRung",
    "Tile",
    "select",
    "select_kernels",
]


def _hgemm(
    number: int,
    name: str,
    buffers: int,
    *,
    bk: int = 32,
    threads: int = 256,
    order: str = "panels:8",
    fragment_sets: int = 1,
) -> KernelRung:
    return KernelRung(
        name,
        "hgemm",
        f"hgemm/{number}_{name}.cu",
        ("bf16", "fp16"),
        Tile(128, 128, bk),
        threads,
        buffers,
        order=order,
        fragment_sets=fragment_sets,
    )


# Tiles of 256 rows, of which the last may be half a one; eight warps stage 16 rows of 64 each.
_HGEMM_BEST = KernelRung(
    "hgemm_best",
    "hgemm",
    "hgemm/90_hgemm_best.cu",
    ("bf16", "fp16"),
    Tile(256, 128, 64),
    threads=256,
    buffers=3,
    staged=8 * 16 * 64,
    order="panels:16",
    step_m=128,
    persistent=True,
    fragment_sets=2,
)


def _simt(number: int, name: str, tile: Tile, buffers: int) -> KernelRung:
    file = f"simt/{number}_{name}.cu"
    threads = tile.bm // (tile.tm or 1) * (tile.bn // (tile.tn or 1))
    return KernelRung(name, "simt", file, ("fp32",), tile, threads, buffers)


_ELEMENT = Tile(32, 32, 1, 1, 1)  # of C a thread, straight from global memory
_REGISTERS = Tile(128, 128, 16, 8, 8)

# Tiles of 256 columns, of which the last may be half a one; panels are four of them wide.
_SGEMM_BEST = KernelRung(
    "sgemm_best",
    "simt",
    "simt/95_sgemm_best.cu",
    ("fp32",),
    Tile(128, 256, 16, 8, 16),
    threads=256,
    buffers=3,
    order="panels:4",
    pad_m=4,
    step_n=128,
)


def _tf32(number: int, name: str, buffers: int) -> KernelRung:
    file = f"tf32/{number}_{name}.cu"
    return KernelRung(name, "tf32", file, ("tf32",), Tile(128, 128, 16), 256, buffers)


_TF32_BEST = KernelRung(
    "sgemm_tf32_best",
    "tf32",
    "tf32/90_sgemm_tf32_best.cu",
    ("tf32",),
    Tile(256, 128, 32),
    threads=256,
    buffers=3,
    order="panels:16",
    step_m=128,
    persistent=True,
    fragment_sets=2,
)


def _hopper(
    number: int,
    name: str,
    tile: Tile,
    threads: int,
    buffers: int,
    *,
    roles: bool = False,
    persistent: bool = False,
    cluster_m: int = 1,
    staged: int = 0,
    order: str = "rows",
    wgmma: bool = True,
    overlap: bool = False,
    even: bool = False,
) -> HopperRung:
    return HopperRung(
        name,
        "hopper",
        f"hopper/{number}_{name}.cu",
        ("bf16", "fp16"),
        tile,
        threads,
        buffers,
        staged=staged,
        order=order,
        persistent=persistent,
        cluster_m=cluster_m,
        barriers=(2 if roles else 1) * buffers,
        wgmma=wgmma,
        overlap=overlap,
        even=even,
    )


_SQUARE, _WIDE = Tile(128, 128, 64), Tile(128, 256, 64)
_BOXES = 2 * 2 * 64 * 64  # two of 64 columns for each of two consumers

KERNELS: dict[str, KernelRung] = {
    rung.name: rung
    for rung in (
        _hgemm(10, "hgemm_naive", buffers=1),
        _hgemm(20, "hgemm_bcf", buffers=1),
        _hgemm(30, "hgemm_bcf_dbf", buffers=2),
        _hgemm(40, "hgemm_bcf_dbf_rw", buffers=2),
        _hgemm(50, "hgemm_raster", buffers=2, order="rows"),
        _hgemm(60, "hgemm_k_stages", buffers=3),
        _hgemm(70, "hgemm_bk64", buffers=3, bk=64),
        _hgemm(80, "hgemm_w64", buffers=3, bk=64, threads=128, fragment_sets=2),
        _HGEMM_BEST,
        _simt(10, "sgemm_naive", _ELEMENT, buffers=0),
        _simt(20, "sgemm_coalesced", _ELEMENT, buffers=0),
        _simt(30, "sgemm_shared", Tile(32, 32, 32, 1, 1), buffers=1),
        _simt(40, "sgemm_register", _REGISTERS, buffers=1),
        _simt(50, "sgemm_tiling", _REGISTERS, buffers=1),
        _simt(60, "sgemm_at_tiling", _REGISTERS, buffers=1),
        _simt(70, "sgemm_at_bcf_swizzling", _REGISTERS, buffers=1),
        _simt(80, "sgemm_at_bcf_swizzling_rw", _REGISTERS, buffers=1),
        _simt(90, "sgemm_at_bcf_swizzling_dbf_rw", _REGISTERS, buffers=2),
        _SGEMM_BEST,
        _tf32(10, "sgemm_tf32_bt", buffers=1),
        _tf32(20, "sgemm_tf32_bt_swizzle", buffers=1),
        _tf32(30, "sgemm_tf32_bt_swizzle_dbf", buffers=2),
        _tf32(40, "sgemm_tf32_swizzle_bcf", buffers=1),
        _tf32(50, "sgemm_tf32_swizzle_bcf_dbf", buffers=2),
        _TF32_BEST,
        _hopper(10, "hopper_tma_mma", _SQUARE, 256, buffers=2, wgmma=False),
        _hopper(20, "hopper_wgmma", _SQUARE, 256, buffers=1),
        _hopper(30, "hopper_ring", _SQUARE, 256, buffers=4),
        _hopper(40, "hopper_roles", _WIDE, 384, buffers=4, roles=True),
        _hopper(
            50,
            "hopper_persistent",
            _WIDE,
            384,
            buffers=4,
            roles=True,
            persistent=True,
            order="panels:8",
        ),
        _hopper(
            60,
            "hopper_cluster",
            _WIDE,
            384,
            buffers=4,
            roles=True,
            persistent=True,
            order="panels:8",
            cluster_m=2,
        ),
        _hopper(
            70,
            "hopper_store",
            _WIDE,
            384,
            buffers=4,
            roles=True,
            persistent=True,
            order="panels:8",
            cluster_m=2,
            staged=_BOXES,
        ),
        _hopper(
            80,
            "hopper_order",
            _WIDE,
            384,
            buffers=4,
            roles=True,
            persistent=True,
            order="serpentine:8",
            cluster_m=2,
            staged=_BOXES,
        ),
        _hopper(
            90,
            "hopper_best",
            _WIDE,
            384,
            buffers=4,
            roles=True,
            persistent=True,
            order="serpentine:8",
            cluster_m=2,
            staged=_BOXES,
            overlap=True,
            even=True,
        ),
    )
}

RUNGS: dict[str, Rung] = {**KERNELS, **{rung.name: rung for rung in (*CPU, *TRITON)}}

FAMILIES: tuple[str, ...] = tuple(dict.fromkeys(rung.family for rung in RUNGS.values()))

_LIST = "tilewright ladder --list names them all."


def select(family: str | None, names: tuple[str, ...] = ()) -> list[Rung]:
    """The rungs of a family (None: of all), or those of it that are named, in the ladder's order.

    Raises: InputError for an unknown family or rung, with the nearest known one, and for a rung
    of another family.
    """
    if family in RUNGS:
        raise InputError(f"family={family!r} is a rung; use --rung {family}.")
    if family is not None and family not in FAMILIES:
        raise InputError(f"family={family!r} is not known; {_hint(family, FAMILIES)}")
    for name in names:
        if name not in RUNGS:
            raise InputError(f"rung={name!r} is not known; {_hint(name, tuple(RUNGS), _LIST)}")
        if family not in (None, RUNGS[name].family):
            raise InputError(
                f"{name} is of the family {RUNGS[name].family}, not {family}; leave out the "
                "family, or name a rung of it."
            )
    return [
        rung
        for rung in RUNGS.values()
        if (rung.name in names if names else family in (None, rung.family))
    ]


def select_kernels(family: str | None, names: tuple[str, ...] = ()) -> list[KernelRung]:
    """As `select`, for what only a kernel has: a tile, threads, shared memory.

    Raises: InputError also for a rung that is no kernel.
    """
    found = []
    for rung in select(family, names):
        if not isinstance(rung, KernelRung):
            raise InputError(
                f"{rung.name} is a function in Python: it has no tile, threads and shared memory "
                f"of its own to look at; take a kernel, as {next(iter(KERNELS))}."
            )
        found.append(rung)
    return found


def _hint(word: str, known: tuple[str, ...], otherwise: str = "") -> str:
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]}?" if near else otherwise or f"use {alternatives(known)}."

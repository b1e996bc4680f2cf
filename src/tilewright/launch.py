"""Launch: one record of what runs, where and with which parameters, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilewright.errors import InputError
from tilewright.tensormap import MAP_ALIGNMENT, MAP_BYTES, TensorMap

if TYPE_CHECKING:
    from tilewright.build import Artifact

Dim3 = tuple[int, int, int]

GRID_LIMITS = (2**31 - 1, 65535, 65535)  # CUDA C++ Programming Guide, compute capability 3.0+
BLOCK_LIMITS = (1024, 1024, 64)
MOST_CLUSTER_BLOCKS = 16  # on an H100 or H200, where a kernel may have more than the portable 8

_CODES = {"u8": 8, "i8": 8, "i4": 4, "f4": 4}  # NumPy's words for a field's type, and its bytes


@dataclass(frozen=True)
class Packed:
    """A parameter that holds tensor maps: `raw` has zeros where each of `maps` belongs.

    Only the engine that runs a launch can fill them in: a driver encodes them, the emulator
    takes them as they are.
    """

    raw: bytes
    maps: tuple[tuple[int, TensorMap], ...]  # the offset of each in bytes

    def __len__(self) -> int:
        return len(self.raw)

    def filled(self, encode: Callable[[TensorMap], bytes]) -> bytes:
        """The bytes with `encode(map)` in the place of each map."""
        whole = bytearray(self.raw)
        for offset, tensor_map in self.maps:
            whole[offset : offset + MAP_BYTES] = encode(tensor_map)
        return bytes(whole)


Param = bytes | Packed


class Record:
    """A struct that kernels take by value, in C's layout, from its fields in order.

    `fields` names the type of each: "u8" (a pointer), "i8", "i4", "f4", or "map" for a tensor map.
    From the one record come the bytes of a launch (`pack`), and the macros by which the struct
    in the device header asserts its size and offsets (`defines`): GEMM_ARGS_BYTES, GEMM_ARGS_A.
    """

    def __init__(self, name: str, **fields: str) -> None:
        self.name = name
        self.fields = fields
        self.offsets: dict[str, int] = {}
        end, most = 0, 1
        for field, kind in fields.items():
            size, alignment = self._form(kind)
            self.offsets[field] = -(-end // alignment) * alignment
            end, most = self.offsets[field] + size, max(most, alignment)
        self.itemsize = -(-end // most) * most

    @staticmethod
    def _form(kind: str) -> tuple[int, int]:
        """Size and alignment in bytes."""
        return (MAP_BYTES, MAP_ALIGNMENT) if kind == "map" else (_CODES[kind], _CODES[kind])

    def defines(self) -> dict[str, str]:
        """The macros, by name: the size and the offset of each field, in bytes."""
        offsets = {field.upper(): str(offset) for field, offset in self.offsets.items()}
        given = {"BYTES": str(self.itemsize), **offsets}
        return {f"{self.name}_{word}": value for word, value in given.items()}

    def pack(self, **values: int | float | TensorMap) -> Packed:
        """The struct's bytes; every field is given by its name.

        Raises: InputError for fields that are missing or not the record's.
        """
        if set(values) != set(self.fields):
            wrong = ", ".join(sorted(set(values) ^ set(self.fields)))
            raise InputError(f"{self.name} has {', '.join(self.fields)}; check {wrong}.")
        raw = bytearray(self.itemsize)
        maps = []
        for field, kind in self.fields.items():
            offset, value = self.offsets[field], values[field]
            if isinstance(value, TensorMap) != (kind == "map"):
                raise InputError(f"{self.name}.{field} takes a {kind}, not {value!r}.")
            if isinstance(value, TensorMap):
                maps.append((offset, value))
            else:
                packed = np.array(value, kind).tobytes()
                raw[offset : offset + len(packed)] = packed
        return Packed(bytes(raw), tuple(maps))


# The C struct of cuda/tile/gemm_args.cuh, field for field.
GEMM_ARGS = Record("GEMM_ARGS", A="u8", B="u8", C="u8", M="i4", N="i4", K="i4")

# That of cuda/tile/tma_gemm_args.cuh: `C` is the address of what C_map describes.
TMA_GEMM_ARGS = Record(
    "TMA_GEMM_ARGS",
    A_map="map",
    B_map="map",
    C_map="map",
    C="u8",
    M="i4",
    N="i4",
    K="i4",
)


def gemm_args(a: int, b: int, c: int, m: int, n: int, k: int) -> bytes:
    """The bytes of a GemmArgs: three device addresses and the extents in elements."""
    return GEMM_ARGS.pack(A=a, B=b, C=c, M=m, N=n, K=k).raw


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    `params` holds the bytes of each kernel parameter, in C's layout (pointers are device addresses
    of the engine that runs it); those with tensor maps are `Packed`. `shared_bytes` is dynamic
    shared memory. Grid and cluster count blocks, never clusters. With `overlap` the kernel may
    start while the one before it still runs, and must call griddepcontrol.wait before it touches
    what that one writes (programmatic dependent launch; sm_90 and later).
    Raises: InputError when a dimension breaks CUDA's limits.
    """

    artifact: Artifact
    kernel: str
    grid: Dim3
    block: Dim3
    params: tuple[Param, ...]
    shared_bytes: int = 0
    cluster: Dim3 = (1, 1, 1)
    overlap: bool = False

    def __post_init__(self) -> None:
        check_dims("grid", self.grid, GRID_LIMITS)
        check_dims("cluster", self.cluster, GRID_LIMITS)
        if (blocks := prod(self.cluster)) > MOST_CLUSTER_BLOCKS:
            raise InputError(
                f"cluster={self.cluster} has {blocks} blocks; a GPU takes {MOST_CLUSTER_BLOCKS}."
            )
        if self.shared_bytes < 0:
            raise InputError(f"shared_bytes={self.shared_bytes} must be 0 or more.")
        check_dims("block", self.block, BLOCK_LIMITS)
        if (threads := prod(self.block)) > 1024:
            raise InputError(f"block={self.block} has {threads} threads; CUDA allows 1024.")

    def filled(self, encode: Callable[[TensorMap], bytes]) -> list[bytes]:
        """The parameters' bytes, with `encode(map)` in the place of each tensor map."""
        return [
            param if isinstance(param, bytes) else param.filled(encode) for param in self.params
        ]


def dim3(what: str, extents: Sequence[int], limits: Dim3) -> Dim3:
    """One to three extents as three, the missing ones 1. Raises InputError beyond the limits."""
    if not 1 <= len(extents) <= 3:
        raise InputError(f"{what}={tuple(extents)} must have 1 to 3 extents.")
    x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    check_dims(what, (x, y, z), limits)
    return x, y, z


def check_dims(what: str, dims: Dim3, limits: Dim3) -> None:
    """Raises InputError unless each of the three dimensions is between 1 and its own limit."""
    for axis, size, limit in zip("xyz", dims, limits, strict=True):
        if not 1 <= size <= limit:
            raise InputError(f"{what}.{axis}={size} must be between 1 and {limit}.")

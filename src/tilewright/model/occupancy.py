"""How many blocks of a kernel an SM holds at a time, and what stops it from holding more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tilewright.errors import InputError

if TYPE_CHECKING:
    from tilewright.gpus import Gpu

Limiter = Literal["threads", "registers", "shared memory", "blocks"]

WARP = 32
SCHEDULERS = 4  # each owns a quarter of the registers and serves its own warps
REGISTER_UNIT = 256  # registers are handed to a warp in units of so many
SHARED_UNIT = 128  # bytes; shared memory is handed to a block in units of so many
THREADS_PER_BLOCK = 1024
REGISTERS_PER_THREAD = 255


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks resident on one SM, and the first of the limits that allows no more of them."""

    blocks: int
    limiter: Limiter


def blocks_per_sm(gpu: Gpu, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """The resident blocks of a kernel with `threads` a block and `registers` a thread.

    `shared_bytes` is what one block uses, static and dynamic together, without what the system
    reserves. 0 blocks mean that the kernel cannot be launched on this GPU.
    Raises: InputError for threads outside 1..1024, registers outside 1..255, negative bytes.
    Source: the allocation rules of NVIDIA's occupancy calculator (cuda_occupancy.h) for
    compute capability 8.0 and later.
    """
    _check("threads", threads, 1, THREADS_PER_BLOCK)
    _check("registers", registers, 1, REGISTERS_PER_THREAD)
    if not shared_bytes >= 0:
        raise InputError(f"shared_bytes={shared_bytes} must not be negative.")
    warps = -(-threads // WARP)
    limits: dict[Limiter, int] = {
        "threads": gpu.threads_per_sm // WARP // warps,
        "registers": _warps_by_registers(gpu, registers) // warps,
        "shared memory": _blocks_by_shared(gpu, shared_bytes),
        "blocks": gpu.blocks_per_sm,
    }
    limiter = min(limits, key=lambda name: limits[name])
    return Occupancy(limits[limiter], limiter)


def _warps_by_registers(gpu: Gpu, registers: int) -> int:
    per_warp = -(-registers * WARP // REGISTER_UNIT) * REGISTER_UNIT
    return gpu.registers_per_sm // SCHEDULERS // per_warp * SCHEDULERS


def _blocks_by_shared(gpu: Gpu, shared_bytes: int) -> int:
    if shared_bytes > gpu.shared_bytes_per_block:
        return 0
    taken = -(-(shared_bytes + gpu.shared_bytes_reserved) // SHARED_UNIT) * SHARED_UNIT
    return gpu.shared_bytes_per_sm // taken


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InputError(f"{name}={value} must be {low}..{high}.")

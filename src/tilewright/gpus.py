"""The GPUs we know, as data: datasheet figures and the limits that decide what runs where.

Sources: NVIDIA's datasheets and architecture white papers (rates at the stated boost clock,
dense), the table "Technical Specifications per Compute Capability" of the CUDA C++ Programming
Guide (limits per SM), read 2026-11-30. Measured figures live in `measurements/`, not here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from tilewright.errors import InputError


@dataclass(frozen=True)
class Gpu:
    """One GPU: `arch` is the cubin it runs; sizes in bytes, rates in TFLOP/s and GB/s."""

    name: str
    title: str
    arch: str
    sms: int
    boost_mhz: int
    l2_bytes: int
    memory_gbps: int
    tensor_tflops: float  # bf16 and fp16 operands, fp32 accumulation, dense
    fp32_tflops: float
    shared_bytes_per_sm: int
    shared_bytes_per_block: int  # with the opt-in above 48 KiB
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int = 65536
    shared_bytes_reserved: int = 1024  # by the system, for each resident block


_KB = 1024
_MB = 1024 * 1024
_SM80 = (164 * _KB, 163 * _KB, 2048, 32)
_SM86 = (100 * _KB, 99 * _KB, 1536, 16)
_SM89 = (100 * _KB, 99 * _KB, 1536, 24)
_SM90 = (228 * _KB, 227 * _KB, 2048, 32)
_SM120 = (100 * _KB, 99 * _KB, 1536, 24)

GPUS: dict[str, Gpu] = {
    gpu.name: gpu
    for gpu in (
        Gpu("a100", "NVIDIA A100 SXM 40GB", "sm_80", 108, 1410, 40 * _MB, 1555, 312, 19.5, *_SM80),
        Gpu("rtx3080", "GeForce RTX 3080", "sm_86", 68, 1710, 5 * _MB, 760, 59.5, 29.8, *_SM86),
        Gpu("rtx3090", "GeForce RTX 3090", "sm_86", 82, 1695, 6 * _MB, 936, 71, 35.6, *_SM86),
        Gpu("rtx4090", "GeForce RTX 4090", "sm_89", 128, 2520, 72 * _MB, 1008, 165.2, 82.6, *_SM89),
        Gpu("l40s", "NVIDIA L40S", "sm_89", 142, 2520, 96 * _MB, 864, 362, 91.6, *_SM89),
        Gpu("h100", "NVIDIA H100 SXM", "sm_90", 132, 1830, 50 * _MB, 3350, 989, 66.9, *_SM90),
        Gpu("h200", "NVIDIA H200", "sm_90", 132, 1830, 60 * _MB, 4800, 989, 66.9, *_SM90),
        Gpu(
            "rtx5060",
            "GeForce RTX 5060 Laptop",
            "sm_120",
            26,
            2497,
            32 * _MB,
            384,
            33.2,
            16.6,
            *_SM120,
        ),
        Gpu(
            "rtx5090",
            "GeForce RTX 5090",
            "sm_120",
            170,
            2407,
            96 * _MB,
            1792,
            209.5,
            104.8,
            *_SM120,
        ),
    )
}

MEASURED_ARCH = "sm_90"  # the access rules of model/banks.py were read off counters there
DEFAULT_GPU = "h200"


def gpu_named(name: str) -> Gpu:
    """The GPU called `name` (a key of GPUS, in any case). Raises InputError with the nearest."""
    if not isinstance(name, str):
        raise InputError(f"gpu={name!r} must be a name such as {DEFAULT_GPU}.")
    word = name.lower().replace(" ", "").removeprefix("nvidia").removeprefix("geforce")
    if word in GPUS:
        return GPUS[word]
    if (known := gpu_reported(name)) is not None:
        return known
    near = get_close_matches(word, GPUS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(GPUS)}."
    raise InputError(f"gpu={name!r} is not in the table; {hint}")


def gpu_reported(title: str) -> Gpu | None:
    """The GPU of the table behind a name as the driver gives it: "NVIDIA A100-SXM4-40GB".

    None for others, also for a Ti or SUPER, which is another chip than the plain model.
    """
    words = re.split(r"[\s-]+", title.lower())
    for at, word in enumerate(words):
        for name in (word, words[at - 1] + word if at else word):
            if name in GPUS and not {"ti", "super"} & set(words[at + 1 :]):
                return GPUS[name]
    return None


def arch_of(major: int, minor: int) -> str:
    """The architecture whose cubin a GPU of this compute capability runs.

    Cubins run on their own major version and on minor versions not older than theirs, so an
    unknown minor version gets the newest known one below it; an unknown major version gets its
    own name, and NVRTC says whether it knows it.
    Raises: InputError for a GPU older than sm_80, which lacks cp.async.
    """
    if major < 8:
        raise InputError(
            f"compute capability {major}.{minor} is not supported: the kernels use cp.async, "
            "which needs 8.0 or later. Use --engine emulator."
        )
    known = {_numbers(gpu.arch) for gpu in GPUS.values()}
    same_major = [pair for pair in known if pair[0] == major and pair[1] <= minor]
    return "sm_{}{}".format(*max(same_major, default=(major, minor)))


def _numbers(arch: str) -> tuple[int, int]:
    digits = arch.removeprefix("sm_")
    return int(digits[:-1]), int(digits[-1])

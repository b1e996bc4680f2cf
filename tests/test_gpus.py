"""The GPU table and what an unknown GPU gets."""

from __future__ import annotations

import pytest

from tilewright.errors import InputError
from tilewright.gpus import GPUS, Gpu, arch_of, gpu_named, gpu_reported


@pytest.mark.parametrize("name", ["h200", "H200", "NVIDIA H200", "nvidia h200"])
def test_names(name: str) -> None:
    assert gpu_named(name) is GPUS["h200"]


def test_unknown_names_get_a_hint() -> None:
    with pytest.raises(InputError, match=r"gpu='rtx4080' is not in the table; did you mean rtx"):
        gpu_named("rtx4080")
    with pytest.raises(InputError, match="known: a100, rtx3080"):
        gpu_named("zzz")


@pytest.mark.parametrize(
    ("capability", "arch"),
    [
        ((8, 0), "sm_80"),
        ((8, 6), "sm_86"),
        ((8, 7), "sm_86"),
        ((8, 9), "sm_89"),
        ((9, 0), "sm_90"),
        ((12, 0), "sm_120"),
        ((12, 1), "sm_120"),
        ((10, 0), "sm_100"),
        ((13, 2), "sm_132"),
    ],
)
def test_arch_of(capability: tuple[int, int], arch: str) -> None:
    assert arch_of(*capability) == arch


def test_a_gpu_without_cp_async() -> None:
    with pytest.raises(InputError, match=r"7\.5 is not supported.*--engine emulator"):
        arch_of(7, 5)


@pytest.mark.parametrize("gpu", GPUS.values(), ids=lambda gpu: gpu.name)
def test_figures_are_plausible(gpu: Gpu) -> None:
    """fp32: 128 FMA a clock and SM on these architectures, 64 on sm_80; within 10 %."""
    lanes = 64 if gpu.arch == "sm_80" else 128
    assert gpu.fp32_tflops == pytest.approx(gpu.sms * lanes * 2 * gpu.boost_mhz / 1e6, rel=0.1)
    assert gpu.shared_bytes_per_block < gpu.shared_bytes_per_sm
    assert gpu.threads_per_sm % 32 == 0


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 5060 Laptop GPU", "rtx5060"),
        ("NVIDIA GeForce RTX 3080 Ti", None),
        ("Tesla T4", None),
    ],
)
def test_names_as_the_driver_gives_them(title: str, name: str | None) -> None:
    assert gpu_reported(title) == (GPUS[name] if name else None)


def test_own_titles_are_names() -> None:
    for gpu in GPUS.values():
        assert gpu_named(gpu.title) is gpu
    with pytest.raises(InputError, match="gpu=5 must be a name"):
        gpu_named(5)  # type: ignore[arg-type]

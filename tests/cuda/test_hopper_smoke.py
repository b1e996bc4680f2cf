"""hopper_smoke.cu: everything a Hopper rung needs, from the headers to machine code."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tilewright.artifact import Artifact
from tilewright.build import Source, build
from tilewright.launch import TMA_GEMM_ARGS
from tilewright.sass import disassemble

pytestmark = pytest.mark.usefixtures("compiler")

SOURCE = Path(__file__).with_name("hopper_smoke.cu").read_text(encoding="utf-8")
BM, BN, BK, STAGES = 128, 256, 64, 4
SMEM_BYTES = (
    2 * (STAGES * (BM + BN) * BK + BM * 64) + 1024
)  # the barriers in a pattern of their own


def smoke(kind: str, a_major: str, b_major: str) -> Artifact:
    defines = {
        "BM": BM,
        "BN": BN,
        "BK": BK,
        "STAGES": STAGES,
        "ELEMENT": kind,
        "A_MAJOR": a_major,
        "B_MAJOR": b_major,
        "SMEM_BYTES": SMEM_BYTES,
        **TMA_GEMM_ARGS.defines(),
    }
    pairs = tuple((name, str(value)) for name, value in defines.items())
    return build(Source("hopper_smoke.cu", SOURCE, pairs), "sm_90a")


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
@pytest.mark.parametrize("majors", [("K", "K"), ("K", "MN"), ("MN", "MN")])
def test_nothing_spills_and_no_wgmma_waits_for_another(kind: str, majors: tuple[str, str]) -> None:
    artifact = smoke(kind, *majors)
    used = artifact.resources["gemm"]
    assert (used.spill_bytes, used.stack_bytes) == (0, 0)
    assert used.registers * 384 <= 65536
    assert not re.search(r"C75\d\d|serialized", artifact.log)


@pytest.mark.parametrize(
    ("majors", "loads"), [(("K", "K"), 2), (("K", "MN"), 5), (("MN", "MN"), 6)]
)
def test_the_machine_code_is_hoppers(majors: tuple[str, str], loads: int) -> None:
    """One wgmma of 256 columns for each 16 of K, and one copy for each box."""
    code = disassemble(smoke("bf16", *majors).cubin)
    if code is None:
        pytest.skip("nvdisasm is not installed")
    found = Counter(instruction.mnemonic for instruction in code["gemm"])
    assert found["HGMMA"] == BK // 16
    assert found["UTMALDG"] == loads
    assert found["UTMASTG"] == BN // 64
    assert found["USETMAXREG"] == 2
    assert found["STSM"] == 4 * BN // 64
    assert found["LDL"] == found["STL"] == 0

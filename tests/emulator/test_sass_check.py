"""PTX against SASS: what ptxas merges, drops, splits and spills is told, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tilewright import sass
from tilewright.artifact import Artifact, Source
from tilewright.bench.ladder import build_rung
from tilewright.build import build
from tilewright.dtypes import BF16
from tilewright.emulator.ir import Instruction, Place
from tilewright.emulator.sass_check import NO_NVDISASM, check, compare, to_text
from tilewright.errors import InputError
from tilewright.ladder.rungs import KERNELS as LADDER
from tilewright.problem import Problem
from tilewright.sass import SassInstruction

KERNELS = """
extern "C" __global__ void merges(float* out, const float* in) {
    __shared__ __align__(16) float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    __syncthreads();
    unsigned from = (unsigned)__cvta_generic_to_shared(s + (t & 30));
    float a, b;
    asm volatile("ld.shared.f32 %0, [%2]; ld.shared.f32 %1, [%2+4];"
                 : "=f"(a), "=f"(b) : "r"(from) : "memory");
    out[t] = a + b;
}
extern "C" __global__ void drops(float* out, const float* in) {
    int t = threadIdx.x;
    asm volatile("{ .reg .f32 a, b; ld.global.f32 a, [%0]; ld.global.f32 b, [%0+4];"
                 "  st.global.f32 [%1], a; }" :: "l"(in + t), "l"(out + t) : "memory");
}
template <int N> __global__ void adds(float* out, const float* in, int n) {
    atomicAdd(out + n % N, in[threadIdx.x]);
}
template __global__ void adds<8>(float*, const float*, int);
extern "C" __global__ void __launch_bounds__(1024, 2) spills(float* out, const float* in) {
    float x[64];
    for (int i = 0; i < 64; i++) x[i] = in[i * 1024 + threadIdx.x];
    for (int k = 0; k < 64; k++) {
        __syncthreads();
        for (int i = 0; i < 64; i++) x[i] = x[i] * x[(i + 1) % 64];
    }
    for (int i = 0; i < 64; i++) out[i * 1024 + threadIdx.x] = x[i];
}
"""


# ptxas unrolls the loop that stores C, which runs as often as in the PTX.
UNROLLED, UNROLLED_EPILOGUES = "as it unrolled a loop", ("hgemm_w64",)


@pytest.fixture(scope="module")
def nvdisasm() -> None:
    if sass.find_nvdisasm() is None:
        pytest.skip(NO_NVDISASM)


@pytest.fixture(scope="module")
def kernels(compiler: str, nvdisasm: None) -> Artifact:
    return build(Source("kernels.cu", KERNELS), "sm_90")


@pytest.mark.usefixtures("compiler", "nvdisasm")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", [name for name, rung in LADDER.items() if rung.family == "hgemm"])
def test_the_rungs_run_what_their_ptx_says(name: str, arch: str) -> None:
    artifact = build_rung(LADDER[name], Problem(256, 384, 192, BF16), arch)
    for kernel in artifact.resources:
        found = [it.message for it in check(artifact, kernel) or []]
        assert all(UNROLLED in message for message in found)
        assert not found or name in UNROLLED_EPILOGUES


def test_merged_loads_show_with_their_line(kernels: Artifact) -> None:
    (found,) = check(kernels, "merges") or []
    assert (found.kind, found.sass, found.ptx_count, found.sass_count) == ("ld.shared", "LDS", 2, 1)
    assert found.message == "ptxas merged 1 of 2 ld.shared: SASS has 1 LDS"
    assert str(found) == f"{found.message} (kernels.cu:9: 2 → 1)"


def test_dropped_loads_show(kernels: Artifact) -> None:
    (found,) = check(kernels, "drops") or []
    assert found.message == "ptxas dropped 1 of 2 ld.global: SASS has 1 LDG"


def test_an_atomic_nobody_reads_is_a_reduction(kernels: Artifact) -> None:
    (symbol,) = (name for name in kernels.resources if "adds" in name)
    found = check(kernels, symbol)
    assert found is not None
    assert [it.message for it in found] in (
        [],  # the compiler wrote red
        ["ptxas made RED of 1 of 1 atom.global, whose result nobody uses"],
    )


def test_spilled_registers_show(kernels: Artifact) -> None:
    found = [it for it in check(kernels, "spills") or [] if it.kind == "local"]
    assert len(found) == 1
    assert found[0].message == f"{found[0].sass_count} LDL/STL: registers spilled"
    assert kernels.resources["spills"].spill_bytes > 0


def test_a_kernel_that_is_not_there(kernels: Artifact) -> None:
    with pytest.raises(InputError, match="kernel='gemm' is not in the PTX, which has "):
        check(kernels, "gemm")


def test_without_nvdisasm_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: None)
    artifact = Artifact("kernel.cu", "sm_90", "", b"", "", "NVRTC", {}, "0")
    assert check(artifact, "gemm") is None
    assert "there is no nvdisasm" in to_text(None)
    assert 'pip install "tilewright[sass]"' in to_text(None)


# --- wmma -------------------------------------------------------------------------------

WMMA = json.loads((Path(__file__).parents[1] / "data" / "wmma_machine_code.json").read_text())


@pytest.mark.parametrize("opcode", WMMA["opcodes"])
def test_wmma_counts_as_its_machine_code(opcode: str) -> None:
    machine = [name for name, times in WMMA["opcodes"][opcode].items() for _ in range(times)]
    assert compare(ptx(opcode), code(*machine)) == []
    assert compare(ptx(opcode), code(*machine[1:])) != []


# --- sentences ----------------------------------------------------------------------------


def ptx(*opcodes: str) -> list[Instruction]:
    places = (Place("kernel.cu", 7),)
    return [Instruction(opcode, (), None, places, 1, opcode) for opcode in opcodes]


def code(*opcodes: str) -> list[SassInstruction]:
    return [SassInstruction(opcode, "/there/kernel.cu", 7) for opcode in opcodes]


def sentences(a: list[Instruction], b: list[SassInstruction]) -> list[str]:
    return [it.message for it in compare(a, b)]


@pytest.mark.parametrize(
    ("opcode", "machine"),
    [
        ("ld.shared.v4.f32", "LDS.128"),
        ("ld.shared::cta.v2.b64", "LDS.128"),
        ("ld.volatile.shared.u8", "LDS.U8"),
        ("st.shared.v2.u8", "STS.U16"),
        ("ld.global.nc.L1::no_allocate.v4.u32", "LDG.E.128.CONSTANT"),
        ("st.global.b16", "STG.E.U16"),
        ("cp.async.cg.shared.global.L2::128B", "LDGSTS.E.BYPASS.LTC128B.128"),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "LDSM.16.M88.4"),
        ("stmatrix.sync.aligned.m8n8.x4.shared.b16", "STSM.16.M88.4"),
        ("atom.shared.add.u32", "ATOMS.ADD"),
        ("red.shared.add.u32", "ATOMS.POPC.INC.32"),
        ("atom.global.cas.b32", "ATOMG.E.CAS.STRONG.GPU"),
        ("red.global.add.f32", "REDG.E.ADD.F32.FTZ.RN.STRONG.GPU"),
        ("ld.u32", "LD.E"),
        ("st.local.u32", "STL"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "HMMA.16816.F32.BF16"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "IMMA.16832.S8.S8"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "DMMA.8x8x4"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "QMMA.16832.F32.E4M3.E4M3"),
    ],
)
def test_what_becomes_what(opcode: str, machine: str) -> None:
    assert compare(ptx(opcode), code(machine)) == []
    assert len(compare(ptx(opcode), code())) == 1
    assert len(compare(ptx(), code(machine))) == 1


@pytest.mark.parametrize(
    "opcode", ["ld.param.u64", "ld.const.f32", "cp.async.commit_group", "cp.async.wait_group",
               "cp.async.bulk.commit_group", "add.s32", "st.async.shared::cluster.b32"]
)  # fmt: skip
def test_what_is_not_compared(opcode: str) -> None:
    assert compare(ptx(opcode), code("LDC", "LDGDEPBAR", "IADD3", "ULDC.64")) == []


def test_sentences() -> None:
    wide, narrow = ["ld.shared.f32"] * 8, ["LDS"] * 6
    assert sentences(ptx(*wide), code(*narrow)) == [
        "ptxas dropped 2 of 8 ld.shared: SASS has 6 LDS"
    ]
    assert sentences(ptx(*wide), code("LDS.64")) == [
        "ptxas merged or dropped 7 of 8 ld.shared: SASS has 1 LDS"
    ]
    assert sentences(ptx("ld.global.v4.f32"), code("LDG.E.64", "LDG.E.64")) == [
        "ptxas split some of 1 ld.global: SASS has 2 LDG"
    ]
    assert sentences(ptx("ld.global.f32"), code(*["LDG.E"] * 4)) == [
        "ptxas repeated some of 1 ld.global: SASS has 4 LDG, as it unrolled a loop or copied code"
    ]
    assert sentences(ptx("ld.shared.v4.f32"), code("LDS.64")) == [
        "ptxas made 1 ld.shared of 16 bytes a lane into 1 LDS of 8"
    ]
    assert sentences(ptx(), code("LDS")) == ["SASS has 1 LDS; the PTX has no ld.shared"]
    assert sentences(ptx(), code("STL", "LDL.64")) == ["2 LDL/STL: registers spilled"]
    assert sentences(ptx("atom.global.add.f32"), code("REDG.E.ADD")) == [
        "ptxas made RED of 1 of 1 atom.global, whose result nobody uses"
    ]
    assert sentences(
        ptx("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"), code("HMMA", "HMMA")
    ) == ["ptxas split or repeated 1 mma of floats: SASS has 2 HMMA"]


def test_text_of_the_outcome() -> None:
    assert to_text([]) == "SASS has the memory and mma instructions of the PTX"
    many = compare(ptx("ld.shared.f32", "ld.shared.f32", "st.global.f32"), code("LDS.64"))
    assert to_text(many).splitlines() == [
        "ptxas merged 1 of 2 ld.shared: SASS has 1 LDS (kernel.cu:7: 2 → 1)",
        "ptxas dropped 1 of 1 st.global: SASS has 0 STG (kernel.cu:7: 1 → 0)",
    ]

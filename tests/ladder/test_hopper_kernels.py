"""hopper_smoke.cu and hopper_cluster.cu: all that a Hopper rung needs, from its record in the table
to machine code and, on both engines, to right products."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tilewright.artifact import Artifact
from tilewright.bench.inputs import logical, operands
from tilewright.bench.ladder import climb, rung_launch
from tilewright.build import Source, build
from tilewright.dtypes import DTYPES
from tilewright.engines.base import Engine
from tilewright.errors import CompileError, InputError
from tilewright.ladder.hopper_rung import HopperRung
from tilewright.ladder.kernel_rung import Tile
from tilewright.ladder.rungs import RUNGS
from tilewright.launch import TMA_GEMM_ARGS
from tilewright.problem import LAYOUTS, Problem
from tilewright.sass import disassemble
from tilewright.verify import judge, oracle

pytestmark = pytest.mark.usefixtures("compiler")

SMOKE = HopperRung(
    "hopper_smoke",
    "hopper",
    "hopper_smoke.cu",
    ("bf16", "fp16"),
    Tile(128, 256, 64),
    threads=384,
    buffers=4,
    staged=128 * 64,
    persistent=True,
    layouts=LAYOUTS,
    barriers=2 * 4,
)


CLUSTER = HopperRung(
    "hopper_cluster",
    "hopper",
    "hopper_cluster.cu",
    ("bf16", "fp16"),
    Tile(128, 128, 64),
    threads=384,
    buffers=4,
    layouts=LAYOUTS,
    cluster_m=2,
    barriers=2 * 4,
)


def compiled(rung: HopperRung, dtype: str, layout: str, **changes: str) -> Artifact:
    text = Path(__file__).with_name(rung.file).read_text(encoding="utf-8")
    defines = dict(rung.defines(DTYPES[dtype], layout)) | changes
    return build(Source(rung.file, text, tuple(defines.items())), rung.target("sm_90"))


@pytest.mark.parametrize("dtype", SMOKE.dtypes)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rung", [SMOKE, CLUSTER], ids=lambda rung: rung.name)
def test_nothing_spills_and_no_wgmma_waits_for_another(
    rung: HopperRung, dtype: str, layout: str
) -> None:
    artifact = compiled(rung, dtype, layout)
    used = artifact.resources["gemm"]
    assert (used.spill_bytes, used.stack_bytes) == (0, 0)
    assert used.registers * rung.threads <= 65536
    assert artifact.serialized == ()


@pytest.mark.parametrize(
    ("cluster", "layout", "copies", "shared"),
    [((2, 1), "nt", 2, 1), ((2, 1), "tn", 3, 1), ((1, 2), "nn", 3, 1), ((2, 2), "nt", 2, 2)],
)
def test_blocks_of_a_cluster_share_what_they_load(
    cluster: tuple[int, int], layout: str, copies: int, shared: int
) -> None:
    """Copies of a step, those among them that reach other blocks, and no fence in its loop."""
    rung = replace(CLUSTER, cluster_m=cluster[0], cluster_n=cluster[1])
    code = disassemble(compiled(rung, "bf16", layout).cubin)
    if code is None:
        pytest.skip("nvdisasm is not installed")
    opcodes = [instruction.opcode for instruction in code["gemm"]]
    found = Counter(opcode for opcode in opcodes if opcode.startswith("UTMALDG"))
    assert (found.total(), found["UTMALDG.2D.MULTICAST"]) == (copies, shared)
    loop = opcodes[opcodes.index("UTMALDG.2D.MULTICAST") :]
    assert not [opcode for opcode in loop if opcode.startswith(("MEMBAR", "ERRBAR"))]


@pytest.mark.parametrize(("layout", "loads"), [("nt", 2), ("nn", 5), ("tt", 3), ("tn", 6)])
def test_the_machine_code_is_hoppers(layout: str, loads: int) -> None:
    """One wgmma of 256 columns for each 16 of K, and one copy for each box."""
    code = disassemble(compiled(SMOKE, "bf16", layout).cubin)
    if code is None:
        pytest.skip("nvdisasm is not installed")
    found = Counter(instruction.mnemonic for instruction in code["gemm"])
    assert found["HGMMA"] == SMOKE.tile.bk // 16
    assert found["UTMALDG"] == loads
    assert found["UTMASTG"] == SMOKE.tile.bn // 64
    assert found["USETMAXREG"] == 2
    assert found["STSM"] == 4 * SMOKE.tile.bn // 64
    assert found["LDL"] == found["STL"] == 0


@pytest.mark.parametrize("macro", TMA_GEMM_ARGS.defines())
def test_the_struct_is_held_to_its_record(macro: str) -> None:
    with pytest.raises(CompileError, match=r"launch.py and tma_gemm_args.cuh disagree"):
        compiled(SMOKE, "bf16", "nn", **{macro: "8"})


def test_a_serialised_product_is_told() -> None:
    """Accumulators are touched between two products."""
    text = """
#include "ptx/wgmma_m64n64k16.cuh"
extern "C" __global__ void gemm(unsigned long long* d, float* out) {
  float acc[32];
  for (int i = 0; i < 32; ++i) acc[i] = out[i];
  ptx::Descriptor<bf16, ptx::Major::K> a = {d[0]}, b = {d[1]};
  ptx::wgmma_fence();
  ptx::wgmma_mma_async(acc, a, b, true);
  for (float& x : acc) x *= 2;
  ptx::wgmma_mma_async(acc, a, b, true);
  ptx::wgmma_commit_group();
  ptx::wgmma_wait_group<0>();
  for (int i = 0; i < 32; ++i) out[threadIdx.x * 32 + i] = acc[i];
}
"""
    artifact = build(Source("touched.cu", text), "sm_90a")
    assert artifact.serialized
    assert all("C75" in line for line in artifact.serialized)


# --- run ------------------------------------------------------------------------------


def check(engine: Engine, rung: HopperRung, problem: Problem) -> None:
    if why := rung.refusal(problem, engine.shared_bytes_limit, engine.arch):
        pytest.skip(why)
    a, b = operands(problem, "normal", seed=problem.m + problem.n + problem.k)
    out = engine.upload(np.full((problem.m, problem.n), np.nan, problem.dtype.numpy()))
    buffers = engine.upload(a), engine.upload(b), out
    artifact = compiled(rung, problem.dtype.name, problem.layout)
    report = engine.launch(rung_launch(rung, artifact, problem, buffers, sms=3))
    reference = oracle(*logical(problem, a, b), problem.dtype)
    verdict = judge(engine.download(out), reference)
    assert verdict.correct, verdict.message
    if report is not None:
        assert report.completed
        assert report.findings == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", SMOKE.dtypes)
def test_every_layout(engine: Engine, dtype: str, layout: str) -> None:
    check(engine, SMOKE, Problem(256, 512, 192, DTYPES[dtype], layout))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("m", "n", "k"), [(136, 264, 72), (8, 8, 8), (56, 520, 8), (264, 40, 328)])
def test_edges_and_few_steps(engine: Engine, layout: str, m: int, n: int, k: int) -> None:
    check(engine, SMOKE, Problem(m, n, k, DTYPES["bf16"], layout))


@pytest.mark.parametrize(("m", "k"), [(1, 64), (13, 200), (129, 64)])
def test_any_number_of_rows_of_a(engine: Engine, m: int, k: int) -> None:
    check(engine, SMOKE, Problem(m, 264, k, DTYPES["fp16"], "nt"))


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 9])
def test_every_small_number_of_steps(engine: Engine, steps: int) -> None:
    check(engine, SMOKE, Problem(128, 256, 64 * steps, DTYPES["bf16"], "nn"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2)])
def test_clusters(engine: Engine, layout: str, cluster: tuple[int, int]) -> None:
    """Three tiles by three, so that some blocks have no tile of their own."""
    rung = replace(CLUSTER, cluster_m=cluster[0], cluster_n=cluster[1])
    check(engine, rung, Problem(264, 328, 328, DTYPES["bf16"], layout))


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_the_ladder_climbs_it(monkeypatch: pytest.MonkeyPatch, layout: str) -> None:
    rung = replace(SMOKE)
    rung.__dict__["text"] = Path(__file__).with_name(rung.file).read_text(encoding="utf-8")
    monkeypatch.setitem(RUNGS, rung.name, rung)
    (row,) = climb(m=136, n=264, k=72, layout=layout, rungs=rung.name, engine="emulator")
    assert (row.status, row.correct, row.layout) == ("ok", True, layout)
    assert (row.spill_bytes, row.shared_bytes) == (0, rung.shared_bytes(DTYPES["bf16"]))
    assert row.blocks_per_sm == 1
    # Four tiles of two steps: for each k16 two warpgroups read 64 rows of A and 256 of B.
    assert row.wgmma_shared_bytes == 4 * 2 * 4 * 2 * (64 + 256) * 16 * 2
    with pytest.raises(InputError, match="this GPU is sm_80"):
        climb(m=136, n=264, k=72, rungs=rung.name, engine="emulator", gpu="a100")

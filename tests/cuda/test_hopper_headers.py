"""The device headers for Hopper: each alone compiles, each wrapper is its instruction."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from tilewright.build import Source, build, headers
from tilewright.launch import GEMM_ARGS, TMA_GEMM_ARGS

pytestmark = pytest.mark.usefixtures("compiler")

SCRIPT = Path(__file__).parents[2] / "scripts" / "wgmma_shapes.py"
# Those whose macros a plan has: tests/gemm compiles them.
OF_A_PLAN = {"tile/strided_args.cuh", "tile/wgmma_args.cuh"}
DEFINES = {"ELEMENT": "bf16", **GEMM_ARGS.defines(), **TMA_GEMM_ARGS.defines()}


def ptx(body: str, includes: str, params: str = "", arch: str = "sm_90a") -> str:
    """The PTX of a kernel with this body; `bar`, `s` and `map` are there for it to use."""
    lines = "".join(f'#include "{name}"\n' for name in includes.split())
    text = f"""{lines}#include "ptx/tensor_map.cuh"
extern "C" __global__ void probe(const __grid_constant__ TensorMap map, unsigned* out {params}) {{
  extern __shared__ __align__(1024) unsigned char s[];
  unsigned long long* bar = reinterpret_cast<unsigned long long*>(s + 4096);
  {body}
}}
"""
    artifact = build(Source("probe.cu", text, tuple(DEFINES.items())), arch)
    assert artifact.resources["probe"].spill_bytes == 0
    return artifact.ptx


@pytest.mark.parametrize("name", [name for name in headers() if name not in OF_A_PLAN])
def test_each_header_compiles_alone(name: str) -> None:
    text = f'#include "{name}"\nextern "C" __global__ void probe() {{}}\n'
    build(Source("probe.cu", text, tuple(DEFINES.items())), "sm_90a")


@pytest.mark.parametrize(
    ("header", "call", "instruction"),
    [
        ("mbarrier", "ptx::mbarrier_init(bar, 3)", "mbarrier.init.shared::cta.b64"),
        ("mbarrier", "ptx::fence_mbarrier_init()", "fence.mbarrier_init.release.cluster;"),
        ("mbarrier", "ptx::mbarrier_inval(bar)", "mbarrier.inval.shared::cta.b64"),
        ("mbarrier", "ptx::mbarrier_arrive(bar)", "mbarrier.arrive.shared::cta.b64 _"),
        (
            "mbarrier",
            "ptx::mbarrier_arrive_expect_tx(bar, 64)",
            "mbarrier.arrive.expect_tx.shared::cta.b64 _",
        ),
        (
            "mbarrier",
            "ptx::mbarrier_wait_parity(bar, 1)",
            "mbarrier.try_wait.parity.shared::cta.b64",
        ),
        (
            "mbarrier_quiet",
            "ptx::mbarrier_wait_parity(bar, 1, 20000)",
            r"mbarrier.try_wait.parity.shared::cta.b64 p, \[%r\d+\], %r\d+, %r\d+;",
        ),
        (
            "mbarrier_cluster",
            "ptx::mbarrier_arrive_cluster(*out)",
            "mbarrier.arrive.shared::cluster.b64 _",
        ),
        (
            "mbarrier_cluster",
            "ptx::mbarrier_arrive_expect_tx_cluster(*out, 64)",
            "mbarrier.arrive.expect_tx.shared::cluster.b64 _",
        ),
        (
            "mbarrier_cluster",
            "ptx::mbarrier_arrive_release_cluster(*out)",
            "mbarrier.arrive.release.cluster.shared::cluster.b64 _",
        ),
        (
            "mbarrier_cluster",
            "*out = ptx::mbarrier_try_wait_parity_acquire_cluster(bar, 0)",
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64",
        ),
        ("cluster", "*out = ptx::cluster_ctarank()", "%cluster_ctarank;"),
        ("cluster", "*out = ptx::mapa(bar, 1)", "mapa.shared::cluster.u32"),
        ("cluster", "ptx::barrier_cluster_arrive_release()", "barrier.cluster.arrive.release.al"),
        ("cluster", "ptx::barrier_cluster_arrive_relaxed()", "barrier.cluster.arrive.relaxed.al"),
        ("cluster", "ptx::barrier_cluster_wait_acquire()", "barrier.cluster.wait.acquire.aligned"),
        (
            "tma",
            "ptx::cp_async_bulk_tensor_2d(s, map, bar, 1, 2)",
            r"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            r"\[%r\d+\], \[%rd\d+, {%r\d+, %r\d+}\], \[%r\d+\];",
        ),
        ("tma", "ptx::prefetch_tensormap(map)", r"prefetch.tensormap \["),
        (
            "tma_multicast",
            "ptx::cp_async_bulk_tensor_2d_multicast(s, map, bar, 3, 1, 2)",
            r"complete_tx::bytes.multicast::cluster \[%r\d+\], \[.*}\], \[%r\d+\], %rs\d+;",
        ),
        (
            "tma_hint",
            "ptx::cp_async_bulk_tensor_2d(s, map, bar, 1, 2, ptx::createpolicy_evict_first())",
            r"complete_tx::bytes.L2::cache_hint \[.*\[%r\d+\], %rd\d+;",
        ),
        (
            "tma_hint tma_multicast",
            "ptx::cp_async_bulk_tensor_2d_multicast(s, map, bar, 3, 1, 2, "
            "ptx::createpolicy_evict_last())",
            r"multicast::cluster.L2::cache_hint \[.*\[%r\d+\], %rs\d+, %rd\d+;",
        ),
        (
            "tma_hint",
            "ptx::cp_async_bulk_tensor_2d_store(map, 1, 2, s, ptx::createpolicy_evict_first())",
            "bulk_group.L2::cache_hint",
        ),
        (
            "tma_store",
            "ptx::cp_async_bulk_tensor_2d_store(map, 1, 2, s)",
            r"cp.async.bulk.tensor.2d.global.shared::cta.bulk_group \[%rd\d+, {.*}\], \[%r\d+\];",
        ),
        (
            "tma_reduce",
            "ptx::cp_reduce_async_bulk_tensor_2d_add(map, 1, 2, s)",
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group",
        ),
        (
            "tma_reduce",
            "ptx::cp_reduce_async_bulk_tensor_3d_add(map, 1, 2, 3, s)",
            "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group",
        ),
        (
            "tma_3d",
            "ptx::cp_async_bulk_tensor_3d(s, map, bar, 1, 2, 3)",
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes ",
        ),
        (
            "tma_3d",
            "ptx::cp_async_bulk_tensor_3d_multicast(s, map, bar, 3, 1, 2, 3)",
            "cp.async.bulk.tensor.3d.*complete_tx::bytes.multicast::cluster ",
        ),
        (
            "tma_3d",
            "ptx::cp_async_bulk_tensor_3d_store(map, 1, 2, 3, s)",
            "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group ",
        ),
        (
            "tma_prefetch",
            "ptx::cp_async_bulk_prefetch_tensor_2d(map, 1, 2)",
            "cp.async.bulk.prefetch.tensor.2d.L2.global ",
        ),
        ("bulk_group", "ptx::cp_async_bulk_commit_group()", "cp.async.bulk.commit_group;"),
        ("bulk_group", "ptx::cp_async_bulk_wait_group<2>()", "cp.async.bulk.wait_group 2;"),
        (
            "bulk_group",
            "ptx::cp_async_bulk_wait_group_read<0>()",
            "cp.async.bulk.wait_group.read 0;",
        ),
        ("setmaxnreg", "ptx::setmaxnreg_inc<240>()", "setmaxnreg.inc.sync.aligned.u32 240;"),
        ("setmaxnreg", "ptx::setmaxnreg_dec<24>()", "setmaxnreg.dec.sync.aligned.u32 24;"),
        ("elect", "*out = ptx::elect_sync()", "elect.sync _|p, 0xffffffff;"),
        ("fence_proxy", "ptx::fence_proxy_async()", "fence.proxy.async;"),
        (
            "fence_proxy",
            "ptx::fence_proxy_async_shared_cta()",
            "fence.proxy.async.shared::cta;",
        ),
        (
            "fence_proxy",
            "ptx::fence_proxy_tensormap_release()",
            "fence.proxy.tensormap::generic.release.gpu;",
        ),
        (
            "fence_proxy",
            "ptx::fence_proxy_tensormap_acquire(map)",
            r"fence.proxy.tensormap::generic.acquire.gpu \[%rd\d+\], 128;",
        ),
        ("named_barrier", "ptx::bar_sync(1, 128)", "bar.sync"),
        ("named_barrier", "ptx::bar_arrive(1, 128)", "bar.arrive"),
        ("griddepcontrol", "ptx::griddepcontrol_wait()", "griddepcontrol.wait;"),
        (
            "griddepcontrol",
            "ptx::griddepcontrol_launch_dependents()",
            "griddepcontrol.launch_dependents;",
        ),
        ("wgmma", "ptx::wgmma_fence()", "wgmma.fence.sync.aligned;"),
        ("wgmma", "ptx::wgmma_commit_group()", "wgmma.commit_group.sync.aligned;"),
        ("wgmma", "ptx::wgmma_wait_group<1>()", "wgmma.wait_group.sync.aligned 1;"),
    ],
)
def test_a_wrapper_is_its_instruction(header: str, call: str, instruction: str) -> None:
    text = ptx(f"{call};", " ".join(f"ptx/{name}.cuh" for name in header.split()))
    pattern = instruction.replace("|", r"\|").replace("{", r"\{")
    assert re.search(pattern, text), text


@pytest.mark.parametrize("kind", ["bf16", "fp16"])
@pytest.mark.parametrize("n", [8, 64, 256])
def test_wgmma_with_its_majors_and_types(kind: str, n: int) -> None:
    """The last two operands are 0 for K-major and 1 for MN-major."""
    name = {"bf16": "bf16", "fp16": "f16"}[kind]
    for a, b, last in (("K", "K", "0, 0"), ("K", "MN", "0, 1"), ("MN", "K", "1, 0")):
        body = f"""
          float acc[{n // 2}];
          ptx::Descriptor<{kind}, ptx::Major::{a}> a = {{*bar}};
          ptx::Descriptor<{kind}, ptx::Major::{b}> b = {{*bar + 1}};
          ptx::wgmma_mma_async(acc, a, b, *out > 0);
          ptx::wgmma_wait_group<0>();
          ptx::wgmma_fence_operands(acc);
          for (float x : acc) *out += x;"""
        found = re.search(
            rf"m64n{n}k16\.f32\.{name}\.{name} {{([^}}]*)}}, %rd\d+, %rd\d+, p, 1, 1, {last};",
            ptx(body, f"ptx/wgmma_m64n{n}k16.cuh"),
        )
        assert found
        assert len(set(found[1].split(", "))) == n // 2


def test_wgmma_with_a_in_registers() -> None:
    body = """
      float acc[32];
      const unsigned a[4] = {out[0], out[1], out[2], out[3]};
      ptx::Descriptor<fp16, ptx::Major::MN> b = {*bar};
      ptx::wgmma_mma_async(acc, a, b, false);
      ptx::wgmma_wait_group<0>();
      for (float x : acc) *out += x;"""
    pattern = r"m64n64k16\.f32\.f16\.f16 {[^}]*}, {%r\d+, %r\d+, %r\d+, %r\d+}, %rd\d+, p, 1, 1, 1;"
    assert re.search(pattern, ptx(body, "ptx/wgmma_m64n64k16.cuh"))


def test_the_wgmma_headers_are_what_the_script_writes() -> None:
    spec = importlib.util.spec_from_file_location("wgmma_shapes", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main(["--check"]) == 0, f"run scripts/{SCRIPT.name}"
    assert {64, 128, 192, 256} <= set(script.SHAPES)
    assert all(n % 8 == 0 and 8 <= n <= 256 for n in script.SHAPES)

"""When wgmma takes place, and what is wrong meanwhile: fences, waits, registers, shared memory.

Each test is one warpgroup that multiplies A [64, 16] by B [8, 16]ᵀ, bf16, once or in two steps,
with something left out or in the wrong place.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilewright
from tilewright.emulator.parse import parse
from tilewright.emulator.wgmma_log import said_of_wgmma

Array = np.ndarray[Any, Any]

FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
WAIT_1 = "wgmma.wait_group.sync.aligned 1;"
OP = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
D = "{%f0, %f1, %f2, %f3}"
FIRST = f"{OP} {D}, %d10, %d11, 1, 1, 1, 0, 0;"
SECOND = f"{OP} {D}, %d12, %d13, 1, 1, 1, 0, 0;"
FROM_REGISTERS = f"{OP} {D}, {{%r10, %r11, %r12, %r13}}, %d11, 1, 1, 1, 0;"
ZERO = "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;"
STORE = """
  st.global.f32 [%d2], %f0; st.global.f32 [%d2+512], %f1;
  st.global.f32 [%d2+1024], %f2; st.global.f32 [%d2+1536], %f3;
"""
KERNEL = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 out)
{{
  .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %d<32>; .reg .f32 %f<32>;
  .shared .align 1024 .b8 s[8192];
  ld.param.u64 %d1, [image]; ld.param.u64 %d2, [out];
  mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; and.b32 %r3, %r1, 127;
  mov.u32 %r4, s; shl.b32 %r5, %r3, 4; add.u32 %r6, %r4, %r5;
  cvt.u64.u32 %d3, %r5; add.u64 %d1, %d1, %d3; mul.wide.u32 %d4, %r1, 4; add.u64 %d2, %d2, %d4;
  setp.ge.u32 %p1, %r1, 128; @%p1 bra FILLED;
  {fill}
FILLED:
  fence.proxy.async; bar.sync 0;
  cvt.u64.u32 %d5, %r4; shr.u64 %d5, %d5, 4;
  add.u64 %d10, %d5, {a0}; add.u64 %d11, %d5, {b0};
  add.u64 %d12, %d5, {a1}; add.u64 %d13, %d5, {b1};
  mov.b32 %r10, 0x3F803F80; mov.b32 %r11, %r10; mov.b32 %r12, %r10; mov.b32 %r13, %r10;
  // body
{body}
  ret;
}}
"""
FIELDS = 128 >> 4 << 16 | 256 >> 4 << 32  # rows of 16 bytes, K-major, without a swizzle
PLACES = {"a0": 0, "b0": 2048, "a1": 4096, "b1": 6144}  # of the operands in shared memory


def operand(rng: np.random.Generator, extent: int) -> Array:
    return rng.integers(-4, 5, (extent, 16)).astype("f4")


def placed(matrix: Array) -> Array:
    """Bytes of a bf16 operand in the layout of FIELDS."""
    rows = matrix.astype(ml_dtypes.bfloat16).reshape(-1, 8, 2, 8)  # atoms, rows, halves of k
    return np.ascontiguousarray(rows.swapaxes(1, 2)).reshape(-1).view("u1")


class Case:
    """The operands, and D as a kernel's body leaves it."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.parts = {name: operand(rng, 64 if name[0] == "a" else 8) for name in PLACES}
        self.image = np.zeros(8192, "u1")
        for name, at in PLACES.items():
            raw = placed(self.parts[name])
            self.image[at : at + raw.size] = raw

    def product(self, number: int) -> Array:
        return self.parts[f"a{number}"] @ self.parts[f"b{number}"].T

    def text(self, *body: str) -> str:
        """The PTX of a kernel."""
        fill = "".join(
            f"ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%d1+{at}];"
            f"st.shared.v4.u32 [%r6+{at}], {{%r20, %r21, %r22, %r23}};\n"
            for at in range(0, 8192, 2048)
        )
        descs = {name: at >> 4 | FIELDS for name, at in PLACES.items()}
        return KERNEL.format(fill=fill, body="\n".join(body), **descs)

    def run(self, *body: str, threads: int = 128, **how: Any) -> tuple[Array, Any]:
        """D [64, 8] and the report."""
        self.out = out = np.zeros((4, threads), "f4")
        text = self.text(*body)
        report = tilewright.emulate(text, "k", (1,), (threads,), [self.image, out], **how)
        lanes = out[:, :128].reshape(2, 2, -1, 8, 4)  # half, column, warp, row, pair of columns
        return lanes.transpose(2, 0, 3, 4, 1).reshape(-1, 8), report


@pytest.fixture
def case() -> Case:
    return Case()


def kinds(report: Any) -> list[str]:
    return sorted({finding.kind for finding in report.findings})


def found(report: Any, kind: str) -> Any:
    """The one finding that there is."""
    assert kinds(report) == [kind], report.findings
    return report.findings[0]


# --- what is right ----------------------------------------------------------------------


def test_two_steps_in_one_group(case: Case) -> None:
    got, report = case.run(ZERO, FENCE, FIRST, SECOND, COMMIT, WAIT, STORE)
    assert report.findings == []
    np.testing.assert_array_equal(got, case.product(0) + case.product(1))


def test_two_groups_of_which_one_may_be_pending(case: Case) -> None:
    body = (ZERO, FENCE, FIRST, COMMIT, FENCE, SECOND, COMMIT, WAIT_1, WAIT, STORE)
    got, report = case.run(*body)
    assert report.findings == []
    np.testing.assert_array_equal(got, case.product(0) + case.product(1))


def test_a_from_registers_that_are_rewritten_behind_the_wait(case: Case) -> None:
    again = "add.u32 %r10, %r10, 0x3F803F80;"
    got, report = case.run(ZERO, FENCE, FROM_REGISTERS, COMMIT, WAIT, again, STORE)
    assert report.findings == []
    np.testing.assert_array_equal(got, np.ones((64, 16)) @ case.parts["b0"].T)


def test_constants_may_be_moved_in_behind_the_fence(case: Case) -> None:
    """NVRTC places them there, and ptxas says nothing."""
    got, report = case.run(FENCE, ZERO, FIRST, COMMIT, WAIT, STORE)
    assert report.findings == []
    np.testing.assert_array_equal(got, case.product(0))


def test_compilers_may_move_what_is_in_flight(case: Case) -> None:
    moves = "mov.f32 %f10, %f0; mov.f32 %f0, %f10;"
    got, report = case.run(ZERO, FENCE, FIRST, COMMIT, "mov.f32 %f10, %f0;", WAIT, STORE)
    assert report.findings == []
    np.testing.assert_array_equal(got, case.product(0))
    got, report = case.run(ZERO, FENCE, FIRST, COMMIT, WAIT, moves, STORE)
    assert report.findings == []
    np.testing.assert_array_equal(got, case.product(0))


def test_the_accumulators_may_be_scaled_between_two_products(case: Case) -> None:
    double = "".join(f"add.f32 %f{i}, %f{i}, %f{i};" for i in range(4))
    body = (ZERO, FENCE, FIRST, COMMIT, WAIT, double, FENCE, SECOND, COMMIT, WAIT, STORE)
    got, report = case.run(*body)
    assert report.findings == []
    np.testing.assert_array_equal(got, 2 * case.product(0) + case.product(1))


def test_shared_memory_may_be_overwritten_behind_the_wait(case: Case) -> None:
    body = (ZERO, FENCE, FIRST, COMMIT, WAIT, "st.shared.u32 [%r6], 0;", STORE)
    got, report = case.run(*body)
    assert report.findings == []
    np.testing.assert_array_equal(got, case.product(0))


# --- fences -----------------------------------------------------------------------------


def test_without_a_fence(case: Case) -> None:
    _, report = case.run(ZERO, FIRST, COMMIT, WAIT, STORE)
    finding = found(report, "wgmma-fence")
    assert "no wgmma.fence came before the first wgmma.mma_async" in finding.message


def test_accumulators_written_behind_the_fence(case: Case) -> None:
    write = "cvt.rn.f32.u32 %f1, %r1;"
    _, report = case.run(ZERO, FENCE, write, FIRST, COMMIT, WAIT, STORE)
    assert "its accumulators were used by other" in found(report, "wgmma-fence").message


def test_accumulators_read_behind_the_fence(case: Case) -> None:
    body = (ZERO, FENCE, FIRST, COMMIT, WAIT, STORE, SECOND, COMMIT, WAIT)
    _, report = case.run(*body)
    assert found(report, "wgmma-fence").message.startswith("wgmma-fence at 'wgmma.mma_async")


def test_registers_of_a_written_behind_the_fence(case: Case) -> None:
    write = "add.u32 %r11, %r11, 1;"
    _, report = case.run(ZERO, FENCE, write, FROM_REGISTERS, COMMIT, WAIT, STORE)
    assert "its registers of A were written after" in found(report, "wgmma-fence").message


# --- waits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        (ZERO, FENCE, FIRST, COMMIT, STORE, WAIT),
        (ZERO, FENCE, FIRST, COMMIT, STORE),
        (ZERO, FENCE, FIRST, WAIT, STORE),  # not committed
        (ZERO, FENCE, FIRST, COMMIT, WAIT_1, STORE),
        (ZERO, FENCE, FIRST, COMMIT, FENCE, SECOND, COMMIT, WAIT_1, STORE),
    ],
)
def test_accumulators_read_before_the_wait(case: Case, body: tuple[str, ...]) -> None:
    got, report = case.run(*body)
    finding = found(report, "wgmma-registers")
    assert "uses an accumulator that a wgmma.mma_async still works on" in finding.message
    assert (finding.block, finding.warp, finding.lane) == (0, 0, 0)
    assert np.isnan(got).all()


def test_accumulators_written_before_the_wait(case: Case) -> None:
    write = "cvt.rn.f32.u32 %f1, %r1;"
    got, report = case.run(ZERO, FENCE, FIRST, COMMIT, write, WAIT, STORE)
    found(report, "wgmma-registers")
    np.testing.assert_array_equal(got, case.product(0))  # it comes last


def test_registers_of_a_written_before_the_wait(case: Case) -> None:
    write = "add.u32 %r11, %r11, 1;"
    _, report = case.run(ZERO, FENCE, FROM_REGISTERS, COMMIT, write, WAIT, STORE)
    finding = found(report, "wgmma-registers")
    assert "writes a register of A that a wgmma.mma_async still reads" in finding.message


def test_another_shape_on_accumulators_in_flight(case: Case) -> None:
    other = f"wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {D}, %d12, %d13, 1, 1, 1;"
    _, report = case.run(ZERO, FENCE, FIRST, other, COMMIT, WAIT, STORE)
    assert "m64n8k16 still works on its acc" in found(report, "wgmma-registers").message


def test_another_set_of_registers_that_overlaps(case: Case) -> None:
    other = FIRST.replace(D, "{%f3, %f4, %f5, %f6}")
    more = "mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0;"
    _, report = case.run(ZERO, more, FENCE, FIRST, other, COMMIT, WAIT, STORE)
    found(report, "wgmma-registers")
    _, report = case.run(ZERO, more, FENCE, FIRST, COMMIT, WAIT, FENCE, other, COMMIT, WAIT, STORE)
    assert report.findings == []


def test_shared_memory_overwritten_before_the_wait(case: Case) -> None:
    """The numbers are wrong, as A is read at the wait."""
    body = (ZERO, FENCE, FIRST, COMMIT, "st.shared.u32 [%r6], 0;", WAIT, STORE)
    got, report = case.run(*body)
    assert "writes what wgmma.mma_async" in found(report, "race").message
    left = case.parts["a0"].copy()
    left.reshape(8, 8, 2, 8)[..., :2] = 0  # the first word of all 16 bytes
    np.testing.assert_array_equal(got, left @ case.parts["b0"].T)


PROXY = "fence.proxy.async;"
TURNED = "sub.u32 %r7, 2032, %r5; add.u32 %r7, %r7, %r4; st.shared.u32 [%r7], 0;"


@pytest.mark.parametrize("write", ["st.shared.u32 [%r6], 0;", TURNED])
def test_what_threads_wrote_needs_a_fence_and_a_barrier(case: Case, write: str) -> None:
    """Also for a warp's own rows of A: it is the warpgroup that multiplies."""
    rest = (ZERO, FENCE, FIRST, COMMIT, WAIT, STORE)
    _, report = case.run(write, PROXY, "bar.sync 0;", *rest)
    assert report.findings == []
    _, report = case.run(write, "bar.sync 0;", *rest)
    assert "no fence.proxy.async between the two" in found(report, "proxy-fence").message
    _, report = case.run(write, PROXY, *rest)
    assert "reads what warp" in found(report, "race").message


def test_what_one_warp_alone_does_not_know(case: Case) -> None:
    """Warps 0 to 2 meet after warp 0's store; warp 3 has met them before it."""
    store = "setp.ne.u32 %p2, %r2, 0; @%p2 bra ON; st.shared.u32 [%r6], 0; fence.proxy.async; ON:"
    meet = "setp.eq.u32 %p3, %r2, 3; @%p3 bra LAST; bar.sync 1, 96; LAST:"
    body = (store, meet, ZERO, FENCE, FIRST, COMMIT, WAIT, STORE)
    _, report = case.run(*body)
    assert "reads what warp 0 wrote" in found(report, "race").message


def test_an_operand_is_free_for_all_once_one_warp_has_waited(case: Case) -> None:
    """Warp 2 tells, warp 0 of another warpgroup overwrites."""
    wait = (ZERO, FENCE, FIRST, COMMIT, WAIT, STORE)
    tell = "setp.ne.u32 %p2, %r2, 2; @%p2 bra DONE; bar.arrive 1, 64; bra DONE;"
    other = "OTHER: setp.ne.u32 %p2, %r2, 4; @%p2 bra DONE; bar.sync 1, 64; MORE DONE:"
    overwrite = "st.shared.u32 [%r6], 0;"
    body = ("@%p1 bra OTHER;", *wait, tell, other.replace("MORE", overwrite))
    _, report = case.run(*body, threads=256)
    assert report.findings == []
    silent = other.replace("bar.sync 1, 64; MORE", overwrite)
    _, report = case.run("@%p1 bra OTHER;", *wait, "bra DONE;", silent, threads=256)
    assert found(report, "race").message.startswith("st.shared.u32 writes what wgmma.mma_async")


def test_shared_memory_that_nobody_wrote(case: Case) -> None:
    outside = FIRST.replace("%d11", "%d15")
    far = f"add.u64 %d15, %d5, {7680 >> 4 | FIELDS};"
    _, report = case.run(far, ZERO, FENCE, outside, COMMIT, WAIT, STORE)
    assert report.findings == []
    beyond = f"add.u64 %d15, %d5, {8192 >> 4 | FIELDS};"
    got, report = case.run(beyond, ZERO, FENCE, outside, COMMIT, WAIT, STORE)
    finding = found(report, "out-of-bounds")
    assert finding.address == 8192
    assert np.isnan(got).all()


# --- whole warpgroups -------------------------------------------------------------------

SKIP = "setp.eq.u32 %p2, %r2, 3; @%p2 bra OUT;"


def test_a_warp_that_does_not_come(case: Case) -> None:
    body = (SKIP, ZERO, FENCE, FIRST, COMMIT, WAIT, STORE, "OUT:")
    _, report = case.run(*body)
    assert set(kinds(report)) == {"divergent-aligned"}
    message = report.findings[0].message
    assert "all warps of a warpgroup must execute it together, and lane 0 and 31 more of" in message
    assert "of warp 3 took another path" in message


def test_warps_that_come_one_after_the_other(case: Case) -> None:
    """Warp 3 goes a longer way; the others wait for it."""
    late = "setp.ne.u32 %p2, %r2, 3; @%p2 bra ON; mov.u32 %r9, 5; bra ON; ON:"
    for schedule, seed in (("lockstep", 0), ("random", 0), ("random", 1), ("random", 2)):
        body = (late, ZERO, FENCE, FIRST, COMMIT, WAIT, STORE)
        got, report = case.run(*body, schedule=schedule, seed=seed)
        assert report.findings == []
        np.testing.assert_array_equal(got, case.product(0))


def test_a_block_without_a_whole_warpgroup(case: Case) -> None:
    _, report = case.run(ZERO, FENCE, FIRST, COMMIT, WAIT, threads=96)
    assert "wgmma needs whole warpgroups of 128" in found(report, "divergent-aligned").message
    _, report = case.run(ZERO, FENCE, FIRST, COMMIT, WAIT, threads=160)
    assert "the block has 160 threads" in found(report, "divergent-aligned").message


def test_warps_beside_a_warpgroup_that_do_something_else(case: Case) -> None:
    """A warp of its own copies, as in kernels of 128 + 32 threads."""
    rest = "setp.ge.u32 %p2, %r2, 4; @%p2 bra OUT;"
    got, report = case.run(rest, ZERO, FENCE, FIRST, COMMIT, WAIT, STORE, "OUT:", threads=160)
    assert report.findings == []
    np.testing.assert_array_equal(got[::16, ::2], case.product(0)[::16, ::2])


def test_one_warpgroup_of_two(case: Case) -> None:
    """The other one goes its own way, and its registers keep what they had."""
    split = "mov.f32 %f0, 0f40400000; mov.f32 %f2, %f0; @%p1 bra OTHER;"
    body = (split, FENCE, FIRST, COMMIT, WAIT, "OTHER:", "st.global.f32 [%d2], %f0;")
    got, report = case.run(*body, threads=256)
    assert report.findings == []
    assert (case.out[0, 128:] == 3).all()
    np.testing.assert_array_equal(got[::16, ::2], 3 + case.product(0)[::16, ::2])


def test_descriptors_that_differ_within_a_warpgroup(case: Case) -> None:
    differ = "cvt.u64.u32 %d14, %r2; add.u64 %d11, %d11, %d14;"
    _, report = case.run(differ, ZERO, FENCE, FIRST, COMMIT, WAIT, STORE)
    assert "must give the same descriptor" in found(report, "divergent-aligned").message


def test_a_descriptor_of_a_warp_that_is_elsewhere_does_not_count(case: Case) -> None:
    """That the warp is not there is the only fault."""
    away = "setp.eq.u32 %p2, %r2, {}; @%p2 mov.b64 %d11, 0x3FFF; @%p2 bra OUT;"
    for warp in (0, 3):
        body = (ZERO, away.format(warp), FENCE, FIRST, COMMIT, WAIT, "OUT:")
        _, report = case.run(*body)
        assert "took another path" in found(report, "divergent-aligned").message


# --- what ptxas says --------------------------------------------------------------------

SAID = (
    "ptxas info    : ({}) Potential Performance Loss: wgmma.mma_async instructions are serialized"
)
LOG = f"""{SAID.format("C7514")} due to non wgmma instructions in the function 'k' in line 0
ptxas info    : (C7517) wgmma.wait_group is injected in around line LINE by compiler in function 'k'
{SAID.format("C7510")} due to a call in the function 'other'
ptxas info    : (C7504) Potential Performance Loss: 'setmaxnreg' ignored in function 'k'
"""


def test_remarks_of_ptxas_are_findings_at_their_instructions(case: Case) -> None:
    kernel = parse(case.text(ZERO, FENCE, FIRST, COMMIT, WAIT, STORE)).kernels["k"]
    store = next(it for it in kernel.instructions if it.opcode == "st.global.f32")
    first, second = said_of_wgmma(LOG.replace("LINE", str(store.line - 1)), kernel)
    assert first.message == (
        f"wgmma-serialised at {OP}: wgmma.mma_async instructions are serialized due to non wgmma "
        "instructions (ptxas, C7514)"
    )
    assert second.message.endswith("wgmma.wait_group is injected by compiler (ptxas, C7517)")
    assert second.line == store.line
    assert said_of_wgmma("", kernel) == []


def test_a_kernel_that_is_built_here_has_them_too() -> None:
    source = """extern "C" __global__ void k(float* out, unsigned long long a) {
      float d[4] = {1, 2, 3, 4};
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %4, "
        "1, 1, 1, 0, 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a));
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
    }"""
    out = np.zeros(128, "f4")
    args = [out, 0]
    report = tilewright.emulate(source, "k", 1, 128, args, arch="sm_90a", shared_bytes=4096)
    assert kinds(report) == ["uninitialised", "wgmma-registers", "wgmma-serialised"]
    said = report.findings[-1]
    assert (said.kind, said.line) == ("wgmma-serialised", 7)


# --- counts -----------------------------------------------------------------------------


def test_the_bytes_of_both_operands_are_counted(case: Case) -> None:
    _, report = case.run(ZERO, FENCE, FIRST, FROM_REGISTERS, COMMIT, WAIT, STORE)
    rows = [row for row in report.accesses if row.opcode.startswith("wgmma")]
    assert [(row.space, row.requests, row.bytes) for row in rows] == [
        ("shared", 4, 2048 + 256),
        ("shared", 4, 256),
    ]
    assert report.totals["wgmma_shared_bytes"] == 2048 + 256 + 256
    assert all(row.wavefronts == row.sectors == 0 for row in rows)


def test_without_checks_nothing_is_looked_for(case: Case) -> None:
    got, report = case.run(ZERO, FIRST, COMMIT, WAIT, STORE, checks=False)
    assert report.findings == []
    np.testing.assert_array_equal(got, case.product(0))

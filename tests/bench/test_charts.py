"""What a picture shows: which lines, which figures, in which words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from tilewright.bench.charts import KINDS, Ceiling, gather
from tilewright.bench.record import Measurement
from tilewright.errors import InputError

TORCH = Measurement(
    taken="2026-12-01T09:30:00Z", name="torch", source_hash=None, m=4096, n=4096, k=4096,
    layout="nn", dtype="bf16", inputs="normal(0, 1)", seed=0, us=200.0,
    us_samples=(198.0, 200.0, 202.0), rival="torch", rival_version="2.11.0", rival_us=200.0,
    rival_us_samples=(198.0, 200.0, 202.0), ratio=1.0, correct=True, rel_error=1.6e-3,
    method="graph replay", gpu="NVIDIA H200", driver="580.159.03", cuda="13.0", sm_mhz=1980,
    power_w=None, temperature_c=None, host="Linux x86_64, 16 cores, Python 3.12.3",
)  # fmt: skip
OURS = replace(
    TORCH, name="hgemm_bcf", source_hash="0" * 16, us=400.0, us_samples=(396.0, 400.0, 505.0),
    ratio=0.5,
)  # fmt: skip
NAIVE = replace(OURS, name="hgemm_naive", us=800.0, us_samples=(800.0,) * 3, ratio=0.25)


def at(line: Measurement, m: int, n: int, k: int, **more: Any) -> Measurement:
    return replace(line, m=m, n=n, k=k, **more)


def test_the_ladder_is_the_newest_run_rungs_first() -> None:
    old = replace(OURS, taken="2026-11-30T00:00:00Z", name="gone")
    chart = gather([old, TORCH, NAIVE, OURS], "ladder")
    assert chart.names == ("hgemm_naive", "hgemm_bcf", "torch")
    assert [point.peer for point in chart.points] == [False, False, True]
    assert chart.points[0].tflops == pytest.approx(2 * 4096**3 / 800 / 1e6)
    assert chart.title == "Throughput of each rung: 4096×4096×4096 nn, bf16"
    assert chart.facts == "NVIDIA H200 · 2026-12-01 · inputs normal(0, 1), seed 0"
    assert chart.rival == "torch"


def test_a_later_run_of_another_shape_does_not_replace_the_ladder() -> None:
    other = at(OURS, 128, 256, 64, taken="2026-12-02T00:00:00Z")
    assert {point.m for point in gather([OURS, TORCH, other], "ladder").points} == {4096}
    assert gather([other], "ladder").points[0].shape == "128×256×64 nn"


def test_a_wrong_result_has_no_figures_and_no_point_elsewhere() -> None:
    wrong = replace(OURS, correct=False)
    (point,) = gather([wrong], "ladder").points
    assert (point.us, point.tflops, point.ratio, point.ratio_p20) == (None,) * 4
    chart = gather([wrong, NAIVE], "ratio")
    assert (chart.names, chart.left_out) == (("hgemm_naive",), ("1 line found wrong",))


def test_a_newer_wrong_line_is_not_replaced_by_an_older_right_one() -> None:
    later = replace(OURS, correct=False, taken="2026-12-02T00:00:00Z")
    with pytest.raises(InputError, match="no lines with a rival"):
        gather([OURS, later], "ratio")


def test_ratios_have_the_quantiles_of_the_rounds() -> None:
    (point,) = gather([TORCH, OURS], "ratio").points
    assert point.ratio == 0.5
    assert point.ratio_p20 == pytest.approx(0.44)  # ratios 0.4, 0.5, 0.5
    assert point.ratio_p80 == pytest.approx(0.5)
    (unpaired,) = gather([replace(OURS, rival_us_samples=(198.0,))], "ratio").points
    assert (unpaired.ratio, unpaired.ratio_p20, unpaired.ratio_p80) == (0.5, None, None)


def test_ratios_keep_one_rival_and_one_kind_of_inputs_and_say_so() -> None:
    small, tiny = at(OURS, 512, 256, 128), at(OURS, 129, 257, 65)
    zeros = replace(OURS, inputs="zeros", taken="2026-12-03T00:00:00Z")
    cublas = replace(NAIVE, rival="hgemm_cublas")
    chart = gather([OURS, small, tiny, zeros, cublas], "ratio")
    assert [point.aligned for point in chart.points] == [True, True, False]
    assert chart.title == "Speed ÷ torch: 3 shapes, bf16"
    assert chart.left_out == (
        "1 line on other inputs than normal(0, 1)",
        "1 line with another rival than torch",
    )


def test_sizes_are_square_newest_and_of_one_layout() -> None:
    newer = at(OURS, 512, 512, 512, us=7.0, taken="2026-12-02T00:00:00Z")
    turned = replace(OURS, layout="nt")
    lines = [OURS, newer, at(OURS, 512, 512, 512), at(OURS, 512, 256, 128), turned]
    chart = gather(lines, "size")
    assert [(point.n, point.us) for point in chart.points] == [(512, 7.0), (4096, 400.0)]
    assert chart.left_out == ("1 line of other layouts",)
    assert chart.facts.startswith("NVIDIA H200 · 2026-12-01 to 2026-12-02 ·")


def test_a_gpu_is_chosen_by_a_part_of_its_name_or_as_the_latest() -> None:
    other = replace(OURS, gpu="NVIDIA GH200", taken="2026-12-02T00:00:00Z")
    assert gather([OURS, other], "ladder").points[0].gpu == "NVIDIA GH200"
    assert gather([OURS, other], "ladder", gpu="nvidia h200").points[0].gpu == "NVIDIA H200"
    with pytest.raises(InputError, match="fits NVIDIA GH200, NVIDIA H200; name one"):
        gather([OURS, other], "ladder", gpu="H200")


HERE = "4096×4096×4096 nn"
AGAIN = replace(TORCH, name="torch again", us_samples=(200.0, 200.0, 202.0))
ROOF = replace(
    OURS, name="roof: mma rate", gpu="NVIDIA B200", taken="2026-12-09T00:00:00Z", rival=None,
    rival_us_samples=None, ratio=None, correct=None,
)  # fmt: skip


@pytest.mark.parametrize("kind", ["ladder", "size", "ratio"])  # roofline takes roofs
def test_roofs_and_second_timings_are_no_kernels(kind: str) -> None:
    """Nor does a roof's line, though the newest, choose the GPU or the ladder's run."""
    here = replace(ROOF, gpu=TORCH.gpu)
    chart = gather([OURS, TORCH, AGAIN, here, ROOF], kind)
    assert set(chart.names) <= {"hgemm_bcf", "torch"}
    assert {point.gpu for point in chart.points} == {"NVIDIA H200"}
    assert chart.left_out == ()
    with pytest.raises(InputError, match="there is no measurement at all"):
        gather([AGAIN, ROOF], kind)


@pytest.mark.parametrize("kind", ["size", "ratio"])
def test_the_rival_against_itself_gives_the_band(kind: str) -> None:
    small = at(AGAIN, 512, 512, 512, us_samples=(220.0, 200.0, 202.0))  # 0.9, 1, 1
    unshown = at(AGAIN, 128, 256, 64, us_samples=(1.0,) * 3)
    other_inputs = replace(AGAIN, inputs="zeros", us_samples=(2.0,) * 3)
    other_rival = replace(AGAIN, name="cublas again", rival="cublas", us_samples=(3.0,) * 3)
    lines = [OURS, at(OURS, 512, 512, 512), small, unshown, other_inputs, other_rival, AGAIN]
    chart = gather(lines, kind)
    assert [point.shape for point in chart.noise] == ["512×512×512 nn", "4096×4096×4096 nn"]
    assert chart.band("512×512×512 nn") == pytest.approx((0.94, 1.0))
    assert chart.band("4096×4096×4096 nn") == pytest.approx((0.994, 1.0))
    assert chart.band("128×256×64 nn") is None


def test_the_band_is_of_the_newest_second_timing_and_holds_one() -> None:
    newer = replace(AGAIN, us_samples=(190.0, 190.0, 190.0), taken="2026-12-02T00:00:00Z")
    chart = gather([OURS, newer, AGAIN], "ratio")
    assert chart.band(HERE) == pytest.approx((1.0, (202 * 0.6 + 200 * 0.4) / 190))
    wrong = replace(newer, correct=False)
    assert gather([OURS, wrong, AGAIN], "ratio").noise == ()


def test_without_a_second_timing_there_is_no_band() -> None:
    chart = gather([OURS, TORCH], "ratio")
    assert (chart.noise, chart.band(HERE)) == ((), None)
    unpaired = replace(AGAIN, rival_us_samples=None)
    assert gather([OURS, unpaired], "ratio").band(HERE) is None


@pytest.mark.parametrize(
    ("lines", "how", "said"),
    [
        ([OURS], {"kind": "pie"}, "kind='pie' is not known; use ladder, size, ratio, "
         "roofline."),
        ([OURS], {"kind": "ladder", "dtype": "fp8"}, "nothing is measured of fp8; there is bf16 "
         "on NVIDIA H200."),
        ([OURS], {"kind": "size", "gpu": "B200"}, "nothing is measured of bf16 on B200; there is "
         "bf16 on NVIDIA H200."),
        ([], {"kind": "ladder"}, "nothing is measured of bf16; there is no measurement at all."),
        ([at(OURS, 8, 16, 24)], {"kind": "size"}, "there are no square shapes (m = n = k) that "
         "were found correct; there is 8x16x24:nn."),
        ([replace(OURS, correct=False)], {"kind": "roofline"}, "there are no lines that were "
         "found correct; there is 4096x4096x4096:nn."),
        ([replace(OURS, gpu="NVIDIA B300")], {"kind": "roofline"}, "NVIDIA B300 has no roofs: it "
         "is not in the table of GPUs, and no bf16 line there begins with \"roof: \"; add the "
         "lines of tilewright.bench.survey.measure_roofs to the .jsonl."),
        ([replace(OURS, dtype="fp8")], {"kind": "roofline", "dtype": "fp8"}, "dtype='fp8' has no "
         "roofs; use bf16, fp16, tf32, fp32."),
        ([OURS, replace(ROOF, gpu=OURS.gpu)], {"kind": "roofline"}, "the roofs lack roof: empty "
         "node, roof: cold read, roof: copy."),
        ([TORCH], {"kind": "ratio"}, "there are no lines with a rival that were found correct; "
         "there is 4096x4096x4096:nn."),
    ],
)  # fmt: skip
def test_what_cannot_be_shown_says_what_there_is(
    lines: list[Measurement], how: dict[str, str], said: str
) -> None:
    with pytest.raises(InputError) as error:
        gather(lines, **how)
    assert str(error.value) == said


def roofs(read_gbps: float, copy_gbps: float, tflops: int, **more: Any) -> list[Measurement]:
    """The lines of one run of the probes; small reads are slow."""
    given: dict[str, Any] = {"gpu": OURS.gpu, "m": 1, "n": 1, "k": 1} | more
    line, mib = replace(ROOF, **given), 2**20 / 1e3
    return [
        replace(line, name="roof: empty node", us=1.0),
        replace(line, name="roof: cold read 448 MiB", us=448 * mib / read_gbps),
        replace(line, name="roof: cold read 2 MiB", us=2.5),
        replace(line, name="roof: copy 224 MiB", us=2 * 224 * mib / copy_gbps),
        replace(line, name="roof: mma rate", m=16, n=8, k=tflops * 10**6 // 256, us=1.0),
    ]


def test_a_roofline_has_the_newest_line_of_each_kernel_and_shape() -> None:
    older = replace(OURS, us=1.0, taken="2026-11-30T00:00:00Z")
    thin = at(TORCH, 1, 4096, 8192)
    alone = replace(NAIVE, rival=None, rival_us_samples=None, ratio=None)
    chart = gather([OURS, older, TORCH, thin, alone, replace(NAIVE, name="x", correct=False)],
                   "roofline")  # fmt: skip
    assert chart.title == "Roofline: 2 shapes, bf16"
    assert chart.names == ("hgemm_bcf", "hgemm_naive", "torch")
    assert chart.left_out == ("1 line found wrong",)
    by_name = {(point.name, point.m): point for point in chart.points}
    assert by_name["hgemm_bcf", 4096].us == 400.0
    assert by_name["hgemm_bcf", 4096].intensity == pytest.approx(4096 / 3)
    moved = 2 * (8192 + 4096 * 8192 + 4096)
    assert by_name["torch", 1].intensity == pytest.approx(2 * 4096 * 8192 / moved)


def test_bytes_follow_the_type_and_are_unknown_for_an_unknown_one() -> None:
    (wide,) = gather([replace(OURS, dtype="fp32")], "ladder", "fp32").points
    assert wide.intensity == pytest.approx(4096 / 6)
    (unknown,) = gather([replace(OURS, dtype="fp8")], "ladder", "fp8").points
    assert unknown.intensity is None


def test_without_measured_roofs_the_datasheet_gives_them() -> None:
    elsewhere = roofs(4000, 4000, 600, gpu="NVIDIA B200")
    other_type = roofs(4000, 4000, 600, dtype="fp16")
    chart = gather([OURS, *elsewhere, *other_type], "roofline")
    assert chart.roofs == Ceiling(4800, 989)
    assert chart.roofs.source == "datasheet"
    assert chart.roofs.ridge == pytest.approx(989e3 / 4800)
    assert chart.roofs.tflops(100) == pytest.approx(480)
    assert chart.roofs.tflops(1000) == 989
    single = gather([replace(OURS, dtype="fp32")], "roofline", "fp32")
    assert single.roofs == Ceiling(4800, 66.9)
    assert gather([OURS], "ratio").roofs is None


@pytest.mark.parametrize(("read", "copy"), [(4380.0, 4100.0), (4100.0, 4380.0)])
def test_measured_roofs_are_the_newest_run_and_the_faster_of_read_and_copy(
    read: float, copy: float
) -> None:
    old = roofs(9000.0, 9000.0, 900, taken="2026-12-08T00:00:00Z")
    chart = gather([*roofs(read, copy, 640), OURS, *old], "roofline")
    assert chart.roofs is not None
    assert chart.roofs.memory_gbps == pytest.approx(4380)
    assert chart.roofs.matrix_tflops == pytest.approx(640)
    assert (chart.roofs.source, chart.roofs.taken) == ("measured", ROOF.taken)
    assert chart.names == ("hgemm_bcf",)


@pytest.mark.parametrize(("us", "tflops"), [(100.0, 2 * 4096**3 / 100e6), (1000.0, 640.0)])
def test_a_library_that_beats_the_probe_is_the_roof(us: float, tflops: float) -> None:
    library = replace(ROOF, name="roof: library rate", gpu=OURS.gpu, us=us)
    chart = gather([*roofs(4000, 4000, 640), library, OURS], "roofline")
    assert chart.roofs is not None
    assert chart.roofs.matrix_tflops == pytest.approx(tflops)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_knows_all_kernels_of_the_lines(kind: str) -> None:
    """Also those that this picture leaves out: else the marks would differ between kinds."""
    elsewhere = replace(OURS, name="mine", gpu="NVIDIA B200", taken="2026-11-01T00:00:00Z")
    chart = gather([TORCH, OURS, AGAIN, elsewhere], kind)
    assert chart.measured == ("hgemm_bcf", "mine", "torch")


def test_libraries_are_told_apart() -> None:
    assert gather([TORCH, OURS], "ladder").peers == {"torch"}


def test_the_digest_is_of_all_that_is_drawn_and_of_nothing_else() -> None:
    chart = gather([OURS, TORCH, AGAIN], "ratio")
    assert re.fullmatch(r"[0-9a-f]{16}", chart.digest)
    assert gather([OURS, TORCH, AGAIN], "ratio").digest == chart.digest
    assert replace(chart, left_out=("1 line found wrong",)).digest == chart.digest
    slower = replace(OURS, us_samples=(396.0, 400.0, 506.0))
    others = [
        gather([slower, TORCH, AGAIN], "ratio"),
        gather([OURS, TORCH], "ratio"),
        replace(chart, kind="size"),
        replace(chart, points=chart.points[::-1] * 2),
        replace(chart, roofs=Ceiling(4800, 989)),
        replace(chart, roofs=Ceiling(4800, 990)),
        replace(chart, measured=("another", "hgemm_bcf", "torch")),
    ]
    assert len({chart.digest, *(other.digest for other in others)}) == len(others) + 1


def test_a_picture_is_told_in_words() -> None:
    wrong = replace(NAIVE, correct=False)
    assert gather([TORCH, wrong, OURS], "ladder").alt == (
        "Throughput of each rung: 4096×4096×4096 nn, bf16, NVIDIA H200: hgemm_naive wrong result, "
        "hgemm_bcf 344 TFLOP/s, torch 687 TFLOP/s"
    )
    assert gather([TORCH, OURS, at(OURS, 512, 256, 128)], "roofline").alt == (
        "Roofline: 2 shapes, bf16, NVIDIA H200: torch, hgemm_bcf, roofs 4,800 GB/s, "
        "989 TFLOP/s (datasheet)"
    )

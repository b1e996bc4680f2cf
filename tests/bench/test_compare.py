"""Two records compared by their ratios to a rival."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tilewright.bench.compare import Row, compare
from tilewright.bench.record import Measurement
from tilewright.errors import InputError

OLD = Measurement(
    taken="2026-11-01T09:30:00Z",
    name="hgemm_bcf",
    source_hash="0123456789abcdef",
    m=256,
    n=384,
    k=192,
    layout="nn",
    dtype="bf16",
    inputs="normal",
    seed=0,
    us=2.0,
    us_samples=(1.9, 2.0, 2.5),
    rival="torch",
    rival_version="2.11.0",
    rival_us=4.0,
    rival_us_samples=(4.0, 4.0, 4.0),
    ratio=0.5,
    correct=True,
    rel_error=1.66e-3,
    method="graph replay",
    gpu="NVIDIA H200",
    driver="580.159.03",
    cuda="13.0",
    sm_mhz=1980,
    power_w=650.5,
    temperature_c=50,
    host="Linux",
)


def later(**values: Any) -> Measurement:
    return replace(OLD, **{"taken": "2026-11-02T09:30:00Z", **values})


def only(old: Measurement, new: Measurement, fail_below: float = 0.98) -> Row:
    (row,) = compare([old], [new], fail_below).rows
    return row


@pytest.mark.parametrize(
    ("ratio", "status"),
    [(0.5, "ok"), (0.4901, "ok"), (0.4899, "slower"), (0.5101, "ok"), (0.5103, "faster")],
)
def test_the_change_of_the_ratio_decides(ratio: float, status: str) -> None:
    row = only(OLD, later(ratio=ratio))
    assert (row.status, row.reason, row.rival) == (status, None, "torch")
    assert (row.old_ratio, row.new_ratio) == (0.5, ratio)
    assert row.change == pytest.approx(ratio / 0.5)


def test_times_do_not_count() -> None:
    assert only(OLD, later(us=200.0, us_samples=(200.0,))).status == "ok"


def test_the_noise_is_that_of_the_rounds_of_the_side_that_has_more() -> None:
    still = later(us_samples=(2.0, 2.0, 2.0))
    ratios = sorted((4.0 / 1.9, 2.0, 4.0 / 2.5))
    p20, p80 = ratios[0] * 0.6 + ratios[1] * 0.4, ratios[1] * 0.4 + ratios[2] * 0.6
    assert only(OLD, still).noise == pytest.approx((p80 - p20) / 2 / 2.0)
    assert only(replace(OLD, us_samples=(2.0,) * 3), still).noise is None
    assert only(replace(OLD, us_samples=(2.0,)), still).noise is None


def test_roofs_are_not_compared() -> None:
    roof = later(name="roof: copy 224 MiB")
    assert [row.name for row in compare([OLD, roof], [later(), roof]).rows] == ["hgemm_bcf"]


@pytest.mark.parametrize(("ratio", "status"), [(0.5, "ok"), (0.499, "slower"), (0.501, "faster")])
def test_one_is_the_strictest_limit(ratio: float, status: str) -> None:
    assert only(OLD, later(ratio=ratio), 1.0).status == status


def test_a_wrong_result_is_wrong_also_where_it_is_new_or_of_another_rival() -> None:
    wrong = later(correct=False, name="hgemm_naive", rival="other")
    result = compare([OLD], [later(), wrong])
    assert [(row.name, row.status, row.change) for row in result.rows] == [
        ("hgemm_bcf", "ok", 1.0),
        ("hgemm_naive", "wrong", None),
    ]
    assert not result.fine


def test_an_old_wrong_result_says_nothing() -> None:
    row = only(replace(OLD, correct=False), later(ratio=0.1))
    assert (row.status, row.change) == ("only new", None)
    assert "is wrong and says nothing" in str(row.reason)


def test_lines_of_one_side_are_told_and_fine() -> None:
    result = compare([OLD, replace(OLD, m=128)], [later(), later(gpu="NVIDIA A100")])
    assert [(row.gpu, row.m, row.status) for row in result.rows] == [
        ("NVIDIA A100", 256, "only new"),
        ("NVIDIA H200", 128, "only old"),
        ("NVIDIA H200", 256, "ok"),
    ]
    assert result.fine
    assert (result.rows[0].old_ratio, result.rows[1].new_ratio) == (None, None)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rival": "hgemm_cublas"}, "the old rival is torch, the new hgemm_cublas."),
        ({"rival": None}, "the old rival is torch, the new none."),
        ({"ratio": None}, "a line without a rival's ratio has nothing to compare."),
    ],
)
def test_another_rival_is_not_compared(values: dict[str, Any], said: str) -> None:
    row = only(OLD, later(**values))
    assert (row.status, row.change, row.reason) == ("other rival", None, said)


def test_two_lines_without_a_rival() -> None:
    alone: dict[str, Any] = {"rival": None, "ratio": None}
    assert only(replace(OLD, **alone), later(**alone)).status == "other rival"


def test_the_newest_line_of_each_side_counts_and_of_equals_the_last() -> None:
    new = [later(ratio=0.6), replace(OLD, ratio=0.1), later(ratio=0.55)]
    (row,) = compare([OLD, replace(OLD, taken="2026-10-01T09:30:00Z", ratio=0.9)], new).rows
    assert (row.old_ratio, row.new_ratio) == (0.5, 0.55)


def test_the_rivals_own_lines_are_left_out() -> None:
    torch = replace(OLD, name="torch", ratio=1.0)
    assert [row.name for row in compare([torch, OLD], [torch, later()]).rows] == ["hgemm_bcf"]
    with pytest.raises(InputError, match="none in common"):
        compare([torch], [torch])


def test_what_else_differs_is_said() -> None:
    row = only(OLD, later(rival_version="2.12.0", driver="590", cuda="13.1"))
    assert row.reason == (
        "not only the code may differ: torch 2.11.0 → 2.12.0, driver 580.159.03 → 590, "
        "CUDA 13.0 → 13.1."
    )


def test_other_inputs_are_not_compared() -> None:
    row = only(OLD, later(inputs="zeros"))
    assert (row.status, row.change) == ("other inputs", None)
    assert not compare([OLD], [later(inputs="zeros")]).fine  # nothing was compared


def test_a_kernel_that_is_gone_fails_and_a_shape_does_not() -> None:
    other = replace(OLD, name="hgemm_naive")
    result = compare([OLD, other, replace(OLD, m=512)], [later()])
    assert {(row.name, row.m): row.status for row in result.rows} == {
        ("hgemm_bcf", 256): "ok",
        ("hgemm_bcf", 512): "only old",
        ("hgemm_naive", 256): "gone",
    }
    assert not result.fine
    assert result.counts == "1 ok, 1 gone, 1 only old"
    assert compare([OLD, replace(OLD, m=512)], [later()]).fine


def test_geometric_mean() -> None:
    old = [OLD, replace(OLD, m=128), replace(OLD, m=512)]
    new = [later(ratio=1.0), later(m=128, ratio=0.125), later(m=512, rival="x")]
    result = compare(old, new)
    assert result.changes == (0.25, 2.0)
    assert result.geometric_mean == pytest.approx(math.sqrt(0.5))
    assert compare([OLD], [later(rival="x")]).geometric_mean is None


@pytest.mark.parametrize("limit", [0.0, -1.0, 1.01, math.nan, math.inf])
def test_a_limit_that_is_none(limit: float) -> None:
    with pytest.raises(InputError, match=r"fail_below=.* must be above 0 and at most 1"):
        compare([OLD], [later()], limit)


@pytest.mark.parametrize("ratio", [0.0, -1.0, 1e299])
def test_a_ratio_that_is_none(ratio: float) -> None:
    with pytest.raises(InputError, match=r"ratio=.* of hgemm_bcf \(2026-11-02T09:30:00Z\) is none"):
        compare([OLD], [later(ratio=ratio)])


def test_nothing_in_common() -> None:
    for values in ({"k": 64}, {"layout": "nt"}, {"dtype": "fp16"}, {"gpu": "NVIDIA H100"}):
        with pytest.raises(InputError, match="none in common"):
            compare([OLD], [later(**values)])
    with pytest.raises(InputError, match="none in common"):
        compare([], [])

"""Plans of all families in one order, operands copied where a family needs it, refusals kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewright
from tilewright.dtypes import BF16, FP32
from tilewright.errors import InputError
from tilewright.gemm import rank as module
from tilewright.gemm.matrix import Matrix
from tilewright.gemm.part import Part
from tilewright.gemm.plan import Plan
from tilewright.gemm.product import Matmul
from tilewright.gemm.rank import families, rank
from tilewright.gemm.request import Request
from tilewright.gemm.step import Address
from tilewright.gpus import GPUS, Gpu

from .conftest import CHOOSY, NAIVE, Naive, random

H200 = GPUS["h200"]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Naive]]:
    found: list[Naive] = [NAIVE, CHOOSY]
    monkeypatch.setattr(module, "families", lambda: found)
    rank.cache_clear()
    yield found
    rank.cache_clear()


def request(m: int, n: int, k: int, alignment: int = 16) -> Request:
    a = Matrix(BF16, m, k, k, 1, alignment=alignment)
    b = Matrix(BF16, k, n, n, 1)
    return Request(a, b, Matrix(BF16, m, n, n, 1))


def test_the_one_expected_to_end_first_is_first(known: list[Naive]) -> None:
    ranking = rank(request(64, 64, 64), H200)
    assert [plan.kernel for plan in ranking.plans] == ["choosy", "naive"]
    assert ranking.refused == ()


def test_operands_out_of_reach_are_copied_one_by_one_and_together(known: list[Naive]) -> None:
    """Rows of 65 elements are beyond TMA; each copy is planned alone only where that suffices."""
    ranking = rank(request(64, 64, 65), H200)
    copied = [plan for plan in ranking.plans if plan.kernel == "choosy"]
    assert [plan.config for plan in copied] == ["1x1, a repacked"]
    both = rank(request(64, 65, 65), H200)
    copied = [plan for plan in both.plans if plan.kernel == "choosy"]
    assert [plan.config for plan in copied] == ["1x1, a and b repacked"]
    (plan,) = copied
    assert len(plan.steps) == 3
    assert plan.workspace_bytes == 9216 + 9472  # 65 · 72 · 2 to a multiple of 256
    assert [note.split(":")[0] for note in plan.notes] == [
        "a is copied to 9,216 bytes of workspace",
        "b is copied to 9,472 bytes of workspace",
    ]
    assert "130 bytes apart" in plan.notes[0]


def test_an_address_out_of_reach_is_copied(known: list[Naive]) -> None:
    (plan,) = (p for p in rank(request(64, 64, 64, 2), H200).plans if p.kernel == "choosy")
    assert "its address is a multiple of 2 bytes, not of 16" in plan.notes[0]


def test_copies_that_pay_for_themselves(known: list[Naive]) -> None:
    """A family that takes everything is tried with copies, too, where its model likes them."""

    class Fussy(Naive):
        def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
            (plan,) = super().plans(request, gpu)
            slow = request.a.row_stride % 8 != 0
            return (replace(plan, us=1000.0 if slow else 10.0),)

    known[:] = [Fussy()]
    ranking = rank(request(64, 64, 65), H200)
    assert [plan.config for plan in ranking.plans] == ["1x1, a repacked", "1x1"]
    assert ranking.plans[0].us == pytest.approx(12, abs=0.1)
    known[:] = [NAIVE]
    rank.cache_clear()
    assert len(rank(request(64, 64, 65), H200).plans) == 1


def test_copies_cost_time(known: list[Naive]) -> None:
    (aligned,) = (p for p in rank(request(64, 64, 64), H200).plans if p.kernel == "choosy")
    (copied,) = (p for p in rank(request(64, 64, 64, 2), H200).plans if p.kernel == "choosy")
    assert aligned.us is not None
    assert copied.us is not None
    assert copied.us > aligned.us + 2


@pytest.mark.parametrize("batch", [(), (3,)])
def test_copied_operands_give_the_same_result(known: list[Naive], batch: tuple[int, ...]) -> None:
    """The launches find the copies, the rest of the workspace and everything else in its place."""
    known[:] = [CHOOSY]
    a, b = random(1, *batch, 5, 7), random(2, *batch, 7, 3)
    product = Matmul(a, b, bias=random(3, 3), engine="emulator")
    assert product.plan().config == "1x1, a and b repacked"
    assert (product.execute() == a @ b + random(3, 3)).all()


def test_a_workspace_of_the_plans_own_lies_behind_the_copies(known: list[Naive]) -> None:
    class Splitting(Naive):
        def plans(self, request: Request, gpu: Gpu) -> tuple[Plan, ...]:
            (plan,) = super().plans(request, gpu)
            (step,) = plan.steps
            args = replace(step.params[0], values=(("D", Address("workspace", 512)),))
            return (replace(plan, steps=(replace(step, params=(args,)),), workspace_bytes=1024),)

    known[:] = [Splitting("splitting", reach=True)]
    (plan,) = (p for p in rank(request(64, 65, 65), H200).plans)
    copies = 9216 + 9472
    assert plan.workspace_bytes == copies + 1024
    assert dict(plan.steps[-1].params[0].values)["D"] == Address("workspace", copies + 512)


@pytest.mark.parametrize("width", [20, 24])
@pytest.mark.parametrize("order", ["C", "F"])
def test_gates_whose_second_half_begins_anywhere(width: int, order: Any) -> None:
    """Along rows TMA begins at multiples of 16 bytes only: such a b is copied column by column."""
    a = random(1, 16, 24, dtype=np.float16)
    b = np.asarray(random(2, 24, 2 * width, dtype=np.float16), order=order)
    product = Matmul(a, b, activation="reglu", out_dtype=np.float32, engine="emulator")
    plans = [plan for plan in product.ranking().plans if plan.kernel == "wgmma"]
    copied = width == 20 and order == "C"
    assert all(("b repacked" in plan.config) == copied for plan in plans)
    one = min(plans, key=lambda plan: len(plan.steps))
    product.plan = lambda: one  # type: ignore[method-assign]
    x = a.astype(np.float32) @ b.astype(np.float32)
    assert (product.execute() == np.maximum(x[:, :width], 0) * x[:, width:]).all()
    if copied:
        assert "the second half of a gate's columns begins between" in one.notes[0]


def test_rows_keep_their_bits_whatever_m_is(known: list[Naive]) -> None:
    """Fault NUM-07: one family serves all m, by way of copies where it must."""
    for one in (request(1, 64, 65), request(1, 64, 64), request(64, 64, 65)):
        plain = {plan.kernel for plan in rank(one, H200).plans}
        assert plain == {"naive", "choosy"}
    known[:] = [CHOOSY, NAIVE]
    for one in (request(1, 64, 65), request(1, 64, 64), request(64, 64, 65)):
        plans = rank(replace(one, batch_invariant=True), H200).plans
        assert {plan.kernel for plan in plans} == {"choosy"}


def test_the_bits_of_a_row_by_the_package_s_kernels() -> None:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((70, 150), (150, 16)))
    results = [
        tilewright.matmul(a[:m], b, out_dtype=np.float32, batch_invariant=True, engine="emulator")
        for m in (1, 70)
    ]
    assert (results[0][0] == results[1][0]).all()


def test_refusals_are_kept(known: list[Naive], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHOOSY.__class__, "refusal", lambda self, *_: _no(self))
    known[:] = [NAIVE, CHOOSY]
    ranking = rank(request(64, 64, 64), H200)
    assert [plan.kernel for plan in ranking.plans] == ["naive"]
    assert ranking.refused == (("choosy", "does not like it"),)
    known[:] = [CHOOSY]
    rank.cache_clear()
    with pytest.raises(InputError, match=r"no kernel takes .* H200 \(sm_90\): choosy: does not"):
        rank(request(64, 64, 64), H200)


def _no(family: Naive) -> str | None:
    return "does not like it" if family.reach else None


def test_the_package_s_families_are_there_and_take_everything() -> None:
    assert [family.name for family in families()] == list(module.FAMILIES)
    epilogue: tuple[Part, ...] = ()
    for gpu in GPUS.values():
        for dtype in (BF16, FP32):
            for m, n, k in ((1, 1, 1), (33, 79, 19), (3, 3, 431), (8_388_353, 2, 1)):
                a = Matrix(dtype, m, k, -k, -1, alignment=dtype.bytes)
                b, out = Matrix(dtype, k, n, 0, 2), Matrix(dtype, m, n, n, 1)
                assert rank(Request(a, b, out, 1, epilogue), gpu).plans


def test_an_extent_just_over_an_int_s_square() -> None:
    """Fault OVF-03: m·n is just over 2³¹ − 1."""
    assert rank(request(46341, 46341, 64), H200).plans


def test_results_by_the_package_s_kernels() -> None:
    """Odd rows, which TMA does not reach, and a batch: each by the plan that ranks first."""
    a, b = random(1, 2, 33, 19), random(2, 19, 24)
    assert (tilewright.matmul(a, b, engine="emulator") == a @ b).all()
    half = a.astype(np.float16), b.astype(np.float16)
    got = tilewright.matmul(*half, out_dtype=np.float32, activation="relu", engine="emulator")
    assert (got == np.maximum(a @ b, 0)).all()

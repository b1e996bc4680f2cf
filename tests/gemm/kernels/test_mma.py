from __future__ import annotations
from typing import Any
import numpy as np
import pytest
from tilewright.dtypes import BF16, FP16, FP32
from tilewright.gemm.kernels.mma import FAMILY
from tilewright.gpus import GPUS


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("layouts", [("n8", "n8", "n8"), ("t8", "t8", "t8"), ("n8", "t8", "n")])
def test_tiles(bench: Any, which: int, layouts: Any) -> None:
    random = np.random.default_rng(3)
    given = bench.case(random, BF16, 137, 145, 200, layouts=layouts)
    plans = FAMILY.plans(given.request, GPUS["h200"])
    for r in bench.check(given, plans[which]):
        t = r.totals
        print(layouts, plans[which].config, t)


def test_singles(bench):
    random = np.random.default_rng(3)
    for lay in (
        ("n", "n", "n"),
        ("t", "t", "spread"),
        ("flipped", "spread", "t"),
        ("rows repeat", "cols repeat", "n4"),
    ):
        given = bench.case(random, BF16, 77, 85, 99, layouts=lay, batch=2)
        for plan in FAMILY.plans(given.request, GPUS["h200"]):
            r = bench.check(given, plan)
            print(lay, plan.config, r[0].totals)

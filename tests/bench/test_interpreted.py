"""The triton family without a GPU: in the interpreter, or skipped with what to install."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright.__main__ import run
from tilewright.bench import interpreted
from tilewright.bench.inputs import operands
from tilewright.bench.ladder import climb
from tilewright.bench.suite_run import Plan, measure_suites
from tilewright.bench.suites import parse_shapes
from tilewright.dtypes import BF16, FP16, FP32
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import ToolchainError
from tilewright.gpus import GPUS
from tilewright.ladder import python_rungs
from tilewright.ladder.python_rungs import TRITON, TritonRung
from tilewright.ladder.rungs import RUNGS, select
from tilewright.problem import Problem
from tilewright.verify import judge, oracle

EXTRA = '"tilewright[triton]"'

NAMES = ["triton_basic", "triton_autotune", "triton_persistent"]
SHAPE: dict[str, Any] = {"m": 130, "n": 70, "k": 33, "engine": "emulator"}

absent = [name for name in ("triton", "torch") if importlib.util.find_spec(name) is None]
interpreter = pytest.mark.skipif(bool(absent), reason=f"{' and '.join(absent)} not installed")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes it look as though some libraries were not installed, and all others were."""

    def lacking(*libraries: str) -> None:
        monkeypatch.setattr(
            python_rungs, "find_spec", lambda name: None if name in libraries else name
        )

    return lacking


@pytest.mark.parametrize(
    ("libraries", "said"),
    [
        (["triton"], "needs triton, which is not installed: pip install {EXTRA}."),
        (["torch"], "needs torch, which is not installed: pip install {EXTRA}."),
        (["triton", "torch"], "needs triton and torch, which are not installed: pip install "
         "{EXTRA}."),
    ],
)  # fmt: skip
def test_without_the_libraries_the_rows_are_skipped_with_the_way_out(
    without: Any, libraries: Sequence[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    without(*libraries)
    words = ["ladder", "triton", "--engine", "emulator", "--json", "-"]
    assert run(words) == 2  # nothing ran
    captured = capsys.readouterr()
    rows = json.loads(captured.out)["rows"]
    assert [row["name"] for row in rows] == NAMES
    for row in rows:
        assert (row["family"], row["engine"], row["status"]) == ("triton", "interpreter", "skipped")
        assert row["reason"] == f"{row['name']} {said.format(EXTRA=EXTRA)}"
        assert (row["m"], row["n"], row["k"], row["dtype"]) == (256, 384, 192, "bf16")
        assert (row["correct"], row["us"], row["instructions"]) == (None,) * 3
    assert "pip install" in " ".join(captured.err.split())


def test_a_rung_that_was_named_is_an_error(
    without: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    without("triton")
    said = f"triton_basic needs triton, which is not installed: pip install {EXTRA}."
    with pytest.raises(ToolchainError, match=re.escape(said)):
        climb(rungs="triton_basic", **SHAPE)
    assert run(["ladder", "--engine", "emulator", "--rung", "triton_basic"]) == 2
    assert capsys.readouterr().err == f"tilewright: {said}\n"


def test_the_other_families_do_not_mind(without: Any, compiler: str) -> None:
    without("torch")
    every = climb(m=128, n=128, k=64, engine="emulator", every_family=True)
    status = {row.family: row.status for row in every}
    assert status.pop("triton") == "skipped"
    assert set(status.values()) == {"ok"}
    assert every.correct
    assert every.ran


@pytest.mark.skipif(not absent, reason="triton and torch are installed")
def test_a_child_that_fails_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TritonRung, "missing", lambda self: None)
    monkeypatch.setattr(interpreted, "version", lambda name: "3.6.0")
    ladder = climb("triton", **SHAPE)
    assert [row.status for row in ladder] == ["skipped"] * 3
    for row in ladder:
        start = f"{row.name} did not run: Triton's interpreter ended, saying: ModuleNotFoundError: "
        assert (row.reason or "").startswith(start) or "failed: ModuleNotFound" in str(row.reason)


def test_every_type_and_layout_is_taken() -> None:
    for rung in TRITON:
        for dtype in (BF16, FP16, FP32):
            assert rung.refusal(Problem(1, 17, 130, dtype, "tt")) is None
        assert rung.engine("gpu") == "gpu"
        assert rung.engine("emulator") == "interpreter"


def test_a_suite_counts_nothing_of_them_and_says_where_they_run() -> None:
    shapes = tuple(("shape", shape) for shape in parse_shapes(["24x40x16"]))
    plan = Plan(shapes, BF16, tuple(select(None, ("triton_basic",))))
    engine = EmulatorEngine(GPUS["h200"])
    (row,) = measure_suites(engine, plan, lambda *told: None, lambda lines: None).rows
    assert (row.status, row.reason) == (
        "skipped",
        "triton_basic is timed on a GPU, and there is none here; tilewright ladder triton checks "
        "it in Triton's interpreter.",
    )


# --- With triton and torch ----------------------------------------------------------------


@interpreter
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_the_ladder_in_the_interpreter(dtype: str) -> None:
    before, told = dict(os.environ), list[tuple[str, int, int]]()
    imported = "triton" in sys.modules  # by another test
    ladder = climb("triton", dtype=dtype, progress=lambda *step: told.append(step), **SHAPE)
    assert [row.name for row in ladder] == NAMES
    for row in ladder:
        assert (row.engine, row.dtype, row.status, row.correct) == (
            "interpreter", dtype, "ok", True,
        )  # fmt: skip
        assert (row.us, row.instructions, row.shared_bytes) == (None,) * 3
    assert told[-1] == (NAMES[-1], 1, 1)
    assert (interpreted.BF16_NOTE in ladder.notes) == (dtype == "bf16")
    assert str(ladder).startswith(f"C = A·B, 130×70×33 {dtype} on Triton's interpreter, Triton ")
    assert dict(os.environ) == before
    assert ("triton" in sys.modules) == imported


@interpreter
@pytest.mark.parametrize("layout", ["nt", "tn", "tt"])
def test_bf16_is_right_in_any_layout(layout: str) -> None:
    problem = Problem(33, 130, 65, BF16, layout)
    a, b = operands(problem, "normal", 1)
    left, right = (x.T if letter == "t" else x for x, letter in zip((a, b), layout, strict=True))
    found = list(interpreted.interpret(NAMES, problem, a, b))
    assert [name for name, _, _ in found] == NAMES
    for _, c, error in found:
        assert error is None
        assert c is not None
        assert c.dtype == BF16.numpy()
        assert judge(c, oracle(left, right, BF16)).correct


@interpreter
def test_what_a_rung_fails_with_is_told() -> None:
    """B has three axes, which no problem gives it."""
    problem = Problem(4, 4, 4, FP32)
    a, b = np.zeros((4, 4), np.float32), np.zeros((3, 4, 5), np.float32)
    ((name, c, error),) = interpreted.interpret(["triton_basic"], problem, a, b)
    assert (name, c) == ("triton_basic", None)
    assert (error or "").startswith("triton_basic failed: ")


def test_the_table_says_who_runs_what() -> None:
    assert [rung.name for rung in select("triton")] == NAMES
    assert list(RUNGS)[-3:] == NAMES

"""wgmma against an H200: tests/data/silicon/wgmma.npz, which scripts/record_wgmma.py wrote there.

Its probes say which 16 bytes of shared memory a descriptor names, ordinary and odd ones; its sums
what the products of random operands add up to. Integers, sums that fp32 holds exactly and the
places of all registers must agree to the bit; other sums within the bounds below.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tilewright.artifact import Artifact
from tilewright.emulator.wgmma_descriptors import pieces
from tilewright.engines.emulator import EmulatorEngine
from tilewright.gpus import GPUS
from tilewright.launch import Launch

Array = np.ndarray[Any, Any]

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "data" / "silicon" / "wgmma.npz"
SCRIPT = ROOT / "scripts" / "record_wgmma.py"
# Of fp32 sums: the share of the sum of all sizes that each of k + 1 terms may be off. An H200
# keeps about 25 bits below the largest term, of products of fp8 about 13.
CUT = {"f16": 2.0**-23, "bf16": 2.0**-23, "tf32": 2.0**-23, "e4m3": 2.0**-13, "e5m2": 2.0**-13}
HALF = 2.0**-10  # of fp16 sums: two roundings


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("record_wgmma", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


recorder = load()
pytestmark = pytest.mark.skipif(not FILE.exists(), reason=f"{FILE.name} is not there")


@cache
def recorded() -> dict[str, Array]:
    with np.load(FILE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


@cache
def artifact() -> Artifact:
    ptx = recorded()["ptx"].tobytes().decode()
    return Artifact("wgmma.cu", "sm_90a", ptx, b"", "", "NVRTC", {}, "recorded wgmma")


PROBES = {cases[0].name: cases[0] for cases in recorder.probes()}
SUMS = {case.name: case for case in recorder.sums()}


def test_it_is_from_an_h200() -> None:
    about = json.loads(recorded()["about"].tobytes())
    assert "H200" in about["engine"]
    assert "emulator" not in about["engine"]
    assert about["missing"] == []


@pytest.mark.parametrize("name", PROBES)
def test_descriptors(name: str) -> None:
    case = PROBES[name]
    of_b = case.form.a_in_registers
    along = case.form.b_along_n if of_b else case.form.a_along_m
    extent = case.form.n if of_b else 64
    found: Array = np.stack([pieces(int(bits), extent, along) for bits in case.descs[:, int(of_b)]])
    per = 128 // recorder.BITS[case.form.a]
    if f"{name}.pieces" in recorded():
        want = recorded()[f"{name}.pieces"].astype(np.int64)
        want = (want.swapaxes(1, 2) if along else want).reshape(len(found), -1) * 16
    else:  # where the 16 bytes of a piece do not belong together
        want = recorded()[f"{name}.places"].astype(np.int64)
        want = (want.swapaxes(1, 2) if along else want).reshape(len(found), -1) * (16 // per)
        found = (found[..., None] + np.arange(per) * (16 // per)).reshape(len(found), -1)
    wrong = np.flatnonzero((found != want).any(1))
    first = [(hex(int(case.descs[i, int(of_b)])), want[i, :8], found[i, :8]) for i in wrong[:4]]
    assert wrong.size == 0, f"{wrong.size} of {len(found)} differ; H200, emulator: {first}"


@cache
def shared_engine() -> EmulatorEngine:
    """It parses the recorded PTX once."""
    return EmulatorEngine(GPUS["h200"])


def emulated(case: Any) -> Array:
    engine = shared_engine()
    given = [case.image, case.descs, case.fragments, case.sums, np.zeros_like(case.sums)]
    buffers = [engine.upload(np.ascontiguousarray(each)) for each in given]
    params = [np.uint64(buffer.address).tobytes() for buffer in buffers]
    params.append(np.int32(case.scale).tobytes())
    grid = (len(case.descs), 1, 1)
    launch = Launch(
        artifact(), case.form.name, grid, (128, 1, 1), tuple(params), recorder.IMAGE_BYTES
    )
    assert engine.launch(launch).findings == []
    return engine.download(buffers[-1])


def sizes(case: Any) -> Array:
    """In each register of d the sum of |a|·|b| and |c|: by the emulator, of operands without signs.

    It is as exact as fp32, which is enough for a bound.
    """
    bare = {"f16": 0x7FFF7FFF, "bf16": 0x7FFF7FFF, "tf32": 0x7FFFFFFF}
    bits = np.uint32(bare.get(case.form.a, 0x7F7F7F7F))
    image = (case.image.view("u4") & bits).view("u1")
    form = recorder.Form(case.form.d, case.form.a, case.form.b, 8, case.form.a_in_registers)
    sums = case.sums & np.uint32(0x7FFF7FFF if form.d == "f16" else 0x7FFFFFFF)
    return emulated(
        recorder.replace(
            case, form=form, image=image, fragments=case.fragments & bits, sums=sums, scale=1
        )
    )


def numbers(case: Any, words: Array) -> Array:
    kind = {"f32": "f4", "f16": "f2", "s32": "i4"}[case.form.d]
    return np.ascontiguousarray(words).view(kind)


@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str) -> None:
    case = SUMS[name]
    with np.errstate(all="ignore"):
        got, want = emulated(case), recorded()[f"{name}.out"]
        if case.form.d == "s32" or name.startswith("exact"):
            np.testing.assert_array_equal(got, want)
            return
        x, y = (numbers(case, words).astype("f8") for words in (got, want))
        finite = np.isfinite(y)
        np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
        np.testing.assert_array_equal(x[~finite & ~np.isnan(y)], y[~finite & ~np.isnan(y)])
        share = CUT[case.form.a] * (case.form.k + 1) + (HALF if case.form.d == "f16" else 0)
        bound = share * numbers(case, sizes(case)).astype("f8")
        apart = np.abs(x - y)
    bad = finite & ~(apart <= bound)
    assert not bad.any(), f"{bad.sum()} differ by up to {apart[bad].max()}"

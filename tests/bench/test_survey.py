"""The probes in the emulator, which counts that they move and compute what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tilewright.bench import record, survey
from tilewright.bench.roofs import from_lines
from tilewright.dtypes import BF16, DTYPES, FP32
from tilewright.engines import probe
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import InputError
from tilewright.gpus import GPUS

if TYPE_CHECKING:
    import numpy.typing as npt


def test_only_the_types_that_mma_takes() -> None:
    with pytest.raises(InputError, match="dtype=fp32 has no matrix rate"):
        survey.measure_roofs(EmulatorEngine(GPUS["h200"]), FP32)  # type: ignore[arg-type]


@pytest.fixture
def engine(compiler: str) -> EmulatorEngine:
    return EmulatorEngine(GPUS["h200"])


def run(
    engine: EmulatorEngine, name: str, source: npt.NDArray[np.uint8], grid: int, shape: survey.Shape
) -> tuple[npt.NDArray[np.uint8], object]:
    first, second = engine.upload(source), engine.empty(source.shape, source.dtype)
    params = survey.memory_params(first.address, second.address, source.nbytes)
    launch = survey.probe_launch(engine, name, grid, shape.threads, params, shape.defines())
    report = engine.launch(launch)
    assert {finding.kind for finding in report.findings} <= {"unwritten"}
    return engine.download(second), report


@pytest.mark.parametrize("shape", [survey.Shape(64, 1, 4), survey.Shape(32, 1, 8)], ids=str)
def test_copy_moves_every_byte(engine: EmulatorEngine, shape: survey.Shape) -> None:
    source = np.random.default_rng(0).integers(0, 256, 16 * 1000, np.uint8)
    copied, report = run(engine, "copy", source, 3, shape)
    assert not report.findings  # type: ignore[attr-defined]
    np.testing.assert_array_equal(copied, source)


def test_read_reads_every_byte_once_and_stores_none(engine: EmulatorEngine) -> None:
    source = np.random.default_rng(0).integers(0, 256, 16 * 1024, np.uint8)
    kept, report = run(engine, "read", source, 3, survey.Shape(64, 1, 4))
    assert (kept == 0xFF).all()
    assert [finding.kind for finding in report.findings] == ["unwritten"]  # type: ignore[attr-defined]
    totals = report.totals  # type: ignore[attr-defined]
    assert totals["global_sectors_load"] == source.nbytes // 32


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_mma_issues_what_its_flops_say(engine: EmulatorEngine, dtype: str) -> None:
    words = survey.mma_operands(DTYPES[dtype])
    out = engine.empty((survey.MMA_THREADS,), np.dtype(np.float32))
    report = engine.launch(
        survey.mma_launch(engine, DTYPES[dtype], engine.upload(words), out, blocks=1, steps=3)
    )
    issues = sum(n for opcode, n in report.instructions.items() if opcode.startswith("mma"))
    assert issues * 2 * 16 * 8 * 16 == survey.mma_flops(1, 3)
    assert np.isfinite(engine.download(out)).all()


# --- On a GPU -----------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))
def test_roofs_of_this_gpu_are_sane() -> None:
    from tilewright.engines.gpu import GpuEngine

    found = survey.measure_roofs(GpuEngine(), BF16)
    assert 0.1 < found.empty_us < 20
    bandwidths = [size / us for size, us in found.reads]
    assert max(bandwidths) == pytest.approx(bandwidths[-1], rel=0.1)  # large reads are fastest
    assert 0.5 < found.copy_gbps / (bandwidths[-1] / 1e3) < 1.3
    assert 10 < found.mma_tflops < 10_000
    lines = [record.parse_line(record.to_line(line)) for line in found.lines]
    assert from_lines(lines).reads == found.reads

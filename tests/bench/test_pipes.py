"""The probes of pipes in the emulator: they do as many of a thing as their lines will say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tilewright.bench import pipes, record
from tilewright.bench.charts import is_kernel
from tilewright.bench.pipes import PIPES, Pipe
from tilewright.bench.roofs import from_lines
from tilewright.engines import probe
from tilewright.engines.emulator import EmulatorEngine
from tilewright.errors import EngineError, InputError
from tilewright.gpus import GPUS

if TYPE_CHECKING:
    import numpy.typing as npt

    from tilewright.emulator.report import Report

STEPS = 3
LAUNCHES = {(pipe.probe, pipe.threads, pipe.blocks_per_sm, pipe.defines): pipe for pipe in PIPES}
MACROS = {pipe: dict(pipe.defines) for pipe in PIPES}


def run(pipe: Pipe, compiler: str) -> tuple[npt.NDArray[np.uint32], Report]:
    """On one multiprocessor: what each thread stored, and what was counted."""
    engine = EmulatorEngine(GPUS["h200"])
    out = engine.empty((pipe.blocks_per_sm * pipe.threads,), np.dtype(np.uint32))
    launch = pipes.pipe_launch(engine, pipe, engine.upload(pipe.words()), out, STEPS)
    report = engine.launch(launch)
    assert not report.findings
    return engine.download(out), report


def issued(report: Report, word: str) -> int:
    return sum(count for opcode, count in report.instructions.items() if opcode.startswith(word))


@pytest.mark.parametrize("pipe", [p for p in PIPES if p.probe == "fma"], ids=lambda p: p.name)
def test_fma_makes_as_many_multiply_adds(pipe: Pipe, compiler: str) -> None:
    out, report = run(pipe, compiler)
    assert (out.view(np.float32) == 256 * STEPS).all()
    made = issued(report, "fma.") * (1 if pipe.latency else 32)
    assert made == pipe.each * STEPS


@pytest.mark.parametrize("pipe", [p for p in PIPES if p.probe == "chase"], ids=lambda p: p.name)
def test_chase_loads_as_often_and_stays_at_its_places(pipe: Pipe, compiler: str) -> None:
    out, report = run(pipe, compiler)
    macros = MACROS[pipe]
    thread = np.arange(pipe.threads)
    places = [
        (chain * pipe.threads + thread) * macros["STRIDE"] for chain in range(macros["CHAINS"])
    ]
    expected = np.sum(places, axis=0)
    if macros["WIDTH"] == 16:  # each load brings three words more
        expected = expected + 32 * STEPS * np.sum([3 * place + 24 for place in places], axis=0)
    blocks = out.reshape(pipe.blocks_per_sm, -1)
    assert (blocks == np.asarray(expected, np.uint32)).all()
    shared = bool(macros["SHARED"])
    space = "shared" if shared else "global"
    rows = [row for row in report.accesses if row.opcode.startswith("ld.") and row.space == space]
    loads = max(rows, key=lambda row: row.requests)
    made = sum(
        row.wavefronts if shared and not pipe.latency else row.requests
        for row in rows
        if row.line == loads.line
    )
    assert made == pipe.each * STEPS
    if not shared:
        lines = {0: 1, 4: 4, 128: 32}[macros["STRIDE"]]
        assert loads.sectors == lines * loads.requests


@pytest.mark.parametrize(
    "pipe", [p for p in PIPES if p.probe == "l2_read"], ids=lambda p: str(p.defines) + p.name
)
def test_l2_read_reads_as_many_bytes(pipe: Pipe, compiler: str) -> None:
    small = replace(pipe, reads=1 << 20)  # less to upload; the walk wraps around all the more
    out, report = run(small, compiler)
    assert report.totals["global_sectors_load"] * 32 == pipe.each * STEPS
    assert issued(report, "ld.global.cg") * 32 * 16 == pipe.each * STEPS
    unroll, words = MACROS[pipe]["UNROLL"], small.words().reshape(-1, 4)
    block, thread = np.divmod(np.arange(out.size), pipe.threads)
    expected = np.zeros(out.size, np.uint32)
    for step in range(STEPS):
        for i in range(unroll):
            at = (step * pipe.blocks_per_sm + block) * pipe.threads * unroll + i * pipe.threads
            expected += np.bitwise_xor.reduce(words[(at + thread) % len(words)], axis=1)
    assert (out == expected).all()


@pytest.mark.parametrize("pipe", [p for p in PIPES if p.probe == "l2_tile"], ids=lambda p: p.name)
def test_l2_tile_copies_a_tile_a_step(pipe: Pipe, compiler: str) -> None:
    small = replace(pipe, reads=1 << 16)
    out, report = run(small, compiler)
    size = MACROS[pipe]["BYTES"]
    assert report.totals["global_sectors_load"] * 32 == size * STEPS * pipe.blocks_per_sm
    words, chunks = small.words().reshape(-1, 4), size // 16
    block, thread = np.divmod(np.arange(out.size), pipe.threads)
    first = ((STEPS - 1) * pipe.blocks_per_sm + block) * chunks
    expected = np.zeros(out.size, np.uint32)
    for i in range(0, chunks, pipe.threads):
        at = (first + chunks - 1 - thread - i) % len(words)
        expected += np.bitwise_xor.reduce(words[at], axis=1)
    assert (out == expected).all()


@pytest.mark.parametrize("pipe", [p for p in PIPES if p.probe == "tma_tile"], ids=lambda p: p.name)
def test_tma_tile_copies_a_tile_a_step(pipe: Pipe, compiler: str) -> None:
    out, report = run(replace(pipe, reads=1 << 18), compiler)
    size = MACROS[pipe]["BYTES"]
    assert report.totals["bulk_load_bytes"] == size * STEPS
    assert (out == (STEPS - 1) * size + np.arange(out.size) * 4).all()  # of the last tile


@pytest.mark.parametrize(
    "pipe", [p for p in PIPES if p.probe == "wgmma_step"], ids=lambda p: p.name
)
def test_wgmma_step_multiplies_and_loads_as_a_rung_does(pipe: Pipe, compiler: str) -> None:
    """Four wgmma of each of two warpgroups a step, the loads of every step or of the first four."""
    engine = EmulatorEngine(GPUS["h200"])
    out = engine.empty((pipe.threads,), np.dtype(np.uint32))
    launch = pipes.pipe_launch(engine, pipe, engine.upload(pipe.words()), out, 6)
    assert not launch.artifact.serialized
    report = engine.launch(launch)
    assert not report.findings
    macros = MACROS[pipe]
    assert issued(report, f"wgmma.mma_async.sync.aligned.m64n{macros['COLUMNS']}k16") == 6 * 8 * 4
    tile = (128 + macros["COLUMNS"]) * 128
    assert report.totals["bulk_load_bytes"] == tile * (6 if macros["FILL"] else 4)
    assert (engine.download(out) == 0).all()


@pytest.mark.parametrize("pipe", [p for p in PIPES if p.probe == "store"], ids=lambda p: p.name)
def test_store_makes_as_many_requests(pipe: Pipe, compiler: str) -> None:
    out, report = run(pipe, compiler)
    assert (out == STEPS).all()
    warps, rows = pipe.threads // 32, MACROS[pipe]["ROWS"]
    assert issued(report, "st.global") == pipe.each * STEPS + warps  # and one each for `out`
    sectors = {1: 4, 8: 8}[rows]  # a row of 16 bytes is half of one
    assert report.totals["global_sectors_store"] == pipe.each * STEPS * sectors + 4 * warps


def test_only_hopper_has_the_pipes_of_tma_and_wgmma() -> None:
    assert pipes.pipes_of("sm_90") == PIPES
    others = {pipe.probe for pipe in PIPES} - {pipe.probe for pipe in pipes.pipes_of("sm_80")}
    assert others == {"tma_tile", "wgmma_step"}


def test_launches_of_one_name_count_one_thing() -> None:
    for pipe in PIPES:
        assert {other.unit for other in PIPES if other.name == pipe.name} == {pipe.unit}
    assert len(LAUNCHES) == len(PIPES) - 12  # l2_read's four sizes are one kernel each launch


def line(**given: object) -> record.Measurement:
    made = record.Measurement(
        taken="2026-12-01T09:30:00Z", name="pipe: FMA latency", source_hash=None, m=1, n=1, k=500,
        layout="nn", dtype="fp32", inputs="ones", seed=0, us=1.0, us_samples=(1.0,), rival=None,
        rival_version=None, rival_us=None, rival_us_samples=None, ratio=None, correct=None,
        rel_error=None, method="-", gpu="NVIDIA H200", driver="-", cuda="-", sm_mhz=2000,
        power_w=None, temperature_c=None, host="-",
    )  # fmt: skip
    return replace(made, **given)  # type: ignore[arg-type]


def test_a_figure_is_clocks_each() -> None:
    found = pipes.figure(line())
    assert (found.clocks, found.a_clock) == (4.0, 0.25)
    (row,) = pipes.table([line()])
    assert row == {"name": "FMA latency", "gpu": "NVIDIA H200", "us": 1.0, "sm_mhz": 2000,
                   "count": 500, "clocks": 4.0, "per_clock": 0.25}  # fmt: skip
    (row,) = pipes.table([line(sm_mhz=None)])
    assert (row["clocks"], row["per_clock"]) == (None, None)


def test_a_pipe_is_no_kernel_and_no_roof() -> None:
    assert line().is_roof
    assert not is_kernel(line())
    with pytest.raises(InputError, match=r"of one run, GPU and dtype; there are 0"):
        from_lines([line()])


@pytest.mark.parametrize(
    ("given", "said"),
    [({"name": "roof: mma rate"}, "'roof: mma rate' is no pipe"), ({"sm_mhz": None}, "no sm_mhz")],
)
def test_lines_that_give_no_clocks(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        pipes.figure(line(**given))


def test_the_command_needs_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.cli.pipes import pipes as command

    with pytest.raises(InputError, match=r"must be a \.jsonl file"):
        command(record=tmp_path / "a.csv")
    if probe.gpu_problem() is not None:
        with pytest.raises(EngineError):
            command(record=tmp_path / "a.jsonl")
        assert not (tmp_path / "a.jsonl").exists()


# --- On a GPU -----------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(probe.gpu_problem() is not None, reason=str(probe.gpu_problem()))
def test_pipes_of_this_gpu_are_sane() -> None:
    from tilewright.engines.gpu import GpuEngine

    lines = pipes.measure_pipes(GpuEngine())
    clocks = {line.name.removeprefix(record.PIPE): pipes.figure(line).clocks for line in lines}
    assert 3 < clocks["FMA latency"] < 7
    assert 15 < clocks["shared load latency, 4 bytes"] < 60
    assert 0.8 < clocks["shared load rate, 4 bytes"] < 2.5
    assert clocks["L1 load rate, 32 lines"] > 4 * clocks["L1 load rate, 1 line"]
    assert 100 < clocks["L2 tile of 512 bytes, 1 block"] < clocks["L2 tile of 16 KiB, 2 blocks"]
    assert [record.parse_line(record.to_line(line)) for line in lines] == lines

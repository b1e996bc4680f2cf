"""`tilewright ladder`: its JSON contract, its exit codes, its sentences."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.__main__ import run
from tilewright.bench.ladder import Ladder, Row
from tilewright.dtypes import BF16
from tilewright.engines.probe import gpus_found
from tilewright.ladder.rungs import RUNGS, select
from tilewright.problem import Problem

EMULATED = ["--engine", "emulator"]
SMALL = [*EMULATED, "-m", "128", "-n", "256", "-k", "64"]

FIELDS = [
    "name",
    "family",
    "engine",
    "arch",
    "dtype",
    "layout",
    "m",
    "n",
    "k",
    "status",
    "reason",
    "correct",
    "rel_error",
    "us",
    "tflops",
    "speedup",
    "rival",
    "sm_mhz",
    "power_w",
    "instructions",
    "shared_wavefronts",
    "shared_wavefronts_ideal",
    "shared_wavefronts_ldmatrix",
    "shared_wavefronts_ideal_ldmatrix",
    "shared_wavefronts_cp_async",
    "shared_wavefronts_ideal_cp_async",
    "shared_wavefronts_ldst",
    "shared_wavefronts_ideal_ldst",
    "wgmma_shared_bytes",
    "bulk_load_bytes",
    "bulk_store_bytes",
    "multicast_bytes",
    "l2_requests",
    "bank_conflicts",
    "global_sectors_load",
    "global_sectors_store",
    "global_sectors",
    "global_sectors_ideal",
    "registers",
    "spill_bytes",
    "shared_bytes",
    "blocks_per_sm",
    "intensity",
    "sass",
    "energy_j",
    "pj_per_flop",
]

needs_nvrtc = pytest.mark.usefixtures("compiler")


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out)
    return loaded


@needs_nvrtc
def test_json_to_stdout_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", *SMALL, "--json", "-"]) == 0
    captured = capsys.readouterr()
    loaded = json.loads(captured.out)
    assert loaded["schema"] == "tilewright.ladder/1"
    names = [row["name"] for row in loaded["rows"]]
    assert names == [rung.name for rung in select("hgemm")]
    assert names[:4] == ["hgemm_naive", "hgemm_bcf", "hgemm_bcf_dbf", "hgemm_bcf_dbf_rw"]
    for row in loaded["rows"]:
        assert list(row) == FIELDS
        assert (row["status"], row["correct"], row["reason"]) == ("ok", True, None)
        assert (row["us"], row["tflops"], row["speedup"], row["rival"]) == (None,) * 4
        assert (row["m"], row["n"], row["k"], row["layout"]) == (128, 256, 64, "nn")
        assert row["bank_conflicts"] >= 0
    assert "hgemm_bcf_dbf_rw" in captured.err


@needs_nvrtc
def test_defaults_in_the_emulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", *EMULATED, "--rung", "hgemm_bcf", "--json", "-"]) == 0
    (row,) = document(capsys)["rows"]
    assert (row["m"], row["n"], row["k"], row["dtype"], row["arch"]) == (
        256,
        384,
        192,
        "bf16",
        "sm_90",
    )


@needs_nvrtc
def test_json_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "rows.json"
    arguments = ["--rung", "hgemm_bcf", "--rung", "hgemm_naive", "--dtype", "fp16"]
    assert run(["ladder", *SMALL, *arguments, "--json", str(target)]) == 0
    rows = json.loads(target.read_text())["rows"]
    assert [row["name"] for row in rows] == ["hgemm_naive", "hgemm_bcf"]
    assert {row["dtype"] for row in rows} == {"fp16"}
    assert "hgemm_bcf" in capsys.readouterr().out


@needs_nvrtc
def test_counts_for_another_chip_are_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", "-m", "128", "-n", "256", "-k", "32", "--gpu", "a100"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "counting for NVIDIA A100 SXM 40GB (sm_80)" in said
    assert "measured on sm_90; for sm_80 they are assumed" in said


@needs_nvrtc
def test_a_finding_of_a_rung_is_said_and_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rung = RUNGS["hgemm_bcf"]
    monkeypatch.setitem(vars(rung), "text", rung.text.replace("__syncthreads();", ";", 1))
    assert run(["ladder", *SMALL, "--rung", "hgemm_bcf"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    found = re.search(r"hgemm_bcf is wrong: race, \S*hgemm_bcf.cu:(\d+): ", said)
    assert found is not None, said
    assert run(["ladder", *SMALL, "--rung", "hgemm_bcf", "--json", "-"]) == 1
    (row,) = document(capsys)["rows"]
    assert (row["status"], row["correct"]) == ("wrong", False)
    assert f"hgemm_bcf.cu:{found[1]}: " in row["reason"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rung", "hgemm_bfc"], "rung='hgemm_bfc' is not known; did you mean hgemm_bcf?"),
        (["-k", "0"], "k=0 must be between 1 and 2147483647."),
        (["-m", "-128"], "m=-128 must be between 1 and 2147483647."),
        (["-m", "100"], "m=100 is not a multiple of 128, as hgemm_naive needs; the nearest "
         "accepted value is 128."),
        (["-n", "700", "--rung", "hgemm_bcf"], "n=700 is not a multiple of 128, as hgemm_bcf "
         "needs; the nearest accepted value is 640."),
        (["-k", "33"], "k=33 is not a multiple of 32, as hgemm_naive needs; the nearest accepted "
         "value is 32."),
        (["--dtype", "fp8"], "dtype='fp8' is not known; use bf16, fp16, tf32, fp32."),
        (["--dtype", "fp32"], "hgemm_naive takes bf16 or fp16, not fp32."),
        (["simt", "--dtype", "bf16"], "sgemm_naive takes fp32, not bf16."),
        (["--layout", "nt"], "hgemm_naive takes A and B row-major (nn), not nt."),
        (["--layout", "NT"], "layout='NT' must be one of nn, nt, tn, tt."),
        (["--gpu", "h20"], "gpu='h20' is not in the table; did you mean h200?"),
        (["--all", "hgemm"], "--all runs every family; leave out the family and --rung."),
        (["--all", "--rung", "hgemm_bcf"], "--all runs every family; leave out the family and "
         "--rung."),
        ([""], "family='' is not known; use hgemm, simt, tf32, hopper, cpu or triton."),
        (["--list", "xyz"], "family='xyz' is not known; use hgemm, simt, tf32, hopper, cpu or "
         "triton."),
        (["--json", ""], "the name of a file to write is empty."),
        (["hgemm_bcf"], "family='hgemm_bcf' is a rung; use --rung hgemm_bcf."),
        (["-m", "128.5"], "Invalid value for -m: '128.5' is not a whole number."),
        (["-m", "1" * 5000], f"Invalid value for -m: {'1' * 40}… is longer than any number that is "
         "taken."),
        (["-m", str(2**30), "-n", str(2**30)], "1073741824×1073741824×192 bf16: A, B and C take "
         "2,147,484,416 GiB, more than this machine's memory has; give a smaller shape."),
        (["simt", "--rung", "hgemm_bcf"], "hgemm_bcf is of the family hgemm, not simt; leave out "
         "the family, or name a rung of it."),
        (["simt", "--list", "--rung", "hgemm_bcf"], "hgemm_bcf is of the family hgemm, not simt; "
         "leave out the family, or name a rung of it."),
        (["--seed", "-4"], "seed=-4 must be 0 or more."),
        (["sgem"], "family='sgem' is not known; did you mean hgemm?"),
        (["sgem", "--rung", "hgemm_bcf"], "family='sgem' is not known; did you mean hgemm?"),
        (["--record", "times.jsonl"], "--record keeps times, and the emulator has none; it needs "
         "a GPU."),
    ],
)  # fmt: skip
def test_bad_input(
    arguments: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["ladder", *EMULATED, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"tilewright: {said}\n"
    assert captured.out == ""


def test_an_unknown_engine(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", "--engine", "cuda"]) == 2
    assert "engine='cuda' is not known; use auto, gpu or emulator." in capsys.readouterr().err


@pytest.mark.skipif(bool(gpus_found()), reason="there is a GPU here")
def test_the_gpu_engine_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", "--engine", "gpu"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("tilewright: no NVIDIA GPU was found")
    assert "--engine emulator" in said
    assert said.count("\n") == 1


def test_without_nvrtc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright import nvrtc
    from tilewright.errors import ToolchainError

    def missing() -> Any:
        raise ToolchainError(f"NVRTC was not found; {nvrtc.INSTALL}")

    monkeypatch.setattr(nvrtc, "_loaded", missing)
    assert run(["ladder", *SMALL]) == 2
    said = capsys.readouterr().err
    assert said.startswith("tilewright: NVRTC was not found")
    assert "tilewright[cu13]" in said


def test_a_json_file_that_cannot_be_written_is_told_before_the_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright.bench.ladder.climb", None)  # calling it would be a fault
    assert run(["ladder", *EMULATED, "--json", "/nowhere/rows.json"]) == 2
    assert "/nowhere/rows.json cannot be written" in capsys.readouterr().err


def test_a_wrong_result_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(128, 256, 64, BF16)
    row = Row(
        name="hgemm_bcf", family="hgemm", engine="emulator", arch="sm_90", dtype="bf16",
        layout="nn", m=128, n=256, k=64, status="wrong", correct=False, rel_error=float("nan"),
        reason="1 of 32768 checked elements are wrong",
    )  # fmt: skip
    monkeypatch.setattr(
        "tilewright.bench.ladder.climb", lambda *args, **options: Ladder("test", problem, (row,))
    )
    assert run(["ladder", "--json", "-"]) == 1
    captured = capsys.readouterr()
    loaded = json.loads(captured.out, parse_constant=lambda word: pytest.fail(word))
    assert loaded["rows"][0]["rel_error"] is None  # JSON has no NaN
    assert "wrong" in captured.err
    assert "1 of 32768 checked elements are wrong" in captured.err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", "--list", "--json", "-"]) == 0
    loaded = document(capsys)
    assert loaded["schema"] == "tilewright.ladder-list/1"
    assert {"family": "hgemm", "name": "hgemm_naive"}.items() <= loaded["rows"][0].items()
    assert [row["name"] for row in loaded["rows"]] == list(RUNGS)


@needs_nvrtc
def test_a_family_in_its_own_type(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ladder", "simt", *SMALL, "--json", "-"]) == 0
    rows = document(capsys)["rows"]
    assert [row["name"] for row in rows] == [rung.name for rung in select("simt")]
    assert {(row["dtype"], row["family"], row["status"]) for row in rows} == {
        ("fp32", "simt", "ok")
    }


def test_the_host_s_family_needs_no_compiler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilewright import nvrtc

    monkeypatch.setattr(nvrtc, "_loaded", pytest.fail)
    assert run(["ladder", "cpu", *SMALL, "--json", "-"]) == 0
    captured = capsys.readouterr()
    rows = json.loads(captured.out)["rows"]
    assert [row["name"] for row in rows] == [rung.name for rung in select("cpu")]
    for row in rows:
        assert list(row) == FIELDS
        assert (row["engine"], row["dtype"], row["status"]) == ("cpu", "fp32", "ok")
        assert row["us"] > 0
        assert {value for name, value in row.items() if name not in FIELDS[:15]} == {None}
    assert "rel." in captured.err


def test_the_host_s_family_says_that_no_engine_changes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["ladder", "cpu", *SMALL, "--gpu", "a100"]) == 0
    assert "own processor: gpu=a100 changes nothing." in " ".join(capsys.readouterr().out.split())


@needs_nvrtc
def test_a_reader_who_leaves_early_costs_nothing(tmp_path: Path) -> None:
    """The document is written before the table, and the exit code is the command's own."""
    target = tmp_path / "rows.json"
    words = [sys.executable, "-m", "tilewright", "ladder", *SMALL, "--json", str(target)]
    shell = f"{shlex.join(words)} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(target.read_text())["rows"]) == len(select("hgemm"))


@needs_nvrtc
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_what_cannot_be_told_does_not_change_the_exit_code() -> None:
    base = [sys.executable, "-m", "tilewright", "ladder"]
    for arguments, code in (([*SMALL, "--json", "-"], 0), (["-m", "100", *EMULATED], 2)):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*base, *arguments], stdout=subprocess.PIPE, stderr=full, check=False
            )
        assert done.returncode == code
        assert not done.stdout or json.loads(done.stdout)

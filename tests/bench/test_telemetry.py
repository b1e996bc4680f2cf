from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tilewright.bench import telemetry
from tilewright.bench.telemetry import Telemetry


def test_a_line_of_nvidia_smi_is_read() -> None:
    line = "1980, 652.31, 48, 0x0000000000000004"
    assert telemetry.parse(line) == Telemetry(1980, 652.31, 48, ("power cap",))


@pytest.mark.parametrize(
    ("cell", "reasons"),
    [
        ("0x0000000000000000", ()),
        ("0x0000000000000001", ()),
        ("0x0000000000000044", ("power cap", "hardware thermal")),
        ("[N/A]", None),
    ],
)
def test_throttle_reasons(cell: str, reasons: tuple[str, ...] | None) -> None:
    assert telemetry.parse(f"345, 70.00, 30, {cell}").throttle == reasons


@pytest.mark.parametrize("line", ["", "[N/A], [N/A], [N/A], [N/A]", "nan, -1, what", ",,,"])
def test_what_is_not_told_is_none(line: str) -> None:
    assert telemetry.parse(line) == Telemetry()


def test_without_nvidia_smi_nothing_is_known_and_nothing_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(*args: Any, **options: Any) -> None:
        raise FileNotFoundError("nvidia-smi")

    monkeypatch.setattr(subprocess, "run", missing)
    assert telemetry.sample("GPU-1") == Telemetry()


def test_an_older_driver_is_asked_again_without_the_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def old(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if "clocks_event_reasons" in command[1]:
            return subprocess.CompletedProcess(command, 2, "", "not a valid field")
        return subprocess.CompletedProcess(command, 0, "1200, 250.5, 61\n", "")

    monkeypatch.setattr(subprocess, "run", old)
    assert telemetry.sample("GPU-1") == Telemetry(1200, 250.5, 61, None)
    assert [command[-2:] for command in asked] == [["-i", "GPU-1"]] * 2


def test_only_queries_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def spy(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert command[0] == "nvidia-smi"
        assert all(word.startswith(("--query-gpu=", "--format=")) for word in command[1:])
        return subprocess.CompletedProcess(command, 0, "1, 2, 3, 0x0\n4, 5, 6, 0x0\n", "")

    monkeypatch.setattr(subprocess, "run", spy)
    assert telemetry.sample() == Telemetry(1, 2.0, 3, ())

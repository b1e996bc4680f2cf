"""Progress on stderr, late, and only where somebody watches; files known to be writable."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path

import pytest

from tilewright.cli.output import check_targets, late_progress
from tilewright.errors import InputError


def shown(monkeypatch: pytest.MonkeyPatch, after_s: float, works_s: float) -> str:
    """What stderr, a terminal, gets of work that takes so long."""
    pty = pytest.importorskip("pty")
    monkeypatch.setenv("TERM", "xterm")
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with late_progress("running k.cu", after_s) as tell:
            tell(3, 8)
            time.sleep(works_s)
        terminal.flush()
        said = b""  # a terminal gives what it has in pieces
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(ours, 1 << 16):
                said += piece
        os.close(ours)
        return said.decode()


def test_long_work_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    said = shown(monkeypatch, 0.01, 0.5)
    assert "running k.cu" in said
    assert "3 blocks" in said
    assert said.endswith(("\x1b[2K", "\x1b[?25h"))  # it is wiped out at the end


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, 60, 0) == ""


def test_an_error_passes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyError), late_progress("running k.cu", 0):
        raise KeyError


@pytest.mark.parametrize("forced", [False, True])
def test_a_file_gets_nothing(forced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        with late_progress("running k.cu", 0) as tell:
            tell(3, 8)
            time.sleep(0.2)
    assert (tmp_path / "log").read_text() == ""


def test_a_closed_stderr_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with late_progress("running k.cu", 0) as tell:
        tell(3, 8)


# --- Files to write ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/proc/x.npy", "/proc/x.npy cannot be written: no file can be made in /proc."),
        ("none/x.json", "none/x.json cannot be written: none is missing."),
        ("loop", "loop cannot be written: "),
        ("dead", "dead cannot be written: "),
        ("x" * 300, "cannot be written: File name too long."),
        ("", "the name of a file to write is empty"),
        (".", "it is a folder; name a file."),
    ],
)
def test_a_file_that_cannot_be_written_is_told_before(
    target: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("dead").symlink_to("none/file")
    with pytest.raises(InputError) as caught:
        check_targets(target)
    assert why in str(caught.value)
    assert sorted(os.listdir()) == ["dead", "loop"]


def test_what_can_be_written_stays_as_it_is(tmp_path: Path) -> None:
    old, new, link = tmp_path / "old", tmp_path / "new", tmp_path / "link"
    old.write_text("content")
    link.symlink_to(tmp_path / "later")
    check_targets(old, new, link, "/dev/null")
    assert old.read_text() == "content"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "old"]

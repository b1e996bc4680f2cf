"""tilewright cache: show, size, clear."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from tilewright.artifact import Artifact, Resources
from tilewright.cache import default_cache
from tilewright.cli.cache import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of two kernels, a damaged entry and a foreign file."""
    root = tmp_path / "kernels"
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(root))
    for word in ("naive", "[bcf]"):  # brackets are markup to rich
        default_cache().put(
            Artifact(
                name=f"hgemm/{word}.cu",
                arch="sm_90",
                ptx=".version 8.0\n",
                cubin=b"\x7fELF",
                log="",
                compiler="NVRTC 13.5.37",
                resources={"gemm": Resources(122, 0, 0, 0)},
                key=hashlib.sha256(word.encode()).hexdigest(),
            )
        )
    (root / f"{'0' * 64}.tilewright").write_bytes(b"damaged")
    (root / "notes.txt").write_text("mine")
    return root


def run(words: str) -> Any:
    return app(words, result_action="return_value", exit_on_error=False)


@pytest.mark.parametrize("command", ["", "show"])
def test_show_lists_the_entries(
    folder: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run(command) == 0
    out = capsys.readouterr().out
    for word in ("hgemm/naive.cu", "hgemm/[bcf].cu", "damaged", "sm_90"):
        assert word in out
    assert folder.name in out.replace("\n", "")


@pytest.mark.parametrize("command", ["--json -", "show --json -"])
def test_show_as_json(folder: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tilewright.cache/1"
    rows = {row["name"]: row for row in document["rows"]}
    assert set(rows) == {"hgemm/naive.cu", "hgemm/[bcf].cu", None}
    assert set(rows[None]) == {"key", "name", "arch", "bytes", "used"}
    assert rows["hgemm/naive.cu"]["arch"] == "sm_90"
    assert rows["hgemm/naive.cu"]["used"].endswith("+00:00")
    assert rows[None]["bytes"] == 7
    assert folder.is_dir()


def test_size(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("size") == 0
    assert capsys.readouterr().out.startswith("3 kernels, 0.0 MiB, in /")
    assert run("size --json -") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "tilewright.cache-size/1"
    total = sum(path.stat().st_size for path in folder.glob("*.tilewright"))
    assert document["rows"] == [{"folder": str(folder), "entries": 3, "bytes": total}]


def test_clear_leaves_what_is_not_ours(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = folder.parent / "cleared.json"
    assert run(f"clear --json {target}") == 0
    assert capsys.readouterr().out.startswith("removed 3 kernels, 0.0 MiB, from /")
    assert json.loads(target.read_text()) == {
        "schema": "tilewright.cache-clear/1",
        "rows": [{"folder": str(folder), "removed": 3}],
    }
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("command", ["show", "size", "clear"])
@pytest.mark.parametrize("root", ["none", "a file", "unknown"])
def test_without_a_usable_folder(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    root: str,
) -> None:
    (tmp_path / "a file").write_text("mine")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / root))
    if root == "unknown":
        monkeypatch.setattr("tilewright.cache.default_root", lambda: None)
    assert run(f"{command} --json -") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert rows == [] or rows[0].get("entries", rows[0].get("removed")) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a file"]


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("--help", "show --help", "size --help", "clear --help"):
        run(words)
        assert "Example: tilewright cache" in capsys.readouterr().out

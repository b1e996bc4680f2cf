"""The disk cache: whatever is wrong on disk is a miss, and nothing is lost to a race."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright import cache as module
from tilewright.artifact import Artifact, Resources
from tilewright.cache import Cache, default_cache, default_root
from tilewright.errors import InputError


def artifact(word: str = "a", size: int = 100) -> Artifact:
    return Artifact(
        name=f"{word}.cu",
        arch="sm_90",
        ptx=".version 8.0 // × not ASCII\n",
        cubin=bytes(range(256)) * (size // 256) + b"\n\0" * 8,
        log="ptxas info",
        compiler="NVRTC 13.5.37",
        resources={"gemm": Resources(122, 8, 16, 128), "_Z1kv": Resources(8, 0, 0, 0)},
        key=hashlib.sha256(word.encode()).hexdigest(),
    )


def entry(root: Path, made: Artifact) -> Path:
    return root / f"{made.key}.tilewright"


def test_an_artifact_comes_back_from_disk_as_it_was(tmp_path: Path) -> None:
    made = artifact()
    Cache(tmp_path).put(made)
    assert Cache(tmp_path).get(made.key) == made
    assert Cache(str(tmp_path / "elsewhere")).get(made.key) is None
    assert [path.name for path in tmp_path.iterdir()] == [f"{made.key}.tilewright"]


def test_this_process_keeps_what_it_has_seen(tmp_path: Path) -> None:
    store, made = Cache(tmp_path), artifact()
    store.put(made)
    entry(tmp_path, made).unlink()
    assert store.get(made.key) is made


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IN_MEMORY", 2)
    store = Cache(None)
    for word in "abc":
        store.put(artifact(word))
    assert [store.get(artifact(word).key) is not None for word in "abc"] == [False, True, True]


@pytest.mark.parametrize("key", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_a_key_is_64_hex_digits(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match="must be 64 hexadecimal digits"):
        Cache(tmp_path).get(key)


def test_truncation_at_any_byte_is_a_miss_and_is_mended(tmp_path: Path) -> None:
    made = artifact()
    Cache(tmp_path).put(made)
    path = entry(tmp_path, made)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert Cache(tmp_path).get(made.key) is None, length
    Cache(tmp_path).put(made)
    assert Cache(tmp_path).get(made.key) == made


def test_a_changed_byte_anywhere_is_a_miss(tmp_path: Path) -> None:
    made = artifact()
    Cache(tmp_path).put(made)
    path = entry(tmp_path, made)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x20]) + whole[at + 1 :])
        assert Cache(tmp_path).get(made.key) is None, at
    path.write_bytes(whole + b"x")
    assert Cache(tmp_path).get(made.key) is None


def test_random_bytes_are_a_miss(tmp_path: Path) -> None:
    made = artifact()
    bits = random.Random(5)
    for size in [0, 1, 21, 22, 100, 5000]:
        entry(tmp_path, made).write_bytes(bits.randbytes(size))
        assert Cache(tmp_path).get(made.key) is None


def _sealed(meta: bytes, payload: bytes = b"ptxcubin") -> bytes:
    rest = meta + b"\n" + payload
    return b"tilewright.artifact/1 " + hashlib.sha256(rest).hexdigest().encode() + b"\n" + rest


@pytest.mark.parametrize(
    "meta", [b"", b"[]", b"null", b"{}", b'{"ptx_bytes": "3"}', b"[" * 100_000, b"\xff\xfe"]
)
def test_a_rightly_sealed_entry_of_other_contents_is_a_miss(tmp_path: Path, meta: bytes) -> None:
    made = artifact()
    entry(tmp_path, made).write_bytes(_sealed(meta))
    assert Cache(tmp_path).get(made.key) is None
    assert Cache(tmp_path).entries()[0].name is None


def test_another_schema_and_another_keys_entry_are_misses(tmp_path: Path) -> None:
    made, other = artifact(), artifact("b")
    Cache(tmp_path).put(made)
    whole = entry(tmp_path, made).read_bytes()
    entry(tmp_path, other).write_bytes(whole)
    assert Cache(tmp_path).get(other.key) is None
    entry(tmp_path, made).write_bytes(whole.replace(b"artifact/1", b"artifact/2", 1))
    assert Cache(tmp_path).get(made.key) is None


def test_an_empty_cubin_is_never_handed_out(tmp_path: Path) -> None:
    for made in (replace(artifact("a"), cubin=b""), replace(artifact("b"), ptx="")):
        Cache(tmp_path).put(made)
        assert Cache(tmp_path).get(made.key) is None


def test_a_damaged_entry_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = Cache(tmp_path)
    for word in "ab":
        entry(tmp_path, artifact(word)).write_bytes(b"no")
        assert store.get(artifact(word).key) is None
    assert len(caplog.records) == 1
    assert "it is built again" in caplog.text


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling link", "loop"])
def test_an_entry_that_is_no_file_is_a_miss(tmp_path: Path, kind: str) -> None:
    store, made = Cache(tmp_path), artifact()
    path = entry(tmp_path, made)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        if not hasattr(os, "mkfifo"):
            pytest.skip("no named pipes here")
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "loop" else tmp_path / "nothing")
    assert store.get(made.key) is None
    store.put(made)  # a folder stays in the way; the rest is replaced
    assert store.get(made.key) == made
    assert (Cache(tmp_path).get(made.key) == made) == (kind != "folder")


def test_an_oversized_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST_ENTRY", 64)
    made = artifact()
    Cache(tmp_path).put(made)
    assert Cache(tmp_path).get(made.key) is None


@pytest.mark.parametrize("where", ["a file", "under a file", "/proc", "a dangling link"])
def test_an_unusable_folder_means_memory_only(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("/proc/nothing/here")
    root = {
        "a file": tmp_path / "file",
        "under a file": tmp_path / "file" / "kernels",
        "/proc": Path("/proc/tilewright"),
        "a dangling link": tmp_path / "link",
    }[where]
    store = Cache(root)
    for word in "ab":
        made = artifact(word)
        assert store.get(made.key) is None
        store.put(made)
        assert store.get(made.key) is made
    assert (store.entries(), store.size_bytes(), store.clear()) == ((), 0, 0)
    assert not store.writable()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "TILEWRIGHT_CACHE_DIR" in caplog.text
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    "code", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EBUSY, errno.ENOENT]
)
@pytest.mark.parametrize("call", ["replace", "fdopen", "unlink"])
def test_a_failing_file_system_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    store, made = Cache(tmp_path, limit_bytes=1), artifact()
    store.put(artifact("b"))
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        store.put(made)
        store.clear()
        store.put(made)
    assert store.get(made.key) is made


def test_reading_denied_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = artifact()
    Cache(tmp_path).put(made)

    def deny(_: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", deny)
    assert Cache(tmp_path).get(made.key) is None


def test_no_folder_at_all() -> None:
    store, made = Cache(None), artifact()
    store.put(made)
    assert store.get(made.key) is made
    assert (store.entries(), store.size_bytes(), store.writable()) == ((), 0, False)
    assert store.clear() == 0
    assert store.get(made.key) is None


def test_entries_tell_name_arch_size_and_last_use(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    for when, word in enumerate("abc"):
        store.put(artifact(word))
        os.utime(entry(tmp_path, artifact(word)), (1000 + when, 1000 + when))
    Cache(tmp_path).get(artifact("a").key)  # a use from disk
    found = store.entries()
    assert [e.name for e in found] == ["a.cu", "c.cu", "b.cu"]
    assert found[0].used > 1e9
    assert {e.arch for e in found} == {"sm_90"}
    assert store.size_bytes() == sum(e.bytes for e in found) > 0


def test_clear_removes_our_files_only(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    for word in "ab":
        store.put(artifact(word))
    killed = tmp_path / f"{artifact('c').key}.tilewright.x7_ab2cd.tmp"
    killed.write_bytes(b"half")
    foreign = ["notes.txt", "kernel.tilewright", f"{'0' * 64}.cubin", f"{'0' * 64}.tilewright.bak"]
    for name in foreign:
        (tmp_path / name).write_text("mine")
    (tmp_path / f"{'1' * 64}.tilewright").mkdir()
    assert store.clear() == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        [*foreign, "1" * 64 + ".tilewright"]
    )
    assert store.get(artifact("a").key) is None


def test_the_folder_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    one = artifact(size=10_240)
    store = Cache(tmp_path, limit_bytes=4 * 11_000)
    for when, word in enumerate("abcd"):
        store.put(replace(one, key=artifact(word).key))
        os.utime(entry(tmp_path, artifact(word)), (1000 + when, 1000 + when))
    assert len(store.entries()) == 4
    store.put(replace(one, key=artifact("e").key))
    left = {e.key for e in store.entries()}
    assert left == {artifact(word).key for word in "cde"}
    huge = replace(one, cubin=bytes(100_000), key=artifact("f").key)
    store.put(huge)  # above the limit alone: kept, as it is in use now
    assert [e.key for e in store.entries()] == [huge.key]


def test_what_a_killed_writer_left_goes_after_an_hour(tmp_path: Path) -> None:
    old, new = (tmp_path / f"{'0' * 64}.tilewright.{word}.tmp" for word in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1000, 1000))
    Cache(tmp_path).put(artifact())
    assert not old.exists()
    assert new.exists()


def test_root_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for given, root in [
        (str(tmp_path / "k"), tmp_path / "k"),
        (f"  {tmp_path}/k ", tmp_path / "k"),
        (f":{tmp_path}/k", tmp_path / "k"),
        ("~/k", tmp_path / "home" / "k"),
        ("kernels", tmp_path / "kernels"),
    ]:
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", given)
        assert default_root() == root
        assert default_cache() is default_cache()
        assert default_cache().root == root
    for empty in ("", "  ", ":"):
        monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", empty)
        usual = default_root()
        assert usual is not None
        assert usual.is_relative_to(tmp_path / "home")
        assert usual.name == "tilewright"


def test_without_a_home_nothing_is_written_to_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TILEWRIGHT_CACHE_DIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as for a user without a name
    module._cache_at.cache_clear()
    assert default_root() is None
    default_cache().put(artifact())
    assert default_cache().get(artifact().key) == artifact()
    assert list(tmp_path.iterdir()) == []
    assert caplog.text.count("no home folder is known") == 1
    module._cache_at.cache_clear()


_WRITER = """
import sys, time, pathlib
sys.path.insert(0, sys.argv[3])
from test_cache import artifact
from tilewright.cache import Cache
root, go = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
while not go.exists():
    time.sleep(0.001)
made = artifact(size=300_000)
for _ in range(40):
    store = Cache(root, limit_bytes=900_000)
    store.put(made)
    found = Cache(root).get(made.key)
    assert found is None or found == made
"""


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be replaced on Windows")
def test_writers_and_readers_in_many_processes(tmp_path: Path) -> None:
    root, go = tmp_path / "shared", tmp_path / "go"
    here = str(Path(__file__).parent)
    paths = os.pathsep.join([*sys.path, here])
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(root), str(go), here],
            env=os.environ | {"PYTHONPATH": paths},
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    go.touch()
    said = [run.communicate(timeout=60)[1] for run in runs]
    assert said == [""] * 6
    assert [run.returncode for run in runs] == [0] * 6
    made = artifact(size=300_000)
    assert Cache(root).get(made.key) == made
    assert [path.name for path in root.iterdir()] == [f"{made.key}.tilewright"]

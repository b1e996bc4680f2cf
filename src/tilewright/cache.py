"""Artifacts on disk, one self-contained, checksummed file each, shared by any number of processes.

An entry holds PTX and JSON beside the cubin and must work without cuda-core, hence not its
FileStreamProgramCache. Layout of `<key>.tilewright`:

    tilewright.artifact/1 <sha256 of all that follows>\\n
    {"key": …, "name": …, "ptx_bytes": …, "cubin_bytes": …, …}\\n
    PTX, cubin

A writer fills a temporary file beside the entry and renames it over the entry: readers see a
whole entry or none, and of several writers the last one wins with the same contents. There is no
lock to be left behind. Whatever is wrong with an entry or with the folder is a miss, said once
through `logging`, and the artifact at hand is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import time
import zlib
from dataclasses import asdict, dataclass
from functools import cache as remember
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.artifact import Artifact, Resources
from tilewright.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

ENV = "TILEWRIGHT_CACHE_DIR"
LIMIT_BYTES = 512 * 1024 * 1024

_MAGIC = b"tilewright.artifact/1"
_SUFFIX = ".tilewright"
_KEY = re.compile(r"[0-9a-f]{64}\Z")
_TEXT_SUFFIX = ".text"
_OURS = re.compile(r"[0-9a-f]{64}\.(?:tilewright|text)(?:\.\w+\.tmp)?\Z")
_LARGEST_ENTRY = 256 * 1024 * 1024  # no artifact is near it; a foreign file must not fill memory
_LARGEST_META = 4 * 1024 * 1024
_IN_MEMORY = 512  # artifacts of about 0.1 MB
_ABANDONED_S = 3600  # a temporary file this old belongs to a writer that was killed

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """What `tilewright cache` shows of one entry; `name` and `arch` are None if it is damaged.

    `bytes` is the file's size, `used` the time of its last use in seconds since the epoch.
    """

    key: str
    name: str | None
    arch: str | None
    bytes: int
    used: float


class Cache:
    """The artifacts under `root`; with root=None, or a folder that cannot be used, in memory only.

    `limit_bytes` bounds the folder: beyond it the entries used longest ago go.
    Nothing here raises for what is found on disk.
    Cost: a hit takes 0.3 ms from disk, a microsecond once this process has seen it.
    """

    def __init__(self, root: Path | str | None, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self.root = None if root is None else Path(root)
        self.limit_bytes = limit_bytes
        self._memory: dict[str, Artifact] = {}
        self._said: set[str] = set()

    def get(self, key: str) -> Artifact | None:
        """The artifact of this key, or None. Raises: InputError unless key is 64 hex digits."""
        path = self._path(key)
        if (known := self._memory.get(key)) is not None:
            return known
        if path is None:
            return None
        try:
            artifact = _decode(_read(path), key)
        except (FileNotFoundError, NotADirectoryError):  # of an unusable folder `put` will tell
            return None
        except (OSError, ValueError) as error:
            self._say("entry", f"{path} is not a valid entry ({error}); it is built again.")
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # the order of eviction; access times are often switched off
        self._remember(artifact)
        return artifact

    def put(self, artifact: Artifact) -> None:
        """Keeps the artifact: in this process always, on disk if that can be."""
        path = self._path(artifact.key)
        self._remember(artifact)
        if path is None:
            return
        try:
            _replace(path, _encode(artifact))
            self._evict(keep=path)
        except OSError as error:
            self._say(
                "folder",
                f"the cache folder {path.parent} cannot be written ({error.strerror or error}); "
                f"kernels are built anew in each process: set {ENV} to a folder of yours.",
            )

    def text(self, key: str) -> str | None:
        """What `put_text` kept under this key, or None. Raises: InputError as `get`."""
        path = self._path(key)
        if path is None:
            return None
        path = path.with_suffix(_TEXT_SUFFIX)
        try:
            text = zlib.decompress(_read(path)).decode()
            os.utime(path)
        except (OSError, ValueError, zlib.error):
            return None
        return text

    def put_text(self, key: str, text: str) -> None:
        """Keeps what was derived from an artifact at some cost, on disk if that can be."""
        path = self._path(key)
        if path is None:
            return
        path = path.with_suffix(_TEXT_SUFFIX)
        with contextlib.suppress(OSError):  # of an unusable folder `put` has told
            _replace(path, zlib.compress(text.encode(), 3))
            self._evict(keep=path)

    def entries(self) -> tuple[Entry, ...]:
        """What lies on disk, the last used first; damaged entries too."""
        found = [
            Entry(path.name.removesuffix(_SUFFIX), *_title(path), info.st_size, info.st_mtime)
            for path, info in self._files()
            if path.name.endswith(_SUFFIX)
        ]
        return tuple(sorted(found, key=lambda entry: entry.used, reverse=True))

    def size_bytes(self) -> int:
        """The bytes of all our files, those of unfinished writes included."""
        return sum(info.st_size for _, info in self._files())

    def clear(self) -> int:
        """Removes our files, in memory and on disk, and nothing else; how many entries went."""
        self._memory.clear()
        removed = 0
        for path, _ in list(self._files()):
            with contextlib.suppress(OSError):
                path.unlink()
                removed += path.name.endswith(_SUFFIX)
        return removed

    def writable(self) -> bool:
        """Whether an entry could be written now; tries it in the folder or where it would be."""
        if self.root is None:
            return False
        try:
            nearest = next(f for f in (self.root, *self.root.parents) if os.path.lexists(f))
            with tempfile.TemporaryFile(dir=nearest):
                return True
        except (OSError, StopIteration):
            return False

    def _path(self, key: str) -> Path | None:
        if not _KEY.match(key):
            raise InputError(f"key={key!r} must be 64 hexadecimal digits, as build.key gives them.")
        return None if self.root is None else self.root / (key + _SUFFIX)

    def _remember(self, artifact: Artifact) -> None:
        self._memory[artifact.key] = artifact
        while len(self._memory) > _IN_MEMORY:
            self._memory.pop(next(iter(self._memory), ""), None)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """Our regular files. Others may remove them meanwhile."""
        if self.root is None:
            return
        try:
            names = sorted(os.listdir(self.root))
        except OSError:
            return
        for name in names:
            if _OURS.match(name):
                with contextlib.suppress(OSError):
                    info = (self.root / name).lstat()
                    if stat.S_ISREG(info.st_mode):
                        yield self.root / name, info

    def _evict(self, keep: Path) -> None:
        """Removes abandoned temporary files, and above the limit the oldest entries."""
        files = sorted(self._files(), key=lambda item: item[1].st_mtime)
        total = sum(info.st_size for _, info in files)
        goal = self.limit_bytes if total <= self.limit_bytes else self.limit_bytes * 3 // 4
        for path, info in files:
            unfinished = path.suffix == ".tmp"
            stale = unfinished and time.time() - info.st_mtime > _ABANDONED_S
            if stale or (total > goal and not unfinished and path != keep):
                with contextlib.suppress(OSError):
                    path.unlink()
                    total -= info.st_size

    def _say(self, what: str, sentence: str) -> None:
        if what not in self._said:
            self._said.add(what)
            _log.warning("%s", sentence)


def default_root() -> Path | None:
    """TILEWRIGHT_CACHE_DIR if set and not empty, else the user's cache folder for tilewright.

    None when neither gives an absolute path (no home folder is known): a relative one would
    scatter entries over the folders that programs happen to be started in.
    """
    # A list such as ":/scratch/kernels" comes from scripts that prepend to an unset variable.
    given = os.path.expanduser(os.environ.get(ENV, "").strip().strip(os.pathsep))
    try:
        if given:
            return Path(os.path.abspath(given))
        from platformdirs import user_cache_path  # 10 ms that --help need not pay

        path = user_cache_path("tilewright", appauthor=False)
    except (ImportError, OSError, RuntimeError, ValueError):
        return None
    return path if path.is_absolute() else None


def default_cache() -> Cache:
    """The cache at `default_root()`, one object per folder in this process."""
    return _cache_at(default_root())


@remember
def _cache_at(root: Path | None) -> Cache:
    if root is None:
        _log.warning(
            "no home folder is known, so kernels are built anew in each process: "
            "set %s to a folder of yours.",
            ENV,
        )
    return Cache(root)


def _encode(artifact: Artifact) -> bytes:
    ptx = artifact.ptx.encode()
    meta = {
        "key": artifact.key,
        "name": artifact.name,
        "arch": artifact.arch,
        "compiler": artifact.compiler,
        "log": artifact.log,
        "resources": {name: asdict(record) for name, record in artifact.resources.items()},
        "ptx_bytes": len(ptx),
        "cubin_bytes": len(artifact.cubin),
    }
    rest = json.dumps(meta).encode() + b"\n" + ptx + artifact.cubin
    return b"%s %s\n%s" % (_MAGIC, hashlib.sha256(rest).hexdigest().encode(), rest)


def _decode(raw: bytes, key: str) -> Artifact:
    """The artifact in these bytes. Raises: ValueError for anything but a whole entry of `key`."""
    head, _, rest = raw.partition(b"\n")
    if not head.startswith(_MAGIC + b" "):
        raise ValueError("another format or version")
    if head[len(_MAGIC) + 1 :] != hashlib.sha256(rest).hexdigest().encode():
        raise ValueError("its checksum differs")
    line, _, payload = rest.partition(b"\n")
    try:
        meta: dict[str, Any] = json.loads(line)
        split = meta["ptx_bytes"]
        artifact = Artifact(
            name=meta["name"],
            arch=meta["arch"],
            ptx=payload[:split].decode(),
            cubin=payload[split:],
            log=meta["log"],
            compiler=meta["compiler"],
            resources={name: Resources(**record) for name, record in meta["resources"].items()},
            key=meta["key"],
        )
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"its description is incomplete, {error}") from None
    if artifact.key != key:
        raise ValueError("it belongs to another key")
    if not artifact.ptx or not artifact.cubin or len(artifact.cubin) != meta["cubin_bytes"]:
        raise ValueError("its PTX or cubin is empty")
    return artifact


def _read(path: Path) -> bytes:
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):  # opening a pipe would wait for ever
        raise ValueError("not a regular file")
    if info.st_size > _LARGEST_ENTRY:
        raise ValueError(f"{info.st_size} bytes")
    return path.read_bytes()


def _title(path: Path) -> tuple[str | None, str | None]:
    """Name and arch of an entry from its first two lines, without reading the rest."""
    try:
        with path.open("rb") as file:
            if not file.readline(256).startswith(_MAGIC + b" "):
                return None, None
            meta = json.loads(file.readline(_LARGEST_META))
        return str(meta["name"]), str(meta["arch"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, None


def _replace(path: Path, raw: bytes) -> None:
    """Writes a private file beside `path` and renames it over `path`, in one step for readers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, private = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        os.replace(private, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(private)
        raise

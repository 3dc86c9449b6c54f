"""Temporary files and folders that go with their owner, and those of processes that were killed with the next one made.

An owner holds a lock on what it makes, which the kernel releases however the process ends: what nobody has locked is removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from warpsight.base.errors import UsageError

PREFIX = "warpsight-tmp-"
_IN_TEMPORARY = re.compile(PREFIX + ".+")
_NODE = hashlib.sha256(os.uname().nodename.encode()).hexdigest()[:8]
_BESIDE = re.compile(r"\.warpsight-([0-9a-f]{8})-[0-9a-f]{8}\.(?:new|partial|old)")
_STALE_SECONDS = 24 * 3600.0  # what another machine began: its locks may not be seen here


class TemporaryFolder:
    """A folder that is deleted at the end of its `with` block, with this object, or at the end of the process.

    It lies in the system's folder for temporary files, or with a hidden name in `within`. Raises UsageError where none can be made,
    and OSError for `within`.
    """

    def __init__(self, within: Path | None = None, suffix: str = ".partial") -> None:
        if within is not None:
            sweep_within(within)
            self.path, lock = _made(within, suffix, lambda path: _folder(path, 0o777))
        else:
            try:
                sweep()
                self.path, lock = _made(Path(tempfile.gettempdir()), "", lambda path: _folder(path, 0o700))
            except OSError as error:
                remedy = "free space, or set TMPDIR to a folder that can be written"
                raise UsageError(f"a temporary folder cannot be made: {error.strerror or error}", remedy=remedy) from None
        self.remove = weakref.finalize(self, _remove, self.path, lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()


def new_file(within: Path, mode: int) -> tuple[Path, int]:
    """A new file with a hidden name, and the handle that holds its lock until it is closed. Raises OSError."""
    sweep_within(within)
    return _made(within, ".new", lambda path: os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))


def _folder(path: Path, mode: int) -> int:
    path.mkdir(mode)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def _made(place: Path, kind: str, make: Callable[[Path], int]) -> tuple[Path, int]:
    """What `make` makes under a name that is free, and its lock."""
    while True:
        word = secrets.token_hex(4)
        path = place / (f".warpsight-{_NODE}-{word}{kind}" if kind else f"{PREFIX}{word}")
        try:
            lock = make(path)
        except FileExistsError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # another process removes what is not locked yet
            os.close(lock)
            continue
        except OSError:  # a file system without locks: nobody can sweep there either
            return path, lock
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(lock)):
                return path, lock
        os.close(lock)


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


# -- What killed processes left.

def sweep() -> None:
    """Remove this user's temporary folders whose owners have ended without removing them."""
    _sweep(tempfile.gettempdir(), lambda name, status: stat.S_ISDIR(status.st_mode) and bool(_IN_TEMPORARY.fullmatch(name)))


def sweep_within(folder: Path) -> None:
    """Remove from `folder` what runs that were killed had begun to write, and put back what they had not replaced yet."""

    def abandoned(name: str, status: os.stat_result) -> bool:
        begun = _BESIDE.fullmatch(name)
        return begun is not None and (begun[1] == _NODE or time.time() - status.st_mtime > _STALE_SECONDS)

    _sweep(folder, abandoned)


def _sweep(folder: str | Path, abandoned: Callable[[str, os.stat_result], bool]) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if "warpsight-" not in entry.name:
                continue
            with suppress(OSError):  # another process may sweep as well
                status = entry.stat(follow_symlinks=False)
                if status.st_uid == os.getuid() and abandoned(entry.name, status):
                    _sweep_one(Path(entry.path))


def _sweep_one(path: Path) -> None:
    """Remove a file or a folder, unless its owner lives or it is neither."""
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        mode = os.fstat(lock).st_mode
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISREG(mode):
            path.unlink()
        elif stat.S_ISDIR(mode):
            if path.suffix == ".old":
                for held in path.iterdir():
                    if not os.path.lexists(path.parent / held.name):
                        held.rename(path.parent / held.name)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)

"""Temporary folders that go with their owner, and those of processes that were killed with the next one made."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from types import TracebackType

PREFIX = "warpsight-tmp-"
_NEW_SECONDS = 60.0  # a folder younger than this may not be locked yet


class TemporaryFolder:
    """A folder that is deleted at the end of its `with` block, with this object, or at the end of the process.

    Its owner holds a lock on it, which the kernel releases however the process ends. Folders without one are removed when a new
    one is made. Raises OSError where no folder can be made.
    """

    def __init__(self) -> None:
        sweep()
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # a file system without locks: nobody can sweep there either
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.remove = weakref.finalize(self, _remove, self.path, lock)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()


def _remove(path: Path, lock: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(lock)


def sweep() -> None:
    """Remove this user's temporary folders whose owners have ended without removing them."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if not entry.name.startswith(PREFIX) or not entry.is_dir(follow_symlinks=False):
                continue
            with suppress(OSError):  # another process may sweep as well
                _sweep_one(entry.path)


def _sweep_one(path: str) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        status = os.fstat(lock)
        if status.st_uid == os.getuid() and time.time() - status.st_mtime > _NEW_SECONDS:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)

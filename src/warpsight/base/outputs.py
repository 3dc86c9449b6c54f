"""Writing what a user names: a file or a folder appears whole, or what was there stays, also on a full disk or after a kill."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from warpsight.base.temporary import TemporaryFolder, new_file

_MOST_LINKS = 40
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # linux/fcntl.h, linux/fs.h
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)


@contextmanager
def written_whole(path: str | Path, mode: int = 0o666) -> Iterator[Path]:
    """A new file beside `path` that replaces it at the end, and is removed after an error. Raises OSError.

    Of a link, the file that it leads to is replaced. A pipe, a device and a stream (`/dev/stdout`) are given as they are; so is a
    file in a folder that cannot be written. A file that is there keeps its permissions, and one that is read-only stays.
    """
    place = _replaceable(Path(path))
    if place is None:
        yield Path(path)
        return
    there = place.stat() if place.exists() else None
    try:
        temporary, lock = new_file(place.parent, mode)
    except OSError as error:
        if there is None or error.errno not in _UNWRITABLE:
            raise
        yield place
        return
    try:
        yield temporary
        if there is not None:
            with suppress(OSError):  # only root may give a file away
                os.chown(temporary, there.st_uid, there.st_gid)
            os.chmod(temporary, stat.S_IMODE(there.st_mode))
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
        os.close(lock)


def write_whole(path: str | Path, data: str | bytes, mode: int = 0o666) -> None:
    """Write `data`, text as UTF-8, as `written_whole` does. Raises OSError."""
    with written_whole(path, mode) as temporary:
        temporary.write_bytes(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)


def check_place(path: str | Path) -> None:
    """Raise the OSError that `written_whole` would begin with, before minutes are spent on what is to be written there."""
    place = _replaceable(Path(path))
    if place is None or place.exists():
        return
    folder = place.parent
    folder.stat()  # or the reason why it cannot be looked at
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        reason = errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(reason, os.strerror(reason), str(place))


def _replaceable(path: Path) -> Path | None:
    """The regular file, or the free name, that `path` leads to; None for all that is written as it is. Raises OSError."""
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(path.parent)
        if folder == "/dev" or folder.startswith("/proc/"):
            return None
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        return None
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return path


def folder_beside(place: Path) -> TemporaryFolder:
    """A new folder that `put_in_place` gives the name `place`; it is removed if that never happens. Raises OSError."""
    place = Path(os.path.realpath(place))
    place.parent.mkdir(parents=True, exist_ok=True)
    return TemporaryFolder(place.parent)


def put_in_place(new: TemporaryFolder, place: Path) -> None:
    """Give the folder `new` the name `place`, and remove the folder that had it. Raises OSError."""
    place = Path(os.path.realpath(place))
    if not place.exists():
        new.path.rename(place)
    elif not _exchanged(new.path, place):  # a file system that cannot do that in one step, as NFS
        old = TemporaryFolder(place.parent, ".old")
        held = place.rename(old.path / place.name)  # after a kill here, the next writer puts it back
        try:
            new.path.rename(place)
        except OSError:
            held.rename(place)
            raise
        finally:
            old.remove()
    new.remove()


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names in one step; False where the C library or the file system cannot."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except AttributeError:
        return False
    done: int = rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return done == 0

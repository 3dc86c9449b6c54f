"""Results kept between runs: small files under a cache folder, named by the hash of everything that they depend on.

The folder is ``$WARPSIGHT_CACHE``, else that of `warpsight config cache`, else ``$XDG_CACHE_HOME/warpsight``, else
``~/.cache/warpsight``. The cache only ever saves time: an entry that is missing, cut or corrupted is computed again, and a folder
that cannot be written is not an error, but a warning where every command then takes long.

Machine code is loaded from it, so it must be the user's own: made with mode 0700, and refused where others could have written.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shlex
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from warpsight.base import settings
from warpsight.base.errors import UsageError
from warpsight.base.outputs import write_whole
from warpsight.base.progress import remark
from warpsight.base.signals import leave_if_asked

SETTING = "cache"
SIMULATORS = "numba"
"""The kind of the code of simulators, which `base.compiled` counts: a step says nothing of it."""
_CHECKSUM_BYTES = 32
_UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)  # as chosen, or as the machine is: said of what takes long
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_LONGEST, _BETWEEN_LOOKS = 60.0, 0.05  # seconds; the longest compilation takes 10 s of CPU time
_OTHER_FOLDER = "set WARPSIGHT_CACHE to a folder of your own"
_reported: set[str] = set()


def folder() -> Path:
    """The cache folder in effect; it may not exist yet."""
    if chosen := _chosen():
        return Path(chosen)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "warpsight"
    return Path(os.path.expanduser("~")) / ".cache" / "warpsight"


def _chosen() -> str | None:
    return os.environ.get("WARPSIGHT_CACHE") or settings.kept(SETTING, "forget it with `warpsight config cache --clear`")


def content_key(*parts: str | bytes) -> str:
    """A hexadecimal key that depends on every part and on where one part ends and the next begins."""
    digest = hashlib.sha256()
    for part in parts:
        # Names of files that are not UTF-8 have surrogates in Python.
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def get(kind: str, key: str) -> bytes | None:
    """The bytes stored under `kind` and `key`, or None when absent, unreadable, corrupted or not the user's own.

    Raises UsageError for a folder that is another user's or that others can write to.
    """
    name = Path(kind) / key[:2] / key
    stored = _read_own(own_folder(), name)
    if stored is None:
        return None
    checksum, data = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
    if _checksum(name, data) != checksum:
        return None
    if kind != SIMULATORS:
        remark("from the cache")
    return data


def put(kind: str, key: str, data: bytes) -> bool:
    """Store `data`, replacing any earlier entry in one step; False when the folder cannot be written. Raises as `get` does."""
    name = Path(kind) / key[:2] / key
    return _write(name, _checksum(name, data) + data)


def _checksum(name: Path, data: bytes) -> bytes:
    """Of an entry: also of its name, so that none takes the place of another."""
    return hashlib.sha256(bytes(name) + b"\0" + data).digest()


# -- What takes long is made once, also where several processes need it.

_made_here: dict[str, int] = {}  # the open lock files of entries that this process makes


def take_turn(kind: str, key: str) -> None:
    """Before an entry that is missing is made: wait for another process that makes it, which may have stored it then, and let
    others wait for this one until it calls `made`. A process makes one entry at a time.

    Where files cannot be locked, every process makes what it needs. None is waited for longer than `_LONGEST` seconds.
    """
    made()
    end, lock = time.monotonic() + _LONGEST, own_folder() / kind / key[:2] / f"{key}.lock"
    try:
        for above in (lock.parent.parent, lock.parent):
            above.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return
    while time.monotonic() < end:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            leave_if_asked()
            time.sleep(_BETWEEN_LOOKS)
        except OSError:
            break
        else:
            _made_here[str(lock)] = handle
            return
    os.close(handle)


def made() -> None:
    """This process has stored what it was to make, or has failed to."""
    while _made_here:
        name, handle = _made_here.popitem()
        with suppress(OSError):
            os.unlink(name)  # whoever waits for it finds the entry
        os.close(handle)


# -- Libraries, which the system's loader reads by their name: the checksum is at the end, where it does not look.

def library(kind: str, key: str, name: str) -> Path | None:
    """The file that `put_library` stored, if it is still what was stored. Raises as `get` does."""
    place, entry = own_folder(), Path(kind) / key / name
    stored = _read_own(place, entry)
    whole = stored is not None and _checksum(entry, stored[:-_CHECKSUM_BYTES]) == stored[-_CHECKSUM_BYTES:]
    return place / entry if whole else None


def put_library(kind: str, key: str, name: str, data: bytes) -> bool:
    """Store a library under its own `name`, as `put` does."""
    entry = Path(kind) / key / name
    return _write(entry, data + _checksum(entry, data))


# -- Whose the folder and its entries are.

def own_folder() -> Path:
    """The folder, made if it can be. Raises UsageError if it is another user's, or if others can replace what is in it."""
    place = folder()
    with suppress(OSError):  # where it cannot be made or looked at, nothing is loaded from it
        if place.is_symlink() and place.lstat().st_uid not in (0, os.geteuid()):
            _refuse("is a link of another user", place)
        real = Path(os.path.realpath(place))
        for above in filter(Path.is_dir, real.parents):
            mode = above.stat().st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:  # in a sticky folder, as /tmp, only owners can rename
                _refuse(f"lies in {above}, where all users can replace it", place, f"`chmod +t {shlex.quote(str(above))}`")
        real.parent.mkdir(parents=True, exist_ok=True)
        real.mkdir(mode=0o700, exist_ok=True)
        status = real.stat()
        if status.st_uid != os.geteuid():
            _refuse(f"belongs to another user (number {status.st_uid})", place)
        if status.st_mode & _WRITABLE_BY_OTHERS:
            _refuse("can be written by other users", place, f"`chmod go-w {shlex.quote(str(place))}`, and empty it if in doubt")
        if status.st_mode & _OTHERS and not _chosen():  # earlier versions made it so
            real.chmod(0o700)
    return place


def _refuse(what: str, place: Path, first: str = "") -> None:
    why = f"the cache folder {what}, and machine code is loaded from it"
    raise UsageError(why, place=str(place), remedy=f"{first}; or {_OTHER_FOLDER}" if first else _OTHER_FOLDER)


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & _WRITABLE_BY_OTHERS


def _read_own(place: Path, name: Path) -> bytes | None:
    """The bytes of a regular file of this user that nobody else can write or replace; None for all else, which is made again."""
    path = place / name
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                return None
            if not all(map(_is_own, (status, path.parent.stat(), path.parent.parent.stat()))):
                _report("is another user's, or can be written by others: it is not used, and made again", path)
                return None
            return file.read()
    except OSError:
        return None


def _write(name: Path, data: bytes) -> bool:
    place = own_folder()
    entry = place / name
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)  # or the reason why it cannot be made
        for made in (entry.parent.parent, entry.parent):
            made.mkdir(mode=0o700, exist_ok=True)
            if made.stat().st_mode & _WRITABLE_BY_OTHERS:
                made.chmod(0o700)
        with suppress(FileNotFoundError):
            status = entry.lstat()
            if not stat.S_ISREG(status.st_mode) or not _is_own(status):
                entry.unlink()  # its permissions must not pass to the new one
        # A reader sees the old entry or the new one, never half of it, also when two runs store it at once.
        write_whole(entry, data, 0o600)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            _report(f"cannot be written ({error.strerror}): results are not kept; free space, or {_OTHER_FOLDER}", place)
        elif name.parts[0] == SIMULATORS:
            again = "each command compiles the simulators again, for up to half a minute"
            _report(f"cannot be written ({error.strerror}): {again}; {_OTHER_FOLDER}", place)
        return False
    if name.parts[0] != SIMULATORS:
        remark("now in the cache")
    return True


def _report(what: str, place: Path) -> None:
    """Say it once in a process."""
    if what not in _reported:
        _reported.add(what)
        with suppress(OSError, ValueError):
            print(f"warning: {place}: {what}", file=sys.stderr, flush=True)

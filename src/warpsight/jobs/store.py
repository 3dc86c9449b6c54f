"""Results that are kept: a file for each, named by the hash of everything that it depends on, written whole or not at all.

A folder may be used by several runs and machines at once, and by a run that continues one that was stopped.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warpsight.base import diskcache
from warpsight.base.errors import NotKept

_NEW = ".new"
_MARK = ".mark"
_STALE_SECONDS = 24 * 3600.0
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class StoreAddress:
    """What a worker must know of a results folder: its place and the text of its mark."""

    folder: str
    mark: str


def default_folder(name: str) -> Path:
    """The folder `name` in the user's cache folder, where everything else that is kept between runs lies. Raises UsageError if that
    is not the user's own.
    """
    return diskcache.own_folder() / name


def remove_if_stale(path: Path) -> None:
    """Removes what a run that was killed a day ago or more had begun to write. Raises OSError."""
    if time.time() - path.stat().st_mtime > _STALE_SECONDS:
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _new_file(folder: Path) -> tuple[int, str]:
    """A new file in `folder`, open for writing. The folder may be shared, and a file of mkstemp is readable by one user only."""
    name = str(folder / secrets.token_hex(16))
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), name


class ResultStore:
    """Documents, bytes and trace folders below `folder`, which is made if it is missing.

    Raises NotKept, a UsageError, when the folder cannot be written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            self.folder = self.folder.absolute()
            (self.folder / _NEW).mkdir(parents=True, exist_ok=True)
            self._mark = self._marked()
        except (OSError, ValueError) as error:
            raise self._refused(error) from None
        self._forget_the_unfinished()

    @property
    def address(self) -> StoreAddress:
        """What a task carries, for `reopen` wherever it runs."""
        return StoreAddress(str(self.folder), self._mark)

    @classmethod
    def reopen(cls, address: StoreAddress) -> ResultStore:
        """The store at `address`, perhaps on another machine. Raises NotKept when the folder there is missing or is another one."""
        store = cls.__new__(cls)
        store.folder, store._mark = Path(address.folder), address.mark
        try:
            seen = (store.folder / _MARK).read_text("ascii")
        except (OSError, ValueError):
            seen = ""
        if seen != address.mark:
            what = f"the results folder of this run does not exist on {os.uname().nodename}"
            raise NotKept(what, place=address.folder, remedy="give a folder that all machines share as `results`")
        return store

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        """The document under `kind` and `key`; None when it is absent, cut or damaged."""
        body = self.get_bytes(kind, key, ".json")
        try:
            document = None if body is None else json.loads(body)
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    def put(self, kind: str, key: str, document: dict[str, Any]) -> None:
        """Keep `document`. A reader sees all of it or nothing, whenever this process ends. Raises NotKept."""
        self.put_bytes(kind, key, (json.dumps(document, allow_nan=False) + "\n").encode(), ".json")

    def get_bytes(self, kind: str, key: str, suffix: str) -> bytes | None:
        """The bytes under `kind`, `key` and `suffix` (`.parquet`); None when they are absent, cut or damaged."""
        try:
            head, end, body = self._place(kind, key, suffix).read_bytes().partition(b"\n")
        except OSError:
            return None
        return body if end and hashlib.sha256(body).hexdigest().encode() == head else None

    def put_bytes(self, kind: str, key: str, data: bytes, suffix: str) -> None:
        """Keep `data`, behind a line with its checksum. A reader sees all of it or nothing. Raises NotKept: a full disk."""
        place = self._place(kind, key, suffix)
        temporary = ""
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = _new_file(self.folder / _NEW)
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(data).hexdigest().encode() + b"\n")
                file.write(data)
            os.replace(temporary, place)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise self._refused(error) from None

    def folder_of(self, key: str) -> Path:
        """Where the trace of that key is, or would be."""
        return self.folder / "traces" / key[:2] / key

    def has_folder(self, key: str) -> bool:
        """Whether `make_folder` has made the folder of that key; no for an empty key."""
        return bool(key) and self.folder_of(key).is_dir()

    def make_folder(self, key: str, make: Callable[[Path], object]) -> Path:
        """The folder of that key, filled by `make` if it is not there yet. It appears whole; an error of `make` leaves nothing.

        Raises NotKept, also where it is `make` that finds the disk full.
        """
        place = self.folder_of(key)
        if place.is_dir():
            return place
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            around = Path(tempfile.mkdtemp(dir=self.folder / _NEW))
        except OSError as error:
            raise self._refused(error) from None
        try:
            make(around / "trace")
            with suppress(OSError):  # another run was quicker: its folder holds the same
                os.rename(around / "trace", place)
        except OSError as error:
            if error.errno in _FULL:
                raise self._refused(error) from None
            raise
        finally:
            shutil.rmtree(around, ignore_errors=True)
        if not place.is_dir():
            raise self._refused(OSError(0, "the folder did not appear"))
        return place

    def _place(self, kind: str, key: str, suffix: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}{suffix}"

    def _marked(self) -> str:
        """The text of the folder's mark, made if there is none: a random word, by which another machine knows the folder again."""
        handle, temporary = tempfile.mkstemp(dir=self.folder / _NEW)
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(secrets.token_hex(16))
            mark = self.folder / _MARK
            if not mark.exists():
                try:
                    os.link(temporary, mark)
                except FileExistsError:  # another run was quicker
                    pass
                except OSError:  # a file system without links
                    os.replace(temporary, mark)
            return mark.read_text("ascii")
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def _forget_the_unfinished(self) -> None:
        """What runs that were killed a day ago or more had begun."""
        with suppress(OSError):
            for path in (self.folder / _NEW).iterdir():
                remove_if_stale(path)

    def _refused(self, error: OSError | ValueError) -> NotKept:
        if isinstance(error, OSError) and error.errno in _FULL:
            remedy = "free space, or give another folder as `results`; the same command continues"
            return NotKept("the disk is full; finished results are kept", place=str(self.folder), remedy=remedy)
        reason = getattr(error, "strerror", None) or str(error)
        remedy = "give a folder that you can write to as `results`"
        return NotKept(f"results cannot be written here: {reason}", place=str(self.folder), remedy=remedy)

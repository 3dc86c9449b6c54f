"""Results that are kept: a file for each, named by the hash of everything that it depends on, written whole or not at all.

A folder may be used by several runs at once, and by one that goes on where another was stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from warpsight.base import diskcache
from warpsight.base.errors import UsageError

SCHEMA = 1
_NEW = ".new"
_STALE_SECONDS = 24 * 3600.0


def default_folder() -> Path:
    """In the user's cache folder, where everything else that is kept between runs lies."""
    return diskcache.folder() / "validation"


class ResultStore:
    """Documents and trace folders below `folder`. Raises UsageError when it cannot be written."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        try:
            (self.folder / _NEW).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.folder / _NEW):
                pass
        except (OSError, ValueError) as error:
            raise _refused(self.folder, error) from None
        self._forget_the_unfinished()

    def get(self, kind: str, key: str) -> dict[str, Any] | None:
        """The document under `kind` and `key`; None when it is absent, cut or damaged."""
        try:
            head, _, body = self._place(kind, key).read_text("utf-8").partition("\n")
            if hashlib.sha256(body.encode()).hexdigest() != head:
                return None
            found: dict[str, Any] = json.loads(body)
        except (OSError, ValueError):
            return None
        return found

    def put(self, kind: str, key: str, document: dict[str, Any]) -> None:
        """Keep `document`. A reader sees all of it or nothing, whenever this process ends."""
        body = json.dumps(document, allow_nan=False) + "\n"
        place = self._place(kind, key)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder / _NEW)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
            os.replace(temporary, place)
        except OSError as error:
            raise _refused(self.folder, error) from None

    def folder_of(self, key: str) -> Path:
        """Where the trace of that key is, or would be."""
        return self.folder / "traces" / key[:2] / key

    def make_folder(self, key: str, make: Callable[[Path], object]) -> Path:
        """The folder of that key, filled by `make` if it is not there yet. It appears whole; an error of `make` leaves nothing."""
        place = self.folder_of(key)
        if place.is_dir():
            return place
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            around = Path(tempfile.mkdtemp(dir=self.folder / _NEW))
        except OSError as error:
            raise _refused(self.folder, error) from None
        try:
            make(around / "trace")
            with suppress(OSError):  # another run was quicker: its folder holds the same
                os.rename(around / "trace", place)
        finally:
            shutil.rmtree(around, ignore_errors=True)
        if not place.is_dir():
            raise _refused(self.folder, OSError(0, "the folder did not appear"))
        return place

    def _place(self, kind: str, key: str) -> Path:
        return self.folder / kind / key[:2] / f"{key}.json"

    def _forget_the_unfinished(self) -> None:
        """What runs that were killed a day ago or more had begun."""
        with suppress(OSError):
            for path in (self.folder / _NEW).iterdir():
                if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _refused(folder: Path, error: OSError | ValueError) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"results cannot be kept here: {reason}", place=str(folder), remedy="give a folder of yours with --results")

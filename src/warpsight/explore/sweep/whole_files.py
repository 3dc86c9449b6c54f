"""Files of a study's folder, which appear whole or not at all, also where two runs write them at once."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_STALE_SECONDS = 24 * 3600.0


def temporary_beside(path: Path) -> Path:
    """A name of its own beside `path`, by which `forget_the_unfinished` knows what a killed run left."""
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A file of a name of its own beside `path`, which takes its place at the end, and is gone after an error. Raises OSError."""
    temporary = temporary_beside(path)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_unfinished(path: Path) -> bool:
    """Whether `path` is what a run that was killed left of `written_whole`."""
    return path.name.startswith(".") and path.suffix == ".new"


def forget_the_unfinished(folder: Path) -> None:
    """Removes what runs that were killed a day ago or more had begun to write in `folder`."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_unfinished(path) and time.time() - path.stat().st_mtime > _STALE_SECONDS:
                path.unlink(missing_ok=True)

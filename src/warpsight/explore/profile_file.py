"""Interval profiles in files, and on stdin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.base.errors import UsageError
from warpsight.profile.interchange import read_profile, write_profile

if TYPE_CHECKING:
    from warpsight.profile.interval_profile import IntervalProfile


def read(path: str) -> IntervalProfile:
    """The profile in the file `path`, or on stdin for ``-``. Raises `UsageError` if it cannot be read, else `FormatError`."""
    if path == "-":
        return read_profile(sys.stdin.buffer.read(), origin="<stdin>")
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        remedy = "`warpsight profile KERNEL -o FILE` makes one"
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=remedy) from None
    return read_profile(text, origin=path)


def write(profile: IntervalProfile, path: str) -> None:
    """Write the interchange JSON to the file `path`, replacing it. Raises `UsageError` if that cannot be done."""
    try:
        Path(path).write_text(write_profile(profile), "utf-8")
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=path, remedy="name another file with -o") from None

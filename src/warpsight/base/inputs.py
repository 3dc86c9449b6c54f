"""Reading what a user names: regular files alone, and no more of them than any input has."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1 << 32


def open_input(path: str | Path) -> BinaryIO:
    """A regular file, opened for reading. Raises OSError for all else: a pipe may never begin, and a device may never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without O_NONBLOCK a pipe waits for its writer here
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_input(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file. Raises OSError if it is none, or has more than `most`."""
    with open_input(path) as file:
        if os.fstat(file.fileno()).st_size <= most and len(data := file.read(most + 1)) <= most:
            return data
    raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))

"""Reading what a user names: regular files and pipes that somebody writes to, and no more of them than any input has."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 1 << 32
_MOST_FROM_PIPE = 1 << 28
_PIECE = 1 << 20
_from_pipes: dict[tuple[str, int, int], bytes] = {}  # a pipe gives its bytes once, and an input may be read twice


def open_input(path: str | Path) -> BinaryIO:
    """A regular file, opened for reading, or the bytes of a pipe, as of `<(command)`.

    Raises OSError for all else: a device may never end, and a pipe without a writer may never begin.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without O_NONBLOCK a pipe waits for its writer here
    file = os.fdopen(handle, "rb")
    status = os.fstat(handle)
    if stat.S_ISREG(status.st_mode):
        return file
    with file:
        if not stat.S_ISFIFO(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        key = (str(path), status.st_dev, status.st_ino)
        if data := _until_end(handle, path):
            _from_pipes[key] = data
        elif key not in _from_pipes:
            raise OSError(errno.EINVAL, "it is a pipe, and nothing has been written to it", str(path))
        return io.BytesIO(_from_pipes[key])


def _until_end(handle: int, path: str | Path) -> bytes:
    """What is written to a pipe until its last writer closes it."""
    data = bytearray()
    while True:
        try:
            piece = os.read(handle, _PIECE)
        except BlockingIOError:
            select.select([handle], [], [])
            continue
        data += piece
        if not piece:
            return bytes(data)
        if len(data) > _MOST_FROM_PIPE:
            raise OSError(errno.EFBIG, f"more than {_MOST_FROM_PIPE:,} bytes come from the pipe", str(path))


def read_input(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a regular file or a pipe. Raises OSError if it is neither, or has more than `most`."""
    with open_input(path) as file:
        if file.seek(0, os.SEEK_END) <= most:
            file.seek(0)
            if len(data := file.read(most + 1)) <= most:
                return data
    raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))

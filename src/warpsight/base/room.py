"""Long arrays in unnamed files, so that their memory can be given back while they are not used."""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError

IN_MEMORY = 64 << 20
"""Bytes of an array in memory; a longer one lies in a file, of which the system keeps in memory what is used."""


def in_file(file: IO[bytes], size: int) -> mmap.mmap:
    """The first `size` bytes of `file`, zeros beyond its end. Raises UsageError if the disk refuses."""
    try:
        os.posix_fallocate(file.fileno(), 0, size)
        return mmap.mmap(file.fileno(), size)
    except OSError as error:
        what = f"{size >> 20:,} MiB cannot be written ({error.strerror or error})"
        raise UsageError(what, place=tempfile.gettempdir(), remedy="name a folder with space left in TMPDIR") from None


def room_for(count: int, dtype: Any, in_memory: int | None = None) -> npt.NDArray[Any]:
    """An array of `count` zeros, in an unnamed file if it is longer than so many bytes (None: `IN_MEMORY`). Raises UsageError if
    the disk refuses.
    """
    size = count * np.dtype(dtype).itemsize
    if size <= (IN_MEMORY if in_memory is None else in_memory):
        return np.zeros(count, dtype)
    with tempfile.TemporaryFile() as file:
        return np.frombuffer(in_file(file, size), dtype)


def give_back() -> None:
    """Let the system take memory that was freed between what is still used, where the C library can (glibc keeps it otherwise)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def drop_pages(*arrays: npt.NDArray[Any]) -> None:
    """Let the system take the memory of arrays that lie in files. They are read again from there when they are used."""
    for array in arrays:
        base: Any = array
        while isinstance(base, np.ndarray):
            base = base.base
        if isinstance(base, memoryview) and isinstance(base.obj, mmap.mmap):
            base.obj.madvise(mmap.MADV_DONTNEED)

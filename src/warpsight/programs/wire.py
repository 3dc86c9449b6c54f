"""Messages between a program and the emulator, and their shared memory. The other side is `runtime/runtime.h` and `link.c`."""

from __future__ import annotations

import mmap
import os
import socket
import struct
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from typing import IO

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import SECTOR_BYTES
from warpsight.base.errors import LimitError
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.run.memory import Arena, Written
from warpsight.emulator.run.watch import NO_RESERVE

PROTOCOL = 7
TABLE_BYTES = 0x4000000
HEAD = struct.Struct("<II")
HELLO = struct.Struct("<IIQ")
LAUNCH = struct.Struct("<15q")
SPAN = struct.Struct("<7q2d")
TOUCHED_FIELDS = 5  # address, pitch, bytes of a row, rows, and one of Touching
SOCKET_VARIABLE, MEMORY_VARIABLE, CHECK_VARIABLE = "WARPSIGHT_SOCKET", "WARPSIGHT_MEMORY", "WARPSIGHT_CHECK"


class Kind(IntEnum):
    """What a message asks."""

    HELLO, LOAD, RESOLVE, LAUNCH, OCCUPANCY, RESET, MAKE_OBJECT, REMOVE_OBJECT, TOUCH = range(1, 10)
    FAILED, LEAKED, COPIED_OUT = range(10, 13)  # from programs that are checked
    TIMELINE, LINK, NAME = 13, 14, 15


class Spent(IntEnum):
    """What a span of the timeline is: `enum span_kind` of `runtime/runtime.h`. Copies are numbered as in cudaMemcpyKind."""

    ON_HOST, TO_DEVICE, TO_HOST, ON_DEVICE, ANY_DIRECTION, FILLED = range(6)
    LAUNCHED = 8
    RECORDED, WAITED_FOR_EVENT, CALLED_HOST = range(16, 19)
    HOST_WAITED_FOR_EVENT, HOST_WAITED_FOR_STREAM, HOST_WAITED_FOR_DEVICE = range(32, 35)
    CALLED, COUNTED = 48, 49  # a function of the interface, and at the end how often each was called
    RANGE_PUSHED, RANGE_POPPED, RANGE_STARTED, RANGE_ENDED, MARKED = range(64, 69)  # by NVTX


class Touching(IntEnum):
    """How device memory was touched. The last three are from programs that are checked; COPIED means from the row before."""

    READ, WRITTEN, ALLOCATED, ALLOCATED_WRITTEN, COPIED = range(5)


class Status(IntEnum):
    """Error codes of the CUDA runtime that the host answers with (cudaError_t)."""

    SUCCESS = 0
    INVALID_VALUE = 1
    INVALID_DEVICE_FUNCTION = 98
    NO_KERNEL_IMAGE = 209
    ILLEGAL_ADDRESS = 700
    OUT_OF_RESOURCES = 701
    TIMEOUT = 702
    ASSERT = 710
    MISALIGNED = 716
    LAUNCH_FAILURE = 719
    COOPERATIVE_TOO_LARGE = 720
    NOT_SUPPORTED = 801


class Closed(Exception):
    """The program has closed the connection."""


class Wire:
    """One connection, blocking."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def receive(self) -> tuple[int, bytes]:
        """The next message: kind and payload. Raises Closed."""
        kind, size = HEAD.unpack(self._exactly(HEAD.size))
        return kind, self._exactly(size)

    def receive_hello(self) -> tuple[int, int, SharedMemory]:
        """The first message: protocol, process and the memory that came with it. Raises Closed."""
        size = HEAD.size + HELLO.size
        data, files, _, _ = socket.recv_fds(self.connection, size, 1)
        if len(data) != size or len(files) != 1 or HEAD.unpack_from(data)[0] != Kind.HELLO:
            raise Closed
        protocol, process, memory_bytes = HELLO.unpack_from(data, HEAD.size)
        try:
            return protocol, process, SharedMemory(files[0], memory_bytes)
        finally:
            os.close(files[0])

    def answer(self, status: int, payload: bytes = b"") -> None:
        """Answer the message that was received last. Raises Closed if the program has ended meanwhile."""
        try:
            self.connection.sendall(HEAD.pack(status, len(payload)) + payload)
        except OSError as error:
            raise Closed from error

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            try:
                part = self.connection.recv(min(size, 1 << 20))
            except ConnectionError as error:
                raise Closed from error
            if not part:
                raise Closed
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class _Replaced:
    """Sectors that an attempt has replaced, in a file: as many bytes as it has committed, and more than memory should take."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._parts: list[tuple[slice, npt.NDArray[np.uint8]]] = []  # and which of their sectors, as packed bits

    def add(self, part: slice, which: npt.NDArray[np.bool_], sectors: npt.NDArray[np.uint64]) -> None:
        """Keep `sectors`, those of a part that are about to be replaced. Raises LimitError if the disk refuses."""
        try:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115  until `clear`
            sectors.tofile(self._file)
        except OSError as error:
            what = f"the memory that a launch replaces cannot be kept ({error.strerror or error})"
            raise LimitError(what, place=tempfile.gettempdir(), remedy="name a folder with space left in TMPDIR") from None
        self._parts.append((part, np.packbits(which)))

    def put_back(self, memory: npt.NDArray[np.uint64]) -> None:
        """Put them into `memory`, what was replaced last first, so that each sector is as it was at first; and forget them."""
        words = memory.shape[1]
        for part, bits in reversed(self._parts):
            assert self._file is not None
            which = np.unpackbits(bits, count=part.stop - part.start).view(np.bool_)
            count = int(which.sum())
            self._file.seek(-count * words * 8, os.SEEK_CUR)
            memory[part][which] = np.fromfile(self._file, np.uint64, count * words).reshape(-1, words)
            self._file.seek(-count * words * 8, os.SEEK_CUR)
        self.clear()

    def clear(self) -> None:
        """Forget them."""
        if self._file is not None:
            self._file.close()
        self._file, self._parts = None, []


class SharedMemory(Arena):
    """The table of live allocations and the arena of device memory behind it, shared with one program.

    Attempts write to a second mapping of the same file, a private one: the system copies each page of it that is written.
    """

    def __init__(self, file: int, size: int) -> None:
        self._map = mmap.mmap(file, size)
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.delta = _delta(self._bytes)
        self._before = _Replaced()
        self._copy: mmap.mmap | None = None
        with suppress(OSError):  # a system that promises no more memory than it has
            self._copy = mmap.mmap(file, size, flags=mmap.MAP_PRIVATE | NO_RESERVE)

    def attempt(self) -> int | None:
        """The private mapping's, without pages that an attempt may have left that was broken off."""
        if self._copy is None:
            return None
        self.undo()
        return _delta(np.frombuffer(self._copy, np.uint8))

    def commit(self, written: Iterable[Written]) -> None:
        """Copy these sectors into the memory that the program sees; what was there is kept in a file until the attempt ends."""
        self._copy_out(written, self._before)

    def keep(self, written: Iterable[Written]) -> None:
        """Copy these sectors into the memory that the program sees."""
        self._copy_out(written, None)
        self._before.clear()

    def _copy_out(self, written: Iterable[Written], before: _Replaced | None) -> None:
        assert self._copy is not None
        source, target = (_sectors(each) for each in (self._copy, self._map))
        for part, which in written:
            if before is not None:
                before.add(part, which, target[part][which])
            if which.all():
                target[part] = source[part]
            else:
                target[part][which] = source[part][which]
        self._copy.madvise(mmap.MADV_DONTNEED)

    def undo(self) -> None:
        """Drop the pages that were copied, and put back what was committed."""
        assert self._copy is not None
        self._before.put_back(_sectors(self._map))
        self._copy.madvise(mmap.MADV_DONTNEED)

    def table(self, count: int) -> npt.NDArray[np.int64]:
        """The first `count` live allocations: int64 [count, 3] of (start, end, writable)."""
        rows = np.frombuffer(self._map, dtype=np.int64, count=3 * min(count, TABLE_BYTES // 24))
        return rows.reshape(-1, 3)

    def write(self, address: int, content: bytes) -> None:
        """Put bytes at a device address."""
        start = TABLE_BYTES + address - ARENA_BASE
        self._bytes[start : start + len(content)] = np.frombuffer(content, dtype=np.uint8)


def _delta(mapping: npt.NDArray[np.uint8]) -> int:
    """Host minus device address."""
    return int(mapping.ctypes.data) + TABLE_BYTES - ARENA_BASE


def _sectors(mapping: mmap.mmap) -> npt.NDArray[np.uint64]:
    """The sectors of the arena."""
    return np.frombuffer(mapping, np.uint64, offset=TABLE_BYTES).reshape(-1, SECTOR_BYTES // 8)

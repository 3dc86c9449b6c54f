"""What checks know of a connected program: which of its device memory is written, which calls fail, what is never freed.

The runtime library tells it (`runtime/check.c`), with the return addresses of who called; here they become functions and lines.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.base.findings import INITCHECK, MEMCHECK, Caller, Finding, Site
from warpsight.emulator.codegen.layout import ARENA_BASE
from warpsight.emulator.run.watch import LaunchWatch
from warpsight.emulator.textures.objects import DescriptorTable
from warpsight.isa.ptx.program import Function
from warpsight.kernels.elf import DAMAGE, FUNCTION, Elf
from warpsight.kernels.mangling import display_name
from warpsight.programs.wire import Touching

_RELOCATED = 3  # an ELF file that is loaded anywhere: a library, or a program as most are built today
_SECONDS = 20
_SURFACE_STORES = ("SUST", "SURED", "SUATOM")
_REMEDY_OF_CALL = "look at its arguments, and test what each call returns"


class CheckedProgram:
    """`checks` are those that watch the launches, `found` is told of what is found between them. `watch` is for all launches."""

    def __init__(self, checks: frozenset[str], memory_bytes: int, found: Callable[[Finding], None]) -> None:
        self.checks, self._memory_bytes, self._found = checks, memory_bytes, found
        self.watch = LaunchWatch(checks, memory_bytes)

    def reset(self) -> None:
        """The device was reset."""
        self.watch = LaunchWatch(self.checks, self._memory_bytes)

    def touched(self, rows: npt.NDArray[np.int64]) -> None:
        """What was allocated, copied and filled, in order: int64 [n, 5], as `wire.TOUCHED_FIELDS` says."""
        if INITCHECK not in self.checks:
            return
        source: npt.NDArray[np.uint8] | None = None
        for address, pitch, width, count, how in rows.tolist():
            if how in (Touching.ALLOCATED, Touching.ALLOCATED_WRITTEN):
                self.watch.set_written(address, width, how == Touching.ALLOCATED_WRITTEN)
                continue
            bytes_of_rows = self._rows(address, pitch, width, count)
            if how == Touching.COPIED and source is not None and source.shape == bytes_of_rows.shape:
                bytes_of_rows[:] = source
            elif how != Touching.READ:
                bytes_of_rows[:] = 255
            source = bytes_of_rows if how == Touching.READ else None

    def _rows(self, address: int, pitch: int, width: int, count: int) -> npt.NDArray[np.uint8]:
        """The bytes of `LaunchWatch.valid` of rows in device memory, to be read or changed."""
        start = address - ARENA_BASE
        flat = self.watch.valid[start : start + pitch * (count - 1) + width]
        return np.lib.stride_tricks.as_strided(flat, (count, width), (pitch, 1))

    def launched(self, function: Function, objects: DescriptorTable) -> None:
        """A launch has ended. Stores to surfaces are not followed: a kernel that has some counts as writing all surfaces."""
        if INITCHECK in self.checks and any(each.text.upper().startswith(_SURFACE_STORES) for each in function.instructions):
            for surface in objects.surfaces():
                self.watch.set_written(surface.address, surface.pitches[1] * max(surface.depth, surface.layers))

    def failed(self, payload: bytes) -> None:
        """A call of the CUDA runtime has failed."""
        if MEMCHECK not in self.checks:
            return
        (code,) = struct.unpack_from("<q", payload)
        name, text, call = payload[8:].decode("utf-8", "replace").split("\n", 2)
        function, site = call_site(call)
        message = f'Program hit {name} (error {code}) due to "{text}" on CUDA API call to {function}'
        self._found(Finding(MEMCHECK, "api-error", message, site=site, remedy=_REMEDY_OF_CALL))

    def leaked(self, payload: bytes) -> None:
        """Device memory was never freed."""
        if MEMCHECK not in self.checks:
            return
        address, size = struct.unpack_from("<2q", payload)
        function, site = call_site(payload[16:].decode("utf-8", "replace"))
        message = f"Leaked {size:,} bytes at 0x{address:x}, allocated by {function or 'the program'}"
        self._found(Finding(
            MEMCHECK, LEAK, message, site=site, severity="warning", bytes=size, address=address, space="global",
            remedy="free it before the program ends or resets the device",
        ))  # fmt: skip

    def copied_out(self, payload: bytes) -> None:
        """A copy from device memory to the host."""
        if INITCHECK not in self.checks:
            return
        address, pitch, width, count = struct.unpack_from("<4q", payload)
        written = self._rows(address, pitch, width, count)
        unwritten = written.size - int(np.count_nonzero(written))
        if not unwritten:
            return
        function, site = call_site(payload[32:].decode("utf-8", "replace"))
        row, column = divmod(int(np.argmin(written)), width)
        first = address + row * pitch + column
        message = f"{function} copies {unwritten:,} of {width * count:,} bytes that were never written, from 0x{first:x} on"
        self._found(Finding(
            INITCHECK, "unwritten-copy", message, site=site, severity="warning", bytes=unwritten, address=first,
            space="global", remedy="write the memory first, or copy only what is written",
        ))  # fmt: skip


LEAK = "leak"


# -- Who has called.

_STUB = "__device_stub__"  # of a kernel: its caller is the kernel's name on the host
_WRAPPERS = ("cuda", "__cuda", _STUB)  # functions that CUDA's own headers and compiler put into a program


def call_site(text: str) -> tuple[str, Site | None]:
    """The function of the CUDA runtime that was called, and where; from the text that `call_site` in check.c makes."""
    name, *lines = text.splitlines() or [""]
    frames: list[Caller] = []
    stub = False
    for each in lines:
        address, base, path = each.split(" ", 2)
        if frames and Path(path).name.startswith("libc.so"):  # which has called `main`
            break
        function, file, line = _place(path, int(address, 16) - 1, int(base, 16))
        stub, in_stub = function.startswith(_STUB), stub
        if not frames and (in_stub or function.startswith(_WRAPPERS)):
            continue
        frames.append(Caller(function, file, line))
        if function == "main":
            break
    name = name.removesuffix("_ptsz").removesuffix("_ptds").removeprefix("__")
    if not frames:
        return name, None
    first = frames[0]
    place = f"{first.file}:{first.line}" if first.line else first.file
    known = first.file if first.line else ""
    return name, Site(place, file=known, line=first.line, function=first.function, callers=tuple(frames[1:]))


@cache
def _place(path: str, address: int, base: int) -> tuple[str, str, int]:
    """The function at an address of this process, its file and line; where no line is known, the place in the program and 0."""
    functions = _functions(path)
    if functions is None:
        return "", f"{path}+{address - base:#x}", 0
    relocated, starts, names = functions
    offset = address - base if relocated else address
    index = bisect_right(starts, offset) - 1
    file, line = _line(path, offset)
    return (names[index] if index >= 0 else ""), (file or f"{path}+{offset:#x}"), line


@cache
def _functions(path: str) -> tuple[bool, list[int], list[str]] | None:
    """Whether a file is loaded anywhere, and its functions by address; None for a file that cannot be read."""
    try:
        elf = Elf(Path(path).read_bytes(), path)
    except (OSError, FormatError, *DAMAGE):
        return None
    try:
        symbols = sorted({each.value: each.name for each in elf.symbols if each.kind == FUNCTION and each.section}.items())
    except DAMAGE:  # it is stripped
        symbols = []
    return elf.type == _RELOCATED, [value for value, _ in symbols], [display_name(name) for _, name in symbols]


def _line(path: str, offset: int) -> tuple[str, int]:
    """The source line, where the program was built with -g and binutils are there to read that."""
    program = shutil.which("addr2line")
    if program is None:
        return "", 0
    try:
        done = subprocess.run(
            [program, "-e", path, hex(offset)], capture_output=True, text=True, timeout=_SECONDS, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", 0
    file, _, line = done.stdout.strip().partition(" (")[0].rpartition(":")
    return (file, int(line)) if line.isdigit() and int(line) and not file.startswith("??") else ("", 0)

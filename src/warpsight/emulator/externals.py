"""What the functions of the device runtime do: `printf`, `malloc`, `free`, a failed `assert`. Native code calls back with a warp.

Lanes are served in order, each as if it had called alone.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import TextIO

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import Assertion
from warpsight.emulator.allocations import HEAP_ALIGN
from warpsight.emulator.device import Memory
from warpsight.emulator.faults import coordinates, place_of
from warpsight.emulator.layout import LOCAL_WINDOW, SHARED_WINDOW, WARP, Fault, Slot
from warpsight.emulator.ops.external import MOST_ARGUMENTS
from warpsight.emulator.printf import format_printf
from warpsight.isa.externals import ALIGNED_MALLOCS, ASSERTION, EXTERNALS, FREE, MALLOC, PRINTF
from warpsight.isa.program import Function
from warpsight.workload.launch import Launch

_Rows = npt.NDArray[np.int64]
_STEP = 64  # bytes read at once while looking for the end of a string


class DeviceStop(Exception):
    """A lane did what a GPU would not allow."""

    def __init__(self, kind: Fault, address: int) -> None:
        super().__init__(kind, address)
        self.kind, self.address = kind, address


class _Arguments:
    """The buffer of one `printf` call: each argument at the next multiple of its size."""

    def __init__(self, read: Callable[[int, int], bytes], text: Callable[[int, int | None], bytes], address: int) -> None:
        self._read, self._at, self.text = read, address, text

    def word(self, size: int) -> int:
        start = -(-self._at // size) * size
        self._at = start + size
        return int.from_bytes(self._read(start, size), "little")


class Externals:
    """The device runtime of one launch. `assertion` is what the failed assertion said, `freed` what a fault's block was."""

    def __init__(
        self,
        context: npt.NDArray[np.int64],
        memory: Memory,
        sites: npt.NDArray[np.int64],
        function: Function,
        path: str,
        launch: Launch,
        output: TextIO | None,
    ) -> None:
        self._context, self._memory, self._sites, self._function = context, memory, sites, function
        self._path, self._launch, self._output = path, launch, output
        self.assertion: Assertion | None = None
        # Functions, not this object's methods: an object that holds itself keeps the launch's memory until it is looked for.
        calls = {PRINTF: Externals._printf, MALLOC: Externals._malloc, FREE: Externals._free, ASSERTION: Externals._assert}
        self._calls = [calls.get(name, Externals._aligned_malloc) for name in EXTERNALS]
        self._lane = self._pc = 0

    def call(self, number: int, mask: int, pc: int, arguments: int) -> int:
        """Do function `number` for each lane of `mask`: 1 to go on, 0 with the fault in the context."""
        rows: _Rows = np.ctypeslib.as_array((ctypes.c_int64 * (MOST_ARGUMENTS * WARP)).from_address(arguments))
        rows = rows.reshape(MOST_ARGUMENTS, WARP)
        self._pc = pc
        for lane in range(WARP):
            if mask >> lane & 1:
                self._lane = lane
                try:
                    rows[0, lane] = self._calls[number](self, rows[:, lane])
                except DeviceStop as stop:
                    address = stop.address - (1 << 64) if stop.address >> 63 else stop.address
                    for slot, value in (
                        (Slot.FAULT_KIND, stop.kind), (Slot.FAULT_PC, pc), (Slot.FAULT_LANE, lane), (Slot.FAULT_ADDRESS, address),
                    ):  # fmt: skip
                        self._context[slot] = value
                    return 0
        return 1

    def _where(self) -> str:
        """The calling thread and its line, for the name of an allocation."""
        warp = int(self._context[Slot.WARP])
        block = coordinates(int(self._context[Slot.BLOCK]), self._launch.grid)
        thread = coordinates(warp * WARP + self._lane, self._launch.block)
        line = place_of(self._path, self._function.instructions[self._pc])
        return f"{line}, block ({block[0]},{block[1]},{block[2]}) thread ({thread[0]},{thread[1]},{thread[2]})"

    # -- device memory -------------------------------------------------------------------------------------------------------

    def _room(self, address: int) -> tuple[int, int]:
        """The host address for a generic address of the lane, and how many bytes from there on are its own."""
        c = self._context
        offset, size = address - SHARED_WINDOW, int(c[Slot.SHARED_SIZE])
        if 0 <= offset < size:
            return int(c[Slot.SHARED_PTR]) + offset, size - offset
        offset, size = address - LOCAL_WINDOW, int(c[Slot.LOCAL_SIZE])
        if 0 <= offset < size:
            return int(c[Slot.LOCAL_PTR]) + (int(c[Slot.WARP]) * WARP + self._lane) * size + offset, size - offset
        return self._memory.delta + address, self._memory.table.room_at(address)

    def _read(self, address: int, size: int) -> bytes:
        host, room = self._room(address)
        if room < size:
            raise DeviceStop(Fault.OUT_OF_BOUNDS, address)
        return ctypes.string_at(host, size)

    def _text(self, address: int, limit: int | None) -> bytes:
        """The string at an address: up to its zero byte, or `limit` bytes."""
        found = b""
        while limit is None or len(found) < limit:
            host, room = self._room(address + len(found))
            if room < 1:
                raise DeviceStop(Fault.OUT_OF_BOUNDS, address + len(found))
            piece = ctypes.string_at(host, min(room, _STEP if limit is None else limit - len(found)))
            end = piece.find(b"\0")
            found += piece if end < 0 else piece[:end]
            if end >= 0:
                break
        return found

    # -- the functions -------------------------------------------------------------------------------------------------------

    def _printf(self, row: _Rows) -> int:
        """`int vprintf(const char *format, void *arguments)`: the number of arguments, -1 without a format."""
        form, buffer = _unsigned(row[0]), _unsigned(row[1])
        if not form:
            return -1
        text, taken = format_printf(self._text(form, None), _Arguments(self._read, self._text, buffer))
        (self._output or sys.stdout).write(text.decode("utf-8", "replace"))
        return taken

    def _malloc(self, row: _Rows) -> int:
        """`void *malloc(size_t size)`: 0 where there is no room, and for 0 bytes."""
        return self._allocate(_unsigned(row[0]), HEAP_ALIGN)

    def _aligned_malloc(self, row: _Rows) -> int:
        """The same with an alignment, 0 also for one that is no power of two."""
        return self._allocate(_unsigned(row[0]), _unsigned(row[1]))

    def _allocate(self, size: int, align: int) -> int:
        if align < 1 or align & (align - 1):
            return 0
        found = self._memory.heap.allocate(size, max(align, HEAP_ALIGN), f"{size:,} bytes from malloc at {self._where()},")
        if found is None:
            return 0
        self._memory.table.add(found)
        first = found.address - self._memory.heap.start
        self._memory.heap_written[first : first + size] = 0  # nothing to forget without --check
        self._publish()
        return found.address

    def _free(self, row: _Rows) -> int:
        """`void free(void *address)`: nothing for 0; a fault for an address that `malloc` did not give, or that is free already."""
        address = _unsigned(row[0])
        if not address:
            return 0
        if self._memory.heap.free(address, self._where()) is None:
            raise DeviceStop(Fault.DOUBLE_FREE if self._memory.heap.freed_at(address) else Fault.BAD_FREE, address)
        self._memory.table.remove(address)
        self._sites[self._sites[:, 0] == address] = 0  # no memory instruction may remember it
        self._publish()
        return 0

    def _publish(self) -> None:
        self._context[Slot.ALLOC_PTR], self._context[Slot.ALLOC_COUNT] = self._memory.table.pointer, self._memory.table.count

    def _assert(self, row: _Rows) -> int:
        """`void __assertfail(message, file, line, function, size of a character)`."""
        texts = [self._text(_unsigned(row[k]), None).decode("utf-8", "replace") if row[k] else "" for k in (0, 1, 3)]
        self.assertion = Assertion(texts[0], texts[1], _unsigned(row[2]) & 0xFFFFFFFF, texts[2])
        raise DeviceStop(Fault.ASSERTION, 0)


def _unsigned(value: np.int64) -> int:
    return int(value) & ((1 << 64) - 1)


def uses_heap(functions: list[Function]) -> bool:
    """Does one of the functions call `malloc`?"""
    names = (MALLOC, *ALIGNED_MALLOCS)
    calls = (i for f in functions for i in f.instructions if i.opcode == "call" and len(i.operands) > 1)
    return any(getattr(i.operands[1], "name", "") in names for i in calls)


def show_printed(output: TextIO | None) -> None:
    """Let a reader see what was printed so far."""
    stream = output or sys.stdout
    if stream is not None and not stream.closed:
        stream.flush()

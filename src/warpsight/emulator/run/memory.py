"""Device memory: one mapped arena in which module data, the arrays of a launch and the heap of the kernel lie, at the same
addresses every time.
"""

from __future__ import annotations

import ctypes
import mmap
import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError, UsageError
from warpsight.base.room import drop_pages
from warpsight.emulator.codegen.layout import ARENA_BASE, ARENA_LIMIT
from warpsight.emulator.codegen.symbols import GLOBAL_ALIGN, NativeSymbolTable, SymbolTable, align_up, has_contents, initial_bytes
from warpsight.emulator.run.watch import LaunchWatch
from warpsight.emulator.textures.objects import DescriptorTable, copy_in, copy_out, describe, image_bytes
from warpsight.isa.ptx.program import Function, Module
from warpsight.kernels.arrays import memory_shortage
from warpsight.kernels.cubin import KernelImage
from warpsight.kernels.images import Image, Surface
from warpsight.kernels.launch import ArrayArgument, Launch, ScalarArgument

HEAP_ALIGN = 16  # CUDA C++ Programming Guide, "Dynamic Global Memory Allocation": aligned to a 16-byte boundary
_GAP = 16  # between two blocks, so that the first byte past one belongs to none


@dataclass(frozen=True)
class Allocation:
    """Live device memory `[address, address + size)`, named for messages."""

    address: int
    size: int
    writable: bool
    name: str

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.size


def nearest(known: list[Allocation], address: int) -> tuple[Allocation, int] | None:
    """The allocation nearest to an address, and how far past its end (from 1) or before its start (negative) that is; 0 inside."""

    def distance(a: Allocation) -> int:
        return address - a.end + 1 if address >= a.end else min(0, address - a.address)

    best = min(known, key=lambda a: abs(distance(a)), default=None)
    return None if best is None else (best, distance(best))


class LiveTable:
    """Allocations sorted by address: int64 rows (start, end, writable), with room for more. Native code gets `pointer`, `count`."""

    def __init__(self, allocations: list[Allocation]) -> None:
        rows = sorted((a.address, a.end, int(a.writable)) for a in allocations)
        self.count = len(rows)
        self._rows: npt.NDArray[np.int64] = np.zeros((max(16, 2 * len(rows)), 3), dtype=np.int64)
        self._rows[: self.count] = np.array(rows, dtype=np.int64).reshape(-1, 3)

    @classmethod
    def of_rows(cls, rows: npt.NDArray[np.int64]) -> LiveTable:
        """The table of sorted rows that exist already."""
        table = cls([])
        table.count, table._rows = len(rows), np.ascontiguousarray(rows, dtype=np.int64)
        return table

    @property
    def pointer(self) -> int:
        """Host address of the first row; changes when the table grows."""
        return int(self._rows.ctypes.data)

    def add(self, allocation: Allocation) -> None:
        """A new allocation."""
        if self.count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        row = self._row(allocation.address)
        self._rows[row + 1 : self.count + 1] = self._rows[row : self.count].copy()
        self._rows[row] = allocation.address, allocation.end, int(allocation.writable)
        self.count += 1

    def remove(self, address: int) -> None:
        """Forget the allocation that starts there."""
        row = self._row(address)
        self._rows[row : self.count - 1] = self._rows[row + 1 : self.count].copy()
        self.count -= 1

    def _row(self, address: int) -> int:
        """The first row whose allocation does not start below an address."""
        return int(np.searchsorted(self._rows[: self.count, 0], address))

    def rows(self) -> npt.NDArray[np.int64]:
        """The allocations: int64 [n, 3]."""
        return self._rows[: self.count]

    def room_at(self, address: int) -> int:
        """Bytes from an address to the end of the allocation that it lies in, 0 in none."""
        row = self._row(address + 1) - 1
        return max(0, int(self._rows[row, 1]) - address) if row >= 0 else 0


@dataclass(frozen=True)
class Freed:
    """A block that was given back, and by whom."""

    allocation: Allocation
    by: str


class DeviceHeap:
    """`malloc` and `free` in `[start, start + size)`, at the same addresses every time.

    Fresh memory is handed out first, so that freed blocks stay unused, and their use noticed, as long as there is any; then the
    first freed stretch that is large enough.
    """

    def __init__(self, start: int, size: int) -> None:
        self.start, self.end = start, start + size
        self._fresh = start
        self._holes: list[tuple[int, int]] = []  # freed [low, high), sorted, never touching
        self._live: dict[int, tuple[Allocation, int]] = {}  # by address; with the end of what it takes
        self._freed: dict[int, Freed] = {}  # by address, until handed out again
        self._freed_at: list[int] = []  # their addresses, sorted

    def allocate(self, size: int, align: int, name: str) -> Allocation | None:
        """A block of `size` bytes at a multiple of `align` (a power of two), None when there is no room."""
        if size < 1:
            return None
        need = align_up(size, HEAP_ALIGN) + _GAP
        low = align_up(self._fresh, align)
        if low + need <= self.end:
            self._fresh = low + need
        elif (hole := self._take_hole(need, align)) is not None:
            low = hole
        else:
            return None
        allocation = Allocation(low, size, True, name)
        self._live[low] = (allocation, low + need)
        return allocation

    def _take_hole(self, need: int, align: int) -> int | None:
        for k, (low, high) in enumerate(self._holes):
            start = align_up(low, align)
            if start + need <= high:
                self._holes[k : k + 1] = [(a, b) for a, b in ((low, start), (start + need, high)) if a < b]
                first = max(0, bisect_right(self._freed_at, start) - 1)
                last = bisect_left(self._freed_at, start + need)
                if first < last and self._freed[self._freed_at[first]].allocation.end <= start:
                    first += 1
                for address in self._freed_at[first:last]:
                    del self._freed[address]
                del self._freed_at[first:last]
                return start
        return None

    def free(self, address: int, by: str) -> Allocation | None:
        """Give a block back, None when none that is live starts there."""
        if address not in self._live:
            return None
        allocation, high = self._live.pop(address)
        self._freed[address] = Freed(allocation, by)
        insort(self._freed_at, address)
        low = address
        index = bisect_left(self._holes, (low, high))
        if index < len(self._holes) and self._holes[index][0] == high:
            high = self._holes.pop(index)[1]
        if index > 0 and self._holes[index - 1][1] == low:
            low = self._holes.pop(index - 1)[0]
        insort(self._holes, (low, high))
        return allocation

    def freed_at(self, address: int) -> Freed | None:
        """The freed block, not handed out again since, that an address lies in."""
        index = bisect_right(self._freed_at, address) - 1
        freed = self._freed[self._freed_at[index]] if index >= 0 else None
        return freed if freed and address < freed.allocation.end else None

    def live(self) -> list[Allocation]:
        """All live blocks."""
        return [allocation for allocation, _ in self._live.values()]


# -- The memory of a launch.

Written = tuple[slice, npt.NDArray[np.bool_]]
"""A part of the arena, in sectors, and which of them were written."""


class Memory:
    """Device memory of a launch. `delta` is host minus device address; `parameters` are the bytes of the kernel's parameters.

    `table` are the live allocations; `heap` is behind the kernel's own `malloc`; `objects` are textures and surfaces; `workspace`
    is the address of what synchronises a cooperative grid, all zeros at first, 0 without. `watch` are the checks of a launch
    that is watched.
    """

    delta: int
    parameters: bytearray
    table: LiveTable
    heap: DeviceHeap
    watch: LaunchWatch | None
    objects: DescriptorTable
    workspace: int

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation nearest to an address, and how far past its end (positive) or before its start (negative)."""
        raise NotImplementedError

    @property
    def element_types(self) -> dict[int, np.dtype[Any]]:
        """What the arrays hold, by address, as far as that is known."""
        return {}

    def contents(self) -> Iterator[tuple[Allocation, npt.NDArray[np.uint8]]]:
        """Live allocations that can be written, and their bytes, in the order of addresses.

        Not the workspace of the grid's barrier, nor what the kernel has allocated, whose addresses depend on who asked first.
        """
        inside = range(self.heap.start, self.heap.end)
        for start, end, writable in self.table.rows().tolist():
            if writable and start != self.workspace and start not in inside:
                found = self.nearest(start)
                allocation = found[0] if found and found[0].address == start else Allocation(start, end - start, True, "memory")
                yield allocation, np.ctypeslib.as_array((ctypes.c_uint8 * (end - start)).from_address(start + self.delta))

    def attempt(self) -> bool:
        """Begin to write what `keep` will keep, or `undo` will undo; False if memory cannot be as it was before."""
        return False

    def commit(self, written: Iterable[Written]) -> None:
        """The attempt has succeeded up to here, and goes on: blocks have written these sectors, which takes no more memory then."""

    def keep(self, written: Iterable[Written]) -> None:
        """The attempt has succeeded: since the last `commit` blocks have written these sectors."""

    def undo(self) -> None:
        """The attempt has failed: memory is as before it."""

    def write_back(self) -> None:
        """The launch has succeeded: let the caller see its results."""

    def close(self) -> None:
        """The launch is over."""


_NUMBERED = re.compile(r"_param_(\d+)$")


def _shown(parameter: str) -> str:
    """A parameter as messages name it: by its number from 1 where a compiler has numbered it, else by its name in the PTX."""
    numbered = _NUMBERED.search(parameter)
    return f"parameter {int(numbered[1]) + 1}" if numbered else f'parameter "{parameter}"'


class DeviceMemory(Memory):
    """The arena of one launch. `heap_bytes` lie behind the arrays for the kernel's own `malloc`; 0 for a kernel that has none.

    With `whole_words` an array ends with the word that its last byte lies in.
    """

    def __init__(
        self, symbols: SymbolTable, launch: Launch, place: str, *,
        with_workspace: bool = False, heap_bytes: int = 0, checks: frozenset[str] = frozenset(), whole_words: bool = False,
    ) -> None:
        self._unit = 4 if whole_words else 1
        self.allocations: list[Allocation] = [
            Allocation(g.address, g.variable.size, g.writable, f'variable "{g.variable.name}"')
            for g in symbols.global_data
            if g.variable.size
        ]
        self._arrays: list[tuple[int, ArrayArgument]] = []
        self._images: list[tuple[int, Image]] = []
        self.objects = DescriptorTable()
        self.parameters = bytearray(symbols.param_bytes or 1)
        end = self._place_arguments(symbols, launch)
        self.workspace = end if with_workspace else 0
        if with_workspace:
            self.allocations.append(Allocation(end, GLOBAL_ALIGN, True, "workspace of the grid's barrier"))
            end += GLOBAL_ALIGN
        heap = end + GLOBAL_ALIGN  # what runs past the last array hits nothing
        end = heap + heap_bytes if heap_bytes else end
        self.heap = DeviceHeap(heap, heap_bytes)
        size = align_up(max(end - ARENA_BASE, 1), mmap.PAGESIZE)
        if ARENA_BASE + size > ARENA_LIMIT:
            what = f"the launch needs {size:,} bytes of device memory; {ARENA_LIMIT - ARENA_BASE:,} can be addressed"
            raise LimitError(what, remedy="use smaller arrays or a smaller device heap")
        lacking = memory_shortage(sum(argument.array.nbytes for _, argument in self._arrays))
        if lacking:
            raise LimitError(f"the copies of the arrays in device memory need {lacking}", remedy="use smaller arrays")
        try:
            self._map = mmap.mmap(-1, size)
        except (OSError, ValueError) as error:
            raise LimitError(f"{size:,} bytes of device memory are not available: {error}", remedy="use smaller arrays") from error
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.delta = int(self._bytes.ctypes.data) - ARENA_BASE
        self._initial = [
            (data.address, data.variable.size, initial_bytes(symbols, data, place) if has_contents(data) else b"")
            for data in symbols.global_data
        ]
        self.table = LiveTable(self.allocations)
        self.watch = LaunchWatch(checks, size) if checks else None
        if self.watch is not None:
            self.watch.set_written(ARENA_BASE, heap - ARENA_BASE)
        self._is_new = True
        self.fill()

    @property
    def element_types(self) -> dict[int, np.dtype[Any]]:
        """What the arrays hold, by address."""
        return {address: argument.array.dtype for address, argument in self._arrays}

    @property
    def size(self) -> int:
        """Bytes of the arena."""
        return len(self._bytes)

    def attempt(self) -> bool:
        """It can be filled again."""
        return True

    def undo(self) -> None:
        """Fill it again."""
        self.fill()

    def fill(self) -> None:
        """Write the initial contents: the module's data and the caller's arrays."""
        for address, size, content in self._initial:
            if content:
                self._view(address, size)[:] = np.frombuffer(content, dtype=np.uint8)
            elif not self._is_new:  # new memory is zero, and takes room only where it is written
                self._view(address, size)[:] = 0
        for address, argument in self._arrays:
            given = argument.array.reshape(-1).view(np.uint8)
            if not self._is_new or given.any():
                self._view(address, len(given))[:] = given
                drop_pages(argument.array)
        self._is_new = False
        for address, image in self._images:
            copy_in(image, self._view(address, image_bytes(image)))

    def _place_arguments(self, symbols: SymbolTable, launch: Launch) -> int:
        address = symbols.arena_start
        known: dict[tuple[int, int, bool], int] = {}  # device addresses by the caller's memory
        parameters = [variable for variable in symbols.placed if variable.space == "param"]
        for argument, parameter in zip(launch.arguments, parameters, strict=True):
            shown = _shown(parameter.name)
            if isinstance(argument, ScalarArgument):
                data = argument.data
            elif isinstance(argument, Image):
                size = image_bytes(argument)
                data = self.objects.add(describe(argument, address)).to_bytes(8, "little")
                title = f"{type(argument).__name__.lower()} of {shown} ({size:,} bytes)"
                self.allocations.append(Allocation(address, size, isinstance(argument, Surface), title))
                self._images.append((address, argument))
                address = align_up(address + size, GLOBAL_ALIGN)
            else:
                array = argument.array
                if not array.flags.c_contiguous:
                    raise UsageError(f"array for {shown} is not C-contiguous", remedy="pass np.ascontiguousarray(...)")
                place = (array.ctypes.data, array.nbytes, argument.written_back)
                data = argument.parameter(known.get(place, address))
                if place not in known:
                    known[place] = address
                    title = f"array of {shown} ({array.nbytes:,} bytes)"
                    self.allocations.append(Allocation(address, align_up(array.nbytes, self._unit), True, title))
                    self._arrays.append((address, argument))
                    address = align_up(address + max(1, array.nbytes), GLOBAL_ALIGN)
            self.parameters[parameter.offset : parameter.offset + len(data)] = data
        return address

    def _view(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        return self._bytes[address - ARENA_BASE : address - ARENA_BASE + size]

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation nearest to an address, and how far past its end (positive) or before its start (negative)."""
        return nearest([*self.allocations, *self.heap.live()], address)

    def write_back(self) -> None:
        """Copy device arrays to the caller's, as a GPU's user would after the launch."""
        for address, argument in self._arrays:
            if argument.written_back:
                target = argument.array.reshape(-1).view(np.uint8)
                target[:] = self._view(address, argument.array.nbytes)
        for address, image in self._images:
            if isinstance(image, Surface) and image.array.flags.writeable:
                copy_out(image, self._view(address, image_bytes(image)))

    def close(self) -> None:
        """Give the memory back."""
        del self._bytes
        self._map.close()


class Arena:
    """Device memory that outlives a launch. `delta` is host minus device address."""

    delta: int

    def attempt(self) -> int | None:
        """Host minus device address of memory with the same contents, for an attempt; None without such memory."""
        return None

    def commit(self, written: Iterable[Written]) -> None:
        """The attempt goes on: these sectors go where `delta` says, unless it fails later."""

    def keep(self, written: Iterable[Written]) -> None:
        """The attempt has succeeded: these sectors go where `delta` says."""

    def undo(self) -> None:
        """The attempt has failed: what it has written is forgotten."""


class ResidentMemory(Memory):
    """Memory of one launch in an arena that outlives it, with someone else's table of live allocations.

    `table` are int64 [n, 3] (start, end, writable), sorted; `names` are the names of addresses, for messages; `heap` outlives the
    launch too, and so does `watch`. Results are where the caller sees them, so `write_back` and `close` have nothing to do.
    `undone` says that an attempt has failed.
    """

    def __init__(
        self, table: npt.NDArray[np.int64], arena: Arena, parameters: bytes, names: Mapping[int, str],
        objects: DescriptorTable | None = None, heap: DeviceHeap | None = None, workspace: int = 0,
        watch: LaunchWatch | None = None,
    ) -> None:
        self._arena, self.delta, self.undone = arena, arena.delta, False
        self.parameters = bytearray(parameters or b"\0")
        self._table, self._names = table, names
        self.table = LiveTable.of_rows(table)
        self.heap, self.watch = heap or DeviceHeap(0, 0), watch
        self.objects, self.workspace = objects or DescriptorTable(), workspace
        for allocation in self.heap.live():  # in a copy: the caller's table stays as it is
            self.table.add(allocation)
        if workspace:
            self.table.add(Allocation(workspace, GLOBAL_ALIGN, True, "workspace of the grid's barrier"))

    def attempt(self) -> bool:
        """In memory that the arena has for it."""
        delta = self._arena.attempt()
        self.delta = self._arena.delta if delta is None else delta
        return delta is not None

    def commit(self, written: Iterable[Written]) -> None:
        """What was written goes into the arena, which can still be as it was."""
        self._arena.commit(written)

    def keep(self, written: Iterable[Written]) -> None:
        """What was written goes into the arena."""
        self._arena.keep(written)
        self.delta = self._arena.delta

    def undo(self) -> None:
        """The arena is as it was."""
        self._arena.undo()
        self.delta, self.undone = self._arena.delta, True

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation nearest to an address, and how far past its end (positive) or before its start (negative)."""
        place = int(np.searchsorted(self._table[:, 0], address, side="right"))
        known = [self._allocation(k) for k in (place - 1, place) if 0 <= k < len(self._table)]
        return nearest([*known, *self.heap.live()], address)

    def _allocation(self, row: int) -> Allocation:
        start, end, writable = (int(value) for value in self._table[row])
        name = self._names.get(start, f"device memory of {end - start:,} bytes")
        return Allocation(start, end - start, bool(writable), name)


class ModuleData:
    """Where the variables of a module lie from device address `base` on, for all of its kernels; `end` is the first free address.

    `rows` are (name, address, bytes, writable, first contents), `constant_bytes` the size of its `__constant__` variables. With an
    `image`, that of all kernels of its machine code, they lie where that has them.
    """

    def __init__(self, module: Module, base: int, place: str, image: KernelImage | None = None) -> None:
        nothing = Function("", True, (), (), {}, {})
        symbols = SymbolTable(module, nothing, base) if image is None else NativeSymbolTable(module, nothing, image, base)
        self.rows: list[tuple[str, int, int, bool, bytes]] = []
        self.constant_bytes = 0
        for data in symbols.global_data:
            first = initial_bytes(symbols, data, place)
            whole = ((data.variable.name, 0, data.variable.size),)
            inside = symbols.inside.get(data.address) if isinstance(symbols, NativeSymbolTable) else None
            if not data.writable and (inside or image is None):
                self.constant_bytes += sum(size for _, _, size in inside or whole)
            for name, offset, size in inside or whole:
                self.rows.append((name, data.address + offset, size, data.writable, first[offset : offset + size]))
        self.end = symbols.arena_start

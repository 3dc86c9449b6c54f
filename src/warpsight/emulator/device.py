"""Device memory: one mapped arena in which module data and the launch's arrays lie, at the same addresses every time."""

from __future__ import annotations

import mmap
from typing import Protocol

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError, UsageError
from warpsight.base.memory import lacks
from warpsight.emulator.allocations import Allocation, DeviceHeap, LiveTable, nearest
from warpsight.emulator.descriptors import DescriptorTable
from warpsight.emulator.images import copy_in, copy_out, describe, image_bytes
from warpsight.emulator.layout import ARENA_BASE, ARENA_LIMIT
from warpsight.emulator.symbols import GLOBAL_ALIGN, SymbolTable, align_up, initial_bytes
from warpsight.workload.images import Image, Surface
from warpsight.workload.launch import ArrayArgument, Launch, ScalarArgument


class Memory(Protocol):
    """Device memory of a launch. `delta` is host minus device address; `parameters` are the bytes of the kernel's parameters.

    `table` are the live allocations, `heap` is behind the kernel's own `malloc`, `objects` are textures and surfaces, `workspace`
    the address of what synchronises a cooperative grid (0 without).
    """

    delta: int
    parameters: bytearray
    table: LiveTable
    heap: DeviceHeap
    heap_written: npt.NDArray[np.uint8]
    objects: DescriptorTable
    workspace: int

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation nearest to an address, and how far past its end (positive) or before its start (negative)."""

    def write_back(self) -> None:
        """The launch has succeeded: let the caller see its results."""

    def close(self) -> None:
        """The launch is over."""


class DeviceMemory:
    """The arena of one launch. `delta` is host minus device address; `parameters` are the bytes of the kernel's parameters.

    With a workspace, as a cooperative launch has one, `workspace` is its address: zeros, for the barrier of the grid.
    `heap_bytes` lie behind the arrays for the kernel's own `malloc`; 0 for a kernel that has none. With `checks`, `heap_written`
    has a byte for each of them: 255 where the kernel has written since it got the memory.
    """

    def __init__(
        self,
        symbols: SymbolTable,
        launch: Launch,
        parameter_names: list[tuple[str, int]],
        place: str,
        *,
        with_workspace: bool = False,
        heap_bytes: int = 0,
        checks: bool = False,
    ) -> None:
        self.allocations: list[Allocation] = [
            Allocation(g.address, g.variable.size, g.writable, f'variable "{g.variable.name}"')
            for g in symbols.global_data
            if g.variable.size
        ]
        self._arrays: list[tuple[int, ArrayArgument]] = []
        self._images: list[tuple[int, Image]] = []
        self.objects = DescriptorTable()
        self.parameters = bytearray(symbols.param_bytes or 1)
        end = self._place_arguments(symbols, launch, parameter_names)
        self.workspace = end if with_workspace else 0
        if with_workspace:
            self.allocations.append(Allocation(end, GLOBAL_ALIGN, True, "workspace of the grid's barrier"))
            end += GLOBAL_ALIGN
        heap = end + GLOBAL_ALIGN  # what runs past the last array hits nothing
        end = heap + heap_bytes if heap_bytes else end
        self.heap = DeviceHeap(heap, heap_bytes)
        self.heap_written: npt.NDArray[np.uint8] = np.zeros(heap_bytes if checks else 0, dtype=np.uint8)
        size = align_up(max(end - ARENA_BASE, 1), mmap.PAGESIZE)
        if ARENA_BASE + size > ARENA_LIMIT:
            raise LimitError(f"the launch needs {size:,} bytes of device memory; {ARENA_LIMIT - ARENA_BASE:,} can be addressed")
        lacking = lacks(sum(argument.array.nbytes for _, argument in self._arrays))
        if lacking:
            raise LimitError(f"the arrays take {lacking}, a second time as device memory", remedy="use smaller arrays")
        try:
            self._map = mmap.mmap(-1, size)
        except (OSError, ValueError) as error:
            raise LimitError(f"{size:,} bytes of device memory cannot be had: {error}", remedy="use smaller arrays") from error
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.delta = int(self._bytes.ctypes.data) - ARENA_BASE
        self._initial = [(data.address, initial_bytes(symbols, data, place)) for data in symbols.global_data]
        self.table = LiveTable(self.allocations)
        self.fill()

    @property
    def size(self) -> int:
        """Bytes of the arena."""
        return len(self._bytes)

    def fill(self) -> None:
        """Put in what is there before the launch: the module's data and the caller's arrays."""
        for address, content in self._initial:
            self._view(address, len(content))[:] = np.frombuffer(content, dtype=np.uint8)
        for address, argument in self._arrays:
            self._view(address, argument.array.nbytes)[:] = argument.array.reshape(-1).view(np.uint8)
        for address, image in self._images:
            copy_in(image, self._view(address, image_bytes(image)))

    def _place_arguments(self, symbols: SymbolTable, launch: Launch, names: list[tuple[str, int]]) -> int:
        address = symbols.arena_start
        for argument, (name, offset) in zip(launch.arguments, names, strict=True):
            if isinstance(argument, ScalarArgument):
                data = argument.data
            elif isinstance(argument, Image):
                size = image_bytes(argument)
                data = self.objects.add(describe(argument, address)).to_bytes(8, "little")
                what = f'{type(argument).__name__.lower()} of parameter "{name}" ({size:,} bytes)'
                self.allocations.append(Allocation(address, size, isinstance(argument, Surface), what))
                self._images.append((address, argument))
                address = align_up(address + size, GLOBAL_ALIGN)
            else:
                array = argument.array
                if not array.flags.c_contiguous:
                    raise UsageError(f'array for parameter "{name}" is not C-contiguous', remedy="pass np.ascontiguousarray(...)")
                data = address.to_bytes(8, "little")
                self.allocations.append(
                    Allocation(address, array.nbytes, True, f'array of parameter "{name}" ({array.nbytes:,} bytes)')
                )
                self._arrays.append((address, argument))
                address = align_up(address + max(1, array.nbytes), GLOBAL_ALIGN)
            self.parameters[offset : offset + len(data)] = data
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


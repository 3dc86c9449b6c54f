"""Device memory: one mapped arena in which module data and the launch's arrays lie, at the same addresses every time."""

from __future__ import annotations

import mmap
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError, UsageError
from warpsight.emulator.layout import ARENA_BASE, ARENA_LIMIT
from warpsight.emulator.symbols import GLOBAL_ALIGN, SymbolTable, align_up, initial_bytes
from warpsight.workload.launch import ArrayArgument, Launch, ScalarArgument


@dataclass(frozen=True)
class Allocation:
    """Live device memory `[address, address + size)`, named for messages."""

    address: int
    size: int
    writable: bool
    name: str


class DeviceMemory:
    """The arena of one launch. `delta` is host minus device address; `parameters` are the bytes of the kernel's parameters."""

    def __init__(self, symbols: SymbolTable, launch: Launch, parameter_names: list[tuple[str, int]], place: str) -> None:
        self.allocations: list[Allocation] = [
            Allocation(g.address, g.variable.size, g.writable, f'variable "{g.variable.name}"')
            for g in symbols.global_data
            if g.variable.size
        ]
        self._arrays: list[tuple[int, ArrayArgument]] = []
        self.parameters = bytearray(symbols.param_bytes or 1)
        end = self._place_arguments(symbols, launch, parameter_names)
        size = align_up(max(end - ARENA_BASE, 1), mmap.PAGESIZE)
        if ARENA_BASE + size > ARENA_LIMIT:
            raise LimitError(f"the launch needs {size:,} bytes of device memory; {ARENA_LIMIT - ARENA_BASE:,} can be addressed")
        try:
            self._map = mmap.mmap(-1, size)
        except (OSError, ValueError) as error:
            raise LimitError(f"{size:,} bytes of device memory cannot be had: {error}", remedy="use smaller arrays") from error
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        self.delta = int(self._bytes.ctypes.data) - ARENA_BASE
        self._initial = [(data.address, initial_bytes(symbols, data, place)) for data in symbols.global_data]
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

    def _place_arguments(self, symbols: SymbolTable, launch: Launch, names: list[tuple[str, int]]) -> int:
        address = symbols.arena_start
        for argument, (name, offset) in zip(launch.arguments, names, strict=True):
            if isinstance(argument, ScalarArgument):
                data = argument.data
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

    def table(self) -> npt.NDArray[np.int64]:
        """Live allocations, sorted: int64 [n, 3] of (start, end, writable)."""
        rows = sorted((a.address, a.address + a.size, int(a.writable)) for a in self.allocations)
        return np.array(rows, dtype=np.int64).reshape(-1, 3)

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation nearest to an address, and how far past its end (positive) or before its start (negative)."""

        def distance(a: Allocation) -> int:
            return address - (a.address + a.size) + 1 if address >= a.address + a.size else min(0, address - a.address)

        if not self.allocations:
            return None
        best = min(self.allocations, key=lambda a: abs(distance(a)))
        return best, distance(best)

    def write_back(self) -> None:
        """Copy device arrays to the caller's, as a GPU's user would after the launch."""
        for address, argument in self._arrays:
            if argument.written_back:
                target = argument.array.reshape(-1).view(np.uint8)
                target[:] = self._view(address, argument.array.nbytes)

    def close(self) -> None:
        """Give the memory back."""
        del self._bytes
        self._map.close()

"""Device memory that outlives a launch: an arena that is mapped already, and someone else's table of live allocations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from warpsight.emulator.allocations import Allocation, DeviceHeap, LiveTable, nearest
from warpsight.emulator.descriptors import DescriptorTable
from warpsight.emulator.symbols import GLOBAL_ALIGN, SymbolTable, initial_bytes
from warpsight.isa.program import Function, Module


class ResidentMemory:
    """Device memory for one launch as it is: `table` int64 [n, 3] (start, end, writable) sorted, `delta` host minus device.

    `parameters` are the raw bytes of the kernel's parameters; `names` tells what lies at an address, for messages; `objects` are
    the live textures and surfaces; `heap` is behind the kernel's own `malloc` and outlives the launch too; `workspace` is the
    address of the barrier of a cooperative grid, all zeros, or 0 where there is none.
    """

    def __init__(
        self,
        table: npt.NDArray[np.int64],
        delta: int,
        parameters: bytes,
        names: Mapping[int, str],
        objects: DescriptorTable | None = None,
        heap: DeviceHeap | None = None,
        workspace: int = 0,
    ) -> None:
        self.delta = delta
        self.parameters = bytearray(parameters or b"\0")
        self._table, self._names = table, names
        self.table = LiveTable.of_rows(table)
        self.heap, self.heap_written = heap or DeviceHeap(0, 0), np.zeros(0, dtype=np.uint8)
        self.objects, self.workspace = objects or DescriptorTable(), workspace
        for allocation in self.heap.live():  # in a copy: the caller's table stays as it is
            self.table.add(allocation)
        if workspace:
            self.table.add(Allocation(workspace, GLOBAL_ALIGN, True, "workspace of the grid's barrier"))

    def nearest(self, address: int) -> tuple[Allocation, int] | None:
        """The allocation nearest to an address, and how far past its end (positive) or before its start (negative)."""
        place = int(np.searchsorted(self._table[:, 0], address, side="right"))
        known = [self._allocation(k) for k in (place - 1, place) if 0 <= k < len(self._table)]
        return nearest([*known, *self.heap.live()], address)

    def _allocation(self, row: int) -> Allocation:
        start, end, writable = (int(value) for value in self._table[row])
        name = self._names.get(start, f"device memory of {end - start:,} bytes")
        return Allocation(start, end - start, bool(writable), name)

    def write_back(self) -> None:
        """Nothing to do: results are where the caller sees them."""

    def close(self) -> None:
        """Nothing to do: memory stays."""


class ModuleData:
    """Where the variables of a module lie from device address `base` on, for all of its kernels; `end` is the first free address.

    `rows` are (name, address, bytes, writable, first contents).
    """

    def __init__(self, module: Module, base: int, place: str) -> None:
        nothing = Function("", True, (), (), {}, {})
        symbols = SymbolTable(module, nothing, base)
        self.rows = [
            (data.variable.name, data.address, data.variable.size, data.writable, initial_bytes(symbols, data, place))
            for data in symbols.global_data
        ]
        self.end = symbols.arena_start

"""Live allocations of a launch as native code searches them, and the heap behind the kernel's own `malloc` and `free`."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.emulator.symbols import align_up

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
        at = self._place(allocation.address)
        self._rows[at + 1 : self.count + 1] = self._rows[at : self.count].copy()
        self._rows[at] = allocation.address, allocation.end, int(allocation.writable)
        self.count += 1

    def remove(self, address: int) -> None:
        """Forget the allocation that starts there."""
        at = self._place(address)
        self._rows[at : self.count - 1] = self._rows[at + 1 : self.count].copy()
        self.count -= 1

    def _place(self, address: int) -> int:
        return int(np.searchsorted(self._rows[: self.count, 0], address))

    def room_at(self, address: int) -> int:
        """Bytes from an address to the end of the allocation that it lies in, 0 in none."""
        row = int(np.searchsorted(self._rows[: self.count, 0], address, side="right")) - 1
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
        else:
            found = self._take_hole(need, align)
            if found is None:
                return None
            low = found
        allocation = Allocation(low, size, True, name)
        self._live[low] = (allocation, low + need)
        return allocation

    def _take_hole(self, need: int, align: int) -> int | None:
        for k, (low, high) in enumerate(self._holes):
            start = align_up(low, align)
            if start + need <= high:
                pieces = [(a, b) for a, b in ((low, start), (start + need, high)) if a < b]
                self._holes[k : k + 1] = pieces
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
        known = self._live.pop(address, None)
        if known is None:
            return None
        allocation, high = known
        self._freed[address] = Freed(allocation, by)
        insort(self._freed_at, address)
        low = address
        at = bisect_left(self._holes, (low, high))
        if at < len(self._holes) and self._holes[at][0] == high:
            high = self._holes.pop(at)[1]
        if at > 0 and self._holes[at - 1][1] == low:
            low = self._holes.pop(at - 1)[0]
        insort(self._holes, (low, high))
        return allocation

    def freed_at(self, address: int) -> Freed | None:
        """The freed block, not handed out again since, that an address lies in."""
        at = bisect_right(self._freed_at, address) - 1
        freed = self._freed[self._freed_at[at]] if at >= 0 else None
        return freed if freed and address < freed.allocation.end else None

    def live(self) -> list[Allocation]:
        """All live blocks."""
        return [allocation for allocation, _ in self._live.values()]

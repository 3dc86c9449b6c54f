"""Blocks that are suspended because all of their warps wait for something that another block does.

As on a GPU, such blocks stay where they are, with their shared and local memory and their warps' registers, while others run. They
take turns in the order of their numbers, so that a launch has one outcome. Blocks are started beside them as long as turns of those
that are there change nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError
from warpsight.emulator.layout import ADVANCED, PROGRESS_ROW, RECORD_ROWS, RECORD_WORDS, Slot
from warpsight.emulator.symbols import align_up

MAX_BYTES = 1 << 32  # of all suspended blocks of a launch together
FIRST_ROUNDS = 16  # turns of its warps that a block has without progress before it is suspended
NEXT_ROUNDS, MOST_ROUNDS = 4, 1 << 12  # and once blocks have been suspended; twice as many after each turn of all in vain
_MOST_VAIN_TURNS = 16  # of all blocks, when no further block can be started

_Array = npt.NDArray[np.generic]


class _Residence:
    """Memory of one block: shared and local memory, the states of its warps and its record."""

    def __init__(self, shared: int, local: int, states: int) -> None:
        # Accesses of whole vectors may reach past the end of shared and local memory.
        sizes = (shared + 256, local + 256, states + 128)
        self._arrays: list[npt.NDArray[np.uint8]] = [np.zeros(size, dtype=np.uint8) for size in sizes]
        self.record = np.zeros((RECORD_ROWS, RECORD_WORDS), dtype=np.int64)
        pointers = [align_up(int(a.ctypes.data), 64) for a in self._arrays]
        self._slots = dict(zip((Slot.SHARED_PTR, Slot.LOCAL_PTR, Slot.STATE_PTR), pointers, strict=True))
        self._slots[Slot.RECORD_PTR] = int(self.record.ctypes.data)

    def enter(self, context: npt.NDArray[np.int64]) -> None:
        """Let native code work on this block's memory."""
        for slot, value in self._slots.items():
            context[slot] = value

    def words(self) -> npt.NDArray[np.int32]:
        """The states of the warps, one after the other."""
        states = self._arrays[2]
        first = self._slots[Slot.STATE_PTR] - int(states.ctypes.data)
        return states[first : first + (len(states) - first) // 4 * 4].view(np.int32)

    @property
    def progress(self) -> int:
        """A number that changes when the block does something but poll."""
        return int(self.record[PROGRESS_ROW, ADVANCED])


class Residents:
    """The memory of the running block and of those that are suspended. Sizes are bytes per block."""

    def __init__(self, context: npt.NDArray[np.int64], shared: int, local: int, states: int, kernel: str) -> None:
        self._context, self._kernel = context, kernel
        self._sizes = (shared, local, states)
        self._most = max(2, MAX_BYTES // (shared + local + states + 1024))
        self._home = _Residence(*self._sizes)
        self._current = self._home
        self._enter(self._home)
        self._free: list[_Residence] = []
        context[Slot.STALL_ROUNDS] = FIRST_ROUNDS

    def _enter(self, residence: _Residence) -> None:
        self._current = residence
        residence.enter(self._context)

    def states(self) -> npt.NDArray[np.int32]:
        """A copy of the states of the running block's warps: int32 [warps, words of a state]."""
        words = int(self._context[Slot.STATE_STRIDE]) // 4
        return self._current.words()[: words * int(self._context[Slot.WARPS_PER_BLOCK])].reshape(-1, words).copy()

    def finish(self, block: int, end: int, run: Callable[[int], bool]) -> int:
        """Run `block`, which has stalled, to its end, and all blocks that are started meanwhile.

        `run(number)` gives a block its turn and says whether it has ended. Returns the first block that has not been started,
        `end` if there is none. Raises LimitError when more blocks wait for each other than can be kept.
        """
        self._context[Slot.HOLD] = 1
        self._context[Slot.STALL_ROUNDS] = NEXT_ROUNDS
        try:
            return self._take_turns(block, end, run)
        finally:
            self._context[Slot.HOLD], self._context[Slot.STALLED] = 0, 0
            self._context[Slot.STALL_ROUNDS] = FIRST_ROUNDS

    def _take_turns(self, block: int, end: int, run: Callable[[int], bool]) -> int:
        waiting = {block: self._home}
        following, wanted, vain = block + 1, 1, 0
        while waiting:
            ended = 0
            while wanted and following < end and len(waiting) < self._most:
                wanted -= 1
                residence = self._free.pop() if self._free else _Residence(*self._sizes)
                self._enter(residence)
                if run(following):
                    self._free.append(residence)
                    ended += 1
                else:
                    waiting[following] = residence
                following += 1
            before = sum(r.progress for r in waiting.values())
            for number, residence in list(waiting.items()):
                self._enter(residence)
                self._context[Slot.RESUMING] = 1
                if run(number):
                    ended += 1
                    del waiting[number]
                    if residence is not self._home:
                        self._free.append(residence)
            if ended or sum(r.progress for r in waiting.values()) != before:
                wanted, vain = 0, 0
                self._context[Slot.STALL_ROUNDS] = NEXT_ROUNDS
                continue
            if following == end:
                self._context[Slot.STALL_ROUNDS] = min(2 * int(self._context[Slot.STALL_ROUNDS]), MOST_ROUNDS)
            elif len(waiting) < self._most:
                wanted, vain = len(waiting), 0
            elif (vain := vain + 1) > _MOST_VAIN_TURNS:
                raise LimitError(
                    f"kernel {self._kernel}: {len(waiting):,} blocks wait for one that has not been started, "
                    f"and more than {MAX_BYTES >> 30} GiB would be needed to keep further ones",
                    remedy="launch no more blocks than can wait for each other, as a GPU demands it too",
                )
        self._enter(self._home)
        return following

"""One worker: a context, and everything whose memory native code uses. Workers of a launch share device memory and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.emulator.buffers import Recorder
from warpsight.emulator.device import DeviceMemory
from warpsight.emulator.drain import count_per_warp, gather_streams
from warpsight.emulator.layout import PATTERN_BYTES, WARP, Fault, Slot
from warpsight.emulator.native import HOSTS, NativeKernel
from warpsight.emulator.symbols import align_up
from warpsight.workload.launch import Launch

POLL_INSTRUCTIONS = 1 << 22  # a fraction of a second, also for slow kernels

Poll = Callable[["Worker"], None]


class Streams(NamedTuple):
    """What the warps of some blocks recorded: path entries uint32 [n, 2], events uint8, sectors uint32.

    `offsets` int64 [warps + 1, 3] says where each warp's part of the three begins.
    """

    first_warp: int
    end_block: int
    offsets: npt.NDArray[np.int64]
    entries: npt.NDArray[np.uint32]
    events: npt.NDArray[np.uint8]
    sectors: npt.NDArray[np.uint32]


class Stopped(Exception):
    """A worker's block has faulted, or was told to stop; the context says why."""

    def __init__(self, worker: Worker, block: int) -> None:
        super().__init__(block)
        self.worker, self.block = worker, block


class Worker:
    """Runs blocks of one launch. `poll` is called now and then while native code runs, and may raise to stop it."""

    def __init__(self, native: NativeKernel, launch: Launch, memory: DeviceMemory, shared_bytes: int, poll: Poll) -> None:
        self.native, self.launch, self.memory, self.shared_bytes = native, launch, memory, shared_bytes
        self.warps_per_block = -(-launch.threads_per_block // WARP)
        self.context = np.zeros(Slot.COUNT, dtype=np.int64)
        self.recorder = Recorder(self.context)
        self.stopped_by: BaseException | None = None
        self._poll = poll
        self._keep = self._fill_context()

    @property
    def instructions(self) -> int:
        """Warp instructions that this worker has executed."""
        return int(self.context[Slot.INSTRUCTIONS])

    @property
    def block(self) -> int:
        """The block that it runs."""
        return int(self.context[Slot.BLOCK])

    def _fill_context(self) -> list[npt.NDArray[np.generic]]:
        """Set every slot; returns the arrays that the context points to."""
        launch, native, c = self.launch, self.native, self.context
        warps, local = self.warps_per_block, native.symbols.local_bytes
        shared = np.zeros(self.shared_bytes + 256, dtype=np.uint8)
        local_memory = np.zeros(warps * WARP * local + 256, dtype=np.uint8)
        table = self.memory.table()
        sites = np.zeros((native.site_count + 1, 2), dtype=np.int64)
        patterns = np.zeros((native.site_count + 1) * PATTERN_BYTES + 64, dtype=np.uint8)
        parameters = np.frombuffer(self.memory.parameters, dtype=np.uint8)
        states = np.zeros(warps * native.state_stride + 128, dtype=np.uint8)
        tids = np.zeros((warps, 3, WARP), dtype=np.int32)
        thread = np.arange(warps * WARP)
        x, y, z = launch.block
        tids[:] = np.stack([thread % x, thread // x % y, thread // (x * y) % max(z, 1)]).reshape(3, warps, WARP).swapaxes(0, 1)
        partial = launch.threads_per_block % WARP
        for slot, value in {
            Slot.ARENA_DELTA: self.memory.delta,
            Slot.PARAM_PTR: parameters.ctypes.data,
            Slot.SHARED_PTR: align_up(shared.ctypes.data, 64),
            Slot.SHARED_SIZE: self.shared_bytes,
            Slot.LOCAL_PTR: align_up(local_memory.ctypes.data, 64),
            Slot.LOCAL_SIZE: local,
            Slot.ALLOC_PTR: table.ctypes.data,
            Slot.ALLOC_COUNT: len(table),
            Slot.SITE_PTR: sites.ctypes.data,
            Slot.PATTERN_PTR: align_up(patterns.ctypes.data, 64),
            Slot.POLL_AT: POLL_INSTRUCTIONS,
            Slot.WARPS_PER_BLOCK: warps,
            Slot.STATE_PTR: align_up(states.ctypes.data, 64),
            Slot.STATE_STRIDE: native.state_stride,
            Slot.TID_PTR: tids.ctypes.data,
            Slot.LAST_WARP_MASK: (1 << partial) - 1 if partial else 0xFFFFFFFF,
            Slot.DYNAMIC_SHARED: launch.shared_bytes,
        }.items():
            c[slot] = value
        c[Slot.NCTAID_X : Slot.NCTAID_Z + 1] = launch.grid
        c[Slot.NTID_X : Slot.NTID_Z + 1] = launch.block
        return [shared, local_memory, table, sites, patterns, parameters, states, tids]

    def _answer(self, room: int) -> int:
        """Native code asks: make room, and say 1 to go on. Nothing may be raised through native frames; if it is, they get 0."""
        try:
            self._poll(self)
            self.recorder.make_room(room)
        except MemoryError:
            self.context[Slot.FAULT_KIND] = Fault.NO_MEMORY
            return 0
        except BaseException as error:  # KeyboardInterrupt included: raised again once native code has returned
            self.stopped_by = error
            self.context[Slot.FAULT_KIND] = Fault.INTERRUPTED
            return 0
        return 1

    def streams(self, block: int, end: int) -> Iterator[Streams]:
        """Run blocks `block` to `end` in order, and give what they record, piece by piece. Raises Stopped."""
        while block < end:
            following = self._run(block, end)
            if following < 0:
                raise Stopped(self, -1 - following)
            yield self._drain(block, following)
            block = following

    def _run(self, block: int, end: int) -> int:
        """Run blocks from `block` on; gives the block to go on with after a drain, or -1 - b when block b faulted."""
        address = int(self.context.ctypes.data)
        HOSTS[address] = self._answer
        try:
            return int(self.native.run(address, block, end))
        finally:
            del HOSTS[address]

    def _drain(self, block: int, following: int) -> Streams:
        """Take what blocks `block` to `following` recorded, in the order of their warps."""
        recorder = self.recorder
        first = block * self.warps_per_block
        warps = (following - block) * self.warps_per_block
        segments = recorder.take_segments()
        totals = np.empty((warps, 3), dtype=np.int64)
        count_per_warp(segments, first, totals)
        offsets = np.zeros((warps + 1, 3), dtype=np.int64)
        np.cumsum(totals, axis=0, out=offsets[1:])
        entries = np.empty((int(offsets[-1, 0]), 2), dtype=np.uint32)
        events = np.empty(int(offsets[-1, 1]), dtype=np.uint8)
        sectors = np.empty(int(offsets[-1, 2]), dtype=np.uint32)
        place = offsets[:-1].copy()
        gather_streams(
            segments, first, recorder.path.array, recorder.events.array, recorder.sectors.array, place, entries, events, sectors
        )
        recorder.rewind()
        return Streams(first, following, offsets, entries, events, sectors)

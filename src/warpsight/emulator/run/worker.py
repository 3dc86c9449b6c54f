"""One worker: a context, and everything whose memory native code uses. Workers of a launch share device memory and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError
from warpsight.base.findings import MEMCHECK
from warpsight.emulator.codegen.layout import (
    ADVANCED,
    CLUSTER_RECORD_WORDS,
    IDLE,
    OUTSIDE_LANE_BYTES,
    OUTSIDE_ROW_WORDS,
    PATTERN_BYTES,
    PROGRESS_ROW,
    RECORD_ROWS,
    RECORD_WORDS,
    TENSOR_BYTES,
    WARP,
    Fault,
    Slot,
)
from warpsight.emulator.codegen.native import EXTERNAL_HOSTS, HOSTS, NativeKernel
from warpsight.emulator.codegen.orders import block_order, chance_table
from warpsight.emulator.codegen.symbols import SharedMemory, align_up
from warpsight.emulator.codegen.warp_order import BLOCKS, NUMBER, RANK, WORDS
from warpsight.emulator.codegen.watcher import block_words
from warpsight.emulator.run.buffers import Recorder, count_per_warp, gather_streams, small_pages
from warpsight.emulator.run.externals import Externals
from warpsight.emulator.run.memory import Memory
from warpsight.emulator.sass.system import reserved_words
from warpsight.kernels.launch import Launch

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


def empty_streams(first_warp: int, end_block: int, totals: npt.NDArray[np.int64]) -> Streams:
    """Streams to be filled: `totals` [warps, 3] are each warp's path entries, events and sectors."""
    offsets = np.zeros((len(totals) + 1, 3), np.int64)
    np.cumsum(totals, axis=0, out=offsets[1:])
    entries, events, sectors = offsets[-1].tolist()
    arrays = np.empty((entries, 2), np.uint32), np.empty(events, np.uint8), np.empty(sectors, np.uint32)
    return Streams(first_warp, end_block, offsets, *arrays)


class Stopped(Exception):
    """A worker's block has faulted, or has to stop; the context holds the reason."""

    def __init__(self, worker: Worker, block: int) -> None:
        super().__init__(block)
        self.worker, self.block = worker, block


class Worker:
    """Runs blocks of one launch. `poll` is called now and then while native code runs, and may raise to stop it."""

    def __init__(
        self, native: NativeKernel, launch: Launch, memory: Memory, shared: SharedMemory, local_bytes: int, poll: Poll,
        checks: frozenset[str] = frozenset(), lenient: bool = False,
    ) -> None:
        self.native, self.launch, self.memory = native, launch, memory
        self.shared, self.local_bytes, self.checks = shared, local_bytes, checks
        self.warps_per_block = -(-launch.threads_per_block // WARP)
        self.context = np.zeros(Slot.COUNT, dtype=np.int64)
        self.recorder = Recorder(self.context)
        self.stopped_by: BaseException | None = None
        self.externals: Externals | None = None  # what answers calls of the device runtime
        self.sites = np.zeros((native.site_count + 1, 2), dtype=np.int64)
        self.outside = np.zeros((0, OUTSIDE_ROW_WORDS), np.int64)  # by memory instruction, as native code counts them
        self.products = np.zeros(int(native.graph.block_start[-1]), np.int64)  # as PRODUCT_PTR says
        self._poll = poll
        self._unit_at: Callable[[int], int] | None = None  # the block, or cluster, that stands at a place of another order
        self.residents = Residents(
            self.context, shared=shared.room, local=self.warps_per_block * WARP * local_bytes,
            states=self.warps_per_block * native.state_stride, kernel=launch.kernel,
            watched=0 if memory.watch is None else block_words(self.warps_per_block, shared.room, native.tensor_memory),
            blocks=launch.cluster_blocks, tensor=TENSOR_BYTES if native.tensor_memory else 0,
            pair_object=native.symbols.pair_object if native.tensor_memory and native.clustered else 0,
        )
        self._keep = self._fill_context()
        if memory.watch is not None:
            memory.watch.fill(self.context, memory.delta)
        if lenient:
            self._keep.append(self._let_outside_through())

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
        warps = self.warps_per_block
        patterns = np.zeros((native.site_count + 1) * PATTERN_BYTES + 64, dtype=np.uint8)
        parameters = np.frombuffer(self.memory.parameters, dtype=np.uint8)
        thread, (x, y, z) = np.arange(warps * WARP), launch.block
        axes = np.stack([thread % x, thread // x % y, thread // (x * y) % max(z, 1)]).reshape(3, warps, WARP)
        tids = np.ascontiguousarray(axes.swapaxes(0, 1), dtype=np.int32)
        partial = launch.threads_per_block % WARP
        for slot, value in {
            Slot.ARENA_DELTA: self.memory.delta, Slot.PARAM_PTR: parameters.ctypes.data,
            Slot.PARAM_SIZE: native.symbols.param_bytes, Slot.LOCAL_SIZE: self.local_bytes,
            Slot.SHARED_SIZE: self.shared.asked if MEMCHECK in self.checks else self.shared.room,
            Slot.TOTAL_SHARED: self.shared.total, Slot.AGGREGATE_SHARED: self.shared.total + self.shared.system,
            Slot.LOCAL_CLEARED: self.local_bytes if native.symbols.stack_grows_down else native.symbols.local_bytes + native.frame,
            Slot.ALLOC_PTR: self.memory.table.pointer,
            Slot.ALLOC_COUNT: self.memory.table.count, Slot.SITE_PTR: self.sites.ctypes.data,
            Slot.PATTERN_PTR: align_up(patterns.ctypes.data, 64), Slot.POLL_AT: POLL_INSTRUCTIONS, Slot.WARPS_PER_BLOCK: warps,
            Slot.STATE_STRIDE: native.state_stride, Slot.TID_PTR: tids.ctypes.data,
            Slot.LAST_WARP_MASK: (1 << partial) - 1 if partial else 0xFFFFFFFF, Slot.DYNAMIC_SHARED: launch.shared_bytes,
            Slot.IMAGE_PTR: self.memory.objects.rows.ctypes.data, Slot.IMAGE_COUNT: self.memory.objects.count,
            Slot.WORKSPACE: self.memory.workspace, Slot.CLUSTER_BLOCKS: launch.cluster_blocks,
            Slot.CLUSTER_EXPLICIT: launch.cluster is not None,
        }.items():  # fmt: skip
            c[slot] = value
        if native.tensor_memory:
            c[Slot.PRODUCT_PTR] = self.products.ctypes.data
        c[Slot.NCTAID_X : Slot.NCTAID_Z + 1] = launch.grid
        c[Slot.NTID_X : Slot.NTID_Z + 1] = launch.block
        c[Slot.CLUSTER_X : Slot.CLUSTER_Z + 1] = launch.cluster or (1, 1, 1)
        return [patterns, parameters, tids]

    def _let_outside_through(self) -> npt.NDArray[np.int64]:
        """Memory for accesses out of bounds that are no faults."""
        zeros, words = WARP * OUTSIDE_LANE_BYTES // 8, (self.native.site_count + 1) * OUTSIDE_ROW_WORDS
        memory = np.zeros(8 + zeros + words, np.int64)
        self.context[Slot.OUTSIDE_PTR] = pointer = align_up(memory.ctypes.data, 64)
        start = (pointer - memory.ctypes.data) // 8 + zeros
        self.outside = memory[start : start + words].reshape(-1, OUTSIDE_ROW_WORDS)
        return memory

    def _make_room(self, room: int) -> int:
        """Native code asks: make room, and say 1 to go on. Nothing may be raised through native frames; if it is, they get 0."""
        try:
            self._poll(self)
            self.recorder.make_room(room)
        except MemoryError:
            self.context[Slot.FAULT_KIND] = Fault.NO_MEMORY
            return 0
        except BaseException as error:  # KeyboardInterrupt included: raised again once native code has returned
            return self._stop(error)
        return 1

    def _call_external(self, number: int, mask: int, pc: int, arguments: int) -> int:
        """Native code calls a function of the device runtime; as for `_make_room`, errors wait until it has returned."""
        try:
            assert self.externals is not None
            return self.externals.call(number, mask, pc, arguments)
        except BaseException as error:  # the stream that printf writes to may be closed, for one
            return self._stop(error)

    def _stop(self, error: BaseException) -> int:
        self.stopped_by = error
        self.context[Slot.FAULT_KIND] = Fault.INTERRUPTED
        return 0

    def streams(self, block: int, end: int) -> Iterator[Streams]:
        """Run blocks `block` to `end` in order, and give what they record, piece by piece. Raises Stopped."""
        while block < end:
            following = self._advance(block, end)
            yield self._drain(block, following)
            block = following

    def discard(self, block: int, end: int, look: Callable[[Streams], None] | None = None) -> Iterator[int]:
        """Run blocks `block` to `end` in order and forget what they record, once `look` has seen it; gives how far it has come.
        Raises Stopped.
        """
        while block < end:
            following = self._advance(block, end)
            if look is None:
                self.recorder.rewind()
            else:
                look(self._drain(block, following))
            block = following
            yield block

    def follow(self, seed: int) -> None:
        """From now on blocks, warps and lanes run in the order of a seed (`codegen/orders.py`), so nothing can be recorded."""
        chances = chance_table(seed, self.warps_per_block)
        self._keep.append(chances)
        self.context[Slot.CHANCE_PTR] = int(chances.ctypes.data)
        self._unit_at = block_order(seed, self.launch.blocks // self.residents.blocks)

    def _advance(self, block: int, end: int) -> int:
        """Run blocks from `block` on, and those that they wait for; gives the first block that has not been started.

        In another order these are places in it, and one block runs at a time.
        """
        if self.native.clustered:
            return self._advance_clusters(block, end)
        if self._unit_at is None:
            following = self._run(block, end)
        else:
            number = self._unit_at(block)
            following = block + (self._run(number, number + 1) > number)
        if self.context[Slot.STALLED]:
            following = self.residents.finish(following, end, self._take_turn)
        return following

    def _advance_clusters(self, block: int, end: int) -> int:
        """The same for blocks in clusters, which start together: as many whole rows of clusters as fill a buffer."""
        band, blocks = band_of(self.launch), self.residents.blocks
        following = block
        while following < end and not (following > block and following % band == 0 and self.recorder.is_full):
            following = blocks * self.residents.run_together(following // blocks, end // blocks, self._take_turn, self._stop_idle)
        return following

    def _stop_idle(self, unit: int, rank: int) -> None:
        """All blocks of a cluster wait for each other at barriers, that of this rank among them."""
        self.context[Slot.FAULT_KIND] = Fault.DEADLOCK
        raise Stopped(self, self._block_at(unit, rank))

    def _block_at(self, unit: int, rank: int) -> int:
        cluster = unit if self._unit_at is None else self._unit_at(unit)
        return int(self.launch.block_at(cluster * self.residents.blocks + rank))

    def _run(self, block: int, end: int) -> int:
        """Run blocks from `block` on; gives the block to go on with after a drain, or, with STALLED set, without progress."""
        address = int(self.context.ctypes.data)
        HOSTS[address], EXTERNAL_HOSTS[address] = self._make_room, self._call_external
        try:
            following = int(self.native.run(address, block, end))
        finally:
            del HOSTS[address], EXTERNAL_HOSTS[address]
        if following < 0:
            raise Stopped(self, -1 - following)
        return following

    def _take_turn(self, unit: int, rank: int) -> bool:
        """Run a block of a cluster until it ends, or makes no progress; whether it has ended. Without clusters each is its own."""
        self._poll(self)
        self.context[Slot.STALLED] = 0
        number = self._block_at(unit, rank)
        self._run(number, number + 1)
        return not self.context[Slot.STALLED]

    def _drain(self, block: int, following: int) -> Streams:
        """Take what blocks `block` to `following` recorded, in the order of their warps."""
        recorder = self.recorder
        first = block * self.warps_per_block
        warps = (following - block) * self.warps_per_block
        segments = recorder.take_segments()
        totals = np.empty((warps, 3), dtype=np.int64)
        count_per_warp(segments, first, totals)
        streams = empty_streams(first, following, totals)
        recorded = recorder.path.array, recorder.events.array, recorder.sectors.array
        gather_streams(segments, first, *recorded, streams.offsets[:-1].copy(), streams.entries, streams.events, streams.sectors)
        recorder.rewind()
        return streams


# -- Clusters of blocks. They are numbered as blocks are, x fastest.

def band_of(launch: Launch) -> int:
    """The least number of consecutive blocks that are whole clusters, from block 0 on: traces are in the order of blocks."""
    (x, y, _), (across, down, deep) = launch.grid, launch.cluster or (1, 1, 1)
    return x * y * deep if deep > 1 else x * down if down > 1 else across


# -- Blocks that are suspended because all of their warps wait for something that another block does.
#
# As on a GPU, such blocks stay where they are, with their shared and local memory and their warps' registers, while others run.
# They take turns in the order of their numbers, so that a launch has one outcome. Blocks are started beside them as long as turns
# of those that are there change nothing. The blocks of a cluster are there together, side by side in memory.

MAX_BYTES = 1 << 32  # of all suspended blocks of a launch together
FIRST_ROUNDS = 16  # turns of its warps that a block has without progress before it is suspended
NEXT_ROUNDS, MOST_ROUNDS = 4, 1 << 12  # and once blocks have been suspended; twice as many after each turn of all in vain
_MOST_VAIN_TURNS = 16  # of all blocks, when no further block can be started

class _Residence:
    """Memory of one block: shared and local memory, the states of its warps, its record, and what checks keep of it.

    Shared memory, its shadow and the record are parts of those of its cluster (`_Cluster`).
    """

    def __init__(self, cluster: _Cluster, rank: int, local: int, states: int, watched: int, tensor: int) -> None:
        # Accesses of whole vectors may reach past the end of local memory.
        self._arrays: list[npt.NDArray[np.uint8]] = [np.zeros(local + 256, np.uint8), small_pages(states + 128)]
        self.rank = rank  # without the cluster, which knows this block: its memory goes when the cluster goes
        self.record = cluster.record[rank * _RECORD : (rank + 1) * _RECORD].reshape(RECORD_ROWS, RECORD_WORDS)
        pointers = [align_up(int(a.ctypes.data), 64) for a in self._arrays]
        self._slots = dict(zip((Slot.LOCAL_PTR, Slot.STATE_PTR), pointers, strict=True)) | {
            Slot.SHARED_PTR: cluster.shared + rank * cluster.stride, Slot.RECORD_PTR: int(self.record.ctypes.data),
            Slot.CLUSTER_SHARED: cluster.shared, Slot.CLUSTER_STRIDE: cluster.stride, Slot.CLUSTER_RANK: rank,
            Slot.CLUSTER_RECORD: (cluster.blocks - rank) * _RECORD,
        }  # fmt: skip
        self._slots[Slot.TENSOR_PTR] = cluster.tensor + rank * tensor
        if watched:
            words = cluster.watched[rank]
            words[[WORDS, RANK, BLOCKS]] = watched, rank, cluster.blocks if cluster.blocks > 1 else 0
            self._slots[Slot.WATCH_BLOCK_PTR] = int(words.ctypes.data)
            self._arrays.append(np.zeros(local + 256, dtype=np.uint8))
            self._slots[Slot.LOCAL_SHADOW] = int(self._arrays[-1].ctypes.data) - self._slots[Slot.LOCAL_PTR]
            self._slots[Slot.SHARED_SHADOW] = cluster.shadow - cluster.shared

    def enter(self, context: npt.NDArray[np.int64]) -> None:
        """Let native code work on this block's memory."""
        for slot, value in self._slots.items():
            context[slot] = value

    def words(self) -> npt.NDArray[np.int32]:
        """The states of the warps, one after the other."""
        states = self._arrays[1]
        first = self._slots[Slot.STATE_PTR] - int(states.ctypes.data)
        return states[first : first + (len(states) - first) // 4 * 4].view(np.int32)

    @property
    def progress(self) -> int:
        """A number that changes when the block does something but poll."""
        return int(self.record[PROGRESS_ROW, ADVANCED])

    @property
    def is_idle(self) -> bool:
        """Whether no warp polls: all wait at barriers."""
        return bool(self.record[PROGRESS_ROW, IDLE])


_RECORD = RECORD_ROWS * RECORD_WORDS


class _Cluster:
    """Shared memory of the blocks of a cluster, one after the other, and so what checks keep of them; their records, with the
    cluster's own behind them.
    """

    def __init__(self, blocks: int, shared: int, local: int, states: int, watched: int, tensor: int, pair_object: int) -> None:
        self.pair_object = pair_object
        self.blocks, self.stride = blocks, align_up(shared + 256, 128)  # accesses of whole vectors may reach past the end
        self._arrays = [np.zeros(blocks * self.stride + 128, np.uint8) for _ in range(2 if watched else 1)]
        self.shared, *rest = (align_up(int(a.ctypes.data), 128) for a in self._arrays)
        self.shadow = rest[0] if rest else 0
        self._tensor = np.zeros(blocks * tensor + 8, np.uint8)
        self.tensor = align_up(int(self._tensor.ctypes.data), 8)
        self.record = np.zeros(blocks * _RECORD + CLUSTER_RECORD_WORDS, dtype=np.int64)
        self.watched = np.zeros((blocks, watched), dtype=np.int64)
        self.residences = [_Residence(self, rank, local, states, watched, tensor) for rank in range(blocks)]
        self.ended: set[int] = set()

    def begin(self) -> None:
        """Before its blocks start."""
        self.record[:] = 0
        for memory in self._arrays:
            memory[:] = 0
        self.watched[:, NUMBER : NUMBER + 1] = -1  # none of its blocks runs yet
        for rank in range(self.blocks if self.pair_object else 0):
            words = reserved_words(rank)
            start = self.shared + rank * self.stride + self.pair_object - int(self._arrays[0].ctypes.data)
            self._arrays[0][start : start + len(words)] = np.frombuffer(words, np.uint8)
        self.ended.clear()

    @property
    def progress(self) -> int:
        """A number that changes when a block does something but poll."""
        return sum(residence.progress for residence in self.residences)

    @property
    def is_idle(self) -> bool:
        """Whether all blocks that have not ended wait at barriers."""
        return all(residence.is_idle for residence in self.residences if residence.rank not in self.ended)


Turn = Callable[[int, int], bool]  # of the block with this rank (the second number) in that cluster: has it ended?
Stop = Callable[[int, int], None]


class Residents:
    """The memory of the running block and of those that are suspended. Sizes are bytes per block, `watched` are words, `tensor`
    is of tensor memory; a cluster has so many `blocks`, and a block without one is its own. `pair_object`: see `KernelImage`,
    0 where pairs of them allocate no tensor memory.
    """

    def __init__(
        self, context: npt.NDArray[np.int64], shared: int, local: int, states: int, kernel: str, watched: int, blocks: int = 1,
        tensor: int = 0, pair_object: int = 0,
    ) -> None:
        self._context, self._kernel, self.blocks = context, kernel, blocks
        self._sizes = (blocks, shared, local, states, watched, tensor, pair_object)
        self._most = max(2, MAX_BYTES // (blocks * (shared + local + states + 8 * watched + tensor + 1024)))
        self._home = _Cluster(*self._sizes)
        self._enter(self._home.residences[0])
        self._free: list[_Cluster] = []
        context[Slot.STALL_ROUNDS] = FIRST_ROUNDS

    def _enter(self, residence: _Residence) -> None:
        self._current = residence
        residence.enter(self._context)

    def states(self) -> npt.NDArray[np.int32]:
        """A copy of the states of the running block's warps: int32 [warps, words of a state]."""
        words = int(self._context[Slot.STATE_STRIDE]) // 4
        return self._current.words()[: words * int(self._context[Slot.WARPS_PER_BLOCK])].reshape(-1, words).copy()

    def finish(self, block: int, end: int, run: Turn) -> int:
        """Run `block`, which has stalled, to its end, and all blocks that are started meanwhile.

        `run(block, 0)` gives a block its turn and says whether it has ended. Returns the first block that has not been started,
        `end` if there is none. Raises LimitError when more blocks wait for each other than can be kept.
        """
        return self._hold(lambda: self._take_turns({block: self._home}, block + 1, end, run, lambda unit, rank: None))

    def run_together(self, first: int, end: int, run: Turn, stop: Stop) -> int:
        """Run cluster `first` to its end, and those up to `end` that it waits for; gives the first that has not been started.

        `stop(cluster, rank)` is called when the blocks of a cluster wait for each other without end.
        """
        if not self._free:
            self._free.append(self._home)
        return self._hold(lambda: self._take_turns({}, first, end, run, stop))

    def _hold(self, work: Callable[[], int]) -> int:
        """Do it with blocks suspended, so that native code drains nothing."""
        self._context[Slot.HOLD] = 1
        self._context[Slot.STALL_ROUNDS] = NEXT_ROUNDS
        try:
            return work()
        finally:
            self._context[Slot.HOLD], self._context[Slot.STALLED] = 0, 0
            self._context[Slot.STALL_ROUNDS] = FIRST_ROUNDS

    def _turn(self, unit: int, cluster: _Cluster, run: Turn, *, fresh: bool) -> bool:
        """A turn of each block of a cluster that has not ended; have all?"""
        for residence in cluster.residences:
            if residence.rank not in cluster.ended:
                self._enter(residence)
                self._context[Slot.RESUMING] = not fresh
                if run(unit, residence.rank):
                    cluster.ended.add(residence.rank)
        return len(cluster.ended) == cluster.blocks

    def _take_turns(self, waiting: dict[int, _Cluster], following: int, end: int, run: Turn, stop: Stop) -> int:
        to_start, vain = 1, 0
        while waiting or to_start:
            ended = 0
            while to_start and following < end and len(waiting) < self._most:
                to_start -= 1
                cluster = self._free.pop() if self._free else _Cluster(*self._sizes)
                cluster.begin()
                if self._turn(following, cluster, run, fresh=True):
                    self._free.append(cluster)
                    ended += 1
                else:
                    waiting[following] = cluster
                following += 1
            to_start = 0
            before = sum(c.progress for c in waiting.values())
            for number, cluster in list(waiting.items()):
                before_turn = cluster.progress, len(cluster.ended)
                if self._turn(number, cluster, run, fresh=False):
                    ended += 1
                    del waiting[number]
                    if cluster is not self._home:
                        self._free.append(cluster)
                elif cluster.blocks > 1 and cluster.is_idle and before_turn == (cluster.progress, len(cluster.ended)):
                    waits = next(r for r in cluster.residences if r.rank not in cluster.ended)
                    self._enter(waits)
                    stop(number, waits.rank)
            if ended or sum(c.progress for c in waiting.values()) != before:
                vain = 0
                self._context[Slot.STALL_ROUNDS] = NEXT_ROUNDS
                continue
            if following == end:
                self._context[Slot.STALL_ROUNDS] = min(2 * int(self._context[Slot.STALL_ROUNDS]), MOST_ROUNDS)
            elif len(waiting) < self._most:
                to_start, vain = len(waiting), 0
            elif (vain := vain + 1) > _MOST_VAIN_TURNS:
                raise LimitError(
                    f"kernel {self._kernel}: {len(waiting) * self.blocks:,} blocks wait for one that has not been started, "
                    f"and more than {MAX_BYTES >> 30} GiB would be needed to keep further ones",
                    remedy="launch no more blocks than can be resident at the same time; a GPU requires that too",
                )
        self._enter(self._home.residences[0])
        return following

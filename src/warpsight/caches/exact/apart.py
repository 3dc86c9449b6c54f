"""Sampled waves of long blocks, each in a simulation of its own, several at a time on threads of this machine.

A simulation of many stretches of blocks one after the other gives each the L2 and the disorder that those before have left. Where
blocks are long, a stretch brings itself into that state: its blocks get out of step while they run, and those that warm up read
more than the L2 holds, or all that there is lies in the L2 anyway. Then nothing of a stretch depends on the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import jit
from warpsight.base.records import Memory
from warpsight.caches.exact.between import L2Lines, aged, empty_l2, touch
from warpsight.caches.exact.l2 import Traffic, traffic_of
from warpsight.caches.exact.simulate import CacheSimulation, Progress, compile_engine
from warpsight.caches.exact.state import NEVER, TICKS
from warpsight.caches.miss_profile import COUNTS, SHARES, MissProfile
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.events import sectors_of_event
from warpsight.traces.late import LateWarps
from warpsight.traces.packing import Lines, lengths, loops_of, memory_rows
from warpsight.traces.schema import KernelTrace, WaveSample
from warpsight.traces.waves import labelled, part_of

_LONG_WARP = 1024  # bytes of memory events of a warp, about one for each access: a wave takes long
_IN_LOOPS = 0.9  # of these, at which a warp can begin
_WARMING_UP, _COUNTED = 0.25, 0.5  # of the accesses of a wave: before those that are counted, and counted
_GOLDEN = (math.sqrt(5) - 1) / 2
WRITE_BACKS = ("dram_writes", "dram_write_sectors")
_REPLAYED = 2  # times the L2: so much of what was read before decides what it holds
_SECONDS = 0.5  # between two reports

Simulated = Callable[..., CacheSimulation]


def has_long_loops(trace: KernelTrace) -> bool:
    """Whether the warps of `trace` make many accesses, nearly all of them in a loop at whose laps a warp can begin."""
    late, events, in_loops = LateWarps(trace, np.zeros(trace.header.recorded_blocks)), 0, 0
    for chunk in trace.chunks.packed():
        events += int(lengths(chunk)[0].sum())
        in_loops += 0 if chunk.loops is None else int((late.skipped(chunk) * chunk.loops[:, 1]).sum())
    return events >= _LONG_WARP * trace.header.warps and in_loops >= _IN_LOOPS * events


def warms_up_alone(sample: WaveSample, gpu: GpuSpec) -> bool:
    """Whether the blocks before the measured ones of each stretch but the first touch more than the L2 holds."""
    room = gpu.l2.size_bytes // gpu.l2.line_bytes
    return all(_lines(part_of(sample.executed, _warm_up(sample, number)), gpu) > room for number in range(1, len(sample.start)))


def _lines(trace: KernelTrace, gpu: GpuSpec) -> int:
    lines = Lines(trace.chunks, gpu.l2.line_bytes)
    touched = np.zeros(lines.count, np.bool_)
    for chunk in trace.chunks.packed():
        lines.mark(chunk, touched)
    return int(np.count_nonzero(touched))


def _blocks(sample: WaveSample, number: int) -> slice:
    """The executed blocks of stretch `number`, from 0 on."""
    ends = [*sample.start[1:].tolist(), len(sample.label)]
    return slice(int(sample.start[number]), ends[number])


def _warm_up(sample: WaveSample, number: int) -> npt.NDArray[np.bool_]:
    """The blocks of stretch `number` before its first measured one, bool [executed blocks]."""
    blocks, chosen = _blocks(sample, number), np.zeros(len(sample.label), np.bool_)
    first = int(np.argmax(sample.label[blocks] > 0))
    chosen[blocks.start : blocks.start + first] = True
    return chosen


@dataclass(frozen=True)
class Stretch:
    """What the caches make of the measured wave of a stretch; the traffic in the earlier and the later half of the time that is
    counted, int64 [2, kinds, 2]; and what the simulation leaves in the L2.
    """

    misses: MissProfile
    traffic: Traffic
    left: L2Lines


def _to_write(lines: L2Lines | None) -> npt.NDArray[np.int64]:
    """How many lines and sectors of the L2 have to be written back, int64 [2]."""
    dirty = np.zeros(0, np.uint16) if lines is None else lines["dirty"]
    return np.array([np.count_nonzero(dirty), np.bitwise_count(dirty).sum()], np.int64)


class Stretches:
    """The stretches of a sample, simulated apart."""

    def __init__(self, sample: WaveSample, gpu: GpuSpec, simulated: Simulated, progress: Progress | None) -> None:
        self._sample, self._gpu, self._simulated, self._progress = sample, gpu, simulated, progress
        self._wave = int(sample.start[1])
        self._ended, self._stopped = dict[int, int](), False

    def all(self, before: L2Lines | None, warm: bool) -> list[Stretch]:
        """All stretches in order. `before`: what the L2 holds, where all lines have room in it; else None. Then a `warm` launch
        begins with what its last stretch leaves.
        """
        found: dict[int, Stretch] = {}
        last, fits = len(self._sample.start) - 1, before is not None

        def ends() -> None:
            found[last] = self._end(last, before, fits)
            first = before
            if first is None and warm:
                first = aged(found[last].left, self._gpu, self._gpu.l2.size_bytes // self._gpu.l2.line_bytes)
            found[0] = self._end(0, first, fits)

        def between(number: int) -> Callable[[], None]:
            return lambda: found.__setitem__(number, self._between(number, before, fits))

        self._run([ends, *(between(number) for number in range(1, last))])
        return [found[number] for number in range(last + 1)]

    def _run(self, tasks: list[Callable[[], None]]) -> None:
        """The tasks, on the threads of the sample. What is raised in one of them, or a signal, ends the others."""
        if self._sample.threads == 1:
            for task in tasks:
                task()
                self._report()
            return
        compile_engine()  # once, not in each thread
        with ThreadPoolExecutor(self._sample.threads) as pool:
            try:
                waiting = {pool.submit(task) for task in tasks}
                while waiting:
                    done, waiting = wait(waiting, _SECONDS, FIRST_COMPLETED)
                    for each in done:
                        each.result()
                    self._report()
            except BaseException:
                self._stopped = True
                pool.shutdown(cancel_futures=True)
                raise

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(sum(self._ended.values()), self._sample.executed.header.warps)

    def _shares(self, blocks: int) -> npt.NDArray[np.float64]:
        """The last share of its laps that each block of a stretch runs: all, but those that begin at once are at any place."""
        share = np.ones(blocks)
        share[: self._wave] = np.arange(1, self._wave + 1) * _GOLDEN % 1
        return share

    def _part(self, number: int, before: L2Lines | None) -> tuple[KernelTrace, L2Lines | None]:
        """The trace of stretch `number`, and what the L2 holds when it begins."""
        sample, blocks = self._sample, _blocks(self._sample, number)
        chosen = np.zeros(len(sample.label), np.bool_)
        chosen[blocks] = True
        trace = part_of(sample.executed, chosen)
        if number == 0:
            return trace, before
        late = LateWarps(trace, self._shares(trace.header.recorded_blocks))
        if before is None:
            before = touch(empty_l2(self._gpu), self._gpu, late.read_before(_REPLAYED * self._gpu.l2.size_bytes))
        return late.trace(), before

    def _end(self, number: int, before: L2Lines | None, fits: bool) -> Stretch:
        """Simulate the first or the last stretch, `number`, from its beginning to its end, with an L2 that holds `before`, which
        has room for all lines if it `fits`.
        """
        trace, before = self._part(number, before)
        labels = self._sample.label[_blocks(self._sample, number)]
        observer = _Window(lambda: self._stopped)
        profile, left = self._simulated(
            labelled(trace, np.where(labels > 0, 0, 1)), progress=self._told(number), observer=observer
        ).run(before)  # fmt: skip
        counts = {name: np.split(getattr(profile, name), len(profile.executions) // len(trace.instructions)) for name in COUNTS}
        own: dict[str, Any] = {name: parts[0] for name, parts in counts.items()}
        whole = {name: np.sum(parts, axis=0) for name, parts in counts.items()}
        found = _with_write_backs(replace(profile, **own), whole, before, left, fits)
        return Stretch(found, np.zeros_like(observer.halves()), left)

    def _between(self, number: int, before: L2Lines | None, fits: bool) -> Stretch:
        """As `_end`, a part of stretch `number` between the two, while blocks are everywhere in their loops."""
        trace, before = self._part(number, before)
        executed = _executed(part_of(self._sample.executed, self._sample.label == number + 1))
        accesses = int(executed["executions"].sum())
        observer = _Window(lambda: self._stopped, round(_WARMING_UP * accesses), round(_COUNTED * accesses))
        profile, left = self._simulated(trace, progress=self._told(number), observer=observer).run(before)
        whole = {name: getattr(profile, name) for name in COUNTS}
        own = _scaled(observer.counts(), whole, executed)
        found = _with_write_backs(replace(profile, **own), whole, before, left, fits)
        return Stretch(found, observer.halves(), left)

    def _told(self, number: int) -> Progress:
        return lambda done, _: self._ended.__setitem__(number, done)


def _with_write_backs(
    own: MissProfile, whole: dict[str, Any], before: L2Lines | None, left: L2Lines, fits: bool
) -> MissProfile:
    """The counts of a wave with its share of write-backs, by writes to the L2. A wave evicts what others have written: all writes
    of the stretch, of which `whole` are the counts, make the write-backs in it and those that it leaves to be made, beyond those
    that it found.
    """
    writes, all_writes = int(own.l2_writes.sum()), int(whole["l2_writes"].sum())
    left_to_make = np.zeros(2, np.int64) if fits else _to_write(left) - _to_write(before)
    changed = {}
    for name, more in zip(WRITE_BACKS, left_to_make.tolist(), strict=True):
        made = int(whole[name].sum())
        if writes and made:
            changed[name] = np.rint(whole[name] * (writes / all_writes * max(0.0, 1 + more / made))).astype(np.int64)
    return replace(own, **changed)


_EXACT = ("executions", "sectors", "shared_executions", "shared_passes")


def _scaled(counted: dict[str, Any], whole: dict[str, Any], executed: dict[str, Any]) -> dict[str, Any]:
    """Counts of a window, or of what was not executed in it those of the `whole` stretch, as if each instruction had been executed
    as often as `executed` says.
    """
    found: dict[str, Any] = {}
    for name in COUNTS:
        base = "shared_executions" if name.startswith("shared") else "executions"
        in_window = counted[base] > 0
        there = np.where(in_window, counted[name], whole[name])
        times = executed[base] / np.maximum(1, np.where(in_window, counted[base], whole[base]))
        found[name] = np.rint(there * times).astype(np.int64)
    return found | executed


def _executed(trace: KernelTrace) -> dict[str, Any]:
    """How often the warps of a trace execute each memory instruction with a lane active, and with how many sectors and passes
    through the banks of shared memory; int64 [instructions] under the names of `MissProfile`.
    """
    chosen = [i for i in trace.instructions if i.event_bytes]
    start, width, counts = memory_rows(trace.instructions, trace.block_start)
    has_degree = np.array([i.has_degree for i in chosen], np.bool_)
    table, rows = trace.paths, np.zeros((len(chosen), len(_EXACT)), np.int64)
    for chunk in trace.chunks.packed():
        streams = (chunk.path, chunk.event_offset, chunk.events, loops_of(chunk))
        paths = tuple(map(np.ascontiguousarray, (table.offset, table.block, table.repeat)))
        _count(paths, (start, width, counts, has_degree), tuple(map(np.ascontiguousarray, streams)), rows)
    of_pc = np.zeros((len(trace.instructions), len(_EXACT)), np.int64)
    of_pc[[i.pc for i in chosen]] = rows
    return dict(zip(_EXACT, of_pc.T.copy(), strict=True))


@jit(sources=("traces/events.py",), cache=True, nogil=True)
def _count(paths, memory, chunk, found):  # type: ignore[no-untyped-def]
    """Add the counts `_EXACT` of a chunk to `found`, [memory instructions, 4]."""
    offset, blocks, repeat = paths
    start, width, counts, has_degree = memory
    path, event_offset, events, loops = chunk
    for warp in range(len(path)):
        event, period, laps = event_offset[warp], loops[warp, 1], loops[warp, 4] - 1
        wrap = event + loops[warp, 0] + period
        for entry in range(offset[path[warp]], offset[path[warp] + 1]):
            for _ in range(repeat[entry] if start[blocks[entry]] < start[blocks[entry] + 1] else 0):
                for row in range(start[blocks[entry]], start[blocks[entry] + 1]):
                    sectors = sectors_of_event(events, event, counts[row])
                    passes = np.int64(events[event + counts[row]]) if has_degree[row] else np.int64(0)
                    found[row, 0] += 1 if sectors > 0 else 0
                    found[row, 1] += sectors
                    found[row, 2] += 1 if passes > 0 else 0
                    found[row, 3] += passes
                    event += width[row]
                    if event == wrap and laps > 0:
                        event, laps = event - period, laps - 1


class _Window:
    """Counts what is done while a stretch is simulated, from so many accesses on for so many, and ends its simulation then; by
    default all of it, to its end. `stopped` tells whether it ends anyway.
    """

    def __init__(self, stopped: Callable[[], bool], first: int = 0, accesses: int | None = None) -> None:
        self._stopped, self._first, self._accesses = stopped, first, accesses
        self._counters: Any = None
        self._before: dict[str, Any] = {}
        self._turns, self._seen = list[int](), list[Traffic]()
        self._end = NEVER

    def __call__(self, memory: Memory, reports: bool) -> bool:
        self._counters = memory["counters"]
        done = int(self._counters["executions"].sum())
        if done >= self._first:
            if not self._before:
                self._before = {name: self._counters[name].copy() for name in COUNTS}
                self._end = NEVER if self._accesses is None else done + self._accesses
            self._turns.append(int(memory.root["turns"]))
            self._seen.append(traffic_of(memory))
        return done >= self._end or self._stopped()

    def counts(self) -> dict[str, Any]:
        """The counts in the window; of a stretch that ends before it, all counts."""
        found = {name: self._counters[name] - self._before.get(name, 0) for name in COUNTS}
        found["merged_wait_cycles"] //= TICKS
        return found

    def halves(self) -> Traffic:
        """The traffic in the earlier and in the later half of the turns, int64 [2, kinds, 2]."""
        if not self._turns:
            return np.zeros((2, len(SHARES) + 1, 2), np.int64)
        middle = int(np.searchsorted(self._turns, (self._turns[0] + self._turns[-1]) / 2))
        return np.diff([self._seen[0], self._seen[middle], self._seen[-1]], axis=0)

"""Sampled waves of long blocks, each in a simulation of its own, several at a time on threads of this machine.

A simulation of many stretches of blocks one after the other gives each the L2 and the disorder that those before have left. Where
blocks are long, a stretch can begin in that state: its blocks are as far apart as they have got by then, and what they have read
before is more than the L2 holds, or all that there is lies in the L2 anyway. Then nothing of a stretch depends on the others, and a
part of the time that a wave takes shows what all of it does.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import jit
from warpsight.base.errors import UnsupportedError
from warpsight.base.records import Memory
from warpsight.caches.exact.between import L2Lines, aged, empty_l2, touch
from warpsight.caches.exact.l2 import Traffic
from warpsight.caches.exact.simulate import CacheSimulation, Progress, compile_engine
from warpsight.caches.exact.windows import STARTED, FromStart, Places, Spread, Window
from warpsight.caches.miss_profile import COUNTS, MissProfile
from warpsight.gpu.spec import GpuSpec
from warpsight.traces.events import sectors_of_event
from warpsight.traces.late import LateWarps
from warpsight.traces.packing import Lines, lengths, loops_of, memory_rows
from warpsight.traces.schema import KernelTrace, WaveSample
from warpsight.traces.waves import part_of

# These are judgements; what a window that is too short gets wrong shows where its halves are compared, which is in the interval.
_LONG_WARP = 1024  # bytes of memory events of a warp, about one for each access: a wave takes long
_IN_LOOPS = 0.9  # of these, at which a warp can begin
# Accesses of a warp on average: before those that are counted, and counted. Blocks begin where they would be, so that only the L1s
# and what is in flight have to come into their state (ADR 0083).
_WARMING_UP, _COUNTED = 768, 1024
_MOST_WARMING_UP, _MOST_COUNTED = 1 / 4, 1 / 2  # of the accesses of a wave
WINDOW = _MOST_WARMING_UP + _MOST_COUNTED  # so many blocks of a wave end in it at most, and others start in their places
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


def fills_l2(first: KernelTrace, gpu: GpuSpec) -> bool:
    """Whether the `first` wave of a launch touches more than the L2 holds."""
    lines = Lines(first.chunks, gpu.l2.line_bytes)
    touched = np.zeros(lines.count, np.bool_)
    for chunk in first.chunks.packed():
        lines.mark(chunk, touched)
    return int(np.count_nonzero(touched)) > gpu.l2.size_bytes // gpu.l2.line_bytes


class NotApart(UnsupportedError):
    """What the L2 holds when a stretch begins is decided by blocks before it that have not been executed."""


def _blocks(sample: WaveSample, number: int) -> slice:
    """The executed blocks of stretch `number`, from 0 on."""
    ends = [*sample.start[1:].tolist(), len(sample.label)]
    return slice(int(sample.start[number]), ends[number])


@dataclass(frozen=True)
class Stretch:
    """What the caches make of the measured wave of a stretch, and what they would by the earlier and by the later half of what is
    counted alone; the traffic in these halves, int64 [2, kinds, 2]; and what the simulation leaves in the L2.
    """

    misses: MissProfile
    halves: tuple[MissProfile, MissProfile]
    traffic: Traffic
    left: L2Lines | None


@dataclass(frozen=True)
class _Simulation:
    """Of a stretch: all counts, those in the halves of its window, and the traffic in these; how many lines and sectors it leaves
    to be written back beyond those that it found, int64 [2]; and the L2 that the last stretch leaves.
    """

    profile: MissProfile
    halves: tuple[dict[str, Any], dict[str, Any]]
    traffic: Traffic
    to_write: npt.NDArray[np.int64]
    left: L2Lines | None


Known = dict[Any, Any]
"""Simulations of stretches, by the number of their first block and how many they are, what their blocks execute, and how far blocks
get apart in a wave.
"""


def _to_write(lines: L2Lines | None) -> npt.NDArray[np.int64]:
    """How many lines and sectors of the L2 have to be written back, int64 [2]."""
    dirty = np.zeros(0, np.uint16) if lines is None else lines["dirty"]
    return np.array([np.count_nonzero(dirty), np.bitwise_count(dirty).sum()], np.int64)


@dataclass(frozen=True)
class Between:
    """What the L2 holds when a stretch begins, besides what its own blocks have read, if a wave alone does not fill it: the lines
    with the numbers `shared`, which all stretches read, and such as nobody finds, up to so many as are `wanted`.
    """

    shared: npt.NDArray[np.uint32]
    wanted: float

    def held(self, gpu: GpuSpec, rows: npt.NDArray[np.int64]) -> L2Lines:
        """The L2 after the `rows` of `LateWarps.read_before`."""
        shared = np.zeros((len(self.shared), 5), np.int64)
        shared[:, 0] = self.shared.astype(np.int64) * gpu.l2.line_bytes
        shared[:, 2], shared[:, 3] = gpu.l2.line_bytes, 1
        return aged(touch(empty_l2(gpu), gpu, np.concatenate([shared, rows])), gpu, self.wanted)


class Stretches:
    """The stretches of a sample, simulated apart."""

    def __init__(
        self, sample: WaveSample, gpu: GpuSpec, simulated: Simulated, progress: Progress | None, between: Between | None,
        known: Known,
    ) -> None:
        """`known` has stretches of the launch that were simulated before, and gets the others, if no other stretch decides what the
        L2 holds when one begins.
        """
        self._sample, self._gpu, self._simulated, self._progress, self._held = sample, gpu, simulated, progress, between
        self._known = known
        self._wave = int(sample.start[1])
        self._ended, self._stopped = dict[int, int](), False

    def all(self, before: L2Lines | None, warm: bool) -> list[Stretch]:
        """All stretches in order. `before`: what the L2 holds, where all lines have room in it; else None. Then a `warm` launch
        begins with what its last stretch leaves.
        """
        if before is not None or self._held is not None:
            self._known = {}  # the L2 holds what blocks of all stretches read
        found: dict[int, Stretch] = {}
        last, fits = len(self._sample.start) - 1, before is not None
        if "spread" not in self._known:  # which all but the first wave wait for; meanwhile another thread counts
            counts = (partial(self._executions, number) for number in range(last + 1))
            self._run([lambda: self._see_spread(before), *counts, *(partial(self._accesses, number) for number in range(last))])

        def ends() -> None:
            found[last] = self._last(before, fits)
            first = before
            if first is None and warm:
                left = found[last].left
                assert left is not None
                first = aged(left, self._gpu, self._gpu.l2.size_bytes // self._gpu.l2.line_bytes)
            found[0] = self._first(first, fits, found[last].misses)

        def between(number: int) -> Callable[[], None]:
            return lambda: found.__setitem__(number, self._between(number, before, fits))

        self._run([ends, *(between(number) for number in range(1, last))])
        return [found[number] for number in range(last + 1)]

    def _run(self, tasks: list[Callable[[], object]]) -> None:
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

    def _part(self, number: int, before: L2Lines | None) -> tuple[KernelTrace, L2Lines | None, Places | None]:
        """The trace of stretch `number`, what the L2 holds when it begins, and where its first blocks start."""
        sample, blocks, gpu = self._sample, _blocks(self._sample, number), self._gpu
        chosen = np.zeros(len(sample.label), np.bool_)
        chosen[blocks] = True
        trace = part_of(sample.executed, chosen)
        if number == 0:
            return trace, before, None
        first, place = int(sample.first[number]), float(sample.place[number])
        spread: Spread = self._known["spread"]
        share, places = spread.begin(trace.header.recorded_blocks, self._wave, gpu.sm_count, first=first, place=place)
        late = LateWarps(trace, share)
        if before is None:
            rows = late.read_before(_REPLAYED * gpu.l2.size_bytes)
            if self._held is None:
                before = touch(empty_l2(gpu), gpu, rows)
                before = aged(before, gpu, len(before))
            else:
                before = self._held.held(gpu, rows)
        return late.trace(), before, places if trace.header.cluster_blocks == 1 else None

    def _counted(
        self, number: int, before: L2Lines | None, fits: bool, window: Window, like: MissProfile | None = None
    ) -> Stretch:
        """Simulate stretch `number` with an L2 that holds `before`, which has room for all lines if it `fits`, as far as the
        `window` goes. What instructions that are not executed there do is `like` that of another stretch.
        """
        done = self._simulation(number, before, window)
        executed = self._executions(number)
        whole = {name: getattr(done.profile, name) for name in COUNTS}
        others = whole
        if like is not None:
            there = (whole["executions"] > 0) | (whole["shared_executions"] > 0)
            others = {name: np.where(there, whole[name], getattr(like, name)) for name in COUNTS}

        def scaled(counted: dict[str, Any]) -> MissProfile:
            own = replace(done.profile, **as_if_executed(counted, others, executed))
            if like is None or whole["l2_writes"].any():
                return _with_write_backs(own, whole, np.zeros(2, np.int64) if fits else done.to_write)
            share = int(own.l2_writes.sum()) / max(1, int(like.l2_writes.sum()))
            changed: dict[str, Any] = {name: np.rint(getattr(like, name) * share).astype(np.int64) for name in WRITE_BACKS}
            return replace(own, **changed)

        earlier, later = done.halves
        both = {name: earlier[name] + later[name] for name in COUNTS}
        return Stretch(scaled(both), (scaled(earlier), scaled(later)), done.traffic, done.left)

    def _simulation(self, number: int, before: L2Lines | None, window: Window) -> _Simulation:
        """Of stretch `number`, or what is known of it."""
        first, blocks = int(self._sample.first[number]), _blocks(self._sample, number)
        key = (first, blocks.stop - blocks.start)
        found: _Simulation | None = self._known.get(key)
        if found is None:
            trace, before, places = self._part(number, before)
            profile, left = self._simulated(trace, progress=self._told(number), observer=window, places=places).run(before)
            is_last = number == len(self._sample.start) - 1
            found = _Simulation(
                profile, window.counts_of_halves(), window.halves(), _to_write(left) - _to_write(before), left if is_last else None
            )
            if not self._stopped:
                self._known[key] = found
        return found

    def _see_spread(self, before: L2Lines | None) -> None:
        """Simulate the beginning of a wave to see how far blocks get apart in it."""
        trace, before, _ = self._part(0, before)
        events = np.concatenate([lengths(chunk)[0] for chunk in trace.chunks.packed()])
        step, seen = STARTED / 2 * self._accesses(0), list[Spread]()

        def observe(memory: Memory, reports: bool) -> bool:
            if int(memory["counters"]["executions"].sum()) >= step * (len(seen) + 1):
                seen.append(Spread.of(memory, events, trace.header.warps_per_block))
            return len(seen) == 2 or self._stopped

        self._simulated(trace, observer=observe).run(before)
        self._known["spread"] = seen[-1].after(seen[0]) if seen else Spread(0.0, 0.0)

    def _last(self, before: L2Lines | None, fits: bool) -> Stretch:
        """The last stretch, from where its blocks are everywhere in their loops to the end of the launch."""
        number = len(self._sample.start) - 1
        return self._at_edge(self._counted(number, before, fits, Window(lambda: self._stopped)))

    def _first(self, before: L2Lines | None, fits: bool, like: MissProfile) -> Stretch:
        """The first wave, whose blocks begin in step, until its misses are steady."""
        return self._at_edge(self._counted(0, before, fits, FromStart(lambda: self._stopped, self._accesses(0)), like))

    @staticmethod
    def _at_edge(found: Stretch) -> Stretch:
        """Of a wave that fills or leaves an idle GPU: its halves differ for that, and its traffic is not that of the launch."""
        return replace(found, halves=(found.misses, found.misses), traffic=np.zeros_like(found.traffic))

    def _between(self, number: int, before: L2Lines | None, fits: bool) -> Stretch:
        """A part of stretch `number` between the two, while blocks are everywhere in their loops."""
        accesses, warps = self._accesses(number), self._wave * self._sample.executed.header.warps_per_block
        first, counted = min(_WARMING_UP * warps, _MOST_WARMING_UP * accesses), min(_COUNTED * warps, _MOST_COUNTED * accesses)
        window = Window(lambda: self._stopped, round(first), round(counted))
        return self._counted(number, before, fits, window)

    def _executions(self, number: int) -> dict[str, Any]:
        """The counts `EXACT` of the blocks of stretch `number` that are measured."""
        measured = self._sample.label == number + 1
        key = ("executed", int(self._sample.first[number]), int(measured.sum()))
        if key not in self._known:
            self._known[key] = _executed(part_of(self._sample.executed, measured))
        executions: dict[str, Any] = self._known[key]
        return executions

    def _accesses(self, number: int) -> int:
        """Memory accesses of as many blocks of a stretch as are a wave."""
        key = ("accesses", int(self._sample.first[number]))
        if key not in self._known:
            blocks, chosen = _blocks(self._sample, number), np.zeros(len(self._sample.label), np.bool_)
            chosen[blocks.start : blocks.start + self._wave] = True
            self._known[key] = int(_executed(part_of(self._sample.executed, chosen))["executions"].sum())
        accesses: int = self._known[key]
        return accesses

    def _told(self, number: int) -> Progress:
        return lambda done, _: self._ended.__setitem__(number, done)


def _with_write_backs(own: MissProfile, whole: dict[str, Any], left_to_make: npt.NDArray[np.int64]) -> MissProfile:
    """The counts of a wave with its share of write-backs, by writes to the L2. A wave evicts what others have written: all writes
    of the stretch, of which `whole` are the counts, make the write-backs in it and those that it leaves to be made.
    """
    writes, all_writes = int(own.l2_writes.sum()), int(whole["l2_writes"].sum())
    changed = {}
    for name, more in zip(WRITE_BACKS, left_to_make.tolist(), strict=True):
        made = int(whole[name].sum())
        each = whole[name] if made else whole["l2_writes"]  # none was made so early: by the instructions that will cause them
        if all_writes and each.any():
            changed[name] = np.rint(each * (writes / all_writes * max(0.0, made + more) / int(each.sum()))).astype(np.int64)
    return replace(own, **changed)


EXACT = ("executions", "sectors", "shared_executions", "shared_passes")


def as_if_executed(counted: dict[str, Any], whole: dict[str, Any], executed: dict[str, Any]) -> dict[str, Any]:
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
    table, rows = trace.paths, np.zeros((len(chosen), len(EXACT)), np.int64)
    for chunk in trace.chunks.packed():
        streams = (chunk.path, chunk.event_offset, chunk.events, loops_of(chunk))
        paths = tuple(map(np.ascontiguousarray, (table.offset, table.block, table.repeat)))
        _count(paths, (start, width, counts, has_degree), tuple(map(np.ascontiguousarray, streams)), rows)
    of_pc = np.zeros((len(trace.instructions), len(EXACT)), np.int64)
    of_pc[[i.pc for i in chosen]] = rows
    return dict(zip(EXACT, of_pc.T.copy(), strict=True))


@jit(sources=("traces/events.py",), cache=True, nogil=True)
def _count(paths, memory, chunk, found):  # type: ignore[no-untyped-def]
    """Add the counts `EXACT` of a chunk to `found`, [memory instructions, 4]."""
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

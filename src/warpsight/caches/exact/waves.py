"""The caches under sampled waves of a launch, each wave counted apart, with an L2 as the blocks between them leave it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.records import Memory
from warpsight.caches.exact.apart import EXACT, WRITE_BACKS, Between, Known, NotApart, Stretches, as_if_executed
from warpsight.caches.exact.between import L2Lines, aged, forget
from warpsight.caches.exact.l2 import Traffic, traffic_measures, traffic_of
from warpsight.caches.exact.simulate import CacheSimulation, Progress
from warpsight.caches.miss_profile import COUNTS, MissProfile
from warpsight.gpu.spec import GpuSpec, L2Spec
from warpsight.traces.packing import Lines
from warpsight.traces.schema import WaveSample
from warpsight.traces.waves import labelled, part_of

_MOST_SCATTERED = 0.05  # of the lines


class ScatteredReuse(Exception):
    """Blocks that lie far apart share lines at random, so that only the whole launch knows what the L2 holds."""


@dataclass(frozen=True)
class Footprint:
    """Lines of the L2 that stretches of blocks touch: of one stretch alone (`single`), of some and of all of them; how many one
    touches at most; and which ones the `first` touches, the `last`, and all of them (`shared`).

    The first stretch is a wave alone, without the row of the grid that warms up before the others. So a line that all others touch
    is one that all touch, whether the first one does or not.
    """

    single: int
    some: int
    every: int
    most: int
    first: npt.NDArray[np.uint32]
    last: npt.NDArray[np.uint32]
    shared: npt.NDArray[np.uint32]

    def of_launch(self, scale: float) -> float:
        """Lines that the whole launch touches, `scale` times as many blocks as there are in the sample."""
        return self.single * scale + self.some + self.every

    def of_wave(self, share: float) -> float:
        """Lines that a wave touches, which is so large a `share` of the longest stretch."""
        return self.every + (self.most - self.every) * share

    @property
    def is_scattered(self) -> bool:
        """Whether a part of the lines is shared by some stretches and not by others."""
        return self.some > _MOST_SCATTERED * (self.single + self.some + self.every)


def footprint(sample: WaveSample, line_bytes: int) -> Footprint:
    """What the stretches of blocks that follow each other touch. Lines of local memory, which no block shares, count for each."""
    trace = sample.executed
    lines, first_warps = Lines(trace.chunks, line_bytes), sample.start * trace.header.warps_per_block
    times, of_first = np.zeros(lines.count, np.uint16), np.zeros(lines.count, np.bool_)
    touched, current, most, stretches = np.zeros(lines.count, np.bool_), 0, 0, len(sample.start)
    for chunk in trace.chunks.packed():
        stretch = int(np.searchsorted(first_warps, chunk.first_warp, side="right")) - 1
        if stretch != current:
            if current == 0:
                of_first[:] = touched
            times += touched
            most = max(most, int(np.count_nonzero(touched)))
            touched[:], current = False, stretch
        lines.mark(chunk, touched)
    times += touched
    most = max(most, int(np.count_nonzero(touched)))
    by_all = times - of_first == stretches - 1 if stretches > 2 else times == stretches
    single, every, some = (int(np.count_nonzero(each)) for each in ((times == 1) & ~by_all, by_all, times))
    return Footprint(single, some - single - every, every, most, *map(lines.numbers, (of_first, touched, by_all)))


def blocks_of_l2(sample: WaveSample, l2: L2Spec) -> int:
    """How many of the last blocks of the launch touch as many lines as the L2 has, or all blocks if they touch fewer."""
    header = sample.executed.header
    lines = footprint(sample, l2.line_bytes).of_launch(header.blocks / header.recorded_blocks)
    return min(header.blocks, math.ceil(header.blocks * (l2.size_bytes // l2.line_bytes) / max(1.0, lines)))


def _sums(counted: Sequence[MissProfile]) -> dict[str, Any]:
    return {name: np.sum([getattr(each, name) for each in counted], axis=0) for name in COUNTS}


@dataclass(frozen=True)
class WaveMisses:
    """What the caches make of each measured wave, the launch's first one first, and the traffic of the stretch of blocks that it is
    in, int64 [waves, halves, kinds, 2]. The first stretch, which is a wave alone, has none. The halves are the earlier and the
    later part of the time that was simulated: of all stretches together where they follow each other, else, if they are `apart`, of
    each. `left`: the L2 behind the launch, without what only blocks between the samples have touched; unknown of stretches `apart`.
    Of these the `halves` are known of what each wave is counted in: its misses by the earlier and by the later half alone.
    """

    waves: list[MissProfile]
    traffic: Traffic
    left: L2Lines | None = None
    halves: list[tuple[MissProfile, MissProfile]] | None = None

    @property
    def apart(self) -> bool:
        """Whether each stretch was simulated apart."""
        return self.halves is not None

    def together(
        self, waves: Sequence[int] | None = None, stretches: Sequence[int] | None = None, half: int | None = None
    ) -> MissProfile:
        """The counts of all waves with the traffic of all stretches, or of those of these numbers, from 1 on; of both halves, or of
        the earlier (0) or later one (1).

        Of waves that follow each other, halves have the executions of all these waves, and the misses of an execution that the
        earlier or the later ones between the first and the last have.
        """
        every = range(1, len(self.waves) + 1)
        of_wave = self.waves if half is None or self.halves is None else [halves[half] for halves in self.halves]
        counted = [of_wave[number - 1] for number in (every if waves is None else waves)]
        found = _sums(counted)
        if half is not None and not self.apart:
            size = (len(counted) - 1) // 2
            some = _sums(counted[-1 - size : -1] if half else counted[1 : 1 + size])
            found = as_if_executed(some, found, {name: found[name] for name in EXACT})
        chosen = self.traffic[np.array(every if stretches is None else stretches) - 1]
        chosen = (chosen if half is None else chosen[:, half : half + 1]).sum(axis=(0, 1))
        return replace(counted[0], **found | traffic_measures(chosen))


def wave_misses(
    sample: WaveSample, gpu: GpuSpec, blocks_per_sm: int, *, interleaving: str, progress: Progress | None = None, warm: bool,
    carried: L2Lines | None = None, known: Known | None = None,
) -> WaveMisses:
    """What the caches of `gpu` make of the measured waves. `known`: stretches of the launch that were simulated apart before, in
    the same way; others are added.

    `carried` is the L2 at the start. Without it, `warm`: the L2 begins as the launch itself leaves it; else it begins empty. Raises
    ScatteredReuse, NotApart for a sample that is simulated apart and cannot be, and as `simulate_caches`.
    """
    simulated = partial(CacheSimulation, gpu=gpu, blocks_per_sm=blocks_per_sm, interleaving=interleaving)
    executed, room = sample.executed, gpu.l2.size_bytes // gpu.l2.line_bytes
    found = footprint(sample, gpu.l2.line_bytes)
    lines = found.of_launch(executed.header.blocks / executed.header.recorded_blocks)
    if found.is_scattered and not (warm and lines <= room and carried is None):
        raise ScatteredReuse("blocks that lie far apart share data at random")
    before, wanted = carried, room if warm else lines / 2
    if carried is not None:
        wanted = lines / 2 + np.count_nonzero((carried["valid"] != 0) | (carried["dirty"] != 0))
    elif warm and lines <= room:
        before = simulated(executed).left()
    if sample.apart:
        # where a wave's lines have room, what all blocks read is used again before others have taken its place
        has_room = found.of_wave(float(sample.start[1] / np.diff(sample.start).max())) <= room
        between = Between(found.shared, wanted) if before is None and has_room else None
        if before is None and between is None and lines <= room:
            what = "the L2 has room for what blocks before sampled waves have left in it, and it begins cold"
            raise NotApart(what, remedy="run all blocks with `exact`")
        apart = Stretches(sample, gpu, simulated, progress, between, {} if known is None else known).all(before, warm)
        halves = [each.halves for each in apart]
        return WaveMisses([each.misses for each in apart], np.stack([each.traffic for each in apart]), halves=halves)
    if warm and before is None:
        tail = np.arange(len(sample.label)) >= sample.start[-1]
        before = aged(simulated(part_of(executed, tail)).run()[1], gpu, room)  # in the order of use
    stretch = np.searchsorted(sample.start, np.arange(len(sample.label)), side="right") - 1
    trace = labelled(executed, np.where(sample.label > 0, sample.label - 1, sample.measured + stretch))
    opening = stretch == 0
    first, left = simulated(part_of(trace, opening)).run(before)
    if lines > room:  # what only the launch before has touched does not last until the launch comes to it
        forget(left, ~np.isin(left["tag"], found.first), gpu)
    # half of the launch has run before the block in its middle
    seen: dict[int, Traffic] = {}

    def observe(memory: Memory, reports: bool) -> bool:
        if not reports:
            seen[int(memory.root["next_block"])] = traffic_of(memory)
        return False

    rest = simulated(part_of(trace, ~opening), progress=progress, observer=observe)
    following, after = rest.run(aged(left, gpu, wanted))
    if lines > room:
        forget(after, ~np.isin(after["tag"], found.last), gpu)
    return WaveMisses(_each_wave(first, following, sample.measured), _each_traffic(seen, sample), after)


def _each_traffic(seen: dict[int, Traffic], sample: WaveSample) -> Traffic:
    """`WaveMisses.traffic`, from that up to some of the blocks that follow the first stretch.

    At first these blocks fill an idle GPU and are in step, as in the launch only its first ones are. What is measured before
    the first of their waves does not count.
    """
    before, blocks = int(sample.start[1]), len(sample.label)
    first_wave = int(np.flatnonzero(sample.label == 2)[0])
    marks = [each - before for each in (first_wave, *sample.start[2:].tolist(), blocks)]
    up_to = [seen[min(each for each in seen if each >= mark)] for mark in marks]
    of_stretch = np.diff([up_to[0], *up_to], axis=0)
    is_later = np.arange(len(of_stretch)) >= len(of_stretch) // 2
    return np.stack([np.where((is_later == half)[:, None, None], of_stretch, 0) for half in (False, True)], axis=1)


def _each_wave(first: MissProfile, following: MissProfile, waves: int) -> list[MissProfile]:
    """The counts of each wave, which come before those of the other blocks of each stretch; what has no counts is that of the
    second simulation.

    A wave evicts lines that others have written before, so its own write-backs say little of it. It has its share, by writes to the
    L2, of those of its stretch.
    """
    counts = {name: np.split(getattr(first, name) + getattr(following, name), 2 * waves) for name in COUNTS}

    def wave(number: int) -> MissProfile:
        own: dict[str, Any] = {name: parts[number] for name, parts in counts.items()}
        writes, others = (float(counts["l2_writes"][k].sum()) for k in (number, waves + number))
        for name in WRITE_BACKS if writes else ():
            of_stretch = counts[name][number] + counts[name][waves + number]
            own[name] = np.rint(of_stretch * (writes / (writes + others))).astype(np.int64)
        return replace(following, **own)

    return [wave(number) for number in range(waves)]

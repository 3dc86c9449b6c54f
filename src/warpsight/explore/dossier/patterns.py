"""How a warp's accesses look at each memory instruction: how many sectors, and which access is typical and which the worst."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from warpsight.trace.events import ChunkEvents, EventReader

if TYPE_CHECKING:
    from warpsight.trace.schema import KernelTrace, TraceChunk

Longs = npt.NDArray[np.int64]

TYPICAL, WORST = "typical", "worst"
_BYTE = 256


@dataclass(frozen=True)
class Access:
    """One access of a warp: instruction, warp of the trace, and how many accesses of that warp there came before.

    `sectors` in the order of lanes; `lanes` active where the basic block begins: a guard may leave fewer.
    """

    pc: int
    warp: int
    before: int
    sectors: tuple[int, ...]
    lanes: int


def histograms(trace: KernelTrace) -> tuple[Longs, Longs]:
    """Executions of each pc by sectors of device memory, and by passes through the banks of shared memory: int64 [pcs, 256]."""
    count = len(trace.instructions)
    sectors, passes = np.zeros(count * _BYTE, np.int64), np.zeros(count * _BYTE, np.int64)
    has_sectors = np.array([instruction.has_sectors for instruction in trace.instructions], np.int64)
    has_degree = np.array([instruction.has_degree for instruction in trace.instructions], np.bool_)
    reader = EventReader(trace)
    for chunk in trace.chunks:
        events = reader.read(chunk)
        sectors += np.bincount(events.pc * _BYTE + events.sectors, minlength=len(sectors))
        banks = np.flatnonzero(has_degree[events.pc])
        degree = np.asarray(chunk.events)[events.at[banks] + has_sectors[events.pc[banks]]].astype(np.int64)
        passes += np.bincount(events.pc[banks] * _BYTE + degree, minlength=len(passes))
    tables = sectors.reshape(count, _BYTE), passes.reshape(count, _BYTE)
    for table in tables:
        table[:, 0] = 0  # an access of no lane, or to the other space, is none
    return tables


def typical_and_worst(sectors: Longs) -> dict[str, Longs]:
    """Of each pc the most frequent number of sectors, the smallest of several, and the largest; 0 without an access."""
    places = np.arange(sectors.shape[1])
    return {TYPICAL: sectors.argmax(axis=1), WORST: np.where(sectors > 0, places, 0).max(axis=1)}


def examples(trace: KernelTrace, pcs: Sequence[int], counts: Longs) -> dict[int, Access]:
    """For each of `pcs` the access with `counts[pc]` sectors that is nearest to the middle of the recorded launch."""
    wanted = np.full(len(trace.instructions), -1, np.int64)
    wanted[list(pcs)] = counts[list(pcs)]
    middle, best, nearest = trace.header.warps // 2, dict[int, Access](), dict[int, int]()
    reader = EventReader(trace)
    for chunk in trace.chunks:
        events = reader.read(chunk)
        for number in _nearest(events, wanted, middle - chunk.first_warp):
            pc, warp = int(events.pc[number]), int(events.warp[number])
            distance = abs(warp + chunk.first_warp - middle)
            if pc not in best or distance < nearest[pc]:
                nearest[pc], best[pc] = distance, _access(chunk, events, number)
    return best


def _nearest(events: ChunkEvents, wanted: Longs, middle: int) -> Iterator[int]:
    """Of each pc the number of the first event with the wanted sectors of the warp that is nearest to `middle`."""
    fitting = np.flatnonzero((events.sectors > 0) & (events.sectors == wanted[events.pc]))
    order = fitting[np.lexsort((np.abs(events.warp[fitting] - middle), events.pc[fitting]))]
    _, first = np.unique(events.pc[order], return_index=True)
    yield from order[first].tolist()


def _access(chunk: TraceChunk, events: ChunkEvents, number: int) -> Access:
    pc, warp = int(events.pc[number]), int(events.warp[number])
    begin = int(np.searchsorted(events.warp, warp))
    first = int(events.first[number])
    own = np.asarray(chunk.sectors)[first : first + int(events.sectors[number])]
    before = int(np.count_nonzero(events.pc[begin:number] == pc))
    return Access(pc, warp + chunk.first_warp, before, tuple(own.tolist()), int(events.lanes[number]))

"""The accesses of a launch as the reuse-distance model takes them: per warp, coalesced, for one cache line size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import compiled_and_kept
from warpsight.base.errors import UsageError
from warpsight.caches.reuse.coalesce import numbered
from warpsight.caches.reuse.state import Stream
from warpsight.trace.schema import LOAD, SECTOR_BYTES, STORE, WARP_SIZE, KernelTrace

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AccessStream:
    """What runs: `blocks` of `warps_per_block` warps, in order.

    `stream` as in module `state`; `line_number` int64 [lines]: byte address // `line_bytes` of each dense line. `loads` counts the
    accesses of single threads. `notes` say what a reader of the results must know.
    """

    stream: Stream
    line_number: Longs
    line_bytes: int
    blocks: int
    threads_per_block: int
    warps_per_block: int
    loads: int
    pcs: int
    notes: tuple[str, ...] = ()

    @property
    def transactions(self) -> int:
        """Accesses after coalescing."""
        return len(self.stream.line)


@compiled_and_kept
def _first_of_its_line(access: Longs, lane: Longs, together: Longs, line: Longs) -> npt.NDArray[np.bool_]:
    """Which entries no earlier one of the same access has the line of, among the `together` lanes that an entry is coalesced with.

    The entries of an access stand together, in the order of lanes.
    """
    first = np.ones(len(line), np.bool_)
    begin = 0
    for i in range(len(line)):
        if access[i] != access[begin]:
            begin = i
        for k in range(begin, i):
            if line[k] == line[i] and lane[k] >= lane[i] - lane[i] % together[i]:
                first[i] = False
                break
    return first


@compiled_and_kept
def _first_of_its_group(access: Longs, lane: Longs, together: Longs) -> npt.NDArray[np.uint8]:
    """1 where a group of lanes that look up at once begins; the first entry of an access says how many lanes a group has."""
    first = np.ones(len(lane), np.uint8)
    begin = 0
    for i in range(1, len(lane)):
        if access[i] != access[begin]:
            begin = i
        else:
            first[i] = lane[i] // together[begin] != lane[i - 1] // together[begin]
    return first


def packed(
    warps: int, warp: Longs, access: Longs, lanes: tuple[Longs, Longs], line: Longs, pc: Longs
) -> tuple[Stream, Longs]:
    """The stream and its line numbers, from one entry per lane and access in the order (warp, access, lane).

    `warp` of each entry; `access` a number that grows with each access. `lanes`: the lane of each entry, and how many lanes (32, or
    fewer for wide accesses) it is coalesced with; lines of an access merge among those.
    """
    lane, together = lanes
    kept = np.flatnonzero(_first_of_its_line(access, lane, together, line))
    access, line = access[kept], line[kept]
    group = _first_of_its_group(access, lane[kept], together[kept])
    starts = np.ones(len(kept), np.bool_)
    starts[1:] = np.diff(access) != 0
    begin = np.flatnonzero(starts)
    offsets = np.append(begin, len(kept)).astype(np.int64)
    per_warp = np.searchsorted(warp[kept][begin], np.arange(warps + 1)).astype(np.int64)
    numbers, dense = numbered(line)
    return Stream(per_warp, offsets, pc[kept][begin].astype(np.int32), dense, group), numbers


def bounded_blocks(blocks: int, threads_per_block: int, most_threads: int | None) -> int:
    """How many whole blocks a bound on threads leaves, at least one."""
    if most_threads is None:
        return blocks
    if most_threads < threads_per_block:
        what = f"not one block of {threads_per_block:,} threads lies within {most_threads:,} threads"
        raise UsageError(what, place="--max-threads", remedy=f"give {threads_per_block:,} or more")
    return min(blocks, most_threads // threads_per_block)


def of_trace(trace: KernelTrace, line_bytes: int, *, stores: bool = False, most_threads: int | None = None) -> AccessStream:
    """The loads of `trace` in global, local and generic space (with `stores`, also the stores), one line request each.

    Atomics never touch the L1. Accesses of single threads: the lanes active where the basic block begins; a guard may leave fewer.
    Raises UsageError for a line that is no multiple of 32 B, or a bound below one block.
    """
    from warpsight.trace.events import EventReader

    if line_bytes < SECTOR_BYTES or line_bytes % SECTOR_BYTES:
        what = f"a trace records sectors of {SECTOR_BYTES} B, which lines of {line_bytes} B do not hold whole"
        raise UsageError(what, place="l1.line", remedy=f"give a multiple of {SECTOR_BYTES} B")
    header = trace.header
    blocks = bounded_blocks(header.recorded_blocks, header.threads_per_block, most_threads)
    warps = blocks * header.warps_per_block
    kinds = (LOAD, STORE) if stores else (LOAD,)
    wanted = np.array([i.has_sectors and i.access in kinds for i in trace.instructions], np.bool_)
    reader, loads, number = EventReader(trace), 0, 0
    parts: list[tuple[Longs, Longs, Longs, Longs]] = []
    for chunk in trace.chunks:
        if chunk.first_warp >= warps:
            break
        events = reader.read(chunk)
        keep = np.flatnonzero(wanted[events.pc] & (events.sectors > 0) & (events.warp + chunk.first_warp < warps))
        count = events.sectors[keep]
        loads += int(events.lanes[keep].sum())
        each = np.repeat(np.arange(len(keep)), count)
        at = events.first[keep][each] + np.arange(len(each)) - np.repeat(np.cumsum(count) - count, count)
        line = np.asarray(chunk.sectors)[at].astype(np.int64) // (line_bytes // SECTOR_BYTES)
        parts.append((events.warp[keep][each] + chunk.first_warp, each + number, line, events.pc[keep][each]))
        number += len(keep)
    warp, access, line, pc = (
        np.concatenate([part[k] for part in parts]) if parts else np.zeros(0, np.int64) for k in range(4)
    )
    together = np.full(len(line), WARP_SIZE)
    stream, numbers = packed(warps, warp, access, (np.zeros(len(line), np.int64), together), line, pc)
    notes = () if blocks == header.recorded_blocks else (f"the first {blocks:,} of {header.recorded_blocks:,} blocks",)
    return AccessStream(
        stream, numbers, line_bytes, blocks, header.threads_per_block, header.warps_per_block, loads, len(trace.instructions), notes
    )

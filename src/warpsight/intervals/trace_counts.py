"""From a trace to the counts of the MWP-CWP model: exact executions, coalescing by the GPU's rule."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from warpsight.addressing.coalescing import segment_bytes, transaction_rule_number, transactions_of_sectors
from warpsight.base.compiled import kept_until_changed
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.algorithm import plain
from warpsight.intervals.interval_profile import KernelCounts, LaunchTotals
from warpsight.intervals.usage import occurrences
from warpsight.traces.schema import KernelTrace

Longs = npt.NDArray[np.int64]

# Columns of the flat table of memory instructions, by basic block in pc order: bytes of its event, whether its first byte counts
# sectors, word size, segment of the rule for that size.
_BYTES, _SECTORS, _SIZE, _SEGMENT = range(4)


def trace_counts(trace: KernelTrace, gpu: GpuSpec, warps: Longs, blocks_per_sm: int) -> KernelCounts:
    """Counts of `trace` by the coalescing rule of `gpu`; `warps` int64 [paths] is the number on each path. Reads the chunks once.

    Instructions and barriers are exact. The lanes are those active at the start of the basic block: predicates matter only for
    compute capability 1.0 (see `addressing.coalescing`).
    """
    times = occurrences(trace, warps)
    barriers = [instruction.is_block_barrier for instruction in trace.instructions]
    rule = transaction_rule_number(gpu.sm.coalescing)
    starts, table = _memory_instructions(trace, gpu, rule)
    sums = np.zeros(4, dtype=np.int64)
    paths = trace.paths
    for chunk in trace.chunks:
        _count(
            plain(paths.offset, np.int64), plain(paths.block, np.int32), plain(paths.lanes, np.uint8),
            plain(paths.repeat, np.int32), starts, table, plain(chunk.path, np.int32), plain(chunk.event_offset, np.int64),
            plain(chunk.events, np.uint8), plain(chunk.sector_offset, np.int64), plain(chunk.sectors, np.uint32), rule, sums,
        )  # fmt: skip
    coalesced, uncoalesced, transactions, access_bytes = sums.astype(np.float64).tolist()
    instructions, synchronizations = float(times.sum()), float(times[barriers].sum())
    totals = LaunchTotals(instructions, coalesced, uncoalesced, transactions, access_bytes, synchronizations)
    header = trace.header
    return totals.per_warp(
        header.warps, header.blocks, header.warps_per_block, blocks_per_sm, coalescing=gpu.sm.coalescing, origin="trace"
    )


def _memory_instructions(trace: KernelTrace, gpu: GpuSpec, rule: int) -> tuple[Longs, Longs]:
    """Rows of each basic block, int64 [blocks + 1], and the rows [n, 4]."""
    rows, starts = [], [0]
    for begin, end in pairwise(trace.block_start.tolist()):
        for instruction in trace.instructions[begin:end]:
            if instruction.event_bytes:
                size = instruction.access_bytes
                segment = segment_bytes(rule, max(size, 1), gpu.l1.sector_bytes)
                rows.append((instruction.event_bytes, instruction.has_sectors, size, max(segment, 32)))
        starts.append(len(rows))
    return np.array(starts, dtype=np.int64), np.array(rows, dtype=np.int64).reshape(-1, 4)


@kept_until_changed("addressing")
def _count(
    offset: Longs, block: Longs, lanes: Longs, repeat: Longs, starts: Longs, table: Longs, path: Longs, event_offset: Longs,
    events: Longs, sector_offset: Longs, sectors: npt.NDArray[np.uint32], rule: int, sums: Longs,
) -> None:
    """Adds coalesced, uncoalesced, their transactions, and the word sizes of both to `sums` int64 [4]."""
    for warp in range(len(path)):
        event, sector = event_offset[warp], sector_offset[warp]
        for run in range(offset[path[warp]], offset[path[warp] + 1]):
            first, last = starts[block[run]], starts[block[run] + 1]
            if first == last:
                continue
            active = np.int64(lanes[run])
            for _ in range(repeat[run]):
                for row in range(first, last):
                    count = np.int64(events[event]) if table[row, _SECTORS] else np.int64(0)
                    event += table[row, _BYTES]
                    if count == 0:
                        continue
                    size = table[row, _SIZE]
                    made = transactions_of_sectors(sectors, int(sector), int(count), size, int(active), rule, table[row, _SEGMENT])
                    sector += count
                    sums[3] += size
                    if made < 0:
                        sums[0] += 1
                    else:
                        sums[1] += 1
                        sums[2] += made

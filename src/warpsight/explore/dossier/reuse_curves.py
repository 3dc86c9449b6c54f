"""How a load's hits at the L1 depend on its size: the reuse distances of each instruction, from one stack of lines for each SM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from warpsight.trace.schema import SECTOR_BYTES

if TYPE_CHECKING:
    from warpsight.gpu.spec import GpuSpec
    from warpsight.trace.schema import KernelTrace

Longs = npt.NDArray[np.int64]

MOST_REQUESTS = 4_000_000  # of the blocks that the stacks are made of: some seconds
MOST_STEPS = 40  # points of a curve
_SHARE_DIGITS = 5


def reuse_curves(
    trace: KernelTrace, gpu: GpuSpec, blocks_per_sm: int, pcs: Sequence[int], requests: int
) -> tuple[dict[int, dict[str, Any]], str]:
    """For each load of `pcs` the share of its requests that hit in LRU caches of so many lines; and what a reader must know.

    A curve has `capacities` (lines), `hit_shares` of the `requests`, and `first_uses`, which no cache helps. The stacks take loads
    alone, an SM's resident warps one access each in turn: the order of the reuse-distance model without latencies (HPCA 2014).
    `requests`: about how many the launch has; of long launches the first blocks are taken. No curve for lines that are no multiple
    of a sector, which a trace does not hold. Raises SpecError for an L1 that cannot be modelled.
    """
    from warpsight.caches.reuse import state as at
    from warpsight.caches.reuse.access_stream import of_trace
    from warpsight.caches.reuse.model import Placement, evaluate
    from warpsight.caches.reuse.settings import settings_of

    line = gpu.l1.line_bytes
    if line % SECTOR_BYTES:
        return {}, f"no reuse distances: lines of {line} B are no whole number of sectors"
    threads = _most_threads(trace, requests)
    stream = of_trace(trace, line, most_threads=threads)
    settings = settings_of(gpu.l1).off("associativity", "latency", "mshr")
    kept = evaluate(settings, stream, Placement(gpu.sm_count, blocks_per_sm), keep_all=True).misses
    order = np.argsort(kept[at.KEPT_PC], kind="stable")
    by_pc, distance = kept[at.KEPT_PC][order], kept[at.KEPT_DISTANCE][order]
    edges = np.searchsorted(by_pc, [*pcs, *(pc + 1 for pc in pcs)]).reshape(2, -1)
    own = {pc: distance[begin:end] for pc, begin, end in zip(pcs, *edges.tolist(), strict=True) if end > begin}
    return {pc: curve(values, gpu.l1.size_bytes // line) for pc, values in own.items()}, "; ".join(stream.notes)


def curve(distances: Longs, lines: int) -> dict[str, Any]:
    """The curve of reuse distances (-1: first use): where it rises (of many places at most `MOST_STEPS`), and `lines`."""
    reused = np.sort(distances[distances >= 0])
    rises, times = np.unique(reused + 1, return_counts=True)  # a distance below n hits in n lines
    if len(rises) > MOST_STEPS:
        risen = np.cumsum(times) / len(reused)
        rises = rises[np.unique(np.searchsorted(risen, np.arange(1, MOST_STEPS + 1) / MOST_STEPS).clip(max=len(rises) - 1))]
    capacities = sorted({1, lines, *rises.tolist()})
    hits = np.searchsorted(reused, capacities, side="left")
    return {
        "capacities": capacities,
        "hit_shares": [round(share, _SHARE_DIGITS) for share in (hits / len(distances)).tolist()],
        "requests": len(distances),
        "first_uses": len(distances) - len(reused),
    }


def _most_threads(trace: KernelTrace, requests: int) -> int | None:
    """A bound that leaves about `MOST_REQUESTS` of the launch's requests; None where all are few enough."""
    if requests <= MOST_REQUESTS:
        return None
    header = trace.header
    blocks = max(1, header.recorded_blocks * MOST_REQUESTS // requests)
    return blocks * header.threads_per_block

"""The result of a cache simulation: the contract between `caches/` and `intervals/`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MissProfile:
    """What a launch does in one cache hierarchy. Arrays are int64 [instructions]: counts for each pc, over all warps.

    Warp instructions of global and local memory:

    - `executions` with at least one active lane, and their 32 B `sectors`.
    - `divergent`: loads that touch more 128 B lines than 32 consecutive words can, `ceil(32 * access_bytes / 128) + 1`.
    - `slowest_l1`, `slowest_l2`, `slowest_dram`, `slowest_merged`: loads and atomics by what served their slowest request, the last
      one if the line was already on its way. `merged_wait_cycles`: the sum of what these still waited, without contention.
      `slowest_far`: those of `slowest_l2` whose data came from the other partition of the L2.

    Requests, each for one line of the L1:

    - `l1_reads` = `l1_hits` + `l1_misses` + `l1_merges` (the line is already on its way). `l1_writes` all go on to the L2.
    - `tag_cycles`: cycles in which the L1 looks up the lines of `l1_reads`, up to `l1.tag_lookups` of one load in each.
    - `l2_reads` = `l2_read_hits` + `l2_read_misses` + `l2_read_merges`. `l2_writes` = `l2_write_hits` + `l2_write_misses`.
    - `l2_far_hits`: those of the `l2_read_hits` that are in the other partition. `l2_joins`: those of the `l2_reads` that a slice
      answers together with an earlier one (`l2.merged_reads`).

    Atomics go past the L1; each of their sectors is a read and a write of the L2.

    - `atomic_repeats`: the sum over all executions of the lanes beyond the first at the address that most lanes share: a slice
      serves them one after the other. `shared_repeats`: the same of shared memory, where the load-store unit serves them.
    - `atomic_cycles`: cycles for which slices execute atomics beyond one for each sector: the longer of its bytes at
      `l2.atomic_width` and one for each lane at an address.

    Warp instructions of shared memory: `shared_executions`, and their `shared_passes`, more than the fewest with bank conflicts.

    DRAM:

    - `dram_reads`: lines that L2 misses read, and that writes fetch because they cover only a part. `dram_writes`: lines that are
      written back, counted for the pc that evicted the line, or whose write gave a set too many dirty lines.
    - `dram_read_sectors`, `dram_write_sectors`: their 32 B sectors. `dram_rows`: rows of memory banks that are opened for them,
      where the GPU's description has rows (`dram.row`).

    Numbers of the whole launch:

    - `reply_share`, `request_share`, `channel_share`, `repeat_share` (above 0, at most 1): how evenly traffic is spread at a time
      over the ports of the L2 slices to and from the SMs, over the memory channels, and repeats of atomics over the slices (module
      `exact.l2`); 1 is perfectly even.
    - `way_wait` (0 to 1): cycles for which L1s wait because all ways of a set await data, for each cycle of a miss.
    - `l2_latency_cycles`, `far_latency_cycles` (added by the other partition), `dram_latency_cycles`: the latencies with which
      accesses were ordered and `merged_wait_cycles` was measured; 0 if accesses took no time.
    """

    executions: Counts
    divergent: Counts
    sectors: Counts
    slowest_l1: Counts
    slowest_l2: Counts
    slowest_far: Counts
    slowest_dram: Counts
    l1_reads: Counts
    l1_hits: Counts
    l1_misses: Counts
    l1_merges: Counts
    l1_writes: Counts
    tag_cycles: Counts
    l2_reads: Counts
    l2_read_hits: Counts
    l2_far_hits: Counts
    l2_read_misses: Counts
    l2_read_merges: Counts
    l2_joins: Counts
    l2_writes: Counts
    l2_write_hits: Counts
    l2_write_misses: Counts
    dram_reads: Counts
    dram_writes: Counts
    dram_read_sectors: Counts
    dram_write_sectors: Counts
    dram_rows: Counts
    shared_executions: Counts
    shared_passes: Counts
    slowest_merged: Counts
    merged_wait_cycles: Counts
    atomic_repeats: Counts
    atomic_cycles: Counts
    shared_repeats: Counts
    reply_share: float
    request_share: float
    channel_share: float
    repeat_share: float
    way_wait: float = 0.0
    l2_latency_cycles: int = 0
    far_latency_cycles: int = 0
    dram_latency_cycles: int = 0

    def totals(self) -> dict[str, int]:
        """Each count summed over all pcs."""
        return {name: int(getattr(self, name).sum()) for name in COUNTS}

    def document(self) -> dict[str, Any]:
        """Every field as a JSON value."""
        return {field.name: np.asarray(getattr(self, field.name)).tolist() for field in fields(self)}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> MissProfile:
        """The inverse of `document`, without loss. Raises KeyError for a missing field."""
        counts: dict[str, Any] = {name: np.array(document[name], dtype=np.int64) for name in COUNTS}
        return cls(**counts, **{field.name: document[field.name] for field in fields(cls) if field.name not in COUNTS})

    @property
    def llc_miss_ratio(self) -> float:
        """The share of L2 accesses that go to DRAM, for MDM eq. 8; 0 if none reached the L2.

        A write that allocates without a fetch and a miss that merges into an outstanding one cost no DRAM access; a write-back
        does.
        """
        reached = int(self.l2_reads.sum() + self.l2_writes.sum())
        return int(self.dram_reads.sum() + self.dram_writes.sum()) / reached if reached else 0.0


SHARES = ("reply_share", "request_share", "channel_share", "repeat_share")
LATENCIES = ("l2_latency_cycles", "far_latency_cycles", "dram_latency_cycles")
# The fields that are counts per pc.
COUNTS = tuple(field.name for field in fields(MissProfile) if field.name not in (*SHARES, "way_wait", *LATENCIES))

"""The traffic of a launch through the memory hierarchy, for the memory chart: kernel, L1 and shared memory, L2, DRAM.

All counts are those of the whole launch. Bytes are the same as in the rooflines: 32 B sectors at the L1, what crosses the NoC at
the L2, what is read and written at DRAM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from warpsight.analysis.report_data.resources import Need
from warpsight.gpu.occupancy import with_own_l1
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.usage import conflict_passes, dram_bytes, hit_rates, l1_cycles, requests
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import ACCESSES, LOAD, SECTOR_BYTES


def memory_traffic(profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, needs: Sequence[Need]) -> dict[str, Any]:
    """The boxes of the memory chart and the links between them, those with traffic.

    `percent` is of the peak in the predicted cycles. L1 and shared memory share the load-store unit: their links' percentages, and
    those of the two boxes, add up to that of the speed of light; of the NoC, whose directions are independent, the larger one is
    its; of DRAM the sum.
    """
    links = [*_of_kernel(profiled, gpu, prediction), *_beyond_l1(profiled, gpu, prediction)]
    used = {need.name: 100.0 * need.cycles / prediction.cycles for need in needs}
    near = {name: sum(link["percent"] for link in links if name in (link["from"], link["to"]) and "instructions" in link)
            for name in ("l1", "shared")}  # fmt: skip
    l1_rate, l2_rate = hit_rates(profiled.trace.instructions, profiled.misses, range(len(profiled.trace.instructions)))
    resident, passes = profiled.occupancy, sum(link.get("passes", 0.0) for link in links)
    shared_bytes = gpu.sm.shared_memory_bytes if resident.carve_out_bytes is None else resident.carve_out_bytes
    conflicts = sum(link.get("conflict_passes", 0.0) for link in links)
    l1_bytes = with_own_l1(gpu, resident).l1.size_bytes
    boxes = [
        {"name": "kernel", "warp_instructions": profiled.trace.header.warp_instructions},
        {"name": "l1", "size_bytes": l1_bytes, "hit_rate": l1_rate, "percent": near["l1"]},
        {"name": "shared", "size_bytes": shared_bytes, "percent": near["shared"],
         "conflict_share": conflicts / passes if passes else None},
        {"name": "l2", "size_bytes": gpu.l2.size_bytes, "hit_rate": l2_rate, "percent": used["l2"]},
        {"name": "dram", "percent": used["dram"]},
    ]  # fmt: skip
    return {"boxes": boxes, "links": links}


def _of_kernel(profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction) -> list[dict[str, Any]]:
    """The links between the kernel and the L1, and shared memory, one for each kind of access."""
    trace, misses = profiled.trace, profiled.misses
    scale = trace.header.blocks / trace.header.recorded_blocks
    lines, port = requests(trace.instructions, misses), l1_cycles(trace, misses, gpu)
    conflicts = conflict_passes(trace.instructions, misses)
    # an asynchronous copy is both: its cycles are divided by what it does there
    near = misses.shared_passes / np.maximum(lines + misses.shared_passes, 1)
    links = []
    for memory, executions, share in (("l1", misses.executions, 1.0 - near), ("shared", misses.shared_executions, near)):
        for access in ACCESSES:
            # what an asynchronous copy loads from the L1 it stores to shared memory
            chosen = [pc for pc, each in enumerate(trace.instructions) if executions[pc]
                      and (ACCESSES[1] if memory == "shared" and each.is_async_copy else each.access) == access]  # fmt: skip
            if not chosen:
                continue
            ends = {"from": memory, "to": "kernel"} if access == LOAD else {"from": "kernel", "to": memory}
            cycles = float((port * share)[chosen].sum()) * scale / gpu.sm_count
            counts = {"requests": lines, "bytes": SECTOR_BYTES * misses.sectors} if memory == "l1" else {
                "passes": misses.shared_passes, "conflict_passes": conflicts}  # fmt: skip
            counted = {name: float(each[chosen].sum()) * scale for name, each in {"instructions": executions, **counts}.items()}
            links.append({**ends, "access": access, **counted, "percent": 100.0 * cycles / prediction.cycles})
    return links


def _beyond_l1(profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction) -> list[dict[str, Any]]:
    """The links over the NoC and to DRAM, each in both directions."""
    header, demands = profiled.trace.header, profiled.profile.demands
    assert demands is not None, "a profile made from a trace knows its demands"
    warps, scale = header.blocks * header.warps_per_block, header.blocks / header.recorded_blocks
    read, written = dram_bytes(profiled.misses)
    noc, dram = gpu.noc.bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s
    links = [
        ("l2", "l1", "read", demands.fetched_bytes * warps, noc),
        ("l1", "l2", "write", demands.sent_bytes * warps, noc),
        ("dram", "l2", "read", read * scale, dram),
        ("l2", "dram", "write", written * scale, dram),
    ]
    return [
        {"from": begin, "to": end, "access": access, "bytes": size, "percent": 100.0 * size / peak / prediction.seconds}
        for begin, end, access, size, peak in links if size
    ]  # fmt: skip

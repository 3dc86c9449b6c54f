"""The GPU by whose timing the cache simulation orders accesses."""

from __future__ import annotations

from dataclasses import replace

from warpsight.gpu.spec import GpuSpec


def ordered(gpu: GpuSpec) -> GpuSpec:
    """`gpu` with the timing of its `order` in place of its own: what caches are simulated with. Its geometry stays its own."""
    order = gpu.order
    l1 = replace(
        gpu.l1, mshrs=order.l1_mshrs or gpu.l1.mshrs, latency_cycles=order.l1_latency_cycles or gpu.l1.latency_cycles
    )
    l2 = replace(
        gpu.l2, mshrs=order.l2_mshrs or gpu.l2.mshrs, latency_cycles=order.l2_latency_cycles or gpu.l2.latency_cycles
    )
    noc = replace(gpu.noc, bandwidth_bytes_per_s=order.noc_bandwidth_bytes_per_s or gpu.noc.bandwidth_bytes_per_s)
    dram = replace(
        gpu.dram,
        bandwidth_bytes_per_s=order.dram_bandwidth_bytes_per_s or gpu.dram.bandwidth_bytes_per_s,
        latency_cycles=order.dram_latency_cycles or gpu.dram.latency_cycles,
    )
    return replace(gpu, core_clock_hz=order.core_clock_hz or gpu.core_clock_hz, l1=l1, l2=l2, noc=noc, dram=dram)

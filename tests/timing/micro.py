"""Micro-benchmarks of the simulator: streams made by hand, and what a GPU with round numbers makes of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import DramSpec, GpuSpec, L1Spec, L2Spec, NocSpec
from warpsight.simulator.result import Simulation
from warpsight.simulator.simulate import simulate_launch
from warpsight.traces.schema import KernelTrace

L1_LATENCY, L2_LATENCY, DRAM_LATENCY = 25, 120, 220
CHASE = ["load.global.4 r0 <- r0"]


def gpu(sm_count: int = 1, **parts: dict[str, Any]) -> GpuSpec:
    """16 KiB of L1 in 32 sets x 4 ways, 1 MiB of L2 in 4 slices, 1 GHz; `parts` change fields of l1, l2, noc, dram, sm."""
    small = small_gpu(sm_count)
    l1 = L1Spec(16384, 128, 128, 4, mshrs=32, targets=32, latency_cycles=L1_LATENCY)
    l2 = L2Spec(1 << 20, 128, 128, 8, mshrs=128, targets=32, latency_cycles=L2_LATENCY, slices=4,
                   write_policy="write-back", write_allocate=True)  # fmt: skip
    spec = dataclasses.replace(
        small, name="micro", l1=l1, l2=l2, noc=NocSpec(512e9, flit_bytes=128), dram=DramSpec(256e9, 4, DRAM_LATENCY)
    )
    return dataclasses.replace(spec, **{name: dataclasses.replace(getattr(spec, name), **fields) for name, fields in parts.items()})


def run(trace: KernelTrace, on: GpuSpec, blocks: int = 1) -> Simulation:
    """The simulation with `blocks` resident on an SM."""
    return simulate_launch(trace, on, blocks)


def loop(code: str, times: int, warps: int = 1, warps_per_block: int = 1) -> KernelTrace:
    """`warps` warps that run `code`, without global accesses, so many times."""
    return build_trace([code], [Warp(((0, 32, times),), ())] * warps, warps_per_block)


def chase(lines: list[int]) -> KernelTrace:
    """One warp, each load waits for the one before."""
    return build_trace(CHASE, [Warp(((0, 1, len(lines)),), [[128 * line] for line in lines])])


def per_step(short: Simulation, long: Simulation, steps: int) -> float:
    """Cycles of one of `steps` steps by which two runs differ."""
    return (long.cycles - short.cycles) / steps

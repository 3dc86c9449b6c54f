"""Micro-kernels for the simulator: streams made by hand, and a GPU with round numbers.

On `gpu()` a load that is issued in cycle t is at the tags of the L1 in t + 24. A hit has its data in t + 25. A miss is at the tags
of the L2 in t + 118 and has its data in t + 120 from the L2, in t + 340 from DRAM. The first instruction of a launch issues in
cycle 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.gpu.spec import DramSpec, GpuSpec, L1Spec, L2Spec, NocSpec
from warpsight.simulator.simulate import Simulation, simulate_launch
from warpsight.traces.schema import KernelTrace

L1_LATENCY, L2_LATENCY, DRAM_LATENCY = 25, 120, 220
MISS = L2_LATENCY + DRAM_LATENCY  # from the issue of a load that misses both caches to that of its consumer
FAST = {"bandwidth_bytes_per_s": 1e15}  # of a port or a bus that never delays
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


def word(line: int) -> list[int]:
    """The first word of a line, for one lane."""
    return [128 * line]


def whole(line: int) -> list[int]:
    """All words of a line, one for each lane."""
    return [128 * line + 4 * k for k in range(32)]


def issues(trace: KernelTrace, on: GpuSpec, blocks: int = 1, sm: int = 0) -> list[tuple[int, int, int]]:
    """What the SM issues, in order of time: cycle, warp and pc."""
    timeline = simulate_launch(trace, on, blocks, watch_sm=sm).timeline
    assert timeline is not None
    return list(zip(timeline.issued.tolist(), timeline.warp.tolist(), timeline.pc.tolist(), strict=True))


def cycles_of(pc: int, trace: KernelTrace, on: GpuSpec, warp: int = 0, blocks: int = 1, sm: int = 0) -> list[int]:
    """The cycles in which the warp issues `pc`."""
    return [cycle for cycle, issuer, at in issues(trace, on, blocks, sm) if (issuer, at) == (warp, pc)]


def loads_then_uses(accesses: list[list[int]], order: list[int] | None = None) -> KernelTrace:
    """One warp with an independent load for each access, then an instruction that uses each one's data, in this `order`."""
    order = list(range(len(accesses))) if order is None else order
    code = [f"load.global.4 r{k} <- q{k}" for k in range(len(accesses))] + [f"int u{k} <- r{k}" for k in order]
    return build_trace(["\n".join(code)], [Warp(((0, max(map(len, accesses)), 1),), accesses)])


def uses(accesses: list[list[int]], on: GpuSpec, order: list[int] | None = None) -> list[int]:
    """The cycles in which the uses of `loads_then_uses` issue; the k-th load issues in cycle 1 + k unless the queue is full."""
    return [cycle for cycle, _, pc in issues(loads_then_uses(accesses, order), on) if pc >= len(accesses)]

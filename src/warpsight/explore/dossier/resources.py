"""What a launch asks of each resource of a GPU: against the predicted time (speed of light), and alone (if only it bound)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from warpsight.equations import resources
from warpsight.profile.usage import occurrences, path_use

if TYPE_CHECKING:
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.gpu.spec import GpuSpec
    from warpsight.result.prediction import Prediction

LATENCY_MODEL = "mt"  # intervals and multithreading, no queue anywhere: what is left when every resource is unlimited


@dataclass(frozen=True)
class Need:
    """A resource: `amount` that the whole launch asks of it, `peak` that it gives a cycle of the whole GPU.

    `scale` and `unit` make of an amount a cycle what is shown; `equation` says how its own time follows.
    """

    name: str
    label: str
    amount: float
    peak: float
    scale: float
    unit: str
    equation: str

    @property
    def cycles(self) -> float:
        """The launch's time if this alone bound it, and were used evenly."""
        return self.amount / self.peak


def speed_of_light(needs: Sequence[Need], gpu: GpuSpec, prediction: Prediction) -> list[dict[str, Any]]:
    """For each resource its `value` and `peak` in `unit`, and `percent` of the peak over the predicted cycles.

    More than 100 is possible where a model does not know a resource: then its prediction is below what that resource allows.
    """
    rows = [
        {
            "name": need.name,
            "label": need.label,
            "value": need.amount / prediction.cycles * need.scale,
            "peak": need.peak * need.scale,
            "unit": need.unit,
            "percent": 100.0 * need.cycles / prediction.cycles,
        }
        for need in needs
    ]
    slots = gpu.sm.max_warps
    occupied = prediction.occupancy * slots
    rows.append(
        {"name": "occupancy", "label": f"occupancy, bound by {prediction.occupancy_limiter}", "value": occupied,
         "peak": float(slots), "unit": "warps/SM", "percent": 100.0 * prediction.occupancy}
    )  # fmt: skip
    return rows


def alone(needs: Sequence[Need], profiled: ProfiledTrace, gpu: GpuSpec) -> list[dict[str, Any]]:
    """The cycles of the launch if only this resource bound it; the last is latency, with every resource unlimited."""
    from warpsight.models.registry import get_model

    rows = [{"name": need.name, "label": need.label, "cycles": need.cycles, "equation": need.equation}
            for need in needs]  # fmt: skip
    latency = get_model(LATENCY_MODEL).predict(profiled.profile, gpu)
    equation = "intervals of the representative warp and multithreading (GPUMech eqs. 4-16), nothing queues"
    rows.append({"name": "latency", "label": "latency", "cycles": latency.cycles, "equation": equation})
    return rows


def needs_of(profiled: ProfiledTrace, gpu: GpuSpec) -> list[Need]:
    """What the launch asks of each resource of `gpu`, found once for `speed_of_light` and `alone`."""
    from warpsight.models.base import Design

    header, demands = profiled.trace.header, profiled.profile.demands
    assert demands is not None, "a profile made from a trace knows its demands"
    warps, design = header.blocks * header.warps_per_block, Design.of(gpu)
    even = resources.evenly_spread(demands)
    issue_peak = float(gpu.sm.schedulers * gpu.sm.issue_width * gpu.sm_count)

    def of_warp(cycles: Any) -> float:
        """Service cycles of a warp of each SM to those of the launch."""
        return float(np.max(cycles)) * warps / gpu.sm_count

    noc = max(demands.fetched_bytes, demands.sent_bytes) * warps
    slices = of_warp(resources.slice_cycles(even, design)) * gpu.l2.slices
    per_cycle = gpu.core_clock_hz / 1e9
    each_way = "bytes of the busier direction / bandwidth"
    return [
        Need("issue", "issue slots", float(header.warp_instructions), issue_peak, 1.0 / gpu.sm_count, "warp instructions/cycle/SM",
              "warp instructions / (SMs x schedulers x issue width)"),
        _units(profiled, gpu),
        Need("l1", "L1 and shared memory", demands.l1_cycles * warps, float(gpu.sm_count), 1.0 / gpu.sm_count, "requests/cycle/SM",
              "line requests, passes through the banks and atomic sectors / SMs"),
        Need("noc", "NoC", noc, gpu.noc.bandwidth_bytes_per_s / gpu.core_clock_hz, per_cycle, "GB/s", each_way),
        Need("l2", "L2 slices", slices, float(gpu.l2.slices), 1.0, "accesses/cycle", "accesses / slices, one a cycle each"),
        Need("dram", "DRAM", demands.dram_bytes * warps, gpu.dram.bandwidth_bytes_per_s / gpu.core_clock_hz, per_cycle, "GB/s",
              "bytes read and written / bandwidth"),
    ]  # fmt: skip


def _units(profiled: ProfiledTrace, gpu: GpuSpec) -> Need:
    """The functional units of the op class that keeps its own the longest."""
    trace = profiled.trace
    warps, _ = path_use(trace)
    times = occurrences(trace, warps) * (trace.header.blocks / trace.header.recorded_blocks)
    issued: dict[str, float] = {}
    for instruction in trace.instructions:
        if not instruction.access and instruction.op_class in gpu.initiation_cycles:
            issued[instruction.op_class] = issued.get(instruction.op_class, 0.0) + float(times[instruction.pc])

    def every(op_class: str) -> float:
        return max(float(gpu.initiation_cycles[op_class]), 1.0 / gpu.sm.issue_width)

    busiest = max(issued, key=lambda op_class: issued[op_class] * every(op_class), default="")
    peak = gpu.sm_count * gpu.sm.schedulers / (every(busiest) if busiest else 1.0)
    label = f"functional units ({busiest})" if busiest else "functional units"
    equation = f"{busiest or 'no'} instructions x initiation interval / (SMs x schedulers)"
    return Need("units", label, issued.get(busiest, 0.0), peak, 1.0 / gpu.sm_count, "warp instructions/cycle/SM", equation)

"""A launch's use of each resource of a GPU: in the predicted time (speed of light), as the only limit, and as rooflines.

Williams, Waterman and Patterson: Roofline, CACM 2009; by warp instructions: Ding and Williams, An instruction roofline model for
GPUs, PMBS 2019. L1 bytes count the 32 B sectors touched, L2 bytes what crosses the NoC, DRAM bytes what is read and written there.
Floating-point operations are counted by lane and opcode; a multiply-add is two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.equations import resources
from warpsight.gpu.design import Design
from warpsight.gpu.occupancy import block_limits, occupancy
from warpsight.gpu.operations import occupied, peak_flops
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.usage import lane_executions, occurrences, path_use
from warpsight.isa.matrix_products import multiply_adds
from warpsight.models.base import get_model
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.result.prediction import Prediction
from warpsight.traces.marks import marks
from warpsight.traces.schema import SECTOR_BYTES, KernelTrace

COMPUTE, MEMORY, OCCUPANCY = "compute", "memory", "occupancy"
LATENCY_MODEL = "mt"  # intervals and multithreading without queues: every resource is unlimited


@dataclass(frozen=True)
class Need:
    """A resource: the `amount` that the whole launch needs, and the `peak` of the whole GPU per cycle.

    `scale` and `unit` convert an amount per cycle for display; `equation` explains `cycles`. `group` is `COMPUTE` or `MEMORY`.
    """

    name: str
    label: str
    amount: float
    peak: float
    scale: float
    unit: str
    equation: str
    group: str

    @property
    def cycles(self) -> float:
        """The launch's time if this were the only limit, and were used evenly."""
        return self.amount / self.peak


def speed_of_light(needs: Sequence[Need], gpu: GpuSpec, prediction: Prediction) -> list[dict[str, Any]]:
    """For each resource its `value` and `peak` in `unit`, and `percent` of the peak over the predicted cycles.

    `group` is `COMPUTE`, `MEMORY`, or `OCCUPANCY` for the last row.

    More than 100 is possible if a model ignores a resource: its prediction is then faster than the resource allows.
    """
    rows = [
        {
            "name": need.name,
            "label": need.label,
            "group": need.group,
            "value": need.amount / prediction.cycles * need.scale,
            "peak": need.peak * need.scale,
            "unit": need.unit,
            "percent": 100.0 * need.cycles / prediction.cycles,
        }
        for need in needs
    ]
    slots = gpu.sm.max_warps
    occupied = prediction.occupancy * slots
    last = {"name": "occupancy", "label": f"occupancy, limited by {prediction.occupancy_limiter}", "group": OCCUPANCY,
            "value": occupied, "peak": float(slots), "unit": "warps/SM", "percent": 100.0 * prediction.occupancy}  # fmt: skip
    return [*rows, last]


def alone(needs: Sequence[Need], profiled: ProfiledTrace, gpu: GpuSpec) -> list[dict[str, Any]]:
    """The cycles of the launch with each resource as the only limit; the last row is latency, with every resource unlimited."""
    rows = [{"name": need.name, "label": need.label, "cycles": need.cycles, "equation": need.equation} for need in needs]
    latency = get_model(LATENCY_MODEL).predict(profiled.profile, gpu)
    equation = "intervals of the representative warp and multithreading (GPUMech eqs. 4-16), without queueing"
    rows.append({"name": "latency", "label": "latency", "cycles": latency.cycles, "equation": equation})
    return rows


def needs_of(profiled: ProfiledTrace, gpu: GpuSpec) -> list[Need]:
    """The launch's need of each resource of `gpu`, for `speed_of_light` and `alone`."""
    header, demands = profiled.trace.header, profiled.profile.demands
    assert demands is not None, "a profile made from a trace knows its demands"
    warps, design = header.blocks * header.warps_per_block, Design.of(gpu)
    even = resources.evenly_spread(demands)
    issue_peak = float(gpu.sm.schedulers * gpu.sm.issue_width * gpu.sm_count)

    def of_warp(cycles: Any) -> float:
        """Service cycles of the launch, from those of a warp of each SM."""
        return float(np.max(cycles)) * warps / gpu.sm_count

    noc = max(demands.fetched_bytes, demands.sent_bytes) * warps
    slices = of_warp(resources.slice_cycles(even, design)) * gpu.l2.slices
    per_cycle = gpu.core_clock_hz / 1e9
    each_way = "bytes of the busier direction / bandwidth"
    return [
        Need("issue", "issue slots", float(header.warp_instructions), issue_peak, 1.0 / gpu.sm_count, "warp inst/cycle/SM",
              "warp instructions / (SMs x schedulers x issue width)", COMPUTE),
        _units(profiled, gpu),
        Need("l1", "L1 and shared memory", demands.l1_cycles * warps, float(gpu.sm_count), 1.0 / gpu.sm_count, "requests/cycle/SM",
              "line requests, passes through the banks and atomic sectors / SMs", MEMORY),
        Need("noc", "NoC", noc, gpu.noc.bandwidth_bytes_per_s / gpu.core_clock_hz, per_cycle, "GB/s", each_way,
             MEMORY),
        Need("l2", "L2 slices", slices, float(gpu.l2.slices), 1.0, "accesses/cycle", "accesses / slices, one per cycle each",
             MEMORY),
        Need("dram", "DRAM", demands.dram_bytes * warps, gpu.dram.bandwidth_bytes_per_s / gpu.core_clock_hz, per_cycle, "GB/s",
              "bytes read and written / bandwidth", MEMORY),
    ]  # fmt: skip


def _units(profiled: ProfiledTrace, gpu: GpuSpec) -> Need:
    """The functional units of the op class with the most service cycles."""
    trace = profiled.trace
    warps, _ = path_use(trace)
    times = occurrences(trace, warps) * (trace.header.blocks / trace.header.recorded_blocks)
    issued: dict[str, float] = {}
    busy: dict[str, float] = {}
    for instruction in trace.instructions:
        op_class, count = instruction.op_class, float(times[instruction.pc])
        if count and not instruction.access and op_class in gpu.initiation_cycles:
            pipes = gpu.sm.schedulers if instruction.uses_tensor_memory else 1
            every = max(float(pipes * occupied(gpu, op_class, instruction.product)[0][1]), 1.0 / gpu.sm.issue_width)
            issued[op_class] = issued.get(op_class, 0.0) + count
            busy[op_class] = busy.get(op_class, 0.0) + count * every
    busiest = max(busy, key=lambda op_class: busy[op_class], default="")
    peak = gpu.sm_count * gpu.sm.schedulers * (issued[busiest] / busy[busiest] if busiest else 1.0)
    label = f"functional units ({busiest})" if busiest else "functional units"
    equation = f"{busiest or 'no'} instructions x initiation interval / (SMs x schedulers)"
    return Need("units", label, issued.get(busiest, 0.0), peak, 1.0 / gpu.sm_count, "warp inst/cycle/SM", equation, COMPUTE)


# -- Occupancy: what limits it, and how it changes with the size of a block and with what a block takes.

def occupancy_limits(profiled: ProfiledTrace, gpu: GpuSpec) -> dict[str, Any]:
    """The launch's residency, the blocks that each resource allows, and three curves of resident warps.

    A curve changes one of `threads`, `registers` and `shared_bytes` and leaves the others. Its `steps` are pairs (value, resident
    warps from that value on), up to `most`; no warps where a block does not fit. `own` is the launch's value.
    """
    header, resident, sm = profiled.trace.header, profiled.occupancy, gpu.sm
    shared = header.static_shared_bytes + header.dynamic_shared_bytes
    own = {"threads": header.threads_per_block, "registers": header.registers_per_thread, "shared_bytes": shared}
    most_shared = sm.max_shared_memory_per_block_bytes or sm.shared_memory_bytes
    unit, reserved = sm.shared_memory_unit_bytes, sm.shared_memory_reserved_bytes
    # the values from which on another warp, register or unit of shared memory is taken
    values = {
        "threads": range(1, sm.max_threads_per_block + 1, WARP),
        "registers": range(1, sm.max_registers_per_thread + 1),
        "shared_bytes": [0, *(start for start in range(1 - reserved % unit, most_shared + 1, unit) if start > 0)],
    }
    most = {"threads": sm.max_threads_per_block, "registers": sm.max_registers_per_thread, "shared_bytes": most_shared}
    return {
        "blocks_per_sm": resident.blocks_per_sm,
        "warps_per_sm": resident.warps_per_sm,
        "max_warps": sm.max_warps,
        "limiter": resident.limiter,
        "limits": block_limits(gpu, *own.values()),
        "curves": [
            {"name": name, "own": own[name], "most": most[name], "steps": _steps(gpu, own, name, starts)}
            for name, starts in values.items()
        ],
    }


def _steps(gpu: GpuSpec, own: Mapping[str, int], name: str, starts: Iterable[int]) -> list[list[int]]:
    steps: list[list[int]] = []
    for start in starts:
        threads, registers, shared = {**own, name: start}.values()
        try:
            warps = occupancy(gpu, threads, registers, shared).warps_per_sm
        except UsageError:  # the block does not fit
            warps = 0
        if not steps or warps != steps[-1][1]:
            steps.append([start, warps])
    return steps


# -- Floating-point operations of a launch, counted by lane and opcode; a multiply-add is two.

# Operations per lane by the opcode's first word, PTX and SASS; other words are not floating-point arithmetic.
_PTX = {"add": 1, "sub": 1, "mul": 1, "fma": 2, "mad": 2, "div": 1, "rcp": 1, "sqrt": 1, "rsqrt": 1, "sin": 1, "cos": 1, "ex2": 1,
        "lg2": 1, "tanh": 1}  # fmt: skip
_SASS = {"FADD": 1, "FMUL": 1, "FFMA": 2, "FADD32I": 1, "FMUL32I": 1, "FFMA32I": 2, "DADD": 1, "DMUL": 1, "DFMA": 2, "HADD2": 2,
         "HMUL2": 2, "HFMA2": 4, "MUFU": 1}  # fmt: skip
_PTX_TYPES = {"f32": ("fp32", 1), "f64": ("fp64", 1), "f16": ("fp16", 1), "bf16": ("fp16", 1), "f16x2": ("fp16", 2),
              "bf16x2": ("fp16", 2), "f32x2": ("fp32", 2)}  # fmt: skip
_PRODUCTS, _SASS_PRODUCTS = ("mma", "wmma", "wgmma"), ("HMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "QGMMA")  # of floats
_TILE = re.compile(r"(?i)\.?m(\d+)n(\d+)k(\d+)")
WARP = 32


def operations(opcode: str) -> tuple[str, float]:
    """The precision (fp64, fp32, fp16, tensor; "" for none) and the operations of one lane of an instruction.

    The multiply-adds of a matrix product are shared by the 32 lanes of its warp; those of a warp group by its four warps before.
    """
    words = opcode.split(".")
    root = words[0]
    if root in _PRODUCTS:
        whole_numbers = {"s32", "s8", "u8", "s4", "u4", "b1"} & set(words)
        if _TILE.search(opcode) is None or whole_numbers or words[1] in ("load", "store"):
            return "", 0.0
    if root in _PRODUCTS or root in _SASS_PRODUCTS:
        return "tensor", 2.0 * multiply_adds(opcode) / WARP
    if root in _SASS:
        precision = {"D": "fp64", "H": "fp16"}.get(root[0], "fp32")
        return ("fp64" if words[-1].endswith("64H") else precision), float(_SASS[root])
    if root in _PTX:
        for word in reversed(words[1:]):
            if word in _PTX_TYPES:
                precision, vector = _PTX_TYPES[word]
                return precision, float(_PTX[root] * vector)
    return "", 0.0


def flops(trace: KernelTrace) -> dict[str, float]:
    """Operations of the whole launch by precision, with the lanes active at the entry of each basic block."""
    lanes = lane_executions(trace, path_use(trace)[0])
    scale = trace.header.blocks / trace.header.recorded_blocks
    counts: dict[str, float] = {}
    for instruction in trace.instructions:
        precision, each = operations(instruction.opcode)
        if each:
            counts[precision] = counts.get(precision, 0.0) + each * float(lanes[instruction.pc]) * scale
    return {precision: count for precision, count in counts.items() if count}


# -- The roofline of a launch: its work per byte at L1, L2 and DRAM, and the GPU's limit for that.

def rooflines(profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction) -> list[dict[str, Any]]:
    """A roofline by warp instructions and, if the kernel has floating-point arithmetic, one by operations.

    Each has the `unit` of work, compute `ceilings` [{name, per_s}], `levels` [{name, bytes, bytes_per_s}] with the launch's bytes
    and the level's bandwidth, the `work` of the launch, and the predicted `per_s`. A level without traffic is left
    out; without any level there is no roofline.
    """
    levels, header = _levels(profiled, gpu), profiled.trace.header
    if not levels:
        return []
    issue = gpu.sm_count * gpu.sm.schedulers * gpu.sm.issue_width * gpu.core_clock_hz
    instructions = float(header.warp_instructions)

    def roofline(unit: str, work: float, ceilings: list[dict[str, Any]]) -> dict[str, Any]:
        return {"unit": unit, "work": work, "per_s": work / prediction.seconds, "ceilings": ceilings, "levels": levels}

    drawn = [roofline("warp instructions", instructions, [{"name": "issue", "per_s": issue}])]
    counted = flops(profiled.trace)
    ceilings = [{"name": name, "per_s": peak_flops(gpu, name)} for name in counted if name in gpu.initiation_cycles]
    if ceilings:
        drawn.append(roofline("floating-point operations", sum(counted.values()), ceilings))
    return drawn


def _levels(profiled: ProfiledTrace, gpu: GpuSpec) -> list[dict[str, Any]]:
    trace, misses, demands = profiled.trace, profiled.misses, profiled.profile.demands
    assert demands is not None, "a profile made from a trace knows its demands"
    header = trace.header
    warps, scale = header.blocks * header.warps_per_block, header.blocks / header.recorded_blocks
    # atomics bypass the L1
    touched = float(misses.sectors[~marks(trace.instructions).atomic].sum()) * SECTOR_BYTES * scale
    levels = [
        {"name": "L1", "bytes": touched, "bytes_per_s": gpu.sm_count * gpu.l1.line_bytes * gpu.core_clock_hz},
        {"name": "L2", "bytes": (demands.fetched_bytes + demands.sent_bytes) * warps, "bytes_per_s": gpu.noc.bandwidth_bytes_per_s},
        {"name": "DRAM", "bytes": demands.dram_bytes * warps, "bytes_per_s": gpu.dram.bandwidth_bytes_per_s},
    ]
    return [level for level in levels if level["bytes"]]

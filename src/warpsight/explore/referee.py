"""A kernel through the referee, answered in the form of a prediction (model `referee`)."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from warpsight.explore.request import Method
from warpsight.explore.watch import Watch, stage

if TYPE_CHECKING:
    from warpsight.gpu.occupancy import Occupancy
    from warpsight.gpu.spec import GpuSpec
    from warpsight.result.prediction import Prediction
    from warpsight.timing.result import Simulation
    from warpsight.trace.schema import KernelTrace

NAME = "referee"


@dataclass(frozen=True)
class Refereed:
    """A simulation, and the same as a prediction document: its keys, with the details under `provenance["model"]`."""

    simulation: Simulation
    prediction: Prediction


def simulate_trace(
    trace: KernelTrace,
    gpu: GpuSpec,
    *,
    resident: Occupancy | None = None,
    max_cycles: int | None = None,
    watch_sm: int | None = None,
    watch: Watch | None = None,
) -> Refereed:
    """Simulate `trace` on `gpu`. `resident` replaces the residency that the launch would have. Errors as `simulate_launch`."""
    from warpsight.explore.pipeline import trace_occupancy
    from warpsight.timing.simulate import DEFAULT_MAX_CYCLES, simulate_launch

    found = resident or trace_occupancy(trace, gpu)
    progress = stage(watch, "simulating cycle by cycle")
    started = perf_counter()
    limit = DEFAULT_MAX_CYCLES if max_cycles is None else max_cycles
    simulation = simulate_launch(trace, gpu, found.blocks_per_sm, max_cycles=limit, watch_sm=watch_sm, progress=progress)
    return Refereed(simulation, _prediction(trace, gpu, found, simulation, perf_counter() - started))


def _prediction(trace: KernelTrace, gpu: GpuSpec, found: Occupancy, simulation: Simulation, seconds: float) -> Prediction:
    from warpsight.explore.provenance import of_trace
    from warpsight.result.cpi_stack import bound_by, memory_class
    from warpsight.result.prediction import Prediction

    header, totals = trace.header, simulation.totals()
    # of a sample, the launch is as many times longer as it has blocks more
    cycles = simulation.cycles * (header.blocks / header.recorded_blocks)
    stack = simulation.components(gpu.sm.schedulers, gpu.sm_count)
    ipc_gpu = simulation.warp_instructions / simulation.cycles
    dpki = 1000.0 * totals["divergent"] / simulation.warp_instructions
    provenance = of_trace(trace, gpu, Method(), ())
    provenance["method"] = {"simulator": NAME}
    provenance["notes"] += _notes(gpu)
    provenance["model"] = {**_details(simulation, totals, gpu), "simulation_seconds": seconds}
    return Prediction(
        kernel=header.kernel,
        gpu=gpu.name,
        model=NAME,
        cycles=float(cycles),
        seconds=cycles / gpu.core_clock_hz,
        warp_instructions=header.warp_instructions,
        ipc_sm_warp=ipc_gpu / gpu.sm_count,
        ipc_gpu_warp=ipc_gpu,
        ipc_gpu_thread=ipc_gpu * header.thread_instructions / header.warp_instructions,
        cpi=gpu.sm_count / ipc_gpu,
        cpi_stack=stack,
        bound_by=bound_by(stack),
        dpki=dpki,
        memory_class=memory_class(dpki),
        occupancy=found.fraction,
        occupancy_limiter=found.limiter,
        provenance=provenance,
    )


def _notes(gpu: GpuSpec) -> list[str]:
    """What a reader must know of this machine: caches so small that they bound the misses in flight."""
    found = []
    for name, cache in (("L1", gpu.l1), ("L2 slice", gpu.l2)):
        lines = cache.sets * cache.ways
        if lines < cache.mshrs and cache.allocation == "on-miss":
            what = f"{name} of {lines} line{'s' if lines > 1 else ''}"
            found.append(f"an {what} lets so many misses be in flight, fewer than its {cache.mshrs} MSHRs (a miss takes a line)")
    return found


def _details(simulation: Simulation, totals: dict[str, int], gpu: GpuSpec) -> dict[str, Any]:
    """What a simulation knows beyond a prediction's keys."""
    def rate(part: str, whole: str) -> float | None:
        return totals[part] / totals[whole] if totals[whole] else None

    slots = gpu.sm.max_warps * gpu.sm_count
    return {
        "l1_miss_latency": simulation.miss_latency,
        "l1_read_hit_rate": rate("l1_hits", "l1_reads"),
        "l2_read_hit_rate": rate("l2_read_hits", "l2_reads"),
        "counts": totals,
        "over_time": [
            {"cycle": sample.cycle, "occupancy": sample.resident_warps / slots, "warp_instructions": sample.issued}
            for sample in simulation.samples
        ],
    }

"""A kernel in the cycle-level simulator: the result in the form of a prediction, and the timeline of the warps of one SM."""

from __future__ import annotations

import json
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.base.outputs import written_whole
from warpsight.base.progress import Watch, stage, step
from warpsight.equations.resources import grid_cycles_of
from warpsight.gpu.occupancy import Occupancy, with_own_l1
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.caches_before import at_start, check_carried, launch_before, notes_on
from warpsight.pipeline.evaluate import trace_occupancy
from warpsight.pipeline.predict import check_repeats, repeated
from warpsight.pipeline.provenance import trace_provenance
from warpsight.pipeline.request import AUTO, CARRIED, COLD, DEFAULT_METHOD, WARM, Method
from warpsight.result.prediction import Prediction, bound_by, memory_class
from warpsight.simulator.simulate import DEFAULT_MAX_CYCLES, Simulation, Timeline, simulate_launch
from warpsight.traces.schema import KernelTrace

NAME = "simulator"
Lines = npt.NDArray[Any]


@dataclass(frozen=True)
class SimulatedLaunch:
    """A simulation, and the same in the form of a prediction, with the details under `provenance["model"]`."""

    simulation: Simulation
    prediction: Prediction


def simulate_trace(
    trace: KernelTrace, gpu: GpuSpec, *, resident: Occupancy | None = None, max_cycles: int | None = None,
    watch_sm: int | None = None, caches_before: str = DEFAULT_METHOD.caches_before, l2_before: Lines | None = None,
    watch: Watch | None = None,
) -> SimulatedLaunch:
    """Simulate `trace` on `gpu`. `resident` replaces the residency that the launch would have; `caches_before` as in `Method`, and
    with state `program` the L2 holds `l2_before`.

    Errors as `simulate_launch`, and UsageError for an unknown state of the caches.
    """
    state = at_start(caches_before, gpu, trace)
    check_carried(state, l2_before)
    before = launch_before(caches_before, gpu, watch)
    occupancy = resident or trace_occupancy(trace, gpu)
    machine = with_own_l1(gpu, occupancy)
    progress = stage(watch, "simulating cycle by cycle")
    limit = DEFAULT_MAX_CYCLES if max_cycles is None else max_cycles
    started = perf_counter()
    if before is not None:
        of_before = trace_occupancy(before, gpu)
        own = with_own_l1(gpu, of_before)
        l2_before = simulate_launch(before, own, of_before.blocks_per_sm, max_cycles=limit, progress=progress).l2_left
    with step(f"simulate {trace.header.kernel} on {gpu.name} cycle by cycle"):
        simulation = simulate_launch(
            trace, machine, occupancy.blocks_per_sm, max_cycles=limit, watch_sm=watch_sm, progress=progress, warm=state == WARM,
            l2_before=l2_before,
        )
    prediction = _as_prediction(trace, machine, occupancy, simulation, perf_counter() - started)
    prediction.provenance["method"]["caches_before"] = state
    prediction.provenance["notes"][:0] = notes_on(caches_before, gpu, trace)
    return SimulatedLaunch(simulation, prediction)


def simulate_repeated(
    trace: KernelTrace, gpu: GpuSpec, times: int, *, max_cycles: int | None = None,
    caches_before: str = DEFAULT_METHOD.caches_before, watch: Watch | None = None,
) -> list[Prediction]:
    """`times` launches back to back, as `pipeline.predict.over_repeats` gives them; two of them are simulated."""
    check_repeats(times)
    state = COLD if caches_before == AUTO else caches_before
    first = simulate_trace(trace, gpu, max_cycles=max_cycles, caches_before=state, watch=watch)
    if times == 1:
        return repeated([first.prediction], [first.prediction], times)
    left = first.simulation.l2_left
    second = simulate_trace(trace, gpu, max_cycles=max_cycles, caches_before=CARRIED, l2_before=left, watch=watch).prediction
    second.provenance["method"]["caches_before"] = WARM
    return repeated([first.prediction], [second], times)


def simulation_document(
    trace: KernelTrace, gpu: GpuSpec, max_cycles: int | None = None, caches_before: str = DEFAULT_METHOD.caches_before
) -> dict[str, Any]:
    """What is kept of a simulation of `trace` on `gpu`: the keys of its prediction, its details without those over time,
    `warps_per_sm` and `simulation_seconds`. Raises as `simulate_trace`.
    """
    resident = trace_occupancy(trace, gpu)
    prediction = simulate_trace(trace, gpu, resident=resident, max_cycles=max_cycles, caches_before=caches_before).prediction
    details = {name: value for name, value in prediction.provenance["model"].items() if name != "over_time"}
    return {**prediction.to_json(), "provenance": None, **details, "warps_per_sm": resident.warps_per_sm}


def _as_prediction(trace: KernelTrace, gpu: GpuSpec, occupancy: Occupancy, simulation: Simulation, seconds: float) -> Prediction:
    header, totals = trace.header, simulation.totals()
    # a sample of the blocks is scaled to the launch, but a grid begins and ends once, and so its first warps find no parameters
    scaled = simulation.cycles * (header.blocks / header.recorded_blocks)
    fixed = grid_cycles_of(gpu, trace.uses_memory)
    cycles = scaled + fixed
    stack = simulation.components(gpu.sm.schedulers, gpu.sm_count)
    cpi = gpu.sm_count * simulation.cycles / simulation.warp_instructions
    stack["launch"] += cpi * fixed / scaled
    ipc_gpu = simulation.warp_instructions / simulation.cycles * (scaled / cycles)
    dpki = 1000.0 * totals["divergent"] / simulation.warp_instructions
    provenance = trace_provenance(trace, gpu, Method(caches_before=COLD), ())
    provenance["method"] = {"simulator": NAME}
    provenance["notes"] += _notes(gpu)
    provenance["model"] = {**_details(simulation, totals, gpu), "simulation_seconds": seconds}
    return Prediction(
        kernel=header.kernel, gpu=gpu.name, model=NAME, cycles=float(cycles), seconds=cycles / gpu.core_clock_hz,
        warp_instructions=header.warp_instructions, ipc_sm_warp=ipc_gpu / gpu.sm_count, ipc_gpu_warp=ipc_gpu,
        ipc_gpu_thread=ipc_gpu * header.thread_instructions / header.warp_instructions, cpi=gpu.sm_count / ipc_gpu,
        cpi_stack=stack, bound_by=bound_by(stack), dpki=dpki, memory_class=memory_class(dpki),
        occupancy=occupancy.fraction, occupancy_limiter=occupancy.limiter, provenance=provenance,
    )


def _notes(gpu: GpuSpec) -> list[str]:
    """Notes on the machine: caches so small that they bound the misses in flight."""
    notes = []
    for name, cache, on_miss in (("L1", gpu.l1, gpu.l1.allocation == "on-miss"), ("L2 slice", gpu.l2, True)):
        lines = cache.sets * cache.ways
        if lines < cache.mshrs and on_miss:
            size = f"{name} of {lines} line{'s' if lines > 1 else ''}"
            notes.append(f"an {size} limits the misses in flight to fewer than its {cache.mshrs} MSHRs (each takes a line)")
    return notes


def _details(simulation: Simulation, totals: dict[str, int], gpu: GpuSpec) -> dict[str, Any]:
    """What a simulation has beyond the keys of a prediction."""
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


# -- The timeline of one SM as a file for Perfetto (Chrome's trace event format; a cycle is shown as a microsecond).

_WAITS = ("start", "arithmetic", "memory", "barrier", "fetch")


def timeline_events(trace: KernelTrace, timeline: Timeline) -> list[dict[str, Any]]:
    """The events: for each warp slot a row with its warps, what they waited for, and the instructions that they issued."""
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": timeline.sm, "name": "process_name", "args": {"name": f"SM {timeline.sm}: {trace.header.kernel}"}}
    ]
    last: dict[int, tuple[int, int]] = {}
    columns = (timeline.issued, timeline.slot, timeline.warp, timeline.pc, timeline.ready, timeline.cause)
    for issued, slot, warp, pc, ready, cause in zip(*(column.tolist() for column in columns), strict=True):
        if slot not in last:
            args = {"name": f"warp slot {slot}"}
            events.append({"ph": "M", "pid": timeline.sm, "tid": slot, "name": "thread_name", "args": args})
        before, resident = last.get(slot, (issued - 1, -1))
        row = {"ph": "X", "pid": timeline.sm, "tid": slot}
        if resident == warp:
            eligible = max(before + 1, min(ready, issued))
            if eligible > before + 1:
                events.append({**row, "name": f"waits: {_WAITS[cause]}", "ts": before + 1, "dur": eligible - before - 1})
            if issued > eligible:
                events.append({**row, "name": "eligible", "ts": eligible, "dur": issued - eligible})
        instruction = trace.instructions[pc]
        args = {"warp": warp, "pc": pc, "line": f"{instruction.file}:{instruction.line}"}
        events.append({**row, "name": instruction.opcode, "ts": issued, "dur": 1, "args": args})
        last[slot] = (issued, warp)
    return events


def write_timeline(path: str, trace: KernelTrace, timeline: Timeline) -> None:
    """Write the timeline as JSON. Raises UsageError if the file cannot be written."""
    notes = {"truncated": timeline.truncated, "unit": "1 us is 1 core cycle"}
    try:
        with written_whole(path) as temporary, temporary.open("w", encoding="utf-8") as file:
            json.dump({"traceEvents": timeline_events(trace, timeline), "otherData": notes}, file)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", place=path, remedy="give another file") from error

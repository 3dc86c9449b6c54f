"""Checks of what models assume of resources: that they never limit, that traffic spreads over all parts of them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from warpsight.base.format import percent, thousands, three_digits
from warpsight.equations import resources
from warpsight.explore.dossier.strain import Figure, Strained, check
from warpsight.models.base import Design
from warpsight.profile.requests import atomics

# With random arrivals and service, a queue's wait is as long as the service from this load on (M/M/1).
_HALF = 0.5
_QUEUE = "from half of its peak on, a wait in a queue is as long as the service itself (M/M/1)"
_TENTH = "about a tenth of the cycles is what the best models are wrong by anyway"


def _load(name: str, case: Strained) -> Figure:
    row = case.speed[name]
    used = f"{three_digits(row['value'])} of {three_digits(row['peak'])} {row['unit']}"
    return Figure(row["percent"] / 100, f"{row['label']}: {used}")


for _key, _name, _what in (
    ("units", "units", "The functional units never limit."),
    ("l1-port", "l1", "The load-store unit takes any number of requests."),
    ("noc-load", "noc", "The network carries any number of requests at a time."),
    ("dram-load", "dram", "DRAM serves any number of requests at a time."),
):
    check(_key, _what, "its use over its peak, in the predicted time", _HALF, _QUEUE)(partial(_load, _name))


@check(
    "peak",
    "No resource gives more than its peak.",
    "the largest use of a resource over its peak, in the predicted time",
    1.005,
    "what is above the peak cannot be: the model does not know this limit, and gives too few cycles (half a per cent is rounding)",
    always=True,
)
def _peak(case: Strained) -> Figure:
    resource = max((name for name in case.speed if name != "occupancy"), key=lambda name: float(case.speed[name]["percent"]))
    return _load(resource, case)


@check(
    "latency-hidden",
    "There are always warps enough to hide latency.",
    "cycles that latencies alone take, every resource unlimited, over the predicted ones",
    1.0,
    "the launch cannot be faster than its latencies with all the multithreading that there is",
)
def _latency(case: Strained) -> Figure:
    cycles = float(case.alone["latency"]["cycles"])
    return Figure(cycles / case.prediction.cycles, f"{thousands(cycles)} cycles by GPUMech's multithreading alone")


@check(
    "bank-conflicts",
    "A shared-memory access passes the banks once.",
    "cycles of the further passes, over the predicted ones",
    0.05,
    "the load-store unit does nothing else in these cycles; at one in twenty they show",
)
def _conflicts(case: Strained) -> Figure | None:
    misses, header = case.profiled.misses, case.profiled.trace.header
    executed, passes = float(misses.shared_executions.sum()), float(misses.shared_passes.sum())
    if executed == 0:
        return None
    further = (passes - executed) * header.blocks / header.recorded_blocks / case.gpu.sm_count
    return Figure(max(further, 0.0) / case.prediction.cycles, f"{three_digits(passes / executed)} passes an access")


@check(
    "atomics",
    "Lanes whose atomics share an address do not wait for each other.",
    "cycles of the L2 slices for the further lanes, over the predicted ones",
    0.1,
    _TENTH,
)
def _atomics(case: Strained) -> Figure | None:
    if not atomics(case.profiled.trace.instructions).any():
        return None
    demands, slices = case.demands, case.gpu.l2.slices
    repeats = demands.atomic_repeats * case.warps
    return Figure(repeats / (slices * demands.repeat_share) / case.prediction.cycles, f"{thousands(repeats)} further lanes at "
                  f"{percent(demands.repeat_share)} of {slices} slices")  # fmt: skip


@check(
    "spread-noc",
    "Traffic spreads evenly over the L2 slices.",
    "what the slices' ports take longer for its being uneven, over the predicted cycles",
    0.1,
    _TENTH,
)
def _spread_noc(case: Strained) -> Figure:
    design, demands = Design.of(case.gpu), case.demands
    # atomics' repeats have a check of their own
    uneven, even = (
        max(case.over_prediction(resources.noc_cycles(each, design)), case.over_prediction(resources.slice_cycles(each, design)))
        for each in (replace(demands, repeat_share=1.0), resources.evenly_spread(demands))
    )
    return Figure(uneven - even, f"at a time {percent(demands.reply_share)} of the ports to the SMs and "
                  f"{percent(demands.request_share)} of those from them are busy")  # fmt: skip


@check(
    "spread-dram",
    "Traffic spreads evenly over the memory channels.",
    "what the channels take longer for its being uneven, over the predicted cycles",
    0.1,
    _TENTH,
)
def _spread_dram(case: Strained) -> Figure:
    design, demands = Design.of(case.gpu), case.demands
    uneven, even = (resources.dram_cycles(each, design) for each in (demands, resources.evenly_spread(demands)))
    return Figure(case.over_prediction(np.asarray(uneven - even)), f"at a time {percent(demands.channel_share)} of "
                  f"{case.gpu.dram.channels} channels are busy")  # fmt: skip


@check(
    "caches-hit",
    "Every memory instruction goes to DRAM.",
    "requests that L1 or L2 serve, of all reads",
    0.1,
    "each of them is charged DRAM's latency and bandwidth, which it does not take",
)
def _caches(case: Strained) -> Figure | None:
    misses = case.profiled.misses
    reads = ~atomics(case.profiled.trace.instructions)
    requests, missed = float(misses.l1_reads[reads].sum()), float(misses.l1_misses[reads].sum())
    if requests == 0:
        return None
    beyond = float((misses.l2_read_misses + misses.l2_read_merges)[reads].sum())
    served = 1 - min(beyond / requests, 1.0)
    told = f"of {thousands(requests)} line requests {thousands(missed)} miss in the L1 and {thousands(beyond)} in the L2"
    return Figure(served, told)

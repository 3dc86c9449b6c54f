"""The baseline: the largest bound of a single resource, without latencies."""

from __future__ import annotations

import numpy as np

from warpsight.equations import resources
from warpsight.gpu.design import Design
from warpsight.intervals.interval_profile import Floats, IntervalProfile
from warpsight.models.base import MODELS, About, Model
from warpsight.models.interval_model import IDLE, launch_answer, residency, waves_of, with_launch

_LARGEST = "({what}, of a warp, - its issue cycles) / its instructions, where it is the largest of com_struct, noc and dram; else 0"




class Bottleneck(Model):
    """The service time of the busiest resource for the whole launch. It is a lower bound of the time, except that the imbalance of
    the blocks does not delay a shared resource in full. Every model with latencies must be more accurate than this one.
    """

    name = "bottleneck"
    title = "Bottleneck: the largest bound of a single resource"
    source = "the bottleneck law (Denning and Buzen, The operational analysis of queueing network models, 1978)"
    needs = frozenset({"demands"})
    about = About(
        equations=(
            "cycles = max over resources of service cycles per warp x warps per SM, x busiest SM's blocks over the mean",
            "resources: issue slots, functional units, L1 port, NoC (each way) and an SM's port to it, L2 slices, DRAM channels",
        ),
        assumptions=("latencies are hidden, queues are never empty", "traffic is spread evenly over slices and channels"),
        fails=("few warps, or long chains of dependent instructions: the latency is not hidden, and cycles are too low",),
        citation="P. Denning and J. Buzen. The operational analysis of queueing network models. ACM Computing Surveys 10(3), 1978.",
        by_component={
            "base": "1 / min(schedulers x issue width, warps of an SM in the fullest wave)",
            "com_struct": _LARGEST.format(what="max(functional unit's cycles / schedulers, load-store unit's cycles)"),
            "noc": _LARGEST.format(
                what="max(bytes each way x clock x SMs / NoC bandwidth, accesses x SMs / L2 slices, an SM's port)"
            ),
            "dram": _LARGEST.format(what="bytes x clock x SMs / (DRAM bandwidth x efficiency) + turns of the buses"),
            "idle": IDLE,
            "launch": "(begin and end of the grid + the first read of its parameters + what all blocks, or those in one place, "
            "take to start beyond all other components) x SMs / instructions of the launch",
        },
        checks=("latency-hidden", "equal-blocks", "slowest-warp", "spread-noc", "spread-dram"),
    )

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        assert profile.demands is not None
        demands = resources.evenly_spread(profile.demands)
        waves = residency(profile, design)
        instructions = resources.instructions_per_warp(profile)
        resident, launch = waves.warps[: len(design)], profile.launch
        if launch is not None:  # of the fullest wave
            fullest = waves_of(launch, design)
            resident = np.where(fullest.full > 0, launch.blocks_per_sm, fullest.last_blocks) * launch.warps_per_block
        issue = resources.issue_cycles(instructions, design, resident)
        bounds = {
            "com_struct": np.maximum(demands.unit_cycles / design.sm_schedulers, demands.l1_cycles),
            "noc": np.max([
                resources.noc_cycles(demands, design), resources.slice_cycles(demands, design),
                resources.port_cycles(demands, design, design.sm_count),
            ], axis=0),
            "dram": resources.dram_cycles(demands, design),
        }
        values = np.stack(list(bounds.values()))
        largest, which = values.max(axis=0), values.argmax(axis=0)
        stack = {"base": issue / instructions}
        for number, name in enumerate(bounds):
            stack[name] = np.where(which == number, np.maximum(largest - issue, 0.0), 0.0) / instructions
        answer = launch_answer(profile, design, stack, waves)
        if launch is None:
            return with_launch(profile, design, answer, np.zeros(len(design)))
        full = waves_of(launch, design).full
        placed = full * (design.dispatch_block_cycles + resources.start_cycles(design, launch.warps_per_block))
        return with_launch(profile, design, answer, np.maximum(resources.dispatch_cycles(launch.blocks, design), placed))


MODELS.add(Bottleneck.name, Bottleneck())

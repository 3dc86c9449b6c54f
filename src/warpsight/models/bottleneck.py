"""The baseline: the largest bound of a single resource, and nothing else."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.equations import resources
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import MODELS, About, Design, predict_one
from warpsight.models.interval_model import idle_of_launch, launch_answer, residency
from warpsight.result.prediction import COMPONENTS, Prediction

Floats = npt.NDArray[np.float64]

_LARGEST = "({what}, of a warp, - its issue cycles) / its instructions, where it is the largest of com_struct, noc and dram; else 0"


class Bottleneck:
    """The busiest resource's service time for the whole launch, if blocks were spread over the SMs as they are. A lower bound on
    time but for the imbalance, which a shared resource does not feel in full. Every model of latencies has to do better than this.
    """

    name = "bottleneck"
    title = "Bottleneck: the largest bound of a single resource"
    source = "the bottleneck law (Denning and Buzen, The operational analysis of queueing network models, 1978)"
    needs = frozenset({"demands"})
    about = About(
        equations=(
            "cycles = max over resources of service cycles per warp x warps per SM, x busiest SM's blocks over the mean",
            "resources: issue slots, functional units, L1 port, NoC (each way), L2 slices, DRAM channels",
        ),
        assumptions=("latencies are hidden, queues never run empty", "traffic spreads evenly over slices and channels"),
        fails=("few warps, or long chains of dependent instructions: nothing hides the latency, and cycles come out low",),
        citation="P. Denning and J. Buzen. The operational analysis of queueing network models. ACM Computing Surveys 10(3), 1978.",
        stack=("base", "com_struct", "noc", "dram", "idle"),
        by_component={
            "base": "1 / min(schedulers x issue width, warps of an SM in the fullest wave)",
            "com_struct": _LARGEST.format(what="max(functional unit's cycles / schedulers, load-store unit's cycles)"),
            "noc": _LARGEST.format(
                what="max(bytes of the busier direction x clock x SMs / NoC bandwidth, accesses x SMs / L2 slices)"
            ),
            "dram": _LARGEST.format(what="bytes x clock x SMs / DRAM bandwidth"),
            "idle": idle_of_launch(),
        },
        checks=("latency-hidden", "equal-blocks", "slowest-warp", "spread-noc", "spread-dram"),
    )

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """See `Model.predict`."""
        return predict_one(self, profile, gpu)

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """See `Model.evaluate`."""
        assert profile.demands is not None
        demands = resources.evenly_spread(profile.demands)
        found = residency(profile, design)
        instructions = resources.instructions_per_warp(profile)
        resident = found.warps[: len(design)] if profile.launch is None else _most_resident(profile, design)
        issue = resources.issue_cycles(instructions, design, resident)
        bounds = {
            "com_struct": np.maximum(demands.unit_cycles / design.schedulers, demands.l1_cycles),
            "noc": np.maximum(resources.noc_cycles(demands, design), resources.slice_cycles(demands, design)),
            "dram": resources.dram_cycles(demands, design),
        }
        names, values = list(bounds), np.stack(list(bounds.values()))
        largest, which = values.max(axis=0), values.argmax(axis=0)
        stack = {name: np.zeros(len(design)) for name in COMPONENTS}
        stack["base"] = issue / instructions
        for number, name in enumerate(names):
            stack[name] = np.where(which == number, np.maximum(largest - issue, 0.0), 0.0) / instructions
        return launch_answer(profile, design, stack, found)


def _most_resident(profile: IntervalProfile, design: Design) -> Floats:
    """Warps on an SM of the fullest wave, [D]."""
    assert profile.launch is not None
    launch = profile.launch
    blocks = np.minimum(np.ceil(launch.blocks / design.sm_count), launch.blocks_per_sm)
    return np.asarray(blocks * launch.warps_per_block)


MODELS.add(Bottleneck.name, Bottleneck())

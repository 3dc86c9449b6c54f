"""Advice: every change that the rules propose, evaluated and ranked by its gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warpsight.analysis.advice.divergence_rules import Divergence
from warpsight.analysis.advice.memory_rules import Atomics, BankConflicts, Coalescing, L1Hits
from warpsight.analysis.advice.product_rules import Pipelining, TensorCores, WarpTiles
from warpsight.analysis.advice.redundancy_rules import Constants, Registers
from warpsight.analysis.advice.resource_rules import Balance, Doubled, Fusion, LaunchOverhead, OccupancyStep
from warpsight.analysis.advice.reuse_rules import Tiling, WideLoads
from warpsight.analysis.advice.rule import CACHES, PROFILE, PROGRAMMER, RULES, Case, Rule, WhatIf
from warpsight.analysis.advice.work_rules import ResidentBlocks, WorkPerThread
from warpsight.analysis.explanation import explain_profiled, views_of
from warpsight.base.errors import WarpsightError
from warpsight.base.progress import Watch, stage
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import get_model
from warpsight.pipeline.evaluate import ProfiledTrace, profile_trace
from warpsight.pipeline.provenance import TOOL
from warpsight.pipeline.request import DEFAULT_METHOD, KernelRequest, Method
from warpsight.pipeline.tracing import obtain_trace
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import KernelTrace

# A change that saves a smaller part of the cycles counts as one without gain.
LEAST_GAIN = 0.001
# Changes evaluated per rule: each may take another simulation of the caches.
MOST_OF_A_RULE = 12
# What the summary of a prediction shows: changes with at least this gain.
LEAST_SHOWN = 0.05

# Our rules in the order in which they are tried.
OURS: tuple[Rule, ...] = (
    TensorCores(), WarpTiles(), Pipelining(), WorkPerThread(), Tiling(), WideLoads(), Registers(), Constants(), Coalescing(),
    L1Hits(), BankConflicts(), Atomics(), OccupancyStep(), Balance(), ResidentBlocks(), LaunchOverhead(), Fusion(), Divergence(),
    Doubled(),
)  # fmt: skip

for _rule in OURS:
    RULES.add(_rule.name, _rule)


def all_rules() -> list[Rule]:
    """Every rule: ours in their order, then those of plug-ins."""
    ours = [rule.name for rule in OURS]
    return [*OURS, *(RULES.get(name) for name in RULES.names() if name not in ours)]


@dataclass(frozen=True)
class Evaluated:
    """A change with its prediction. `gain_cycles` are the cycles saved, `gain` the fraction of all; negative if it is slower."""

    rule: str
    what_if: WhatIf
    prediction: Prediction
    gain_cycles: float
    gain: float

    def to_json(self) -> dict[str, Any]:
        """The change's part of the result document."""
        change = self.what_if
        return {
            "title": change.title,
            "place": change.place,
            "owner": change.owner,
            "rule": self.rule,
            "reason": change.reason,
            "cost": change.cost,
            "setting": change.setting or None,
            "at_most": change.at_most,
            "cycles": self.prediction.cycles,
            "gain_cycles": self.gain_cycles,
            "gain": self.gain,
            "bound_by": self.prediction.bound_by,
            "cpi_stack": self.prediction.cpi_stack,
        }


@dataclass(frozen=True)
class Advice:
    """The changes that help, largest gain first; how many gained less than 0.1 %; those that could not be evaluated (title, why);
    and those that are `left`: not evaluated because their rule had reached its limit, or because they take long."""

    prediction: Prediction
    changes: tuple[Evaluated, ...]
    without_gain: int
    refused: tuple[tuple[str, str], ...]
    left: tuple[WhatIf, ...]

    def to_json(self, top: int | None = None) -> dict[str, Any]:
        """The result document, with the `top` changes or all."""
        prediction = self.prediction
        return {
            "tool": TOOL,
            "kernel": prediction.kernel,
            "gpu": prediction.gpu,
            "model": prediction.model,
            "cycles": prediction.cycles,
            "bound_by": prediction.bound_by,
            "advice": [change.to_json() for change in self.changes[:top]],
            "with_gain": len(self.changes),
            "without_gain": self.without_gain,
            "refused": [{"title": title, "why": why} for title, why in self.refused],
            "not_tried": len(self.left),
            "prediction": prediction.to_json(),
        }


def advise_kernel(
    request: KernelRequest, gpu: GpuSpec, model: str, method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> Advice:
    """Advise on a kernel or a trace folder."""
    get_model(model)
    return advise_trace(obtain_trace(request, gpu=gpu, watch=watch), gpu, model, method, watch=watch)


def advise_trace(
    trace: KernelTrace, gpu: GpuSpec, model: str, method: Method = DEFAULT_METHOD, *, watch: Watch | None = None
) -> Advice:
    """Evaluate every rule's proposals for `trace` on `gpu` with `model`. Raises as `predict_trace`."""
    return advise_profiled(profile_trace(trace, gpu, method, watch=watch), gpu, model, watch=watch)


def advise_profiled(profiled: ProfiledTrace, gpu: GpuSpec, model: str, *, watch: Watch | None = None) -> Advice:
    """The same for a profiled trace. Raises as `predict_profiled`."""
    return advise_case(case_of(profiled, gpu, model, watch))


def case_of(profiled: ProfiledTrace, gpu: GpuSpec, model: str, watch: Watch | None = None) -> Case:
    """The case of a profiled trace. Raises as `predict_profiled`."""
    explained = explain_profiled(profiled, gpu, model, views_of(profiled.trace)[0])
    return Case(profiled, gpu, model, explained.prediction, explained.rows, watch)


def advise_case(case: Case) -> Advice:
    """Evaluate what every rule proposes for the case."""
    proposals = {rule.name: case.proposed(rule) for rule in all_rules()}
    tried = {name: list(changes[:MOST_OF_A_RULE]) for name, changes in proposals.items()}
    left = [change for changes in proposals.values() for change in changes[MOST_OF_A_RULE:]]
    return _evaluated(case, tried, left)


def first_advice(case: Case) -> Advice:
    """The advice that takes little time, for the summary of a prediction: of the programmer's changes those that need no new
    simulation of the caches, and one of each rule, its most promising one, of those that need a new interval profile."""
    tried: dict[str, list[WhatIf]] = {}
    left = []
    for rule in all_rules():
        for change in case.proposed(rule):
            chosen = tried.setdefault(rule.name, [])
            if change.owner == PROGRAMMER and change.again != CACHES and (change.again != PROFILE or not chosen):
                chosen.append(change)
            elif change.owner == PROGRAMMER:
                left.append(change)
    return _evaluated(case, tried, left)


def _evaluated(case: Case, tried: dict[str, list[WhatIf]], left: list[WhatIf]) -> Advice:
    """The advice from the changes of each rule that are `tried`."""
    changes, refused, without_gain = [], [], 0
    progress = stage(case.watch, "evaluating changes")
    for rule, change in ((rule, change) for rule, changes in tried.items() for change in changes):
        try:
            prediction = case.evaluated(change)
        except WarpsightError as error:
            refused.append((change.title, error.what))
            continue
        saved = case.prediction.cycles - prediction.cycles
        gain = saved / case.prediction.cycles
        if gain >= LEAST_GAIN:
            changes.append(Evaluated(rule, change, prediction, saved, gain))
        else:
            without_gain += 1
        if progress is not None:
            progress(len(changes) + without_gain, 0)
    changes.sort(key=lambda change: -change.gain_cycles)
    return Advice(case.prediction, tuple(changes), without_gain, tuple(refused), tuple(left))

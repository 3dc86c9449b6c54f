"""Which assumptions of a model a kernel violates, and by how much; and the checks that predict again with one change.

The registry is `assumption_checks.CHECKS`. A model names the checks of its own assumptions (`About.checks`); the checks of
assumptions common to all models are always made.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

from warpsight.analysis.assumption_checks import CHECKS, Check, CheckInput, Figure, check
from warpsight.analysis.what_if import simulation_seconds
from warpsight.base.errors import WarpsightError
from warpsight.base.units import percent, thousands
from warpsight.gpu.describe import describe
from warpsight.gpu.key import PROGRAM, SIMULATOR
from warpsight.gpu.keys import key_of
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import get_model
from warpsight.pipeline.evaluate import Designs, ProfiledTrace, evaluate, predict_trace
from warpsight.pipeline.request import INTERLEAVINGS
from warpsight.result.prediction import Prediction
from warpsight.sweeps.designs import key_text
from warpsight.sweeps.names import WHOLE

# Limit for the additional cache simulations of a check, estimated from the trace's size so that results do not depend on the
# machine.
_MOST_SECONDS = 5.0
_MORE = 1.1


@check(
    "order", "The caches see accesses in the same order as on hardware.",
    "change of the predicted cycles with the other order of accesses (round-robin instead of clocked, or vice versa)", 0.05,
    "the order is itself an estimate: a prediction that depends on it by more than 5 % is not known better than that",
    always=True, again=True,
)
def _order(case: CheckInput) -> Figure | None:
    profiled, model = case.profiled, case.prediction.model
    if profiled.method.caches != "exact" or simulation_seconds(profiled) > _MOST_SECONDS:
        return None
    (other,) = (each for each in INTERLEAVINGS if each != profiled.method.interleaving)
    method = replace(profiled.method, interleaving=other)
    cycles = predict_trace(profiled.trace, case.gpu, [model], method, resident=profiled.occupancy, store=profiled.store)[0].cycles
    return Figure(abs(cycles / case.prediction.cycles - 1), f"{thousands(cycles)} cycles with accesses {other}")


@check(
    "cache-edge", "The kernel's data either fit into a cache or exceed it by far.",
    "the largest change of the predicted cycles with half or twice the L1 or the L2", 0.2,
    "between fitting and thrashing, a small error of the simulated caches causes a large error of the prediction",
    always=True, again=True,
)
def _edge(case: CheckInput) -> Figure | None:
    rows = case.what_if["one_at_a_time"] if case.what_if else []
    near = [row for row in rows if row["key"] in ("l1.size", "l2.size") and row["factor"] in (0.5, 2.0) and row["cycles"]]
    if not near:
        return None

    def change(row: dict[str, float]) -> float:
        return abs(row["cycles"] / case.prediction.cycles - 1)

    most = max(near, key=change)
    return Figure(change(most), f"{most['key']}={most['setting']}: {thousands(most['cycles'])} cycles")


@check(
    "estimated", "The estimated values in the GPU description are correct.",
    "relative change of the predicted cycles per relative change of the estimated value with the largest effect", 0.2,
    "an estimate may be off by 50 %: at 0.2, that changes the cycles by 10 %",
    unit="ratio", always=True, again=True,
)
def _estimated(case: CheckInput) -> Figure | None:
    keys = [key for key in estimated_keys(case) if key_of(key).step not in (SIMULATOR, PROGRAM)]
    tried = keys[: int(_MOST_SECONDS / simulation_seconds(case.profiled))]
    changes = [(abs(change), key) for key in tried if (change := _elasticity(case, key)) is not None]
    if not changes:
        return None
    most, key = max(changes)
    left = f"; {len(keys) - len(changes)} not tried" if len(keys) > len(changes) else ""
    if most == 0:
        return Figure(0.0, f"none of {len(changes)} estimated values changes the cycles{left}")
    return Figure(most, f"of {len(changes)} estimated values {key} has the largest effect: {percent(0.1 * most)} for +10 %{left}")


def estimated_keys(case: CheckInput) -> list[str]:
    """Keys whose value the description calls estimated, and is not 0."""
    values = case.gpu.by_key
    return [row.key for row in describe(case.gpu) if is_estimated(row.source) and key_of(row.key).numeric and values[row.key]]


def is_estimated(source: str) -> bool:
    """Whether a source says that the value is estimated, neither measured nor published."""
    return "estimated" in source.lower()


def _elasticity(case: CheckInput, key: str) -> float | None:
    """Relative change of the cycles over that of `key`, for 10 % more; None for an invalid design."""
    value = float(case.gpu.by_key[key])  # numeric keys only
    more = float(ceil(value * _MORE)) if key_of(key).kind in WHOLE else value * _MORE
    profiled = case.profiled
    design = Designs(case.gpu, profiled.method, (f"{key}={key_text(key, more)}",))
    (evaluation,) = evaluate(profiled.trace, [design], [case.prediction.model], profiled.store)
    try:
        cycles = evaluation.cycles()
    except WarpsightError:
        return None
    return (cycles / case.prediction.cycles - 1) / (more / value - 1)


# -- The checks of a model, made for a kernel.

def checks_of(model: str) -> list[Check]:
    """The checks of a model: its own in the order in which it names them, then the common ones. Raises UsageError."""
    own = [CHECKS.get(key) for key in get_model(model).about.checks]
    return own + [CHECKS.get(key) for key in CHECKS.names() if CHECKS.get(key).always and CHECKS.get(key) not in own]


def assumptions(
    profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, speed: list[dict[str, Any]], alone: list[dict[str, Any]],
    what_if: dict[str, Any] | None = None, *, again: bool = True,
) -> dict[str, Any]:
    """The `checks` of the model's assumptions, violated ones first, and those `untouched`: not applicable, or not tried.

    `speed` and `alone` are the report data of these names, `what_if` its grid. Without `again`, checks that predict again are not
    tried.
    """
    case = CheckInput(profiled, gpu, prediction, {row["name"]: row for row in speed}, {row["name"]: row for row in alone}, what_if)
    documents, untouched = [], []
    for each in checks_of(prediction.model):
        figure = each.find(case) if again or not each.again else None
        if figure is None:
            untouched.append({"key": each.key, "assumption": each.assumption})
        else:
            documents.append(each.document(figure))
    documents.sort(key=lambda document: not document["violated"])
    return {"model": prediction.model, "checks": documents, "untouched": untouched}


def all_checks() -> list[Check]:
    """Every check, ours and those of plug-ins, by name."""
    return [CHECKS.get(key) for key in CHECKS.names()]

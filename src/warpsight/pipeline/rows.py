"""Rows of results: one model on many designs that share an interval profile, as columns of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import WarpsightError
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import STACK_PREFIX, components_of, evaluate, get_model, require
from warpsight.result.prediction import COMPONENTS, Component, bound_by_rows, memory_class

# float64, NaN in a row that failed
# half_width: of the 95 % confidence interval of the cycles, relative to them; 0 where every block was executed
_OF_LAUNCH = ("cycles", "half_width", "seconds", "ipc_sm_warp", "ipc_gpu_warp", "cpi")
NUMBERS = (*_OF_LAUNCH, *(f"{STACK_PREFIX}{name}" for name in COMPONENTS))
WORDS = ("bound_by", "class", "occupancy_limiter")

Columns = Mapping[str, npt.NDArray[np.float64]]
Rows = dict[str, Any]
"""`model`, the columns of `number_columns`, `warp_instructions` (int64), `dpki` and `occupancy` (float64), `WORDS`, and `failed`:
the reason why a row has no numbers, empty in others. Each an array or a list [rows]."""


def number_columns(models: Iterable[str]) -> tuple[str, ...]:
    """`NUMBERS`, then a column for each component of the CPI stack that one of `models` declares; it is 0 in the rows of others.

    Raises UsageError for an unknown model.
    """
    own = (name for model in models for name in components_of(get_model(model)))
    return tuple(dict.fromkeys([*NUMBERS, *(f"{STACK_PREFIX}{name}" for name in own)]))


def designs_of(gpu: GpuSpec, columns: Columns, count: int) -> Design:
    """`count` design points: `gpu` with its model-only keys replaced by `columns`, float64 [count] in base units by key."""
    return Design.of(gpu).varied(columns, sm_count=np.full(count, float(gpu.sm_count)))


def model_rows(
    profile: IntervalProfile, gpu: GpuSpec, columns: Columns, count: int, model: str, numbers: Sequence[str] = NUMBERS
) -> Rows:
    """The rows of `model` for `count` designs, `gpu` with its model-only keys as in `columns`. A refusal is the reason in `failed`.

    `numbers` are the columns of numbers (`number_columns` of all models whose rows are joined with these). A model that refuses one
    design refuses the whole array. Halves are then tried until the refused designs stand alone.
    """
    try:
        chosen = get_model(model)
        require(chosen, profile)
        pending, parts = [designs_of(gpu, columns, count)], list[Rows]()
    except WarpsightError as error:
        return failed_rows(str(error), count, model, numbers)
    while pending:
        designs = pending.pop()
        try:
            evaluation = evaluate(chosen, profile, designs)
        except WarpsightError as error:
            if len(designs) == 1:
                parts.append(failed_rows(str(error), 1, model, numbers))
            else:
                half = len(designs) // 2
                pending += [designs.pick(slice(half, None)), designs.pick(slice(None, half))]
            continue
        parts.append(_evaluated(model, components_of(chosen), evaluation, profile, gpu.sm.max_warps, numbers))
    return joined(parts)


def _evaluated(
    model: str, components: Mapping[str, Component], evaluation: Mapping[str, Any], profile: IntervalProfile, max_warps: int,
    numbers: Sequence[str],
) -> Rows:
    launch, count = profile.launch, len(evaluation["cpi"])
    return {
        "model": [model] * count,
        **{number: evaluation.get(number, np.zeros(count)) for number in numbers},
        "warp_instructions": np.full(count, profile.total_warp_instructions, dtype=np.int64),
        "dpki": np.full(count, np.nan if profile.dpki is None else profile.dpki),
        "occupancy": np.full(count, launch.occupancy if launch else profile.warps_per_sm / max_warps),
        "bound_by": bound_by_rows({name: evaluation[f"{STACK_PREFIX}{name}"] for name in components}, components),
        "class": [memory_class(profile.dpki)] * count,
        "occupancy_limiter": [launch.limiter if launch else ""] * count,
        "failed": [""] * count,
    }


def failed_rows(reason: str, count: int, model: str, numbers: Sequence[str] = NUMBERS) -> Rows:
    """`count` rows without numbers, each with the reason."""
    return {
        "model": [model] * count,
        **{name: np.full(count, np.nan) for name in (*numbers, "dpki", "occupancy")},
        "warp_instructions": np.zeros(count, dtype=np.int64),
        **{name: [""] * count for name in WORDS},
        "failed": [reason] * count,
    }


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, in order."""
    return {
        name: np.concatenate([part[name] for part in parts])
        if isinstance(parts[0][name], np.ndarray)
        else [value for part in parts for value in part[name]]
        for name in parts[0]
    }

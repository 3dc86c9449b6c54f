"""Rows of results: one model on many designs that share an interval profile, as columns of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import WarpsightError
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.models.base import Design, get_model, require
from warpsight.pipeline.stage_keys import MODEL_ONLY
from warpsight.result.prediction import COMPONENTS, bound_by_rows, memory_class

STACK = tuple(f"cpi_stack.{name}" for name in COMPONENTS)
# float64, NaN in a row that failed
NUMBERS = ("cycles", "seconds", "ipc_sm_warp", "ipc_gpu_warp", "cpi", *STACK)
WORDS = ("bound_by", "class", "occupancy_limiter")

Columns = Mapping[str, npt.NDArray[np.float64]]
Rows = dict[str, Any]
"""`model`, `NUMBERS`, `warp_instructions` (int64), `dpki` and `occupancy` (float64), `WORDS`, and `failed`: the reason why a row
has no numbers, empty in others. Each an array or a list [rows]."""


def designs_of(gpu: GpuSpec, columns: Columns, count: int) -> Design:
    """`count` design points: `gpu` with its model-only keys replaced by `columns`, float64 [count] in base units by key."""
    changes: dict[str, npt.NDArray[np.float64]] = {}
    for key, values in columns.items():
        # 0 in a description means no bound
        changes[MODEL_ONLY[key]] = np.where(values == 0, np.inf, values) if key == "noc.queue" else values
    return Design.of(gpu).varied(**changes, sm_count=np.full(count, float(gpu.sm_count)))


def model_rows(profile: IntervalProfile, gpu: GpuSpec, columns: Columns, count: int, model: str) -> Rows:
    """The rows of `model` for `count` designs, `gpu` with its model-only keys as in `columns`. A refusal is the reason in `failed`.

    A model that refuses one design refuses the whole array. Halves are then tried until the refused designs stand alone.
    """
    try:
        chosen = get_model(model)
        require(chosen, profile)
        pending, parts = [designs_of(gpu, columns, count)], list[Rows]()
    except WarpsightError as error:
        return failed_rows(str(error), count, model)
    while pending:
        designs = pending.pop()
        try:
            found = chosen.evaluate(profile, designs)
        except WarpsightError as error:
            if len(designs) == 1:
                parts.append(failed_rows(str(error), 1, model))
            else:
                half = len(designs) // 2
                pending += [designs.pick(slice(half, None)), designs.pick(slice(None, half))]
            continue
        parts.append(_answered(model, found, profile, len(designs), gpu.sm.max_warps))
    return joined(parts)


def _answered(model: str, found: Mapping[str, Any], profile: IntervalProfile, count: int, max_warps: int) -> Rows:
    launch = profile.launch
    return {
        "model": [model] * count,
        **{number: found[number] for number in NUMBERS},
        "warp_instructions": np.full(count, profile.total_warp_instructions, dtype=np.int64),
        "dpki": np.full(count, np.nan if profile.dpki is None else profile.dpki),
        "occupancy": np.full(count, launch.occupancy if launch else profile.warps_per_sm / max_warps),
        "bound_by": bound_by_rows(np.stack([found[part] for part in STACK])),
        "class": [memory_class(profile.dpki)] * count,
        "occupancy_limiter": [launch.limiter if launch else ""] * count,
        "failed": [""] * count,
    }


def failed_rows(reason: str, count: int, model: str) -> Rows:
    """`count` rows without numbers, each with the reason."""
    return {
        "model": [model] * count,
        **{name: np.full(count, np.nan) for name in (*NUMBERS, "dpki", "occupancy")},
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

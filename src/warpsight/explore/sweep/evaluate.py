"""From an interval profile and the models' own numbers of many designs to rows of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import WarpsightError
from warpsight.explore.sweep.rows import NUMBERS
from warpsight.explore.sweep.stages import MODEL_ONLY
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import Design, Model, require
from warpsight.models.registry import get_model
from warpsight.profile.interval_profile import IntervalProfile
from warpsight.result.cpi_stack import bound_by_rows, memory_class
from warpsight.result.prediction import COMPONENTS

Columns = Mapping[str, npt.NDArray[np.float64]]


def designs_of(gpu: GpuSpec, columns: Columns, count: int) -> Design:
    """`count` design points: `gpu` with its model-only keys replaced by `columns`, float64 [count] in base units by key."""
    changes: dict[str, npt.NDArray[np.float64]] = {}
    for key, values in columns.items():
        # no bound, as the description says it, is infinitely many places
        changes[MODEL_ONLY[key]] = np.where(values == 0, np.inf, values) if key == "noc.queue" else values
    return Design.of(gpu).varied(**changes, sm_count=np.full(count, float(gpu.sm_count)))


def model_rows(profile: IntervalProfile, gpu: GpuSpec, columns: Columns, count: int, model: str) -> dict[str, Any]:
    """The columns of `rows` for `count` designs and one model: arrays or lists [count]. A refusal is the reason in `failed`.

    A model that refuses one design refuses all that it is asked of at once; the others are asked again without it.
    """
    try:
        chosen = get_model(model)
        require(chosen, profile)
    except WarpsightError as error:
        return failed_rows(str(error), count, model)
    return joined(list(_evaluated(profile, chosen, model, designs_of(gpu, columns, count), gpu.sm.max_warps)))


def _evaluated(
    profile: IntervalProfile, model: Model, name: str, designs: Design, max_warps: int
) -> Iterator[dict[str, Any]]:
    """Rows, of the model called `name`, in the order of the designs. Halves are tried until what is refused stands alone."""
    count = len(designs)
    try:
        found = model.evaluate(profile, designs)
    except WarpsightError as error:
        if count == 1:
            yield failed_rows(str(error), 1, name)
            return
        for half in (slice(None, count // 2), slice(count // 2, None)):
            yield from _evaluated(profile, model, name, designs.pick(half), max_warps)
        return
    launch = profile.launch
    yield {
        "model": [name] * count,
        **{number: found[number] for number in NUMBERS},
        "warp_instructions": np.full(count, profile.total_warp_instructions, dtype=np.int64),
        "dpki": np.full(count, np.nan if profile.dpki is None else profile.dpki),
        "occupancy": np.full(count, launch.occupancy if launch else profile.warps_per_sm / max_warps),
        "bound_by": bound_by_rows(np.stack([found[f"cpi_stack.{part}"] for part in COMPONENTS])),
        "class": [memory_class(profile.dpki)] * count,
        "occupancy_limiter": [launch.limiter if launch else ""] * count,
        "failed": [""] * count,
    }


def failed_rows(reason: str, count: int, model: str) -> dict[str, Any]:
    """Rows without numbers, each with the reason."""
    return {
        "model": [model] * count,
        **{name: np.full(count, np.nan) for name in (*NUMBERS, "dpki", "occupancy")},
        "warp_instructions": np.zeros(count, dtype=np.int64),
        **{name: [""] * count for name in ("bound_by", "class", "occupancy_limiter")},
        "failed": [reason] * count,
    }


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Rows below each other."""
    return {
        name: np.concatenate([part[name] for part in parts])
        if isinstance(parts[0][name], np.ndarray)
        else [value for part in parts for value in part[name]]
        for name in parts[0]
    }

"""From arrays of one design point to a `Prediction`."""

from __future__ import annotations

from typing import Any

from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import Design, Model, require
from warpsight.profile.interval_profile import IntervalProfile
from warpsight.result.cpi_stack import bound_by, memory_class
from warpsight.result.prediction import COMPONENTS, Prediction
from warpsight.trace.schema import WARP_SIZE


def predict_one(model: Model, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
    """`model`'s prediction for `gpu` alone. Raises UsageError for a profile without what the model needs."""
    require(model, profile)
    found = {name: float(array[0]) for name, array in model.evaluate(profile, Design.of(gpu)).items()}
    stack = {name: found[f"cpi_stack.{name}"] for name in COMPONENTS}
    launch = profile.launch
    return Prediction(
        kernel=profile.kernel,
        gpu=gpu.name,
        model=model.name,
        cycles=found["cycles"],
        seconds=found["seconds"],
        warp_instructions=profile.total_warp_instructions,
        ipc_sm_warp=found["ipc_sm_warp"],
        ipc_gpu_warp=found["ipc_gpu_warp"],
        ipc_gpu_thread=found["ipc_gpu_warp"] * WARP_SIZE,
        cpi=found["cpi"],
        cpi_stack=stack,
        bound_by=bound_by(stack),
        dpki=profile.dpki,
        memory_class=memory_class(profile.dpki),
        occupancy=launch.occupancy if launch else profile.warps_per_sm / gpu.sm.max_warps,
        occupancy_limiter=launch.limiter if launch else "",
        provenance={"model": _provenance(model, profile, gpu, stack)},
    )


def _provenance(model: Model, profile: IntervalProfile, gpu: GpuSpec, stack: dict[str, float]) -> dict[str, Any]:
    """What was evaluated, and the memory part of the stack by the level that served the loads (GPUMech section VII)."""
    answer: dict[str, Any] = {"name": model.name, "source": model.source}
    if profile.memory_stall_levels is not None:
        shares = zip(("l1", "l2", "dram"), profile.memory_stall_levels, strict=True)
        answer["mem_data_by_level"] = {level: stack["mem_data"] * share for level, share in shares}
    if profile.launch is not None:
        launch = profile.launch
        resident = launch.warps_per_block * min(launch.blocks_per_sm, -(-launch.blocks // gpu.sm_count))
        answer["warps_per_sm"] = resident
        if resident != profile.warps_per_sm:
            answer["note"] = f"warps_per_sm is {profile.warps_per_sm} in the profile and {resident} by its launch on {gpu.name}"
    return answer

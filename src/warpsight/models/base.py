"""What a model is: the contract that callers rely on, the registry of models by name, and the prediction of one design point."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import SpecError, UsageError
from warpsight.base.registry import Registry
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.result.prediction import COMPONENTS, Prediction, bound_by, memory_class
from warpsight.traces.schema import WARP_SIZE

Floats = npt.NDArray[np.float64]

# What a model may need to know of a kernel beyond its intervals, and how a profile without it is told.
PARTS = {
    "misses": "read_misses and write_misses of its intervals",
    "dram": "dram_reads and dram_writes of its intervals",
    "launch": "launch",
    "dpki": "dpki",
    "demands": "demands",
    "counts": "counts",
}


@dataclass(frozen=True)
class Design:
    """The GPU numbers that enter a model's equations, for D design points at once: each a float64 array [D].

    `greedy` (bool [D]) is True for greedy-then-oldest scheduling, False for loose round-robin.
    `noc_queue` are requests of an SM, infinity where they have no bound.
    What enters earlier (cache geometry, op latencies, residency) belongs to the interval profile and is made again when it changes.
    """

    sm_count: Floats
    core_clock_hz: Floats
    schedulers: Floats
    issue_width: Floats
    greedy: npt.NDArray[np.bool_]
    mshrs: Floats
    l2_slices: Floats
    l1_line_bytes: Floats
    l2_line_bytes: Floats
    l1_latency_cycles: Floats
    l2_latency_cycles: Floats
    dram_latency_cycles: Floats
    noc_bytes_per_s: Floats
    dram_bytes_per_s: Floats
    noc_queue: Floats
    # 0 in what follows the sector: derived from the rest, as `gpu.spec` says
    l1_sector_bytes: Floats
    mwp_memory_latency_cycles: Floats
    mwp_departure_coalesced_cycles: Floats
    mwp_departure_uncoalesced_cycles: Floats
    mwp_issue_cycles: Floats
    target_clock_hz: Floats

    @classmethod
    def of(cls, gpus: GpuSpec | Sequence[GpuSpec]) -> Design:
        """The design points of `gpus`, in order. Raises SpecError for a scheduling policy that GPUMech's equations do not cover."""
        points = [gpus] if isinstance(gpus, GpuSpec) else list(gpus)
        rows = [
            (
                gpu.sm_count, gpu.core_clock_hz, gpu.sm.schedulers, gpu.sm.issue_width, _is_greedy(gpu), gpu.l1.mshrs,
                gpu.l2.slices, gpu.l1.line_bytes, gpu.l2.line_bytes, gpu.l1.latency_cycles, gpu.l2.latency_cycles,
                gpu.dram.latency_cycles, gpu.noc.bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s,
                gpu.noc.queue or np.inf, gpu.l1.sector_bytes, gpu.mwp.memory_latency_cycles,
                gpu.mwp.departure_coalesced_cycles, gpu.mwp.departure_uncoalesced_cycles, gpu.mwp.issue_cycles,
                gpu.dvfs.target_clock_hz,
            )
            for gpu in points
        ]  # fmt: skip
        columns = np.array(rows, dtype=np.float64).reshape(len(rows), -1).T
        named = {field.name: column.copy() for field, column in zip(fields(cls), columns, strict=True)}
        return cls(**{**named, "greedy": named["greedy"] > 0})  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.sm_count)

    def varied(self, **changes: Any) -> Design:
        """With some numbers replaced by arrays; everything is broadcast to one common length."""
        values = {**self.__dict__, **changes}
        arrays = np.broadcast_arrays(*(np.atleast_1d(value) for value in values.values()))
        named = dict(zip(values, arrays, strict=True))
        floats: dict[str, Any] = {name: np.array(array, dtype=np.float64) for name, array in named.items()}
        return replace(self, **(floats | {"greedy": np.array(named["greedy"], dtype=np.bool_)}))

    def pick(self, rows: npt.NDArray[np.generic] | slice) -> Design:
        """The design points that `rows` (indices, a mask or a slice) names."""
        return Design(**{name: array[rows] for name, array in self.__dict__.items()})


@dataclass(frozen=True)
class About:
    """What a reader must know of a model before using it; `warpsight models show` and the documentation print it.

    `equations` with their numbers in the paper, `assumptions` it makes, where it `fails`, and the citation in full.
    `stack` names the components of the CPI stack that can be other than zero; empty: any. `by_component` says of each of them by
    which equation it comes about. `checks` names the checks of `analysis/assumptions.py` by which a kernel may be one
    that the assumptions do not fit.
    """

    equations: tuple[str, ...]
    assumptions: tuple[str, ...]
    fails: tuple[str, ...]
    citation: str
    stack: tuple[str, ...] = ()
    by_component: dict[str, str] = field(default_factory=dict)
    checks: tuple[str, ...] = ()


@runtime_checkable
class Model(Protocol):
    """A performance model. Pure: the same profile and GPU give the same answer, and neither is changed.

    `source` is where its equations are from; `needs` names, out of `PARTS`, what it takes from a profile beyond the intervals.
    """

    name: str
    title: str
    source: str
    needs: frozenset[str]
    about: About

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """The prediction of one kernel on one GPU. Raises UsageError for a profile without what the model needs."""

    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """The same for many design points: float64 [D] by name.

        `cycles`, `seconds`, `ipc_sm_warp`, `ipc_gpu_warp`, `cpi`, and one `cpi_stack.NAME` per component.
        """


@runtime_checkable
class Divisible(Protocol):
    """A model whose parts can be left out, to see what each is worth."""

    def without(self, parts: Iterable[str]) -> Model:
        """The model without those parts. Raises UsageError for a part that it does not have."""


def require(model: Model, profile: IntervalProfile) -> None:
    """Raises UsageError when `profile` lacks a part that `model` needs."""
    there = {
        "misses": bool(len(profile.read_misses)) and bool(len(profile.write_misses)),
        "dram": bool(len(profile.dram_reads)) and bool(len(profile.dram_writes)),
        "launch": profile.launch is not None,
        "dpki": profile.dpki is not None,
        "demands": profile.demands is not None,
        "counts": profile.counts is not None,
    }
    for part in sorted(model.needs):
        if not there.get(part, False):
            what = f'the model "{model.name}" needs {PARTS.get(part, part)}, which the profile of {profile.kernel} does not have'
            raise UsageError(what, remedy="make the profile with `warpsight profile`, or choose another model")


def _is_greedy(gpu: GpuSpec) -> bool:
    if gpu.sm.policy not in ("gto", "lrr"):
        what = f'no multithreading equations are known for the warp scheduler "{gpu.sm.policy}" of {gpu.name}'
        raise SpecError(what, place="sm.policy", remedy="use lrr or gto, or a model of your own")
    return gpu.sm.policy == "gto"


# -- The models by name: ours and those of installed plug-ins, through one door (entry-point group `warpsight.models`).

MODELS: Registry[Model] = Registry("model", "warpsight.models")


def get_model(name: str) -> Model:
    """The model called `name`; `NAME~PART~PART` is that model without some of its parts.

    Raises UsageError, with the names that are known, when there is none, or when the model's parts cannot be left out.
    """
    plain, *parts = name.split("~")
    model = MODELS.get(plain)
    if not parts:
        return model
    if not isinstance(model, Divisible):
        raise UsageError(f'the model "{plain}" has no parts that can be left out', remedy=f"use {plain}")
    return model.without(parts)


def model_names() -> list[str]:
    """The names of all models, sorted."""
    return MODELS.names()


# -- From arrays of one design point to a `Prediction`.

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

"""What a model is: the contract that callers rely on, the registry of models by name, and the prediction of one design point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.base.registry import Registry, registry
from warpsight.base.units import POWER, format_quantity
from warpsight.equations.power import CONSUMERS, board_power, sustained_clock
from warpsight.equations.resources import instructions_per_warp
from warpsight.gpu.design import Design
from warpsight.gpu.key import Key
from warpsight.gpu.occupancy import resident_blocks
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.isa.op_classes import OP_CLASSES
from warpsight.result.prediction import (
    COMPONENT_PARTS,
    COMPONENTS,
    SHARED,
    Component,
    Prediction,
    bound_by,
    in_order,
    memory_class,
)
from warpsight.traces.schema import WARP_SIZE

Floats = npt.NDArray[np.float64]

STACK_PREFIX = "cpi_stack."
_CLOSE = 1e-9  # the CPI and the sum of its components

# What a model may need of a profile beyond the intervals, and the name of that part in an error message.
_OPTIONAL = ("launch", "dpki", "demands", "counts")
PARTS = {"misses": "read_misses and write_misses of its intervals", "dram": "dram_reads and dram_writes of its intervals"}
PARTS |= {part: part for part in _OPTIONAL}


@dataclass(frozen=True)
class About:
    """What a reader must know about a model before using it. `warpsight models show` and the documentation print it.

    `equations` are cited by their numbers in the paper, `assumptions` are those of the model, `fails` says where it is wrong, and
    `citation` is the full reference. `by_component` has the equation of each component of the CPI stack that can differ from zero;
    if it is empty, every shared component can. `components` declares components in addition to the shared ones, either the model's
    own or those of `result.prediction.COMPONENT_PARTS`. `checks` names the checks of `analysis/assumption_checks.py` that test the
    assumptions on a kernel. `description` replaces the docstring of the model's class if several models share the class.
    """

    equations: tuple[str, ...]
    assumptions: tuple[str, ...]
    fails: tuple[str, ...]
    citation: str
    by_component: dict[str, str] = field(default_factory=dict)
    components: tuple[Component, ...] = ()
    checks: tuple[str, ...] = ()
    description: str = ""

    @property
    def stack(self) -> tuple[str, ...]:
        """The components that can be other than zero, in order."""
        shared_and_own = (*COMPONENTS, *(component.name for component in self.components))
        return tuple(in_order(self.by_component or dict.fromkeys(shared_and_own, "")))


class Model(ABC):
    """A performance model. Pure: the same profile and GPU give the same answer, and neither is changed.

    `source` is where its equations are from; `needs` names, out of `PARTS`, what it takes from a profile beyond the intervals.
    `parameters` are its own, each a `Key` named `MODEL.NAME`: descriptions, overrides and axes of studies state them, and
    `design.parameter(KEY)` returns their values. `memory_levels`: `mem_data` can be divided by the level that served the loads.
    """

    name: str
    title: str
    source: str
    needs: frozenset[str]
    about: About
    parameters: tuple[Key, ...] = ()
    memory_levels = True

    @abstractmethod
    def evaluate(self, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
        """The answer for many design points: float64 [D] by name.

        `cycles`, `seconds`, `ipc_sm_warp`, `ipc_gpu_warp`, `cpi`, and `cpi_stack.NAME` for each component: the shared ones and
        those of `about.components`. A component that is left out is zero. `answer_of` makes all of them from a CPI stack.
        """

    def remarks(self, profile: IntervalProfile, gpu: GpuSpec) -> dict[str, Any]:
        """Entries of the model for the provenance of a prediction, besides its numbers."""
        return {}

    def predict(self, profile: IntervalProfile, gpu: GpuSpec) -> Prediction:
        """The prediction of one kernel on one GPU, with the model's own components described in its provenance.

        Raises UsageError as the function `evaluate` does.
        """
        design = Design.of(gpu)
        numbers = {name: float(array[0]) for name, array in evaluate(self, profile, design).items()}
        components = components_of(self)
        stack = {name: numbers[f"{STACK_PREFIX}{name}"] for name in components}
        stack = {name: value for name, value in stack.items() if value or not components[name].part_of}
        launch = profile.launch
        about_model = _provenance(self, profile, gpu, stack) | self.remarks(profile, gpu)
        parts = COMPONENT_PARTS.values()
        own = {component.name: component.to_json() for component in self.about.components if component not in parts}
        if own:
            about_model["components"] = own
        return Prediction(
            kernel=profile.kernel, gpu=gpu.name, model=self.name, cycles=numbers["cycles"], seconds=numbers["seconds"],
            warp_instructions=profile.total_warp_instructions, ipc_sm_warp=numbers["ipc_sm_warp"],
            ipc_gpu_warp=numbers["ipc_gpu_warp"], ipc_gpu_thread=numbers["ipc_gpu_warp"] * WARP_SIZE, cpi=numbers["cpi"],
            cpi_stack=stack, bound_by=bound_by(stack, components), dpki=profile.dpki, memory_class=memory_class(profile.dpki),
            occupancy=launch.occupancy if launch else profile.warps_per_sm / gpu.sm.max_warps,
            occupancy_limiter=launch.limiter if launch else "",
            provenance={"model": about_model, **_power_provenance(self, profile, design, numbers)},
        )


@runtime_checkable
class Divisible(Protocol):
    """A model whose parts can be left out, to see what each is worth."""

    def without(self, parts: Iterable[str]) -> Model:
        """The model without those parts. Raises UsageError for a part that it does not have."""


def require(model: Model, profile: IntervalProfile) -> None:
    """Raises UsageError when `profile` lacks a part that `model` needs."""
    available = {part for part in _OPTIONAL if getattr(profile, part) is not None}
    if len(profile.read_misses) and len(profile.write_misses):
        available.add("misses")
    if len(profile.dram_reads) and len(profile.dram_writes):
        available.add("dram")
    for part in sorted(model.needs):
        if part not in available:
            what = f'the model "{model.name}" needs {PARTS.get(part, part)}, which the profile of {profile.kernel} does not have'
            raise UsageError(what, remedy="make the profile with `warpsight profile`, or choose another model")


def components_of(model: Model) -> dict[str, Component]:
    """The components that `model` may return, by name: the shared ones, then those that it declares.

    Raises UsageError for a declaration of a shared component, and for one whose `charged_to` is unknown.
    """
    for component in model.about.components:
        if component.name in SHARED:
            what = f'the model "{model.name}" declares the component "{component.name}" of the CPI stack, which all models share'
            raise UsageError(what, remedy="give the component another name")
        if component.charged_to not in ("", *SHARED, *COMPONENT_PARTS, *OP_CLASSES):
            what = f'the component "{component.name}" of the model "{model.name}" is charged to "{component.charged_to}"'
            raise UsageError(what, remedy=f"use a component or an op class: {', '.join((*SHARED, *COMPONENT_PARTS, *OP_CLASSES))}")
    own = {component.name: component for component in model.about.components}
    whole = {shared: [name for name, each in own.items() if each.part_of == shared] for shared in SHARED}
    return {name: SHARED.get(name) or own[name] for shared in SHARED for name in (shared, *whole[shared])} | own


def evaluate(model: Model, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
    """`model.evaluate`, checked, with every component of `components_of(model)` in order, zero where the model leaves it out.

    Where a design has a power limit that the launch would exceed at the core clock, the answer is for the clock that the limit
    sustains (`equations/power.py`); `clock_hz` [D] is the clock.
    Raises UsageError for a profile without what the model needs, for a component that the model does not declare, and for a CPI
    that is not the sum of its components; SpecError for a power limit that no clock keeps.
    """
    require(model, profile)
    answer = _checked(model, profile, design)
    if limited(model, profile, design):
        over = sum(power_of(profile, design, answer).values(), np.zeros(len(design))) > design.power_limit_w
        if (over := over & (design.power_limit_w > 0)).any():
            throttled = _at_limit(model, profile, design.pick(over))
            for name, values in answer.items():
                values[over] = throttled[name]
    return answer


def _checked(model: Model, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
    """As `evaluate`, at the core clocks of `design`."""
    answer = model.evaluate(profile, design)
    stack = {key.removeprefix(STACK_PREFIX): value for key, value in answer.items() if key.startswith(STACK_PREFIX)}
    check_stack(model, stack, answer["cpi"])
    numbers = {key: value for key, value in answer.items() if not key.startswith(STACK_PREFIX)} | {"clock_hz": design.core_clock_hz}
    whole = numbers | {f"{STACK_PREFIX}{name}": stack.get(name, np.zeros(len(design))) for name in components_of(model)}
    return {name: np.array(values, dtype=np.float64) for name, values in whole.items()}


# -- The power limit of the board.

def limited(model: Model, profile: IntervalProfile, design: Design) -> bool:
    """Whether a power limit can lower a clock: a design has one, the profile knows what takes energy, and the model is bounded by
    the demands on each resource. The papers' models are not: they may predict more bytes a second than a memory has.
    """
    known = profile.activity is not None and profile.demands is not None
    return known and "demands" in model.needs and bool((design.power_limit_w > 0).any())


def power_of(profile: IntervalProfile, design: Design, answer: Mapping[str, Floats]) -> dict[str, Floats]:
    """What the board draws while the launch repeats as in `answer`, at the core clocks of `design`, in W [D] by consumer."""
    assert profile.activity is not None and profile.demands is not None
    warps = profile.total_warp_instructions / instructions_per_warp(profile)
    without = (answer[f"{STACK_PREFIX}idle"] + answer[f"{STACK_PREFIX}launch"]) / answer["cpi"]
    return board_power(profile.activity, profile.demands, warps, design, answer["seconds"], 1.0 - without)


def _at_limit(model: Model, profile: IntervalProfile, design: Design) -> dict[str, Floats]:
    """The answer at the highest clocks that keep the limits of `design`, all of which are exceeded at its core clocks."""
    def at(clock_hz: Floats) -> tuple[Design, dict[str, Floats]]:
        slower = design.varied(core_clock_hz=clock_hz)
        return slower, _checked(model, profile, slower)

    def power_at(clock_hz: Floats) -> Floats:
        return sum(power_of(profile, *at(clock_hz)).values(), np.zeros(len(design)))

    return at(sustained_clock(power_at, design.power_limit_w, design.core_clock_hz))[1]


_LEAST_SHARE = 0.1  # of the power, for a consumer to be named


def _power_provenance(model: Model, profile: IntervalProfile, design: Design, numbers: Mapping[str, float]) -> dict[str, Any]:
    """The power of the board and its consumers, with a note where its limit lowers the clock; nothing for a GPU without a limit."""
    if not limited(model, profile, design):
        return {}
    limit, highest, clock = float(design.power_limit_w[0]), float(design.core_clock_hz[0]), numbers["clock_hz"]
    slower = design.varied(core_clock_hz=clock)
    parts = power_of(profile, slower, {name: np.array([value]) for name, value in numbers.items()})
    watts = {name: float(values[0]) for name, values in parts.items()}
    whole = sum(watts.values())
    power: dict[str, Any] = {"limit_w": limit, "board_w": whole, "clock_hz": clock, "highest_clock_hz": highest, "watts": watts}
    if clock < highest:
        largest = sorted((name for name in watts if watts[name] >= _LEAST_SHARE * whole), key=lambda name: -watts[name])
        shares = ", ".join(f"{100 * watts[name] / whole:.0f} % {CONSUMERS[name]}" for name in largest)
        power["note"] = (
            f"board power limit {format_quantity(limit, POWER)}: {clock / 1e9:.2f} GHz instead of {highest / 1e9:.2f} GHz while "
            f"launches repeat ({shares})"
        )
    return {"power": power}


def check_stack(model: Model, stack: Mapping[str, Any], cpi: Any) -> None:
    """Raises UsageError for a component that `model` does not declare, and for a `cpi` that is not the sum of `stack`."""
    declared = components_of(model)
    for name in stack:
        if name not in declared:
            what = f'the model "{model.name}" returns the component "{name}" of the CPI stack, which it does not declare'
            raise UsageError(what, remedy="declare it in `About.components` of the model, or update its plug-in")
    difference = np.abs(sum(stack.values()) - cpi)
    if (difference > _CLOSE * np.maximum(1.0, cpi)).any():
        what = f'the components of the CPI stack that the model "{model.name}" returns do not sum to its CPI'
        raise UsageError(what, remedy="correct the model: `answer_of` computes the CPI from the stack")


def _provenance(model: Model, profile: IntervalProfile, gpu: GpuSpec, stack: dict[str, float]) -> dict[str, Any]:
    """What was evaluated, and the memory part of the stack by the level that served the loads (GPUMech section VII)."""
    answer: dict[str, Any] = {"name": model.name, "source": model.source}
    if model.memory_levels and profile.memory_stall_levels is not None:
        shares = zip(("l1", "l2", "dram"), profile.memory_stall_levels, strict=True)
        answer["mem_data_by_level"] = {level: stack["mem_data"] * share for level, share in shares}
    if profile.launch is not None:
        launch = profile.launch
        blocks = resident_blocks(gpu, launch.blocks, launch.blocks_per_sm, launch.cluster_blocks)
        resident = launch.warps_per_block * blocks
        answer["warps_per_sm"] = resident
        if resident != profile.warps_per_sm:
            answer["note"] = f"warps_per_sm is {profile.warps_per_sm} in the profile and {resident} by its launch on {gpu.name}"
    return answer


def answer_of(
    profile: IntervalProfile, design: Design, stack: Mapping[str, Floats], *, clock_hz: Floats | None = None
) -> dict[str, Floats]:
    """The answer of `Model.evaluate` from a CPI stack per SM, [D] by component; shared components that it leaves out are zero.

    `clock_hz` [D] is the clock of the cycles, if not the core clock of `design`.
    """
    stack = {**dict.fromkeys(COMPONENTS, np.zeros(len(design))), **stack}
    cpi = sum(stack.values(), np.zeros(len(design)))
    ipc_gpu = 1 / cpi * design.sm_count
    cycles = profile.total_warp_instructions / ipc_gpu
    seconds = cycles / (design.core_clock_hz if clock_hz is None else clock_hz)
    answer = {"cycles": cycles, "seconds": seconds, "ipc_sm_warp": 1 / cpi, "ipc_gpu_warp": ipc_gpu, "cpi": cpi}
    return answer | {f"{STACK_PREFIX}{name}": value for name, value in stack.items()}


# -- The models by name: those that modules of this package register, and plug-ins (entry-point group `warpsight.models`).

MODELS: Registry[Model] = registry("model", "warpsight.models", "warpsight.models")


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

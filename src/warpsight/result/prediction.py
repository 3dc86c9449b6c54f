"""A prediction: cycles, IPC and a CPI stack whose components sum to the CPI; the components; the definition of error."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from warpsight.base.display import DISPLAY

T = TypeVar("T")


def relative_error(predicted: float, reference: float) -> float:
    """(predicted - reference) / reference, signed: the one definition of error."""
    return (predicted - reference) / reference


def mean_absolute_percentage_error(errors: list[float]) -> float:
    """MAPE in per cent: the mean of the absolute relative errors."""
    return 100.0 * sum(abs(e) for e in errors) / len(errors)


@dataclass(frozen=True)
class Prediction:
    """What one model predicts for one kernel on one GPU. Instructions, IPC and CPI count warp instructions; the stack is per SM.

    `cpi_stack` has every component of `COMPONENTS`. The parts of a component that the model declares follow it if they are not
    zero; components of the model's own come last. No component is negative, and their sum is `cpi` within 1e-9.
    `ipc_sm_warp` and `cpi` describe the whole launch, including idle SMs and the last wave.
    """

    kernel: str
    gpu: str
    model: str
    cycles: float
    seconds: float
    warp_instructions: int
    ipc_sm_warp: float
    ipc_gpu_warp: float
    ipc_gpu_thread: float
    cpi: float
    cpi_stack: dict[str, float]
    bound_by: str
    dpki: float | None
    memory_class: str
    occupancy: float
    occupancy_limiter: str
    provenance: dict[str, Any] = field(repr=False)  # long

    def to_json(self) -> dict[str, Any]:
        """The stable JSON keys (`memory_class` is written as `class`)."""
        out = dict(self.__dict__)
        out["class"] = out.pop("memory_class")
        return out

    def _repr_html_(self) -> str | None:
        return DISPLAY.html(self)


# -- The components of the CPI stack.
#
# Every model shares those of `SHARED`; a model may declare more (`models.base.About.components`), which its predictions carry in
# `provenance["model"]["components"]`, so that whoever shows a document can name them. Nsight Compute's stall reasons count stalled
# warps and a CPI stack counts cycles of an SM, so the two are near and not the same; where none is near, none is given.

@dataclass(frozen=True)
class Component:
    """One part of a CPI stack.

    `name` is the key in `cpi_stack`. `meaning` explains it to a CUDA programmer in a few words. `nsight` lists the nearest stall
    reasons of Nsight Compute, "" if there are none. `bound_by` are the words after "bound by".

    `charged_to` names the instructions that `explain` attributes the component to: those of an op class, in proportion to their
    executions, or those of another component. With "" it is attributed to no instruction and shown beside them. `part_of` names the
    shared component that it is a part of, "" if it is not a part.
    """

    name: str
    meaning: str
    nsight: str
    bound_by: str
    charged_to: str = ""
    part_of: str = ""

    def to_json(self) -> dict[str, str]:
        """What a prediction document says of a component that its model declares."""
        return {"meaning": self.meaning, "nsight": self.nsight, "bound_by": self.bound_by}


_TABLE = (
    Component("base", "issue slots doing work", "selected", "instruction issue"),
    Component("com_data", "waiting for arithmetic results", "wait, short scoreboard", "arithmetic latency"),
    Component("com_struct", "arithmetic or load-store unit busy", "math pipe, mio throttle", "arithmetic or load-store throughput"),
    Component("mem_data", "waiting for loads", "long scoreboard", "exposed memory latency"),
    Component("mshr", "no free MSHR in the L1", "lg throttle", "MSHR"),
    Component("noc", "queueing to and from L2", "", "NoC queueing"),
    Component("dram", "queueing at DRAM", "", "DRAM queueing"),
    Component("sync", "waiting at barriers", "barrier", "barriers"),
    Component("idle", "no warps left to run", "", "idle SMs"),
    Component("launch", "begin and end of grid, block starts", "", "launch overhead"),
)
SHARED = {component.name: component for component in _TABLE}
COMPONENTS = tuple(SHARED)

# What `com_struct` consists of, for a model that tells which unit is busy. Units are named as Nsight Compute names its pipelines.
_MATH = "math pipe"
STRUCT_PARTS = {part.name: part for part in (
    Component("banks", "bank conflicts in shared memory", "mio throttle, short scoreboard", "shared-memory bank conflicts"),
    Component("lsu", "load-store unit (LSU) busy", "mio throttle, lg throttle", "load-store unit"),
    Component("alu", "ALU pipe busy (integer, logic)", _MATH, "ALU pipe"),
    Component("fma", "FMA pipe busy (FP32, IMAD)", _MATH, "FMA pipe"),
    Component("fp16", "FP16 pipe busy", _MATH, "FP16 pipe"),
    Component("fp64", "FP64 pipe busy", _MATH, "FP64 pipe"),
    Component("xu", "XU pipe busy (special functions)", _MATH, "XU pipe"),
    Component("tensor", "tensor cores busy", _MATH, "tensor cores"),
    Component("uniform", "uniform pipe busy", _MATH, "uniform pipe"),
)}  # fmt: skip
STRUCT_PARTS = {name: replace(part, part_of="com_struct") for name, part in STRUCT_PARTS.items()}

# All parts of shared components. The last stores end the grid, and no warp waits for them.
COMPONENT_PARTS = STRUCT_PARTS | {
    "drain": Component("drain", "last stores not yet answered", "drain", "the last stores", part_of="launch"),
}


def in_order(stack: Mapping[str, T]) -> dict[str, T]:
    """The same components, the shared ones first and in the order of `COMPONENTS`, each before its parts; a model's own last."""
    parts = {shared: [part.name for part in COMPONENT_PARTS.values() if part.part_of == shared] for shared in COMPONENTS}
    names = (name for shared in COMPONENTS for name in (shared, *parts[shared]))
    return {**{name: stack[name] for name in names if name in stack}, **stack}


def components_of(document: Mapping[str, Any]) -> dict[str, Component]:
    """What is known of each component in the `cpi_stack` of a prediction document, in order.

    One that is neither known here nor declared in the document (another program wrote it) has its name for everything.
    """
    declared = (document.get("provenance") or {}).get("model", {}).get("components", {})
    own = {name: Component(name, entry["meaning"], entry["nsight"], entry["bound_by"]) for name, entry in declared.items()}
    known = SHARED | COMPONENT_PARTS | own
    return {name: known.get(name) or Component(name, "", "", name) for name in in_order(document["cpi_stack"])}


def with_whole(stack: Mapping[str, float], known: Collection[str]) -> dict[str, float]:
    """`stack` with parts that are not among the `known` added to the shared component that they are a part of.

    So a stack with parts compares with one that does not have them, such as the simulator's.
    """
    whole: dict[str, float] = {}
    for name, value in stack.items():
        shared = COMPONENT_PARTS[name].part_of if name in COMPONENT_PARTS and name not in known else name
        whole[shared] = whole.get(shared, 0.0) + value
    return in_order(whole)


# A second component is named where it is at least this part of the first and of the whole.
_SECOND_OF_FIRST, _SECOND_OF_ALL = 0.5, 0.15


def bound_by(stack: Mapping[str, float], components: Mapping[str, Component] = SHARED) -> str:
    """What bounds a kernel with this CPI stack: its largest component, and the next one if that is nearly as large."""
    stack = in_order(stack)
    first, second = sorted(stack, key=lambda name: -stack[name])[:2]
    whole = reduce(add, stack.values())  # rounds as in `bound_by_rows`, which Python's `sum` may not
    both = stack[second] >= max(_SECOND_OF_FIRST * stack[first], _SECOND_OF_ALL * whole)
    return " and ".join(components[name].bound_by for name in (first, second)[: 1 + both])


def bound_by_rows(stacks: Mapping[str, npt.NDArray[np.float64]], components: Mapping[str, Component] = SHARED) -> list[str]:
    """`bound_by` of many stacks at once: float64 [D] by component (at least two), all in `components`."""
    stacks = in_order(stacks)
    names, values = list(stacks), np.stack(list(stacks.values()))
    order = np.argsort(-values, axis=0, kind="stable")[:2]
    first, second = np.take_along_axis(values, order, axis=0)
    whole = sum(values, np.zeros(values.shape[1]))
    both = second >= np.maximum(_SECOND_OF_FIRST * first, _SECOND_OF_ALL * whole)
    code = (order[0] * len(names) + order[1]) * 2 + both

    def text_of(code: int) -> str:
        pair, two = divmod(code, 2)
        return " and ".join([components[names[place]].bound_by for place in divmod(pair, len(names))][: 1 + two])

    text = {int(each): text_of(int(each)) for each in np.unique(code)}
    return [text[each] for each in code.tolist()]


MEMORY_CLASSES = ("memory-divergent", "not memory-divergent")


def memory_class(dpki: float | None) -> str:
    """MDM's classes (MICRO 2020, section I): divergent above 10 divergent loads per 1000 instructions; None is unknown."""
    if dpki is None:
        return "unknown"
    return MEMORY_CLASSES[0] if dpki > 10 else MEMORY_CLASSES[1]

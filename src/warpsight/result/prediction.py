"""The answer of every model: cycles, IPC and a CPI stack whose parts sum to the CPI; the definition of error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.display import DISPLAY

COMPONENTS = ("base", "com_data", "com_struct", "mem_data", "mshr", "noc", "dram", "sync", "idle")


def relative_error(predicted: float, reference: float) -> float:
    """(predicted - reference) / reference, signed: the one definition of error."""
    return (predicted - reference) / reference


def mean_absolute_percentage_error(errors: list[float]) -> float:
    """MAPE in per cent: the mean of the absolute relative errors."""
    return 100.0 * sum(abs(e) for e in errors) / len(errors)


@dataclass(frozen=True)
class Prediction:
    """One kernel on one GPU by one model. Instructions, IPC and CPI count warp instructions; the stack is per SM.

    `cpi_stack` holds every component of `COMPONENTS`, none negative, summing to `cpi` within 1e-9.
    `ipc_sm_warp` and `cpi` are over the whole launch: its instructions over its cycles, idle SMs and the last wave included.
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
    provenance: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The stable JSON keys (`memory_class` is written as `class`)."""
        out = dict(self.__dict__)
        out["class"] = out.pop("memory_class")
        return out

    def _repr_html_(self) -> str | None:
        return DISPLAY.html(self)


# -- The components of the CPI stack: what each means, what Nsight Compute calls its nearest relative, and what bounds a kernel.
#
# Nsight's stall reasons count stalled warps and a CPI stack counts cycles of an SM, so the names are near and not the same; where
# none is near, none is given.

@dataclass(frozen=True)
class Component:
    """`meaning` in words of a CUDA programmer, `nsight` the nearest stall reasons of Nsight Compute, `bound` for `bound by ...`."""

    name: str
    meaning: str
    nsight: str
    bound: str


_ALL = (
    Component("base", "issue slots doing work", "selected", "instruction issue"),
    Component("com_data", "waiting for arithmetic results", "wait, short scoreboard", "arithmetic latency"),
    Component("com_struct", "arithmetic or load-store unit busy", "math pipe, mio throttle", "arithmetic or load-store throughput"),
    Component("mem_data", "waiting for loads", "long scoreboard", "exposed memory latency"),
    Component("mshr", "no free miss register in L1", "lg throttle", "MSHR"),
    Component("noc", "queueing to and from L2", "", "NoC queueing"),
    Component("dram", "queueing at DRAM", "", "DRAM queueing"),
    Component("sync", "waiting at barriers", "barrier", "barriers"),
    Component("idle", "no warps left to run", "", "idle SMs"),
)
STACK = {component.name: component for component in _ALL}
assert tuple(STACK) == COMPONENTS

# A second component is named where it is at least this part of the first and of the whole.
_SECOND_OF_FIRST, _SECOND_OF_ALL = 0.5, 0.15


def bound_by(stack: Mapping[str, float]) -> str:
    """What bounds a kernel with this CPI stack: its largest component, and the next where that is nearly as large."""
    first, second = sorted(stack, key=lambda name: -stack[name])[:2]
    words = [STACK[first].bound]
    if stack[second] >= max(_SECOND_OF_FIRST * stack[first], _SECOND_OF_ALL * sum(stack.values())):
        words.append(STACK[second].bound)
    return " and ".join(words)


def bound_by_rows(stacks: npt.NDArray[np.float64]) -> list[str]:
    """`bound_by` of many stacks at once: `stacks` float64 [components, D] in the order of `COMPONENTS`."""
    order = np.argsort(-stacks, axis=0, kind="stable")[:2]
    first, second = np.take_along_axis(stacks, order, axis=0)
    # Python's sum and ours add in the same order, so that a tie at the threshold falls the same way
    whole = np.zeros(stacks.shape[1])
    for component in stacks:
        whole = whole + component
    both = second >= np.maximum(_SECOND_OF_FIRST * first, _SECOND_OF_ALL * whole)
    code = (order[0] * len(_ALL) + order[1]) * 2 + both
    words = {int(each): _words(int(each)) for each in np.unique(code)}
    return [words[each] for each in code.tolist()]


def _words(code: int) -> str:
    pair, both = divmod(code, 2)
    first, second = divmod(pair, len(_ALL))
    return " and ".join([_ALL[first].bound, _ALL[second].bound][: 1 + both])


MEMORY_CLASSES = ("memory-divergent", "not memory-divergent")


def memory_class(dpki: float | None) -> str:
    """MDM's classes (MICRO 2020, section I): divergent above 10 divergent loads per 1000 instructions; None is unknown."""
    if dpki is None:
        return "unknown"
    return MEMORY_CLASSES[0] if dpki > 10 else MEMORY_CLASSES[1]

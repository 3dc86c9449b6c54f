"""The answer of every model: cycles, IPC and a CPI stack whose parts sum to the CPI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

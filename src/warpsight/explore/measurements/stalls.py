"""Stall reasons of profilers, and the component of the CPI stack that each is nearest to.

Nsight Compute counts for each warp and cycle what the warp waited for; a CPI stack counts what an SM's issue slots were lost to.
They are near and not the same (`result.cpi_stack`), so that shares are put beside each other and no error is made of them.
"""

from __future__ import annotations

import re

from warpsight.explore.measurements.launch import Stall
from warpsight.result.cpi_stack import STACK

# the families of metrics that name a reason, the best first: a file may have several, and shares are of one
_FAMILIES = (
    re.compile(r"smsp__average_warps_issue_stalled_(?P<reason>\w+?)_per_issue_active\.ratio"),
    re.compile(r"smsp__average_warp_latency_issue_stalled_(?P<reason>\w+?)\.ratio"),
    re.compile(r"smsp__warp_issue_stalled_(?P<reason>\w+?)_per_warp_active\.pct"),
    re.compile(r"smsp__warps_issue_stalled_(?P<reason>\w+?)\.(?:avg|sum)"),
    re.compile(r"smsp__pcsamp_warps_issue_stalled_(?P<reason>\w+)"),
    re.compile(r"Stall (?P<reason>[A-Z][\w ]*)"),
    re.compile(r"stall_(?P<reason>\w+)"),
)
_NOT_ISSUED = "_not_issued"
# nvprof's reasons, by the nearest one of Nsight Compute (its documentation's table of nvprof metrics)
_NVPROF = {
    "memory_dependency": "long scoreboard", "exec_dependency": "wait", "sync": "barrier", "pipe_busy": "math pipe throttle",
    "memory_throttle": "lg throttle", "inst_fetch": "no instruction", "constant_memory_dependency": "imc miss",
    "not_selected": "not selected", "texture": "tex throttle", "other": "misc",
}  # fmt: skip


def is_stall(metric: str) -> bool:
    """Whether the metric is of a stall reason."""
    return any(_reason(metric, number) for number in range(len(_FAMILIES)))


def component_of(reason: str) -> str:
    """The component of the CPI stack whose nearest reasons (`STACK`'s `nsight`) have this one; empty where none is near."""
    for component in STACK.values():
        for near in component.nsight.split(", "):
            # Nsight's full name of some goes on: math pipe throttle
            if near and (reason == near or reason.startswith(f"{near} ")):
                return component.name
    return ""


def stalls_of(values: dict[str, float]) -> tuple[Stall, ...]:
    """The reasons among `values` by metric, the largest first, from the best family that has any."""
    for number in range(len(_FAMILIES)):
        found = {metric: reason for metric in values if (reason := _reason(metric, number))}
        whole = sum(values[metric] for metric in found)
        if found and whole > 0:
            rows = [
                Stall(reason, values[metric], values[metric] / whole, component_of(reason), metric)
                for metric, reason in found.items()
            ]
            return tuple(sorted(rows, key=lambda stall: -stall.value))
    return ()


def _reason(metric: str, number: int) -> str:
    found = _FAMILIES[number].fullmatch(metric)
    if not found or found["reason"].endswith(_NOT_ISSUED):
        return ""
    reason = found["reason"].lower()
    return _NVPROF.get(reason, reason.replace("_", " "))

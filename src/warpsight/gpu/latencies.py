"""The latency of an op class on a GPU."""

from __future__ import annotations

from warpsight.base.errors import SpecError, suggestion
from warpsight.gpu.spec import GpuSpec

# What issues and is done: nothing waits on its result longer than on its issue.
ISSUE_ONLY = ("branch", "barrier", "control")


def op_latency(gpu: GpuSpec, op_class: str, instruction: str) -> int:
    """Cycles from issue to dependent issue. Raises SpecError, naming the `instruction`, for a class that `gpu` gives none for."""
    if op_class in gpu.latency_cycles:
        return gpu.latency_cycles[op_class]
    hint = suggestion(op_class, gpu.latency_cycles)
    raise SpecError(
        f'{instruction} is of op class "{op_class}", for which {gpu.name} gives no latency{hint}',
        place=f"latency.{op_class}",
        remedy=f"add `latency: {{{op_class}: N cycles}}` to the GPU description; it has {', '.join(sorted(gpu.latency_cycles))}",
    )

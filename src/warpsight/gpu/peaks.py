"""What a GPU can do at most, as it is described."""

from __future__ import annotations

from warpsight.gpu.spec import GpuSpec

_LANES = 32


def peak_flops(gpu: GpuSpec, op_class: str) -> float:
    """Operations a second of `op_class`, a multiply-add counted as two: what all SMs can begin, as the GPU is described.

    A scheduler begins a warp instruction of the class every initiation interval, and no more instructions than its issue width.
    """
    every = max(gpu.initiation_cycles[op_class], 1 / gpu.sm.issue_width)
    return gpu.sm_count * gpu.sm.schedulers * _LANES * 2 * gpu.core_clock_hz / every

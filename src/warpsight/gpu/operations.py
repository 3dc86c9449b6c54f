"""What operations cost on a GPU: the latency of an op class, the pipes that an instruction occupies, and peak rates."""

from __future__ import annotations

import math

from warpsight.base.errors import SpecError, suggestion
from warpsight.gpu.spec import HALF, TENSOR, GpuSpec

# Op classes whose instructions also occupy the pipe of another class. Multiply-adds of integers go through the pipe of single
# precision, and where that has two halves only through one of them: Nsight Compute calls it FMA, and its halves FMAHeavy, which
# executes FP32, integer multiplies and dot products, and FMALite, which executes FP32 alone.
_WITHIN = {"imad": "fp32"}


def shared_latency(gpu: GpuSpec, *, remote: bool) -> int:
    """Cycles of a load from shared memory without conflicts; `remote`: from that of another block of the cluster."""
    return (remote and gpu.sm.cluster_latency_cycles) or gpu.latency_cycles["shared"]


# What issues and is done: nothing waits on its result longer than on its issue.
ISSUE_ONLY = ("branch", "barrier", "control")

Product = tuple[str, float]
"""A warp matrix multiply: its kind, an op class, and its work relative to the multiply that the keys of that class are for."""


def op_latency(gpu: GpuSpec, op_class: str, instruction: str, product: Product | None = None) -> int:
    """Cycles from issue to dependent issue. Raises SpecError, naming the `instruction`, for a class that `gpu` gives none for.

    `product` if it is a matrix multiply. Its steps follow each other through the unit: a smaller one is done earlier, a larger one
    later, by what it occupies the unit less or more.
    """
    op_class, work = product or (op_class, 1.0)
    if op_class in gpu.latency_cycles:
        if work == 1.0:
            return gpu.latency_cycles[op_class]
        if _is_half(op_class, work) and HALF in gpu.latency_cycles:
            return gpu.latency_cycles[HALF]
        later = _product_cycles(gpu, (op_class, work)) - gpu.initiation_cycles[op_class]
        return max(1, gpu.latency_cycles[op_class] + later)
    hint = suggestion(op_class, gpu.latency_cycles)
    raise SpecError(
        f'{instruction} is of op class "{op_class}", for which {gpu.name} gives no latency{hint}',
        place=f"latency.{op_class}",
        remedy=f"add `latency: {{{op_class}: N cycles}}` to the GPU description; it has {', '.join(sorted(gpu.latency_cycles))}",
    )


_WHOLE_ALONE = ("tensor_fp64", "tensor_group")  # kinds whose smaller shapes `tensor_half` is not for


def _is_half(kind: str, work: float) -> bool:
    return work <= 1 / 2 and kind not in _WHOLE_ALONE


def _product_cycles(gpu: GpuSpec, product: Product) -> int:
    """Cycles for which a matrix multiply occupies a scheduler's tensor cores. Raises SpecError for a kind that they do not have."""
    kind, work = product
    if kind not in gpu.initiation_cycles:
        raise SpecError(
            f"{gpu.name} gives no initiation interval for matrix multiplies of the kind {kind}", place=f"initiation.{kind}",
            remedy=f"use types that its tensor cores have, or add `initiation: {{{kind}: N cycles}}` to the GPU description",
        )  # fmt: skip
    whole = gpu.initiation_cycles[kind]
    if _is_half(kind, work) and HALF in gpu.initiation_cycles:
        return math.ceil(2 * work * whole * gpu.initiation_cycles[HALF] / gpu.initiation_cycles[TENSOR])
    return math.ceil(work * whole)


def occupied(gpu: GpuSpec, op_class: str, product: Product | None = None) -> tuple[tuple[str, int], ...]:
    """The pipes of a scheduler that a warp instruction of `op_class` occupies, and for how many cycles.

    First its own, then the one that this is a part of. `product` if it is a matrix multiply; all kinds share the tensor cores.
    """
    if product is not None:
        return ((TENSOR, _product_cycles(gpu, product)),)
    own, whole = gpu.initiation_cycles.get(op_class, 1), _WITHIN.get(op_class)
    return ((op_class, own), (whole, gpu.initiation_cycles.get(whole, 1))) if whole else ((op_class, own),)


_PASS_BYTES = 128  # of a pass through the 32 banks of shared memory


def pass_cycles(gpu: GpuSpec) -> int:
    """Cycles for which machine code occupies the load-store unit with a pass through the banks of shared memory."""
    return -(-_PASS_BYTES // (gpu.sm.access_width_bytes or _PASS_BYTES))


def remote_pass_cycles(gpu: GpuSpec) -> int:
    """Cycles for which a pass through the banks of another SM's shared memory occupies the load-store unit, at any level."""
    return -(-_PASS_BYTES // (gpu.sm.cluster_width_bytes or _PASS_BYTES))


_LANES, _OF_A_PRODUCT = 32, 16 * 8 * 16


def peak_flops(gpu: GpuSpec, op_class: str) -> float:
    """Operations a second of `op_class`, a multiply-add counted as two: what all SMs can begin, as the GPU is described.

    A scheduler begins a warp instruction of the class every initiation interval, and no more instructions than its issue width.
    `tensor` is the peak of 16-bit numbers with 16-bit sums; of warp groups, where these are faster.
    """
    if op_class == TENSOR:
        interval = gpu.initiation_cycles.get("tensor_group", gpu.initiation_cycles[TENSOR])
        return gpu.sm_count * gpu.sm.schedulers * _OF_A_PRODUCT * 2 * gpu.core_clock_hz / interval
    every = max(gpu.initiation_cycles[op_class], 1 / gpu.sm.issue_width)
    return gpu.sm_count * gpu.sm.schedulers * _LANES * 2 * gpu.core_clock_hz / every

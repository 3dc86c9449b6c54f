"""GPUs side by side: the figures that follow from their keys, and the keys in which they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.gpu.document import value_text
from warpsight.gpu.keys import key_of
from warpsight.gpu.occupancy import WARP_SIZE, occupancy, with_own_l1
from warpsight.gpu.operations import peak_flops
from warpsight.gpu.spec import GpuSpec


def _tensor_flops(gpu: GpuSpec) -> float | None:
    """Operations a second of tensor cores, None where there are none."""
    return peak_flops(gpu, "tensor") if "tensor" in gpu.initiation_cycles else None


def _largest_l1(gpu: GpuSpec) -> float:
    """The L1 of an SM for a launch without shared memory."""
    largest = min(gpu.sm.max_threads_per_block, _threads(gpu))
    return with_own_l1(gpu, occupancy(gpu, largest, 1, 0)).l1.size_bytes


def _threads(gpu: GpuSpec) -> int:
    return gpu.sm.max_warps * WARP_SIZE


def _nanoseconds(gpu: GpuSpec, cycles: int) -> float:
    return cycles / gpu.core_clock_hz * 1e9


@dataclass(frozen=True)
class Figure:
    """What follows from the keys of a GPU: a number in `unit`."""

    name: str
    unit: str
    of: Callable[[GpuSpec], float | None]


FIGURES = (
    Figure("peak fp32", "TFLOPS", lambda gpu: peak_flops(gpu, "fp32") / 1e12),
    Figure("peak fp64", "TFLOPS", lambda gpu: peak_flops(gpu, "fp64") / 1e12),
    # an instruction of 16-bit numbers makes two results a lane
    Figure("peak fp16", "TFLOPS", lambda gpu: 2 * peak_flops(gpu, "fp16") / 1e12),
    Figure("peak fp16 of tensor cores", "TFLOPS", lambda gpu: None if (rate := _tensor_flops(gpu)) is None else rate / 1e12),
    Figure("DRAM", "GB/s", lambda gpu: gpu.dram.bandwidth_bytes_per_s / 1e9),
    Figure("L2 to SMs", "GB/s", lambda gpu: gpu.noc.bandwidth_bytes_per_s / 1e9),
    Figure("fp32 per DRAM byte", "FLOP", lambda gpu: peak_flops(gpu, "fp32") / gpu.dram.bandwidth_bytes_per_s),
    Figure("L2", "MiB", lambda gpu: gpu.l2.size_bytes / 2**20),
    Figure("L1 of an SM, at most", "KiB", lambda gpu: _largest_l1(gpu) / 2**10),
    Figure("shared memory of an SM", "KiB", lambda gpu: gpu.sm.shared_memory_bytes / 2**10),
    Figure("shared memory of a block", "KiB",
           lambda gpu: (gpu.sm.max_shared_memory_per_block_bytes or gpu.sm.shared_memory_bytes) / 2**10),
    Figure("threads of an SM", "", _threads),
    Figure("blocks of an SM", "", lambda gpu: gpu.sm.max_blocks),
    Figure("registers per thread, full", "", lambda gpu: gpu.sm.registers // _threads(gpu)),
    Figure("threads of the GPU", "", lambda gpu: gpu.sm_count * _threads(gpu)),
    Figure("L1 hit", "ns", lambda gpu: _nanoseconds(gpu, gpu.l1.latency_cycles)),
    Figure("L2 hit", "ns", lambda gpu: _nanoseconds(gpu, gpu.l2.latency_cycles)),
    Figure("DRAM access", "ns", lambda gpu: _nanoseconds(gpu, gpu.l2.latency_cycles + gpu.dram.latency_cycles)),
)  # fmt: skip


def compared(gpus: Sequence[GpuSpec]) -> dict[str, Any]:
    """Figures and differing keys of `gpus`, each with a value and a ratio to the first for every GPU, in order.

    A ratio is None where there is none: of a word, by zero, or of what a GPU lacks.
    """
    values = [gpu.by_key for gpu in gpus]
    names = dict.fromkeys(name for each in values for name in each)
    return {
        "gpus": [{"name": gpu.name, "description": gpu.description} for gpu in gpus],
        "figures": [
            {"figure": figure.name, "unit": figure.unit, "values": row, "ratios": _ratios(row)}
            for figure in FIGURES for row in [[figure.of(gpu) for gpu in gpus]]
        ],
        "keys": [
            {
                "key": name, "values": [None if name not in each else value_text(name, each[name]) for each in values],
                "ratios": _ratios([each.get(name) if key_of(name).numeric else None for each in values]),
                "meaning": key_of(name).meaning,
            }
            for name in names if len({each.get(name) for each in values}) > 1
        ],
    }  # fmt: skip


def _ratios(row: Sequence[Any]) -> list[float | None]:
    first = row[0]
    return [value / first if first and value is not None else None for value in row]

"""Which steps between a trace and a prediction each GPU key enters: what has to be made again when its value changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from warpsight.gpu.document import flatten, value_text
from warpsight.gpu.keys import KEYS, ORDER
from warpsight.gpu.spec import GpuSpec, ordered

# Keys that enter the models' equations alone, unless the order of accesses follows them, and the array of `Design` that they are.
MODEL_ONLY: dict[str, str] = {
    "core_clock": "core_clock_hz",
    "l1.mshrs": "mshrs",
    "noc.bandwidth": "noc_bytes_per_s",
    "noc.queue": "noc_queue",
    "dram.bandwidth": "dram_bytes_per_s",
    "dvfs.target_clock": "target_clock_hz",
    "mwp.memory_latency": "mwp_memory_latency_cycles",
    "mwp.departure_coalesced": "mwp_departure_coalesced_cycles",
    "mwp.departure_uncoalesced": "mwp_departure_uncoalesced_cycles",
    "mwp.issue_cycles": "mwp_issue_cycles",
}
# Keys that the simulator alone reads.
SIMULATOR_ONLY = frozenset({
    "sm.fetch_width", "l1.miss_queue", "noc.flit", "noc.buffer", "dram.queue", "dram.row", "dram.banks",
    "dram.activate", "dram.precharge", "dram.turnaround",
})  # fmt: skip
# Keys that come in after the caches: latencies of what they found, and what decides residency, which they are given.
_AFTER_CACHES = frozenset({
    *(key for key in KEYS if key.startswith("initiation.")), "mwp.coalescing", "l1.allocation",
    "sm.max_warps", "sm.max_blocks", "sm.registers", "sm.shared_memory", "sm.max_threads_per_block", "sm.max_registers_per_thread",
    "sm.register_unit", "sm.shared_memory_unit", "sm.max_shared_memory_per_block", "sm.shared_memory_reserved",
})  # fmt: skip
# Keys of which the caches see the order's value, and the profile the design's own.
_LATENCIES = ("l1.latency", "l2.latency", "dram.latency")


def model_only(base: GpuSpec, columns: Mapping[str, npt.NDArray[Any]]) -> frozenset[str]:
    """Those of `MODEL_ONLY` that on none of the designs (`columns` by key, each [D]) around `base` enter an earlier step.

    The caches see a design's own clock, bandwidths and MSHRs where the order of accesses follows them (`order.core_clock` is 0).
    """
    described = flatten(base)
    following = {
        followed for name, followed in ORDER.items()
        if ((columns[name] == 0).any() if name in columns else described[name] == 0)
    }  # fmt: skip
    return frozenset(MODEL_ONLY.keys() - following)


def cache_view(gpu: GpuSpec) -> dict[str, str]:
    """The values that decide what the caches make of a trace, besides the blocks that are resident, as a file writes them."""
    return {name: text for name, text in _ordered_view(gpu).items() if name not in _AFTER_CACHES}


def profile_view(gpu: GpuSpec) -> dict[str, str]:
    """The values that decide the interval profile."""
    own = flatten(gpu)
    return _ordered_view(gpu) | {f"own {name}": value_text(name, own[name]) for name in _LATENCIES}


def _ordered_view(gpu: GpuSpec) -> dict[str, str]:
    # a design's own clock, bandwidths and MSHRs are not seen once its order's stand in their place
    skipped = SIMULATOR_ONLY | ORDER.keys() | (MODEL_ONLY.keys() - ORDER.values())
    return {name: value_text(name, content) for name, content in flatten(ordered(gpu)).items() if name not in skipped}


def view_hash(view: dict[str, Any]) -> str:
    """SHA-256 (64 hexadecimal digits) of such values."""
    return hashlib.sha256(json.dumps(view, sort_keys=True).encode()).hexdigest()

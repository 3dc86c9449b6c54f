"""A result document made by hand: figures for which the printed text is written out in the tests."""

from __future__ import annotations

from typing import Any

DRAWN_STACK = {
    "base": 0.25, "com_data": 0.14, "com_struct": 0.0, "mem_data": 0.42, "mshr": 0.31, "noc": 0.17, "dram": 0.21, "sync": 0.0,
    "idle": 0.0,
}  # fmt: skip


def document(stack: dict[str, float] = DRAWN_STACK, **changes: Any) -> dict[str, Any]:
    """A prediction document whose CPI is the sum of `stack`; `changes` replace keys."""
    cpi = sum(stack.values())
    provenance = {
        "tool": "warpsight 0.1.0",
        "launch": {"source": "spmv.cu", "grid": [128, 1, 1], "block": [256, 1, 1]},
        "gpu": {"sm_count": 28, "l1": {"mshrs": 128}, "dram": {"latency": "220 cycles", "bandwidth": "480 GB/s"}},
        "notes": [],
    }
    return {
        "kernel": "spmv_csr",
        "gpu": "mdm-pascal",
        "model": "mdm",
        "cycles": 393216.0,
        "seconds": 280.9e-6,
        "warp_instructions": 177152,
        "ipc_sm_warp": 1 / cpi,
        "ipc_gpu_warp": 28 / cpi,
        "ipc_gpu_thread": 28 * 31 / cpi,
        "cpi": cpi,
        "cpi_stack": dict(stack),
        "bound_by": "MSHR and exposed memory latency",
        "dpki": 64.2,
        "class": "memory-divergent",
        "occupancy": 0.5,
        "occupancy_limiter": "registers",
        "provenance": provenance,
        **changes,
    }

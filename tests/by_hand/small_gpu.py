"""A small GPU whose every cache parameter a test can choose."""

from __future__ import annotations

import dataclasses
from typing import Any

from warpsight.gpu.spec import DramSpec, GpuSpec, L1Spec, L2Spec, NocSpec, SmSpec


def small_gpu(sm_count: int = 2, l1: dict[str, Any] | None = None, l2: dict[str, Any] | None = None, **sm: Any) -> GpuSpec:
    """`sm_count` SMs with an L1 of 2 sets x 2 ways x 128 B and an L2 of 2 slices x 2 sets x 2 ways, unless said otherwise."""
    lines = {"line_bytes": 128, "sector_bytes": 128, "ways": 2, "mshrs": 128, "targets": 64}
    first = L1Spec(size_bytes=512, latency_cycles=25, **lines)
    second = L2Spec(size_bytes=1024, latency_cycles=120, slices=2, **lines)
    spec = SmSpec(64, 32, 65536, 98304, schedulers=1, issue_width=1, policy="lrr")
    return GpuSpec(
        name="small",
        core_clock_hz=1e9,
        sm_count=sm_count,
        sm=dataclasses.replace(spec, **sm),
        latency_cycles={"int": 4, "fp32": 4, "shared": 24},
        initiation_cycles={},
        l1=dataclasses.replace(first, **(l1 or {})),
        noc=NocSpec(256e9),
        l2=dataclasses.replace(second, **(l2 or {})),
        dram=DramSpec(128e9, channels=2, latency_cycles=220),
    )

"""The roofline of a launch: how much work it does for each byte at L1, L2 and DRAM, and what the GPU allows at that.

Williams, Waterman and Patterson: Roofline, CACM 2009; by warp instructions: Ding and Williams, An instruction roofline model for
GPUs, PMBS 2019. Bytes at the L1 are of the 32 B sectors that are touched, at the L2 what crosses the NoC, at DRAM what is read and
written there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpsight.explore.dossier.flops import flops
from warpsight.gpu.peaks import peak_flops
from warpsight.profile.requests import atomics
from warpsight.trace.schema import SECTOR_BYTES

if TYPE_CHECKING:
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.gpu.spec import GpuSpec
    from warpsight.result.prediction import Prediction


def rooflines(profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction) -> list[dict[str, Any]]:
    """A roofline by warp instructions and, where the kernel has floating-point arithmetic, one by operations.

    Each: `unit` of work, `ceilings` [{name, per_s}] of computing, `levels` [{name, bytes, bytes_per_s}] with what the launch moves
    and what the level can, `work` of the launch, and `per_s` as predicted. A level that moves nothing is left
    out; without any level there is no roofline.
    """
    levels, header = _levels(profiled, gpu), profiled.trace.header
    if not levels:
        return []
    issue = gpu.sm_count * gpu.sm.schedulers * gpu.sm.issue_width * gpu.core_clock_hz
    instructions = float(header.warp_instructions)
    drawn = [_roofline("warp instructions", instructions, [{"name": "issue", "per_s": issue}], levels, prediction)]
    counted = flops(profiled.trace)
    ceilings = [{"name": name, "per_s": peak_flops(gpu, name)} for name in counted if name in gpu.initiation_cycles]
    if ceilings:
        drawn.append(_roofline("floating-point operations", sum(counted.values()), ceilings, levels, prediction))
    return drawn


def _roofline(
    unit: str, work: float, ceilings: list[dict[str, Any]], levels: list[dict[str, Any]], prediction: Prediction
) -> dict[str, Any]:
    return {"unit": unit, "work": work, "per_s": work / prediction.seconds, "ceilings": ceilings, "levels": levels}


def _levels(profiled: ProfiledTrace, gpu: GpuSpec) -> list[dict[str, Any]]:
    trace, misses, demands = profiled.trace, profiled.misses, profiled.profile.demands
    assert demands is not None, "a profile made from a trace knows its demands"
    header = trace.header
    warps, scale = header.blocks * header.warps_per_block, header.blocks / header.recorded_blocks
    # atomics pass the L1 by
    touched = float(misses.sectors[~atomics(trace.instructions)].sum()) * SECTOR_BYTES * scale
    found = [
        {"name": "L1", "bytes": touched, "bytes_per_s": gpu.sm_count * gpu.l1.line_bytes * gpu.core_clock_hz},
        {"name": "L2", "bytes": (demands.fetched_bytes + demands.sent_bytes) * warps, "bytes_per_s": gpu.noc.bandwidth_bytes_per_s},
        {"name": "DRAM", "bytes": demands.dram_bytes * warps, "bytes_per_s": gpu.dram.bandwidth_bytes_per_s},
    ]
    return [level for level in found if level["bytes"]]

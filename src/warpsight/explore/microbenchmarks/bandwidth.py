"""Bandwidths: the slope of time over bytes, which leaves out what a launch takes before and after; of several grids the fastest.

A bandwidth is only seen by more misses in flight than it takes to hide the latency (Little's law). Where the L1s' miss registers
bound them, time tells those and not the bandwidth, and it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from warpsight.explore.microbenchmarks.fitted import Answer, Fitted, Refused
from warpsight.explore.microbenchmarks.timings import RESIDENT, STREAM, Timing, Timings
from warpsight.gpu.spec import GpuSpec

# a line through fewer points, or with larger residuals, is none
_POINTS, _STRAIGHT = 3, 0.05
# of what the misses in flight allow
_BOUND = 0.8
# bytes moved must grow by this for a slope
_GROWTH = 1.5


@dataclass(frozen=True)
class _Slope:
    bytes_per_s: float
    deviation: float
    rows: int
    grid: str


def bandwidths(timings: Timings, gpu: GpuSpec, mshrs: float | None, l2: float | None, dram: float | None) -> list[Answer]:
    """`dram.bandwidth` and `noc.bandwidth` in bytes a second.

    `mshrs` and the latencies `l2` and `dram` (cycles; what DRAM adds) are the fitted ones, None where they are not known.
    """
    in_memory = None if l2 is None or dram is None else l2 + dram
    return [
        _bandwidth("dram.bandwidth", timings.of(STREAM), gpu, mshrs, in_memory),
        _bandwidth("noc.bandwidth", timings.of(RESIDENT), gpu, mshrs, l2),
    ]


def _bandwidth(key: str, rows: Sequence[Timing], gpu: GpuSpec, mshrs: float | None, latency: float | None) -> Answer:
    grids: dict[tuple[int, int], list[Timing]] = {}
    for row in rows:
        grids.setdefault((row.blocks, row.threads), []).append(row)
    slopes = [slope for grid in grids.values() if (slope := _slope(grid)) is not None]
    name = STREAM if key == "dram.bandwidth" else RESIDENT
    if not slopes:
        return Refused(key, f"needs {_POINTS} timings of {name} with one grid and growing bytes; there are {len(rows)} in all")
    straight = [slope for slope in slopes if slope.deviation <= _STRAIGHT]
    if not straight:
        least = min(slope.deviation for slope in slopes)
        return Refused(key, f"the time of {name} does not grow evenly with bytes: {100 * least:.0f} % off a line at best")
    best = max(straight, key=lambda slope: slope.bytes_per_s)
    if mshrs is not None and latency is not None:
        most = gpu.sm_count * mshrs * gpu.l1.line_bytes / latency * gpu.core_clock_hz
        if best.bytes_per_s > _BOUND * most:
            reason = (
                f"{best.bytes_per_s / 1e9:.0f} GB/s were reached, and {mshrs:.0f} misses in flight on each SM allow about "
                f"{most / 1e9:.0f} GB/s: time tells the MSHRs and not the bandwidth, which is at least that reached"
            )
            return Refused(key, reason)
    quality = f"slope of {best.rows} timings with {best.grid}, {100 * best.deviation:.1f} % off the line"
    return Fitted(key, best.bytes_per_s, best.rows, best.deviation, quality)


def _slope(rows: Sequence[Timing]) -> _Slope | None:
    """Bytes a second by least squares, relative residuals; None for too few or too even points."""
    moved = np.array([row.size for row in rows], dtype=np.float64)
    seconds = np.array([row.time for row in rows]) / 1e9
    if len(rows) < _POINTS or moved.max() < _GROWTH * moved.min():
        return None
    design = np.stack([np.ones_like(moved), moved / moved.max()], axis=1)
    (start, grown), *_ = np.linalg.lstsq(design, seconds, rcond=None)
    if grown <= 0:
        return None
    residual = float(np.abs(design @ np.array([start, grown]) - seconds).max() / grown)
    return _Slope(float(moved.max() / grown), residual, len(rows), f"{rows[0].blocks} blocks of {rows[0].threads}")

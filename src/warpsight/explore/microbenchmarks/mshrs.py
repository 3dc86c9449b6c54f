"""The L1's miss registers (Nugteren et al., HPCA 2014, section 5): misses in flight against time.

Behind so many misses comes a load that hits. It passes them, and its time grows by about a cycle for each, until there is one miss
more than registers: that one blocks the L1 until a line arrives.
"""

from __future__ import annotations

import numpy as np

from warpsight.explore.microbenchmarks.fitted import Fitted, Refused
from warpsight.explore.microbenchmarks.timings import MISSES, Timings

KEY = "l1.mshrs"
_LEAST_ROWS = 8
# a jump is at least this times the L1's latency, and this times what a miss takes otherwise
_JUMP_LATENCIES, _JUMP_STEPS = 2.0, 8.0


def miss_registers(timings: Timings, l1_latency: float | None) -> Fitted | Refused:
    """`l1.mshrs`, where the time jumps; refused without a jump, or where the counts beside it were not both timed."""
    rows = sorted(timings.of(MISSES), key=lambda row: row.count)
    if len(rows) < _LEAST_ROWS:
        return Refused(KEY, f"needs {_LEAST_ROWS} timings of {MISSES}; there are {len(rows)}")
    if l1_latency is None:
        return Refused(KEY, "what is a jump needs l1.latency")
    counts = np.array([row.count for row in rows])
    times = np.array([row.time for row in rows])
    jumps, steps = np.diff(times), np.diff(counts)
    usual = float(np.median(np.abs(jumps / steps)))
    least = np.maximum(_JUMP_LATENCIES * l1_latency, _JUMP_STEPS * usual * steps)
    found = np.flatnonzero(jumps > least)
    if not len(found):
        most = int(counts[-1])
        what = f"up to {most} misses in flight hold up no hit"
        return Refused(KEY, f"{what}: there are more registers, or misses do not block the L1")
    first = int(found[0])
    if steps[first] > 1:
        low, high = int(counts[first]), int(counts[first + 1])
        return Refused(KEY, f"between {low} and {high - 1}; time each count of misses from {low} to {high}")
    # beyond the jump the hit stays held up: else it was noise
    if float(times[first + 1 :].min()) < float(times[: first + 1].max()) + float(least[first]) / 2:
        return Refused(KEY, f"the time jumps at {int(counts[first + 1])} misses and falls again: noise; time it again")
    noise = float(np.abs(jumps[:first] - usual * steps[:first]).max() / jumps[first]) if first else 0.0
    quality = f"the hit is held up {jumps[first]:.0f} cycles longer behind {int(counts[first + 1])} misses"
    return Fitted(KEY, float(counts[first]), len(rows), noise, quality)

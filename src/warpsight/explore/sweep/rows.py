"""The columns of a study's results: one row for each design, kernel and model (or the referee)."""

from __future__ import annotations

from warpsight.result.prediction import COMPONENTS

DESIGN, KERNEL, MODEL, FAILED = "design", "kernel", "model", "failed"
REFEREE = "referee"  # in the column of models
STACK = tuple(f"cpi_stack.{name}" for name in COMPONENTS)
# float64, NaN in a row that failed
NUMBERS = ("cycles", "seconds", "ipc_sm_warp", "ipc_gpu_warp", "cpi", *STACK)
WORDS = ("bound_by", "class", "occupancy_limiter")
"""`design` int64, then a column for each axis and derived key under the key's name (float64 in base units, or text), then `kernel`
and `model` (text), the numbers, `warp_instructions` int64, `dpki` and `occupancy` float64, the words, and `failed`: the reason why
a row has no numbers, empty in others."""

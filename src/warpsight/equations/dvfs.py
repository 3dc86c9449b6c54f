"""Time at another clock from stall components at the nominal one: CRISP (Nath and Tullsen, MICRO 2015).

All times are in cycles of the nominal clock. `slowdown` is the nominal clock over the target's, at least 1. Arguments broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def load_critical_path(overlapped: Any, load_stalls: Any, slowdown: Any) -> Any:
    """Time in which loads are waited for, with the computation they overlap: memory's own time does not change with the clock.

    At the nominal clock it is both together; computation that is stretched beyond that time takes over.
    """
    return np.maximum(slowdown * overlapped, load_stalls + overlapped)


def compute_store_path(computation: Any, store_stalls: Any, slowdown: Any) -> Any:
    """The rest: computation that no load overlaps, and stalls of stores, which stretched computation hides."""
    return np.maximum(slowdown * computation, computation + store_stalls)

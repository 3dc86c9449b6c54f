"""When a loop ends, in closed form: the first iteration in which a comparison of `A + B k` with 0 holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Longs = npt.NDArray[np.int64]

NEVER = 1 << 62


def first_iteration(relation: str, start: Any, step: Any, threads: int) -> Longs:
    """The least k >= 0 with `start + step k` RELATION 0 (lt, le, gt, ge, eq, ne) for each thread, `NEVER` where there is none.

    `start` and `step` are ints or int64 [threads]; the answer is int64 [threads].
    """
    a = np.broadcast_to(np.asarray(start, dtype=np.int64), (threads,))
    b = np.broadcast_to(np.asarray(step, dtype=np.int64), (threads,))
    if relation in ("gt", "ge"):
        return first_iteration({"gt": "lt", "ge": "le"}[relation], -a, -b, threads)
    if relation == "le":
        return first_iteration("lt", a - 1, b, threads)
    if relation == "lt":
        falling = np.where(b < 0, a // np.where(b < 0, -b, 1) + 1, NEVER)
        return np.where(a < 0, 0, falling)
    if relation == "ne":
        return np.where(a != 0, 0, np.where(b != 0, 1, NEVER))
    divisor = np.where(b != 0, b, 1)
    meets = (b != 0) & (a % divisor == 0) & (-a // divisor > 0)
    return np.where(a == 0, 0, np.where(meets, -a // divisor, NEVER))

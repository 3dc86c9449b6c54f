"""The best designs, with what binds each kernel on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.explore.sweep.answers.results import plain
from warpsight.explore.sweep.answers.selection import Selection


def best(selection: Selection, count: int = 10) -> dict[str, Any]:
    """The `count` chosen designs of most performance, most first; of equal ones the lower design number first.

    Each with its keys, its performance, the seconds of all kernels, and for each kernel its seconds, speed relative to the
    baseline, `bound_by` and `class`. `ties` counts further designs that are as good as the last. Raises UsageError for a count
    below 1.
    """
    if count < 1:
        raise UsageError(f"{count} designs are asked for", place="best", remedy="ask for at least 1")
    results, found = selection.results, selection.performance
    # stable, and positions ascend by design number
    order = np.argsort(-selection.values, kind="stable")
    shown = selection.positions[order[:count]]
    ties = int(np.count_nonzero(selection.values[order[count:]] == found.values[shown[-1]]))
    seconds, bound, kind = results.figures("seconds"), results.words("bound_by"), results.words("class")
    listed = []
    for place in shown:
        kernels = [
            {"kernel": results.kernels[k], "seconds": plain(seconds[k, place]), "speedup": plain(found.speeds[k, place]),
             "bound_by": bound[k, place], "class": kind[k, place]}
            for k in found.kernels
        ]  # fmt: skip
        listed.append({**results.described(place), "performance": plain(found.values[place]),
                       "seconds": plain(found.seconds[place]), "kernels": kernels})  # fmt: skip
    return {**selection.head("best"), "best": listed, "ties": ties}

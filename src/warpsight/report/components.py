"""What the components of the CPI stack mean, in words that a CUDA programmer uses, and the nearest Nsight Compute stall reason.

Nsight's reasons are those of its "Warp State" section. They count stalled warps and ours count cycles of an SM, so the names are
the nearest and not the same; where none is near, none is given.
"""

from __future__ import annotations

from warpsight.result.prediction import COMPONENTS

MEANING = {
    "base": "issue slots doing work",
    "com_data": "waiting for arithmetic results",
    "com_struct": "arithmetic units busy",
    "mem_data": "waiting for loads",
    "mshr": "no free miss register in L1",
    "noc": "queueing to and from L2",
    "dram": "queueing at DRAM",
    "sync": "waiting at barriers",
    "idle": "no warps left to run",
}

NSIGHT = {
    "base": "selected",
    "com_data": "wait, short scoreboard",
    "com_struct": "math pipe throttle",
    "mem_data": "long scoreboard",
    "mshr": "lg throttle",
    "noc": "",
    "dram": "",
    "sync": "barrier",
    "idle": "",
}

QUEUES = ("mshr", "noc", "dram")


def shares(document: dict[str, object]) -> dict[str, float]:
    """Each component over the CPI, as fractions in the order of `COMPONENTS`. Components of other models follow, as they come."""
    stack = document["cpi_stack"]
    assert isinstance(stack, dict)
    total = sum(stack.values())
    names = [name for name in COMPONENTS if name in stack] + [name for name in stack if name not in COMPONENTS]
    return {name: stack[name] / total if total else 0.0 for name in names}


def dominant(document: dict[str, object], *, besides: tuple[str, ...] = ()) -> str:
    """The largest component that is not in `besides`."""
    share = shares(document)
    return max((name for name in share if name not in besides), key=share.__getitem__)

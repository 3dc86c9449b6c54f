"""The parts of a CPI stack as shares, for texts."""

from __future__ import annotations

from typing import Any

from warpsight.result.prediction import COMPONENTS

QUEUES = ("mshr", "noc", "dram")


def shares(document: dict[str, Any]) -> dict[str, float]:
    """Each component over the CPI, as fractions in the order of `COMPONENTS`. Components of other models follow, as they come."""
    stack = document["cpi_stack"]
    total = sum(stack.values())
    names = [name for name in COMPONENTS if name in stack] + [name for name in stack if name not in COMPONENTS]
    return {name: stack[name] / total if total else 0.0 for name in names}


def dominant(document: dict[str, Any]) -> str:
    """The largest component."""
    share = shares(document)
    return max(share, key=share.__getitem__)


def queueing(document: dict[str, Any]) -> float:
    """The share of the MSHRs and of the queues behind them."""
    return sum(shares(document).get(name, 0.0) for name in QUEUES)

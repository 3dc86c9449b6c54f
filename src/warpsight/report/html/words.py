"""Numbers and names as a page shows them: filters of the templates."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import duration, percent, thousands, three_digits
from warpsight.report.comparison_text import signed_percent
from warpsight.report.html.what_if import times
from warpsight.report.stack_text import meaning
from warpsight.result.cpi_stack import STACK


def dimensions(sizes: list[int]) -> str:
    """A grid or block as CUDA writes it: `(128,1,1)`."""
    return f"({','.join(map(str, sizes))})"


def nsight(component: str) -> str:
    """The nearest stall reasons of Nsight Compute; empty where none is near."""
    return STACK[component].nsight if component in STACK else ""


def signed(number: float) -> str:
    """A whole number with its sign, thousands separated."""
    return f"{number:+,.0f}" if round(number) else "0"


FILTERS: dict[str, Any] = {
    "dimensions": dimensions,
    "duration": duration,
    "meaning": meaning,
    "nsight": nsight,
    "percent": percent,
    "signed_percent": signed_percent,
    "signed": signed,
    "significant": three_digits,
    "thousands": thousands,
    "times": times,
}

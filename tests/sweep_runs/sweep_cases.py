"""Small studies for the tests of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsight.explore.request import KernelRequest
from warpsight.explore.sweep.study import Study, StudyKernel
from warpsight.explore.sweep.study_options import study_of_options

KERNELS = Path(__file__).parent / "kernels"
MODELS = ("mdm", "gpumech", "warpsight")


def kernel(name: str) -> StudyKernel:
    """`gather` or `rounds`."""
    return StudyKernel(name, KernelRequest(path=str(KERNELS / f"{name}.yaml")))


def study(*settings: str, kernels: tuple[str, ...] = ("gather", "rounds"), **others: Any) -> Study:
    """A study of those kernels around mdm-pascal."""
    return study_of_options([kernel(name) for name in kernels], settings=settings, **{"models": MODELS, **others})

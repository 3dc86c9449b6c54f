"""Small studies for the tests of sweeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsight.pipeline.request import KernelRequest
from warpsight.sweeps.study import Study, StudyKernel
from warpsight.sweeps.study_arguments import study_of_options

KERNELS = Path(__file__).parent / "kernels"
MODELS = ("mdm", "gpumech", "warpsight")


def kernel(name: str) -> StudyKernel:
    """`gather` or `rounds`."""
    return StudyKernel(name, KernelRequest(path=str(KERNELS / f"{name}.yaml")))


def study(*settings: str, kernels: tuple[str, ...] = ("gather", "rounds"), **others: Any) -> Study:
    """A study of those kernels around mdm-pascal."""
    return study_of_options([kernel(name) for name in kernels], settings=settings, **{"models": MODELS, **others})

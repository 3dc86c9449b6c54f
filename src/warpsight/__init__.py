"""Warpsight predicts how fast a CUDA kernel runs on a GPU that you do not have, and shows where its cycles go.

The functions and types below are loaded when first used, so that `import warpsight` costs next to nothing.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from warpsight._version import __version__
from warpsight.base.display import DISPLAY

if TYPE_CHECKING:
    from warpsight.api import advise, cache_model, explain, load_trace, predict, profile, report, simulate, sweep, trace
    from warpsight.base.errors import WarpsightError
    from warpsight.explore.sweep.result import Question, Sweep
    from warpsight.gpu.loader import load_gpu
    from warpsight.gpu.spec import GpuSpec
    from warpsight.profile.interval_profile import IntervalProfile
    from warpsight.result.prediction import Prediction
    from warpsight.trace.schema import KernelTrace
    from warpsight.workload.images import Surface, Texture

__all__ = [
    "GpuSpec",
    "IntervalProfile",
    "KernelTrace",
    "Prediction",
    "Question",
    "Surface",
    "Sweep",
    "Texture",
    "WarpsightError",
    "__version__",
    "advise",
    "cache_model",
    "explain",
    "load_gpu",
    "load_trace",
    "predict",
    "profile",
    "report",
    "simulate",
    "sweep",
    "trace",
]

_HOMES = {
    "GpuSpec": "warpsight.gpu.spec",
    "IntervalProfile": "warpsight.profile.interval_profile",
    "KernelTrace": "warpsight.trace.schema",
    "Prediction": "warpsight.result.prediction",
    "Question": "warpsight.explore.sweep.result",
    "Surface": "warpsight.workload.images",
    "Sweep": "warpsight.explore.sweep.result",
    "Texture": "warpsight.workload.images",
    "WarpsightError": "warpsight.base.errors",
    "advise": "warpsight.api",
    "cache_model": "warpsight.api",
    "explain": "warpsight.api",
    "load_gpu": "warpsight.gpu.loader",
    "load_trace": "warpsight.api",
    "predict": "warpsight.api",
    "simulate": "warpsight.api",
    "sweep": "warpsight.api",
}
_CALLABLE_PACKAGES = ("profile", "report", "trace")


class _CallablePackage(ModuleType):
    """`warpsight.trace`, `.profile` and `.report` are packages and, called, the functions of that name in `warpsight.api`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from warpsight import api

        return getattr(api, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _Package(ModuleType):
    """This package. The import system binds each subpackage here once it is loaded: the moment to make these callable."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CALLABLE_PACKAGES and type(value) is ModuleType:
            value.__class__ = _CallablePackage
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def _in_notebooks(value: object) -> str:
    """How results show themselves in notebooks: drawn by the reports, which are above them."""
    from warpsight.report.html.notebook import notebook_html

    return notebook_html(value)


DISPLAY.by(_in_notebooks)


def __getattr__(name: str) -> Any:
    import importlib

    if name in _CALLABLE_PACKAGES:
        return importlib.import_module(f"warpsight.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'warpsight' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

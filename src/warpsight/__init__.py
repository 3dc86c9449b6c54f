"""Warpsight predicts how fast a CUDA kernel runs on a GPU that you do not have, and shows where its cycles go.

The functions and types below are loaded when first used, so that `import warpsight` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader as lazy

from warpsight._version import __version__
from warpsight.base.display import DISPLAY

if TYPE_CHECKING:
    from warpsight.api import (
        advise,
        cache_model,
        check,
        explain,
        load_trace,
        predict,
        profile,
        report,
        simulate,
        sweep,
        trace,
        tune,
    )
    from warpsight.base.errors import WarpsightError
    from warpsight.base.findings import Finding
    from warpsight.gpu.loader import load_gpu
    from warpsight.gpu.spec import GpuSpec
    from warpsight.intervals.interval_profile import IntervalProfile
    from warpsight.kernels.images import Surface, Texture
    from warpsight.notebook import explore
    from warpsight.result.prediction import Prediction
    from warpsight.sweeps.result import Question, Sweep
    from warpsight.sweeps.tuning import Tuning
    from warpsight.traces.schema import KernelTrace

__all__ = [
    "Finding", "GpuSpec", "IntervalProfile", "KernelTrace", "Prediction", "Question", "Surface", "Sweep", "Texture", "Tuning",
    "WarpsightError", "__version__", "advise", "cache_model", "check", "explain", "explore", "load_gpu", "load_trace", "predict",
    "profile", "report", "simulate", "sweep", "trace", "tune",
]

__getattr__, __dir__, _ = lazy.attach(
    __name__,
    submod_attrs={
        "api": [
            "advise", "cache_model", "check", "explain", "load_trace", "predict", "profile", "report", "simulate", "sweep", "trace",
            "tune",
        ],
        "base.errors": ["WarpsightError"],
        "base.findings": ["Finding"],
        "gpu.loader": ["load_gpu"],
        "gpu.spec": ["GpuSpec"],
        "intervals.interval_profile": ["IntervalProfile"],
        "kernels.images": ["Surface", "Texture"],
        "notebook": ["explore", "load_ipython_extension"],
        "result.prediction": ["Prediction"],
        "sweeps.result": ["Question", "Sweep"],
        "sweeps.tuning": ["Tuning"],
        "traces.schema": ["KernelTrace"],
    },
)

_notebook = lazy.load("warpsight.reports.html.notebook", suppress_warning=True)


def _in_notebooks(value: object) -> str:
    """How results show themselves in notebooks: drawn by the reports, which are above them."""
    return str(_notebook.notebook_html(value))


DISPLAY.by(_in_notebooks)

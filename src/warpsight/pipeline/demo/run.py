"""The demonstration, from the same files that `warpsight demo --save` gives to the user."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from warpsight.base.progress import Watch
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.files import save_package_files
from warpsight.pipeline.predict import predict_kernel
from warpsight.pipeline.request import KernelRequest
from warpsight.result.prediction import Prediction

KERNEL = "strided_squares.cu"
LAUNCHES = {1: "stride1.yaml", 32: "stride32.yaml"}


def predictions(gpu: GpuSpec, models: Sequence[str], *, watch: Watch | None = None) -> list[Prediction]:
    """The loop of MDM's Listing 1 at each stride of `LAUNCHES`, in order, by each model in turn."""
    folder = Path(str(files(__package__)))
    return [
        prediction
        for launch in LAUNCHES.values()
        for prediction in predict_kernel(KernelRequest(folder / launch), gpu, models, watch=watch)
    ]


def save(folder: str | Path) -> list[Path]:
    """Write the kernel and its launches into `folder` and give their paths. Raises `UsageError` rather than replace a file."""
    conflict = "exists and differs from the demonstration's file"
    return save_package_files(__package__, (KERNEL, *LAUNCHES.values()), folder, conflict)

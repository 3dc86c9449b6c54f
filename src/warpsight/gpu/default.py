"""The GPU that is meant where none is named: that of `WARPSIGHT_GPU`, else of `warpsight gpus use`, else an A100."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from warpsight.base import settings

SETTING = "gpu"
VARIABLE = "WARPSIGHT_GPU"
FALLBACK = "a100"
STUDY_GPU = "mdm-pascal"
"""That of a study file which names no GPU, of the demonstration and of the papers' figures, so that these stay as they are."""

CLEAR = "choose another with `warpsight gpus use NAME`, or forget the choice with `warpsight gpus use --clear`"


@dataclass(frozen=True)
class DefaultGpu:
    """A name of the catalogue or a file, and what says so: the variable or the file of the choice; empty where neither does."""

    gpu: str
    place: str = ""
    remedy: str = ""


def choice_file() -> Path:
    """The file of the choice; it may not exist."""
    return settings.folder() / SETTING


def chosen_gpu() -> DefaultGpu:
    """The GPU that is meant where none is named. Whether there is one of that name is not checked here."""
    if named := os.environ.get(VARIABLE):
        return DefaultGpu(named, VARIABLE, f"set {VARIABLE} to a name that `warpsight gpus list` shows, to a file, or unset it")
    kept = settings.kept(SETTING, CLEAR)
    return DefaultGpu(FALLBACK) if kept is None else DefaultGpu(kept, str(choice_file()), CLEAR)

"""The GPU that is meant where none is named: that of `WARPSIGHT_GPU`, else the one that `warpsight gpus use` keeps, else an A100.

The choice is kept in a file of the folder ``$WARPSIGHT_CONFIG``, else ``$XDG_CONFIG_HOME/warpsight``, else ``~/.config/warpsight``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.base.inputs import read_input
from warpsight.base.outputs import write_whole

VARIABLE = "WARPSIGHT_GPU"
FALLBACK = "a100"
STUDY_GPU = "mdm-pascal"
"""That of a study file which names no GPU, of the demonstration and of the papers' figures, so that these stay as they are."""

_LONGEST = 1 << 16
CLEAR = "choose another with `warpsight gpus use NAME`, or forget the choice with `warpsight gpus use --clear`"


@dataclass(frozen=True)
class DefaultGpu:
    """A name of the catalogue or a file, and what says so: the variable or the file of the choice; empty where neither does."""

    gpu: str
    place: str = ""
    remedy: str = ""


def choice_file() -> Path:
    """The file of the choice; it may not exist."""
    if own := os.environ.get("WARPSIGHT_CONFIG"):
        return Path(own) / "gpu"
    if shared := os.environ.get("XDG_CONFIG_HOME"):
        return Path(shared) / "warpsight" / "gpu"
    return Path(os.path.expanduser("~")) / ".config" / "warpsight" / "gpu"


def chosen_gpu() -> DefaultGpu:
    """The GPU that is meant where none is named. Whether there is one of that name is not checked here."""
    if named := os.environ.get(VARIABLE):
        return DefaultGpu(named, VARIABLE, f"set {VARIABLE} to a name that `warpsight gpus list` shows, to a file, or unset it")
    path = choice_file()
    try:
        kept = read_input(path, _LONGEST).decode("utf-8").strip()
    except FileNotFoundError:
        return DefaultGpu(FALLBACK)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot be read: {reason}", place=str(path), remedy=CLEAR) from None
    return DefaultGpu(kept, str(path), CLEAR)


def keep_choice(gpu: str) -> Path:
    """Make `gpu` the choice, and give the file that keeps it. Raises UsageError where that cannot be written."""
    path = choice_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, f"{gpu}\n")
    except OSError as error:
        remedy = "set WARPSIGHT_CONFIG to a folder that can be written"
        raise UsageError(f"cannot be written: {error.strerror}", place=str(path), remedy=remedy) from None
    return path


def clear_choice() -> Path:
    """Forget the choice, if there is one, and give the file that kept it. Raises UsageError where that cannot be removed."""
    path = choice_file()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"cannot be removed: {error.strerror}", place=str(path), remedy="remove the file yourself") from None
    return path

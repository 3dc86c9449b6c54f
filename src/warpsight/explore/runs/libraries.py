"""The libraries of clusters, which are an extra of the installation."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from types import ModuleType

from warpsight.base.errors import UsageError

_NOISY = ("distributed", "tornado", "asyncio", "dask_jobqueue")
_QUIET: list[dict[str, int]] = []  # the levels from before, then an entry for each that wants quiet


def distributed_library() -> ModuleType:
    """The module `distributed`. Raises UsageError when it is not installed."""
    return _library("distributed")


def jobqueue_library() -> ModuleType:
    """The module `dask_jobqueue`. Raises UsageError when it is not installed."""
    return _library("dask_jobqueue")


def _library(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        what = f"this executor needs a library that is not installed: {error}"
        raise UsageError(what, place="--executor", remedy="pip install 'warpsight[cluster]'") from None


def quiet() -> Callable[[], None]:
    """Keeps the libraries from logging to the terminal: what matters is said by Warpsight. Returns what undoes it, once."""
    if not _QUIET:
        _QUIET.append({})
        for name in {*_NOISY, *(name for name in logging.root.manager.loggerDict if name.split(".")[0] in _NOISY)}:
            logger = logging.getLogger(name)
            if logger.level or name in _NOISY:  # others do as the one above them
                _QUIET[0][name] = logger.level
                logger.setLevel(logging.CRITICAL + 1)
    _QUIET.append({})

    def undo() -> None:
        _QUIET.pop()
        if len(_QUIET) == 1:
            for name, level in _QUIET.pop().items():
                logging.getLogger(name).setLevel(level)

    return undo

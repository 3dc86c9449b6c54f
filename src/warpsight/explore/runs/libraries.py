"""The libraries of clusters, which are an extra of the installation."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from types import ModuleType

from warpsight.base.errors import UsageError

_NOISY = ("distributed", "tornado", "asyncio")


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
    """Keeps the libraries from logging to the terminal: what matters is said by Warpsight. Returns what undoes it."""
    changed: list[logging.Logger] = []

    def hide(record: logging.LogRecord) -> bool:
        return False

    for name, logger in list(logging.root.manager.loggerDict.items()):
        # loggers that pass their records on are silenced where they pass them to
        if name.split(".")[0] in _NOISY and isinstance(logger, logging.Logger) and logger.handlers:
            for handler in logger.handlers:
                handler.addFilter(hide)
            changed.append(logger)

    def undo() -> None:
        for logger in changed:
            for handler in logger.handlers:
                handler.removeFilter(hide)

    return undo

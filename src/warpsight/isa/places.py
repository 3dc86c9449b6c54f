"""Errors of this floor know a PTX line; here they get the name of the file that the user gave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from warpsight.base.errors import UnsupportedError

_ANONYMOUS = "ptx:"


@contextmanager
def lines_of(path: str) -> Iterator[None]:
    """Name `path` in errors about PTX lines that are raised inside."""
    try:
        yield
    except UnsupportedError as error:
        if not error.place.startswith(_ANONYMOUS):
            raise
        place = f"{path}:{error.place.removeprefix(_ANONYMOUS)}"
        raise UnsupportedError(error.what, place=place, remedy=error.remedy) from error

"""Python values that a launch is given, checked for what they are before any of them is used."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from warpsight.base.errors import UsageError

_SHOWN = 60


def shown(value: object) -> str:
    """`value` as an error shows it: on one line, and cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def whole_number(value: object, place: str, remedy: str) -> int:
    """`value`, a Python or NumPy integer (bool is none). Raises UsageError at `place`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{shown(value)} is not a whole number", place=place, remedy=remedy) from None


def _is_integer(value: object) -> bool:
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, (str, PathLike)) for each in value)


_Test = tuple[Callable[[object], bool], str]
def _is_text_or_integer(value: object) -> bool:
    return isinstance(value, str) or _is_integer(value)


_INTEGER: _Test = (_is_integer, "a whole number")
_TEXT: _Test = (lambda value: isinstance(value, str), "a text")
_KINDS: dict[str, _Test] = {
    **dict.fromkeys(("registers", "seed", "max_instructions", "threads", "stack_bytes"), _INTEGER),
    **dict.fromkeys(("kernel", "name", "path"), _TEXT),
    **dict.fromkeys(("defines", "include_dirs"), (_is_list_of_texts, "a list of texts")),
    **dict.fromkeys(("heap_bytes", "sample"), (_is_text_or_integer, "a whole number or a text")),
    "arch": (_is_text_or_integer, "an architecture such as sm_80"),
    "source": (lambda value: isinstance(value, (str, PathLike)), "a path or a text"),
    "args": (_is_list, "a list of arguments"),
    "check": (lambda value: isinstance(value, bool), "True or False"),
}


def check_kinds(values: Mapping[str, Any], places: Mapping[str, str]) -> None:
    """Raise UsageError for the first of `values`, by name, that is not of its kind. None stands for what is not given.

    `places` says where a name was given, `--NAME` where it is not listed.
    """
    for name, value in values.items():
        test, wanted = _KINDS.get(name, (None, ""))
        if value is not None and test is not None and not test(value):
            place = places.get(name, f"--{name}")
            raise UsageError(f"{shown(value)} is not {wanted}", place=place, remedy=f"give {wanted}, or leave it out")

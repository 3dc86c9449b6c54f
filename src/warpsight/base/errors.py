"""The errors that a user can meet. Each says the place, what is wrong and what to do; each maps to one exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class WarpsightError(Exception):
    """Base of every error that is the input's fault or a stated limit. Never raised for a defect of Warpsight itself.

    `place` is where (``file:line``, an option, a key), `what` one line on what is wrong and why it matters, `remedy` what to do.
    """

    exit_code = 2

    def __init__(self, what: str, *, place: str = "", remedy: str = "") -> None:
        self.what, self.place, self.remedy = what, place, remedy
        head = f"{place}: {what}" if place else what
        super().__init__(f"{head}\n       -> {remedy}" if remedy else head)


class UsageError(WarpsightError):
    """Wrong use: an option, an argument, a launch or a file that cannot be meant."""


class SpecError(WarpsightError):
    """A GPU description that is wrong or incomplete."""


class CompileError(WarpsightError):
    """CUDA source that the compiler refuses; `what` holds the compiler's own words."""


class FormatError(WarpsightError):
    """A file that is not what it should be: cut, corrupted, or of another schema."""


class LaunchFault(WarpsightError):
    """The kernel did what a GPU would not allow: out of bounds, misaligned, trap. The launch is stopped."""


class UnsupportedError(WarpsightError):
    """A kernel that uses something not modelled. Totals would be wrong, so none are given."""

    exit_code = 3


class LimitError(WarpsightError):
    """A limit that the user can raise was reached."""

    exit_code = 4


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` for the known word nearest to `word`, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""

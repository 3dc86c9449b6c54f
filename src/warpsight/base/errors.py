"""The errors that a user can meet. Each says the place, what is wrong and what to do; each maps to one exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from warpsight.base.findings import Finding, Site


@dataclass(frozen=True)
class Assertion:
    """What a failed `assert` in device code says of itself."""

    message: str
    file: str
    line: int
    function: str


@dataclass(frozen=True)
class FaultDetails:
    """Where and how a launch was stopped, for programs that read it.

    `kind` is a name such as `out-of-bounds`; `file` and `line` are of the source ("" and 0 without line information). `thread` is
    the first that failed. `address` (an offset within shared, local or parameter memory) is None where there is none, `allocation`
    the nearest one, `distance` 0 inside it, positive in bytes past its end, negative before its start.
    """

    kind: str
    kernel: str
    ptx_line: int
    file: str
    line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int | None = None
    allocation: str = ""
    distance: int | None = None
    assertion: Assertion | None = None


class WarpsightError(Exception):
    """Base of every error that is the input's fault or a stated limit. Never raised for a defect of Warpsight itself.

    `place` is where (``file:line``, an option, a key), `what` one line on what is wrong and why it matters, `remedy` what to do.
    """

    exit_code = 2
    lines = 1  # of `what`: 0 for as many as it has
    details: FaultDetails | None = None  # of a launch that was stopped

    def __init__(self, what: str, *, place: str = "", remedy: str = "") -> None:
        # What is quoted from the input may have line breaks and control characters of its own.
        what, place = (_printable(what) if self.lines else what), _printable(place)
        self.what, self.place, self.remedy = what, place, remedy
        head = f"{place}: {what}" if place else what
        super().__init__(f"{head}\n       -> {remedy}" if remedy else head)


class UsageError(WarpsightError):
    """Wrong use: an option, an argument, a launch or a file that cannot be meant."""


class NotKept(UsageError):
    """A result cannot be kept, and neither could the next one: a run of many tasks ends here."""


class SpecError(WarpsightError):
    """A GPU description that is wrong or incomplete."""


class CompileError(WarpsightError):
    """CUDA source that the compiler refuses; `what` holds the compiler's own words."""

    lines = 0


class FormatError(WarpsightError):
    """A file that is not what it should be: cut, corrupted, or of another schema."""


class LaunchFault(WarpsightError):
    """The kernel did what a GPU would not allow: out of bounds, misaligned, trap. The launch is stopped."""

    exit_code = 5


class CheckFault(LaunchFault):
    """Checks have found errors in the launch; `findings` are all of them, of which the message has the first."""

    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> CheckFault:
        """The error for one finding or more."""
        found = tuple(findings)
        first = next((each for each in found if each.severity == "error"), found[0])
        more = f" (the first of {len(found)} findings)" if len(found) > 1 else ""
        site = first.site or Site("")
        error = cls(f"{first.tool}: {first.message}{more}", place=site.place, remedy=first.remedy)
        error.findings = found
        nowhere = (0, 0, 0)
        error.details = FaultDetails(
            first.kind, first.kernel, site.ptx_line, site.file, site.line, site.block or nowhere, site.thread or nowhere,
            first.address, first.allocation, first.distance,
        )  # fmt: skip
        return error


class UnsupportedError(WarpsightError):
    """A kernel that uses something not modelled. The results would be wrong, so nothing is run."""

    exit_code = 3


class LimitError(WarpsightError):
    """A limit that the user can raise was reached."""

    exit_code = 4


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean "x"?` for the known word nearest to `word`, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f'; did you mean "{near[0]}"?' if near else ""

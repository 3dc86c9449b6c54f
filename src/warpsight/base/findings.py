"""What the checks of `warpsight check` find: wrong accesses, hazards, reads of unwritten memory, misused barriers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

# As NVIDIA's compute-sanitizer names its tools; `order` compares the outcomes of other orders of blocks and warps.
MEMCHECK, RACECHECK, INITCHECK, SYNCCHECK, ORDER = TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck", "order")
# Those that watch one execution.
WATCHING = frozenset({MEMCHECK, RACECHECK, INITCHECK, SYNCCHECK})


@dataclass(frozen=True)
class Caller:
    """A place that a function was called from: the function that it stands in, as in the source, and the line."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Site:
    """One access or synchronization: the instruction, its source line, and the first thread that made it.

    `file` and `line` are of the source ("" and 0 without line information), `ptx_line` and `text` of the instruction; `place` is
    what a message calls it. `what` is `read`, `write`, `atomic` or "". `function` is the function that it stands in, where that
    is known and not the kernel; `callers` are the places that it was called from, innermost first.
    """

    place: str
    text: str = ""
    file: str = ""
    line: int = 0
    ptx_line: int = 0
    what: str = ""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None
    warp: int | None = None
    lane: int | None = None
    function: str = ""
    callers: tuple[Caller, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, however often it happened: `count` lanes, of which `site` is the first.

    `tool` is one of TOOLS, `kind` a name such as `out-of-bounds` or `write-after-read`; `severity` is `error` or `warning`.
    `other` is the second access of a hazard. `space` is `global`, `shared`, `local` or `tensor`; `address` of `bytes` bytes is
    an offset in shared and local memory, lane and column in tensor memory; `allocation` is the nearest one, `distance` 0 inside
    it, positive in bytes past its end, negative before its start. `launch` counts from 1 over a program; 0 for what does not
    belong to a launch.
    """

    tool: str
    kind: str
    message: str
    kernel: str = ""
    site: Site | None = None
    other: Site | None = None
    severity: str = "error"
    space: str = ""
    bytes: int = 0
    address: int | None = None
    allocation: str = ""
    distance: int | None = None
    count: int = 1
    remedy: str = ""
    launch: int = 0

    def to_json(self) -> dict[str, Any]:
        """The fields, those of the sites nested."""
        return asdict(self)


# -- The same thing in several launches of a program.

@dataclass
class Repeated:
    """A finding, with the lanes of all launches that it was found in, and how many launches these are."""

    finding: Finding
    launches: int = 1

    def to_json(self) -> dict[str, Any]:
        """The fields of the finding, and `launches`, those in which it was found."""
        return {**self.finding.to_json(), "launches": self.launches}


def fold(findings: Iterable[Finding]) -> list[Repeated]:
    """Each finding once, in the order of the first: the same lines in the same way wrong, in whatever launch and thread, and in
    whatever copy of the line that the compiler has made.
    """
    folded: dict[tuple[Any, ...], Repeated] = {}
    last: dict[tuple[Any, ...], int] = {}
    for each in findings:
        what = (each.tool, each.kind, each.kernel, each.severity, each.space, each.bytes, each.allocation)
        key = (*what, _place(each.site), _place(each.other), each.message if each.site is None else "")
        known = folded.get(key)
        if known is None:
            folded[key] = Repeated(each)
        else:
            known.finding = replace(known.finding, count=known.finding.count + each.count)
            known.launches += each.launch != last[key]
        last[key] = each.launch
    return list(folded.values())


def _place(site: Site | None) -> tuple[Any, ...]:
    if site is None:
        return ()
    return site.place, site.what, site.callers, () if site.file else (site.text, site.ptx_line)

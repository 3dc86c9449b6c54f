"""What the checks of `warpsight check` find: wrong accesses, hazards, reads of unwritten memory, misused barriers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

# As NVIDIA's compute-sanitizer names its tools; `order` compares the outcomes of other orders of blocks and warps.
MEMCHECK, RACECHECK, INITCHECK, SYNCCHECK, ORDER = TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck", "order")
# Those that watch one execution.
WATCHING = frozenset({MEMCHECK, RACECHECK, INITCHECK, SYNCCHECK})


@dataclass(frozen=True)
class Site:
    """One access or synchronization: the instruction, its source line, and the first thread that made it.

    `file` and `line` are of the source ("" and 0 without line information), `ptx_line` and `text` of the instruction; `place` is
    what a message calls it. `what` is `read`, `write`, `atomic` or "". `callers` are the places that it was called from, innermost
    first, where inlined calls are known.
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
    callers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, however often it happened: `count` lanes, of which `site` is the first.

    `tool` is one of TOOLS, `kind` a name such as `out-of-bounds` or `write-after-read`; `severity` is `error` or `warning`.
    `other` is the second access of a hazard. `space` is `global`, `shared` or `local`; `address` of `bytes` bytes is an offset in
    shared and local memory; `allocation` is the nearest one, `distance` 0 inside it, positive in bytes past its end, negative
    before its start. `launch` counts from 1 over a program; 0 for what does not belong to a launch.
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

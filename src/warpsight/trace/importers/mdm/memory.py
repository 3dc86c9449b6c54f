"""`mem_trace_<k>.txt` and `memory_access_<k>.txt`: the cache lines that each access touches.

``warp,sm,pc,RoW,line,line,...,`` with RoW 1 for a load and 0 for anything else; of the functional simulator ``warp,pc,R|W,...,``.
The numbers behind are addresses divided by the size of a cache line (128 bytes in the tool), each once, in ascending order.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import FormatError
from warpsight.trace.importers.accelsim.layout import ADDRESS_LIMIT
from warpsight.trace.importers.launch import REMEDY
from warpsight.trace.importers.lines import whole_lines

Longs = npt.NDArray[np.int64]
_LANES = 32
_MOST = 1 << 40


@dataclass(frozen=True)
class Accesses:
    """All accesses of a kernel, int64 [n] each: warp of the launch, pc, whether it is a load, line in the file. The cache lines of
    access k are `touched[offset[k] : offset[k + 1]]`. `dropped` numbers were no lines of any memory.
    """

    path: Path
    warp: Longs
    pc: Longs
    load: Longs
    line: Longs
    offset: Longs
    touched: Longs
    dropped: int


def read_accesses(path: Path, line_bytes: int, *, functional: bool) -> Accesses:
    """Read a file. Raises FormatError, with file and line, for a line that is none and a file that is cut."""
    warp, pc, load, numbers, offset, touched = (array("q") for _ in range(6))
    offset.append(0)
    line = dropped = 0
    limit = ADDRESS_LIMIT // line_bytes
    at = 2 if functional else 3
    for piece in whole_lines(path):
        for raw in piece:
            line += 1
            if not raw or raw.isspace():
                continue
            *parts, end = raw.split(b",")
            if end.strip() or len(parts) <= at:
                _refuse(path, line, raw, "it does not end with a comma, or has too few fields")
            kind = parts[at].strip()
            parts[at] = {b"R": b"1", b"W": b"0"}.get(kind, b"?") if functional else kind
            try:
                values = [int(part) for part in parts]
            except ValueError:
                _refuse(path, line, raw, "a field is no number")
            if values[at] not in (0, 1) or not 0 <= values[0] < _MOST or not 0 <= values[at - 1] < 1 << 31:
                _refuse(path, line, raw, "warp, pc or the mark of a load is none")
            kept = [value for value in values[at + 1 :] if 0 < value < limit]
            dropped += len(values) - at - 1 - len(kept)
            if len(kept) > _LANES:
                _refuse(path, line, raw, f"{len(kept)} cache lines, and a warp has {_LANES} lanes")
            warp.append(values[0])
            pc.append(values[at - 1])
            load.append(values[at])
            numbers.append(line)
            touched.extend(kept)
            offset.append(len(touched))
    return Accesses(
        path, _held(warp), _held(pc), _held(load), _held(numbers), _held(offset), _held(touched), dropped
    )


def _held(column: array[int]) -> Longs:
    return np.frombuffer(column, np.int64) if len(column) else np.zeros(0, np.int64)


def _refuse(path: Path, line: int, raw: bytes, what: str) -> NoReturn:
    shown = raw[:60].decode("ascii", "replace")
    raise FormatError(f"no access: {shown!r}: {what}", place=f"{path}:{line}", remedy=f"the trace is cut or damaged here: {REMEDY}")

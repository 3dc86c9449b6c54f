"""Which instruction of the program a line is, in a trace without program counters.

Native code goes on in a straight line up to the next branch, call, return, barrier of convergence or exit (op class `branch`), and
these are in the trace whether they are taken or not. A warp's stream is cut behind each of them into *runs*. Two runs that end at
one branch of the program begin at different places before it, so that one is the end of the other: a run that equals the end of a
longer one is taken for that place. What is left are the longest runs; their instructions, one behind the other, are the program as
far as it was executed. Two pieces of code with the same text up to their branch count as one; code that is entered by a call
which the tracer leaves out counts once for each caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Program:
    """`text` int32: of each instruction, in order of its place, the number of its text. `streams`: of each stream that was given,
    int32 [length], the places of its instructions.
    """

    text: Ints
    streams: list[Ints]


def align(streams: Iterable[Ints], ends_run: npt.NDArray[np.bool_]) -> Program:
    """Places of the instructions of warps' `streams` (numbers of texts); `ends_run` says of each text that it ends a run."""
    runs: dict[bytes, int] = {}
    followed = []
    for stream in streams:
        stops = np.flatnonzero(ends_run[stream]) + 1
        if not len(stops) or stops[-1] < len(stream):
            stops = np.append(stops, len(stream))
        data, first, found = np.ascontiguousarray(stream, np.int32).tobytes(), 0, []
        for stop in (4 * stops).tolist():
            found.append(runs.setdefault(data[first:stop], len(runs)))
            first = stop
        followed.append(np.array(found, np.int64))
    texts = list(runs)
    home = _homes(texts)
    start = np.zeros(len(texts), np.int64)
    size = np.array([len(text) // 4 for text in texts], np.int64)
    parts, total = [], 0
    for run, (whole, _) in enumerate(home):
        if whole == run:
            start[run] = total
            total += int(size[run])
            parts.append(np.frombuffer(texts[run], np.int32))
    for run, (whole, skipped) in enumerate(home):
        start[run] = start[whole] + skipped
    return Program(
        np.concatenate(parts) if parts else np.zeros(0, np.int32), [_expanded(start[found], size[found]) for found in followed]
    )


def _homes(texts: list[bytes]) -> list[tuple[int, int]]:
    """For each run (the longest run that ends like it, instructions of that before it); of several the first that came."""
    home = [(run, 0) for run in range(len(texts))]
    by_length: dict[int, list[int]] = {}
    for run, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(run)
    longest: list[int] = []
    for length in sorted(by_length, reverse=True):
        ends: dict[bytes, int] = {}
        for whole in sorted(longest):
            ends.setdefault(texts[whole][-length:], whole)
        for run in by_length[length]:
            found = ends.get(texts[run])
            if found is None:
                longest.append(run)
            else:
                home[run] = (found, (len(texts[found]) - length) // 4)
    return home


def _expanded(start: npt.NDArray[np.int64], size: npt.NDArray[np.int64]) -> Ints:
    """start[0] .. start[0] + size[0] - 1, start[1] .. and so on."""
    before = np.cumsum(size) - size
    return (np.repeat(start - before, size) + np.arange(int(size.sum()))).astype(np.int32)

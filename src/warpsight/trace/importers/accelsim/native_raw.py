"""Compiled: raw lines, each with its block and warp before it, told apart and put in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from warpsight.trace.importers.accelsim.compiled import compiled_and_kept, source_fingerprint
from warpsight.trace.importers.accelsim.native_text import LF, blanks, decimal, line_end


def _build(fingerprint: int) -> Callable[..., Any]:
    """The function, kept on disk as long as no source here changes."""

    @compiled_and_kept
    def raw_lines(buf: Any, end: int, grid: Any, warps: int, keys: Any, starts: Any, number: Any) -> Any:
        """The warp (block * warps + warp of the block) and the start of each line in `buf[:end]`, which ends with a line.

        Key -1 for lines that are blank or comments. Gives the number of lines, or -1 - the number of the line that has no block and
        warp of the grid. `starts` has
        one entry more, the end; `number` int64 [4] is work space.
        """
        p = np.int64(0)
        n = 0 * fingerprint
        while p < end:
            starts[n] = p
            keys[n] = -1
            q = blanks(buf, p)
            if buf[q] != LF and buf[q] != 35:
                for k in range(4):
                    number[k], q = decimal(buf, q)
                    if q < 0 or number[k] < 0 or (k < 3 and number[k] >= grid[k]) or (k == 3 and number[k] >= warps):
                        return np.int64(-1 - n)
                keys[n] = (number[0] + grid[0] * (number[1] + grid[1] * number[2])) * warps + number[3]
            p = line_end(buf, p) + 1
            n += 1
        starts[n] = p
        return np.int64(n)

    return raw_lines


raw_lines = _build(source_fingerprint())


@compiled_and_kept
def gather_lines(buf: Any, starts: Any, order: Any, out: Any) -> Any:
    """Copy the lines `order` of `buf` one after the other to `out`; gives their bytes."""
    at = np.int64(0)
    for k in range(len(order)):
        first, last = starts[order[k]], starts[order[k] + 1]
        for p in range(first, last):
            out[at] = buf[p]
            at += 1
    return at

"""From native buffers to trace chunks: sort out which entry belongs to which warp.

Warps of a block take turns between barriers, so a warp's records lie in several segments of the buffers.
"""

from __future__ import annotations

import numba


@numba.njit("void(int64[:, ::1], int64, int64[:, ::1])", cache=True, nogil=True)
def count_per_warp(segments, first_warp, totals):  # type: ignore[no-untyped-def]
    """Sum each warp's path entries, event bytes and sectors.

    `segments` rows: warp, path, event, sector start; the last row is the end.
    """
    totals[:] = 0
    for k in range(len(segments) - 1):
        warp = segments[k, 0] - first_warp
        totals[warp, 0] += segments[k + 1, 1] - segments[k, 1] - 1  # without the mark
        totals[warp, 1] += segments[k + 1, 2] - segments[k, 2]
        totals[warp, 2] += segments[k + 1, 3] - segments[k, 3]


@numba.njit(
    "void(int64[:, ::1], int64, uint32[:, ::1], uint8[::1], uint32[::1], int64[:, ::1], uint32[:, ::1], uint8[::1], uint32[::1])",
    cache=True,
    nogil=True,
)
def gather_streams(segments, first_warp, path, events, sectors, place, out_path, out_events, out_sectors):  # type: ignore[no-untyped-def]
    """Copy each segment to its warp's place; `place` [warps, 3] holds the next free position of each stream and is advanced."""
    for k in range(len(segments) - 1):
        warp = segments[k, 0] - first_warp
        at, count = place[warp, 0], segments[k + 1, 1] - segments[k, 1] - 1
        out_path[at : at + count] = path[segments[k, 1] + 1 : segments[k + 1, 1]]
        place[warp, 0] = at + count
        at, count = place[warp, 1], segments[k + 1, 2] - segments[k, 2]
        out_events[at : at + count] = events[segments[k, 2] : segments[k + 1, 2]]
        place[warp, 1] = at + count
        at, count = place[warp, 2], segments[k + 1, 3] - segments[k, 3]
        out_sectors[at : at + count] = sectors[segments[k, 3] : segments[k + 1, 3]]
        place[warp, 2] = at + count

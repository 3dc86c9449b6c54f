"""Recording some blocks of a launch, chosen at random, while all are executed."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError
from warpsight.emulator.worker import Streams

MOST_BLOCKS = 1 << 28


def choose_blocks(blocks: int, count: int, seed: int) -> npt.NDArray[np.bool_]:
    """Which of `blocks` blocks are recorded: `count` of them, each set of that size as likely as any other. bool [blocks].

    Raises LimitError for more than `MOST_BLOCKS`.
    """
    if blocks > MOST_BLOCKS:
        what = f"a sample of {blocks:,} blocks cannot be chosen: at most {MOST_BLOCKS:,} can be numbered"
        raise LimitError(what, place="--sample", remedy="launch fewer blocks, or record all of them")
    chosen = np.zeros(blocks, np.bool_)
    chosen[np.random.default_rng(abs(seed)).choice(blocks, count, replace=False)] = True
    return chosen


@numba.njit(
    "void(int64[:, ::1], boolean[::1], uint32[:, ::1], uint8[::1], uint32[::1], uint32[:, ::1], uint8[::1], uint32[::1])",
    cache=True,
    nogil=True,
)
def _copy(offsets, kept, entries, events, sectors, out_entries, out_events, out_sectors):  # type: ignore[no-untyped-def]
    at = np.zeros(3, np.int64)
    for warp in range(len(kept)):
        if kept[warp]:
            low, high = offsets[warp], offsets[warp + 1]
            out_entries[at[0] : at[0] + high[0] - low[0]] = entries[low[0] : high[0]]
            out_events[at[1] : at[1] + high[1] - low[1]] = events[low[1] : high[1]]
            out_sectors[at[2] : at[2] + high[2] - low[2]] = sectors[low[2] : high[2]]
            at += high - low


def keep_blocks(part: Streams, chosen: npt.NDArray[np.bool_], warps_per_block: int) -> Streams:
    """The streams of the chosen blocks alone. Their warps are numbered as if there were no others."""
    first = part.first_warp // warps_per_block
    kept = np.repeat(chosen[first : part.end_block], warps_per_block)
    counts = np.diff(part.offsets, axis=0)[kept]
    offsets = np.zeros((len(counts) + 1, 3), np.int64)
    np.cumsum(counts, axis=0, out=offsets[1:])
    entries = np.empty((int(offsets[-1, 0]), 2), np.uint32)
    events, sectors = np.empty(int(offsets[-1, 1]), np.uint8), np.empty(int(offsets[-1, 2]), np.uint32)
    _copy(part.offsets, kept, part.entries, part.events, part.sectors, entries, events, sectors)
    return Streams(int(chosen[:first].sum()) * warps_per_block, part.end_block, offsets, entries, events, sectors)

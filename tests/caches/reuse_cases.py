"""Streams for the tests of the reuse-distance model, made by hand."""

from __future__ import annotations

import numpy as np

from warpsight.caches.reuse.access_stream import AccessStream, packed


def warps_stream(warps: list[list[list[int]]], warps_per_block: int = 1) -> AccessStream:
    """Each warp a list of accesses, each a list of line numbers of 128 B."""
    rows = [(w, line) for w, accesses in enumerate(warps) for access in accesses for line in access]
    access = np.repeat(
        np.arange(sum(map(len, warps))), [len(access) for accesses in warps for access in accesses]
    )
    warp, line = (np.array([row[k] for row in rows], np.int64) for k in range(2))
    zeros = np.zeros(len(rows), np.int64)
    stream, numbers = packed(len(warps), warp, access, line, zeros)
    blocks = len(warps) // warps_per_block
    return AccessStream(stream, numbers, 128, blocks, 32 * warps_per_block, warps_per_block, 32 * len(access), 1)

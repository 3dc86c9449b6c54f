"""Which L2 slice and which memory channel an address belongs to.

Consecutive pieces of `interleave` bytes go to the slices in turn. Within its slice a line is numbered without the slice bits, so
that the set index that follows uses all sets of the slice. Here everything is counted in lines: `per_piece` lines make one piece.
"""

from __future__ import annotations

from warpsight.addressing.compiled import inlined
from warpsight.addressing.integers import quotient


@inlined
def slice_of_line(line: int, per_piece: int, slices: int) -> int:
    """Slice of global line number `line` (byte address // line size): (address // interleave) % slices."""
    piece = quotient(line, per_piece)
    return piece - quotient(piece, slices) * slices


@inlined
def line_in_slice(line: int, per_piece: int, slices: int) -> int:
    """The number of line `line` within its slice: pieces that the slice holds before it, and its place in its own piece."""
    piece = quotient(line, per_piece)
    return quotient(piece, slices) * per_piece + (line - piece * per_piece)


@inlined
def channel_of_slice(slice_number: int, slices: int, channels: int) -> int:
    """Memory channel behind a slice; neighbouring slices share a channel where there are more slices than channels."""
    return quotient(slice_number * channels, slices)

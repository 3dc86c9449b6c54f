"""Where an address and a block go: the set of a cache, the L2 slice and memory channel, and the SM.

Rules of the set index. `modulo`: the lowest bits (or, for a number of sets that is no power of two, the remainder) of the line
number. `xor`: those bits XORed with the next higher ones, which spreads power-of-two strides (Gonzalez, Valero, Topham,
Parcerisa, "Eliminating cache conflict misses through XOR-based placement functions", ICS 1997). `fermi`: bits 0 to 4 of the
line number XORed with bits 6, 7, 8, 10 and 12, and above them bit 5 (Nugteren et al., HPCA 2014, section 5.1: bits 7-11, 13,
14, 15, 17, 19 and 12 of the byte address with lines of 128 B); it has six bits, so that of more than 64 sets no others are
used. `xor` and `fermi` need a number of sets that is a power of two.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.integers import quotient
from warpsight.base.compiled import inlined

MODULO, XOR, FERMI = 0, 1, 2
HASH = 1
SLICE_INDEX_RULES = {"modulo": MODULO, "hash": HASH}
SET_INDEX_RULES = {"modulo": MODULO, "xor": XOR, "fermi": FERMI}
FERMI_SETS = 64


@inlined
def set_index(line: int, sets: int, rule: int) -> int:
    """The set of line number `line` (within its slice) in a cache of `sets` sets; `rule` is `MODULO`, `XOR` or `FERMI`."""
    if rule == FERMI:
        folded = (line >> 6) & 7 | (line >> 7) & 8 | (line >> 8) & 16
        return ((line & 63) ^ folded) & (sets - 1)
    upper = quotient(line, sets)
    index = line - upper * sets
    if rule == XOR:
        index ^= upper - quotient(upper, sets) * sets
    return index


# -- Which L2 slice and which memory channel an address belongs to.
#
# Consecutive pieces of `interleave` bytes go to the slices in turn. By the rule `hash` each round of the slices begins at another
# one, so that no stride comes to the same slice each time: real GPUs choose slices and channels by a hash of the address, whose
# bits NVIDIA does not publish. Here it is Fibonacci hashing of the round's number (Knuth, The Art of Computer Programming 3,
# section 6.4). Within its slice a line is numbered without the slice bits, so that the set index that follows uses all sets of the
# slice. Here everything is counted in lines: `per_piece` lines make one piece.

@inlined
def slice_of_line(line: int, per_piece: int, slices: int, rule: int) -> int:
    """Slice of global line number `line` (byte address // line size): (address // interleave) % slices; by `HASH` rotated."""
    piece = quotient(line, per_piece)
    round_number = quotient(piece, slices)
    place = piece - round_number * slices
    if rule == HASH:
        place += ((round_number * 0x9E3779B1) & 0xFFFFFFFF) >> 12
        place -= quotient(place, slices) * slices
    return place


@inlined
def line_in_slice(line: int, per_piece: int, slices: int) -> int:
    """The number of line `line` within its slice: pieces that the slice holds before it, and its place in its own piece."""
    piece = quotient(line, per_piece)
    return quotient(piece, slices) * per_piece + (line - piece * per_piece)


@inlined
def channel_of_slice(slice_number: int, slices: int, channels: int) -> int:
    """Memory channel behind a slice; neighbouring slices share a channel where there are more slices than channels."""
    return quotient(slice_number * channels, slices)


# The L2 of some GPUs has two partitions, each with half of the slices and near to half of the SMs; NVIDIA does not publish which.
# Here the lower half of the slices is near to the SMs of even number. Blocks go to SMs in turn, and a GPU sends them to its
# clusters of SMs in turn, so that a few blocks are spread over both halves of the chip.

@inlined
def is_in_other_partition(slice_number: int, slices: int, sm: int) -> bool:
    """Whether the slice belongs to the partition that is not the one of `sm`."""
    return (1 if 2 * slice_number >= slices else 0) != sm & 1


# -- Which block goes to which SM.
#
# Blocks are launched in order of their number, one to each SM in turn, until every SM holds as many as fit; after that the next
# block goes to the SM that first finishes one (the rule of the hardware's block distributor in detailed simulators).

def first_wave(blocks: int, sm_count: int, blocks_per_sm: int) -> npt.NDArray[np.int32]:
    """The SM of each block of the first wave, int32 [min(blocks, sm_count * blocks_per_sm)]."""
    return np.arange(min(blocks, sm_count * blocks_per_sm), dtype=np.int32) % np.int32(sm_count)

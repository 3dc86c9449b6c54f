"""Which block goes to which SM.

Blocks are handed out in order of their number, one to each SM in turn, until every SM holds as many as fit; after that the next
block goes to the SM that first finishes one (the rule of the hardware's block distributor as detailed simulators have it).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.addressing.compiled import inlined


@inlined
def first_wave_sm(block: int, sm_count: int) -> int:
    """The SM of `block`, one of the first `sm_count * blocks_per_sm` blocks: SMs in turn."""
    return block % sm_count


def first_wave(blocks: int, sm_count: int, blocks_per_sm: int) -> npt.NDArray[np.int32]:
    """The SM of each block of the first wave, int32 [min(blocks, sm_count * blocks_per_sm)]."""
    return np.arange(min(blocks, sm_count * blocks_per_sm), dtype=np.int32) % np.int32(sm_count)

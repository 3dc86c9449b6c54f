"""How a launch's blocks fill the GPU over time: full waves, a last one, and SMs that idle.

Blocks are dealt to the SMs evenly; the busiest SM has ceil(blocks / SMs) and its time is the launch's. It runs them in waves of as
many as it holds, and a last wave of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Waves:
    """What the busiest SM runs; float64 arrays of the designs' shape.

    `full` waves of the blocks that an SM holds, then one of `last_blocks` (1 to that many). In the last wave the launch's remaining
    blocks are as many as on `last_sms` SMs with `last_blocks` each (a fraction when they are not spread evenly). `imbalance` is the
    busiest SM's blocks over the mean: 1 when all SMs have the same.
    """

    full: Floats
    last_blocks: Floats
    last_sms: Floats
    imbalance: Floats


def place_waves(blocks: Any, blocks_per_sm: Any, sm_count: Any) -> Waves:
    """Waves of a launch of `blocks` (at least 1) on `sm_count` SMs that hold `blocks_per_sm` each. Arguments broadcast."""
    busiest = np.ceil(blocks / np.asarray(sm_count, dtype=np.float64))
    full = np.floor((busiest - 1) / blocks_per_sm)
    last_blocks = busiest - full * blocks_per_sm
    last_sms = (blocks - full * blocks_per_sm * sm_count) / last_blocks
    return Waves(full, last_blocks, last_sms, busiest * sm_count / blocks)

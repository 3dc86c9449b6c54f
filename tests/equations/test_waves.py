"""Are waves what dealing the blocks one by one gives?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warpsight.models.interval_model import place_waves

pytestmark = pytest.mark.unit


@given(st.integers(1, 3000), st.integers(1, 32), st.integers(1, 90))
def test_waves_of_any_launch_equal_dealing_its_blocks_in_turn(blocks: int, blocks_per_sm: int, sm_count: int) -> None:
    dealt = np.bincount(np.arange(blocks) % sm_count, minlength=sm_count)
    waves = place_waves(blocks, blocks_per_sm, np.array([sm_count]))
    assert waves.full[0] * blocks_per_sm + waves.last_blocks[0] == dealt.max()
    assert 1 <= waves.last_blocks[0] <= blocks_per_sm
    left = blocks - waves.full[0] * blocks_per_sm * sm_count
    assert waves.last_blocks[0] * waves.last_sms[0] == pytest.approx(left)
    assert 0 < waves.last_sms[0] <= sm_count * (1 + 1e-12)
    assert waves.imbalance[0] == pytest.approx(dealt.max() / dealt.mean())


def test_launch_that_fits_once_is_a_single_last_wave() -> None:
    waves = place_waves(224, 8, np.array([28.0, 56.0, 14.0]))
    assert waves.full.tolist() == [0, 0, 1]
    assert waves.last_blocks.tolist() == [8, 4, 8]
    assert waves.last_sms.tolist() == [28, 56, 14]
    assert waves.imbalance.tolist() == [1, 1, 1]

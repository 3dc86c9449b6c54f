"""Lists of many kinds without latency: does the model count what a plain interleaved LRU cache does?"""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interleaved_lru import BASE, KINDS, Record, misses

from warpsight.base.errors import LimitError
from warpsight.caches.reuse.access_list import AccessList, of_list
from warpsight.caches.reuse.model import Outcome, Placement, evaluate
from warpsight.caches.reuse.settings import ReuseSettings

pytestmark = pytest.mark.property
BLOCKS = st.sampled_from([(32, 1, 1), (64, 1, 1), (16, 16, 1), (48, 1, 1), (33, 1, 1), (17, 3, 1), (7, 1, 1), (8, 8, 2)])
SHAPES = st.sampled_from([(32, 4), (64, 6), (32, 1), (64, 2)])


def list_of(block: tuple[int, int, int], records: list[Record]) -> AccessList:
    flat = np.array(records, np.int64).reshape(-1, 4)
    return AccessList(block, *(np.ascontiguousarray(flat[:, k]) for k in range(4)))


def without_latency(block: tuple[int, int, int], records: list[Record], line: int, sets: int, ways: int) -> tuple[Outcome, int]:
    stream = of_list(list_of(block, records), line)
    asked = ReuseSettings(sets * ways * line, line, ways, "fermi", miss_latency=0, sigma=0.0)
    return evaluate(asked, stream, Placement(1, max(1, stream.blocks))), stream.transactions


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(KINDS)), BLOCKS, st.integers(1, 8), SHAPES, st.sampled_from([32, 128]), st.integers(0, 2**32 - 1))
def test_without_latency_the_model_is_an_interleaved_lru_cache(kind, block, blocks, shape, line, seed):
    per_block = block[0] * block[1] * block[2]
    records = list(KINDS[kind](min(512, per_block * blocks), random.Random(seed)))
    found, transactions = without_latency(block, records, line, *shape)
    expected = misses(records, per_block, line, *shape)
    assert (transactions, found.total_misses, int(found.counts[:, 1].sum())) == expected


def test_half_warps_of_8_byte_accesses_look_up_one_after_the_other():
    # lanes 0 to 15 and 16 to 31 all want one line: the second half-warp finds what the first has brought
    records = [(t, 0, BASE + 8 * (t % 16), 8) for t in range(32)]
    found, transactions = without_latency((32, 1, 1), records, 128, 32, 4)
    assert (transactions, found.total_misses) == (2, 1)


def test_a_lane_merges_with_lanes_of_its_own_group_whatever_their_size():
    records = [(t, 0, BASE + 4 * t, 4 if t % 2 else 8) for t in range(32)]
    _, transactions = without_latency((32, 1, 1), records, 128, 32, 4)
    assert transactions == 2  # lane 16 is the first of the second half-warp, and accesses 8 B


def test_threads_beyond_what_can_be_modelled_are_refused():
    given_list = list_of((32, 1, 1), [(2**31 - 1, 0, BASE, 4)])
    with pytest.raises(LimitError, match="max_threads"):
        of_list(given_list, 128)
    assert of_list(given_list, 128, most_threads=64).transactions == 0

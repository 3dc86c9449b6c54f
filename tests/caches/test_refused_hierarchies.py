"""Is bad input refused with a place, a reason and a remedy?"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.base.errors import FormatError, SpecError, UsageError
from warpsight.caches.exact.simulate import simulate_caches
from warpsight.traces.schema import InMemory, KernelTrace, TraceChunk

pytestmark = pytest.mark.unit
CODE = ["load.global.4 r1 <- r0"]


def trace(blocks: int = 2) -> KernelTrace:
    return build_trace(CODE, [Warp(((0, 1, 1),), [[128 * k]]) for k in range(blocks)], chunk_blocks=1)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"l1": {"line_bytes": 48}}, "48 B"),
        ({"l1": {"line_bytes": 1024, "size_bytes": 4096}}, "1024 B"),
        ({"l1": {"sector_bytes": 96}}, "96 B"),
        ({"l1": {"size_bytes": 500}}, "500 B"),
        ({"l1": {"index": "skewed"}}, "skewed"),
        ({"l1": {"index": "xor", "size_bytes": 768}}, "power-of-two"),
        ({"l1": {"replacement": "random"}}, "random"),
        ({"l1": {"mshrs": 0}}, "MSHR is needed"),
        ({"l1": {"write_policy": "write-back"}}, "write-through"),
        ({"l1": {"write_allocate": True}}, "write-through"),
        ({"l2": {"write_policy": "write-through"}}, "write-back"),
        ({"l2": {"write_allocate": False}}, "write-back"),
        ({"l2": {"slice_interleave_bytes": 100}}, "100 B"),
        ({"policy": "two-level"}, "two-level"),
    ],
)
def test_spec_that_cannot_be_simulated_is_refused(change: dict[str, Any], word: str) -> None:
    with pytest.raises(SpecError, match=word) as caught:
        simulate_caches(trace(), small_gpu(**change), 1)
    assert caught.value.place.startswith("small: ")
    assert caught.value.remedy


def test_no_resident_block_is_refused() -> None:
    with pytest.raises(UsageError, match="0 blocks per SM"):
        simulate_caches(trace(), small_gpu(), 0)


def test_unknown_interleaving_is_refused() -> None:
    with pytest.raises(UsageError, match="random"):
        simulate_caches(trace(), small_gpu(), 1, interleaving="random")


def broken(**fields: Any) -> KernelTrace:
    good = trace()
    first, second = list(good.chunks)
    return dataclasses.replace(good, chunks=InMemory([first, dataclasses.replace(second, **fields)]))


def test_trace_that_ends_early_is_refused() -> None:
    good = trace(3)
    cut: list[TraceChunk] = list(good.chunks)[:2]
    with pytest.raises(FormatError, match="ends after warp 2 of 3"):
        simulate_caches(dataclasses.replace(good, chunks=InMemory(cut)), small_gpu(), 1)


def test_trace_that_skips_warps_is_refused() -> None:
    with pytest.raises(FormatError, match="continues with warp 7"):
        simulate_caches(broken(first_warp=7), small_gpu(), 1)


def test_warp_with_too_few_events_is_refused() -> None:
    fields = {"events": np.zeros(0, np.uint8), "event_offset": np.array([0, 0])}
    with pytest.raises(FormatError, match="warp 1 has other events"):
        simulate_caches(broken(**fields), small_gpu(), 1)


def test_warp_with_events_left_over_is_refused() -> None:
    fields = {"events": np.array([1, 0], np.uint8), "event_offset": np.array([0, 2])}
    with pytest.raises(FormatError, match="warp 1 has other events"):
        simulate_caches(broken(**fields), small_gpu(), 1)


def test_warp_with_too_few_sectors_is_refused() -> None:
    with pytest.raises(FormatError, match="warp 1 has other events"):
        simulate_caches(broken(events=np.array([3], np.uint8)), small_gpu(), 1)

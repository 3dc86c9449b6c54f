"""Is a trace that contradicts itself refused, and one that does not accepted?"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from synthetic_trace import small_trace, with_chunk

from warpsight.base.errors import FormatError
from warpsight.traces.schema import InMemory
from warpsight.traces.validate import validate

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("seed", range(20))
def test_consistent_trace_is_accepted(seed: int) -> None:
    trace = small_trace(seed=seed)
    assert validate(trace) is None
    counted = [c.sectors.size for c in trace.chunks]
    # One sector more than announced, anywhere, must not pass: this is what makes the acceptance mean something.
    for number in range(len(counted)):
        part = list(trace.chunks)[number]
        offset = part.sector_offset.copy()
        offset[-1] += 1
        longer = with_chunk(trace, number, sectors=np.append(part.sectors, np.uint32(1)), sector_offset=offset)
        with pytest.raises(FormatError, match="sectors, and its path"):
            validate(longer)


def test_totals_other_than_the_header_says_are_refused() -> None:
    trace = small_trace()
    said = trace.header.warp_instructions + 1
    more = dataclasses.replace(trace, header=dataclasses.replace(trace.header, warp_instructions=said))
    with pytest.raises(FormatError, match="warp instructions, and its header states"):
        validate(more)
    fewer = dataclasses.replace(trace, chunks=InMemory(list(trace.chunks)[:2]))
    with pytest.raises(FormatError, match="has 16 warps, and its header states 24"):
        validate(fewer)


def test_chunk_out_of_order_is_refused() -> None:
    trace = small_trace()
    with pytest.raises(FormatError, match="from warp 8, and whole blocks from warp 0"):
        validate(dataclasses.replace(trace, chunks=InMemory(list(trace.chunks)[1:])))


def test_offsets_that_run_backwards_are_refused() -> None:
    trace = small_trace()
    offset = next(iter(trace.chunks)).event_offset.copy()
    offset[2], offset[3] = offset[3], offset[2]
    with pytest.raises(FormatError, match="event offsets"):
        validate(with_chunk(trace, 0, event_offset=offset))


def test_error_names_the_kernel_or_the_folder() -> None:
    trace = small_trace()
    broken = with_chunk(trace, 0, path=next(iter(trace.chunks)).path + 5)
    with pytest.raises(FormatError) as caught:
        validate(broken)
    assert caught.value.place == "k"
    with pytest.raises(FormatError) as caught:
        validate(dataclasses.replace(broken, origin="folder"))
    assert caught.value.place == "folder"


def test_path_repeats_too_large_to_count_are_refused_not_wrapped() -> None:
    trace = small_trace()
    many = 1 << 16
    paths = dataclasses.replace(
        trace.paths,
        offset=np.array([0, many, many + 1], np.int64),
        block=np.zeros(many + 1, np.int32),
        lanes=np.full(many + 1, 32, np.uint8),
        repeat=np.full(many + 1, 2**31 - 1, np.int32),
    )
    with pytest.raises(FormatError, match="event bytes, and"):
        validate(dataclasses.replace(trace, paths=paths))

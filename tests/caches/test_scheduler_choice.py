"""Does a warp scheduler of the cache simulation choose the warp that its policy names, and do schedulers take turns?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_gpu import small_gpu
from trace_by_hand import Warp, build_trace

from warpsight.base.compiled import jit, reference_to
from warpsight.base.records import Memory
from warpsight.caches.exact import simulate
from warpsight.caches.exact.scheduler import pick
from warpsight.caches.exact.state import GTO, LRR, MOST_PLACES, NEVER, State

pytestmark = pytest.mark.property

_state_at = reference_to(State)


@jit()
def _pick(address, number):  # type: ignore[no-untyped-def]
    pick(_state_at(address), 0, number)


def _memory(schedulers: int, blocks: int, per_block: int, policy: int) -> Memory:
    """One SM of which all places have a block, the later ones the older blocks."""
    slots = blocks * per_block
    places = -(-slots // schedulers)
    memory = Memory(State, sms=1, schedulers=schedulers, eligible=schedulers * places, ages=schedulers * places, warps=slots)
    machine = memory.root["machine"]
    machine["schedulers"], machine["scheduler_slots"], machine["policy"] = schedulers, places, policy
    machine["blocks_per_sm"], machine["warps_per_block"], machine["warp_slots"] = blocks, per_block, slots
    slot = np.arange(slots)
    place, age = slot // schedulers, (blocks - 1 - slot // per_block) * per_block + slot % per_block
    memory["ages"][slot % schedulers * places + place] = age * MOST_PLACES + place
    memory["eligible"][:] = NEVER
    return memory


def _expected(eligible: list[int], last: int | None, clock: int, by_age: list[int], policy: int) -> int | None:
    """The slot that goes next, of the scheduler's own, in the order of their numbers: `eligible` has the others as NEVER."""
    if policy == GTO and last is not None and eligible[last] <= clock:
        return last
    limit = max(clock, min(eligible))
    can_go = [slot for slot, time in enumerate(eligible) if time <= limit and time != NEVER]
    if not can_go:
        return None
    if policy == GTO:
        return min(can_go, key=by_age.index)
    return min(can_go, key=lambda slot: (last is not None and slot <= last, slot))


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.sampled_from([GTO, LRR]))
@settings(max_examples=300, deadline=None)
def test_any_state_of_the_warps_the_policy_decides(data: Any, schedulers: int, blocks: int, per_block: int, policy: int) -> None:
    number = data.draw(st.integers(0, schedulers - 1))
    slots, places = blocks * per_block, -(-blocks * per_block // schedulers)
    own = range(number, slots, schedulers)
    times = st.one_of(st.integers(0, 9), st.just(NEVER))
    eligible = [data.draw(times) if slot in own else NEVER for slot in range(slots)]
    last, clock = data.draw(st.sampled_from([None, *own])), data.draw(st.integers(0, 9))
    by_age = [block * per_block + k for block in reversed(range(blocks)) for k in range(per_block)]

    memory = _memory(schedulers, blocks, per_block, policy)
    scheduler = memory["schedulers"][number]
    scheduler["clock"], scheduler["last"] = clock, -1 if last is None else last // schedulers
    for slot in own:
        memory["eligible"][number * places + slot // schedulers] = eligible[slot]
    _pick(memory.address, number)

    chosen = _expected(eligible, last, clock, by_age, policy)
    assert scheduler["picked"] == (-1 if chosen is None else chosen // schedulers)
    assert (scheduler["time"] == NEVER) == (chosen is None)


@pytest.mark.parametrize("schedulers", [2, 3, 4])
def test_schedulers_that_wait_for_the_load_store_unit_take_turns(monkeypatch: pytest.MonkeyPatch, schedulers: int) -> None:
    """Four warps each, which make accesses of eight lines and nothing else: at any time they have made as many as others."""
    warps, accesses = 4 * schedulers, 100
    stream = Warp(((0, 32, accesses),), [[128 * line for line in range(8)]] * accesses)
    trace = build_trace(["load.global.4 r0 <- q0"], [stream] * warps, warps)
    (chunk,), made = trace.chunks, list[np.ndarray]()
    each = chunk.events.size // (warps * accesses)  # bytes of an access

    def look(memory: Memory, reports: bool) -> bool:
        if (memory["slots"]["id"] >= 0).all():
            left = (memory["warps"]["event_end"] - memory["warps"]["event"]) // each
            made.append(accesses - np.bincount(memory["warps"]["scheduler"], left) / 4)
        return False

    monkeypatch.setattr(simulate, "TURNS_PER_LOOK", 50)
    simulate.CacheSimulation(trace, small_gpu(1, schedulers=schedulers, access_queue=2), 1, observer=look).run()
    assert len(made) > 10 and np.median(made) > 30
    assert np.ptp(made, axis=1).max() <= 1

"""Does the calendar give entries back by time, and those of one time in the order in which they came?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warpsight.caches.reuse.structures import NEVER, new_calendar, pop, push, soonest

pytestmark = pytest.mark.property

# how far ahead of now each entry is, and how many are taken out after it
STEPS = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 3)), max_size=200)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from([1, 61, 62, 63, 200, 16383, 1 << 20]))
def test_entries_leave_by_time_and_then_in_order(steps, ahead):
    calendar, expected, now = new_calendar(len(steps), ahead), [], 0
    for number, (later, taken) in enumerate(steps):
        time = now + later % (ahead + 1)
        push(calendar, time, number)
        expected.append((time, number))
        for _ in range(taken):
            assert soonest(calendar) == min(expected, default=(NEVER,))[0]
            if expected:
                first = min(expected)
                expected.remove(first)
                now = first[0]
                assert pop(calendar) == first[1]
    for first in sorted(expected):
        assert soonest(calendar) == first[0]
        assert pop(calendar) == first[1]
    assert soonest(calendar) == NEVER

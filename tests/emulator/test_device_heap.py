"""Is the heap behind a kernel's `malloc` sound: no two blocks overlap, none leaves it, freed memory comes back last?"""

from __future__ import annotations

import random

import numpy as np
import pytest

from warpsight.emulator.run.memory import Allocation, DeviceHeap, LiveTable, nearest

pytestmark = pytest.mark.unit


def test_random_blocks_never_overlap_and_freed_ones_are_known_until_used_again() -> None:
    rng = random.Random(3)
    heap, live, freed = DeviceHeap(1 << 32, 8192), {}, {}
    refused = 0
    for step in range(6000):
        if live and rng.random() < 0.5:
            address = rng.choice(list(live))
            freed[address] = live.pop(address)
            assert heap.free(address, f"step {step}") is not None
            continue
        size, align = rng.randint(1, 300), rng.choice([16, 16, 16, 64, 256])
        block = heap.allocate(size, align, f"block {step}")
        if block is None:
            refused += 1
            continue
        assert block.address % align == 0
        assert block.size == size
        assert block.address >= 1 << 32 and block.end <= (1 << 32) + 8192
        for address, other in live.items():
            assert block.end <= address or other <= block.address
        freed = {a: end for a, end in freed.items() if heap.freed_at(a) is not None}
        for address, end in freed.items():  # what is still called freed was not handed out
            assert block.end <= address or end <= block.address
        live[block.address] = block.end
    assert refused > 50
    assert {b.address for b in heap.live()} == set(live)


def test_fresh_memory_goes_first_and_everything_can_be_had_again() -> None:
    heap = DeviceHeap(4096, 1024)
    blocks = [heap.allocate(16, 16, "") for _ in range(32)]
    assert all(block is not None for block in blocks)
    assert heap.allocate(1, 16, "") is None
    for block in blocks:
        assert block is not None and heap.free(block.address, "") is not None
    whole = heap.allocate(1008, 16, "")  # the holes have grown together
    assert whole is not None and whole.address == 4096
    assert heap.freed_at(4096) is None


def test_freed_block_is_not_given_out_while_there_is_fresh_memory() -> None:
    heap = DeviceHeap(4096, 1024)
    first = heap.allocate(16, 16, "first")
    assert first is not None
    heap.free(first.address, "someone")
    second = heap.allocate(16, 16, "second")
    assert second is not None and second.address != first.address
    freed = heap.freed_at(first.address + 15)
    assert freed is not None and (freed.allocation.name, freed.by) == ("first", "someone")
    assert heap.freed_at(first.address + 16) is None


@pytest.mark.parametrize("address", [4096 + 16, 0, 5000])
def test_free_of_what_is_no_block_changes_nothing(address: int) -> None:
    heap = DeviceHeap(4096, 1024)
    assert heap.allocate(64, 16, "") is not None
    assert heap.free(address, "") is None
    assert len(heap.live()) == 1


@pytest.mark.parametrize(("size", "align"), [(0, 16), (1 << 63, 16), (2000, 16), (16, 1 << 62)])
def test_block_that_cannot_be_had_is_none(size: int, align: int) -> None:
    assert DeviceHeap(4096, 1024).allocate(size, align, "") is None


def test_live_table_stays_sorted_while_it_grows_and_shrinks() -> None:
    rng = random.Random(5)
    table, known = LiveTable([Allocation(100, 20, True, "")]), {100: 120}
    for _ in range(300):
        if len(known) > 3 and rng.random() < 0.4:
            address = rng.choice(list(known))
            table.remove(address)
            del known[address]
        else:
            address = rng.randrange(0, 100000, 32)
            if address not in known:
                table.add(Allocation(address, 16, True, ""))
                known[address] = address + 16
        rows = np.ctypeslib.as_array((np.ctypeslib.ctypes.c_int64 * (3 * table.count)).from_address(table.pointer)).reshape(-1, 3)
        assert rows[:, :2].tolist() == [[a, known[a]] for a in sorted(known)]
    for address in (0, 99, 100, 110, 119, 120):
        assert table.room_at(address) == max((end - address for a, end in known.items() if a <= address < end), default=0)


def test_nearest_allocation_counts_past_the_end_and_before_the_start() -> None:
    known = [Allocation(100, 10, True, "a"), Allocation(200, 10, True, "b")]
    expected = {99: ("a", -1), 100: ("a", 0), 109: ("a", 0), 110: ("a", 1), 180: ("b", -20), 230: ("b", 21)}
    for address, (name, distance) in expected.items():
        found = nearest(known, address)
        assert found is not None and (found[0].name, found[1]) == (name, distance)
    assert nearest([], 5) is None

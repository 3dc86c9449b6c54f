"""Compiled: from the addresses of a line to its event: sectors, passes through the banks, lanes that share an address.

The rules are those of `addressing/coalescing.py` and `addressing/banks.py`,
and of the emulator's local memory; tests hold them together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.trace.importers.accelsim.compiled import compiled, inlined
from warpsight.trace.importers.accelsim.layout import (
    FIRST_REGION,
    LOCAL_PAGE_ROWS,
    LOCAL_PAGE_SECTORS,
    LOCAL_PAGES,
    LOCAL_TRACE_SECTOR,
    LOCAL_WINDOW_BYTES,
    REGION_LIMIT,
    REGION_SHIFT,
    Slot,
)

_REGION_BITS = REGION_SHIFT - 5
_IN_REGION = (1 << _REGION_BITS) - 1
_PAGE_BITS = LOCAL_PAGE_ROWS.bit_length() - 1
_REGION, _PLACE, _REGIONS = int(Slot.REGION), int(Slot.REGION_PLACE), int(Slot.REGIONS)
_SECTORS, _NEXT, _EPOCH = int(Slot.SECTORS), int(Slot.LOCAL_NEXT), int(Slot.EPOCH)
_SHARED, _SHARED_BYTES, _LOCAL = int(Slot.SHARED_BASE), int(Slot.SHARED_BYTES), int(Slot.LOCAL_BASE)


@inlined
def place_of(region: int, st: Any, places: Any) -> Any:
    """The place of a region of addresses; -1 if there is none left."""
    if region == st[_REGION]:
        return st[_PLACE]
    place: Any = np.int64(-1)
    count = st[_REGIONS]
    for k in range(count):
        if places.regions[k] == region:
            place = k + FIRST_REGION
            break
    if place < 0:
        if count + FIRST_REGION >= REGION_LIMIT:
            return place
        places.regions[count] = region
        st[_REGIONS] = count + 1
        place = count + FIRST_REGION
    st[_REGION] = region
    st[_PLACE] = place
    return place


@inlined
def add_sector(sector: int, first: int, st: Any, sectors: Any) -> None:
    """Append a sector unless the event, whose sectors begin at `first`, has it."""
    count = st[_SECTORS]
    value = np.uint32(sector)
    k = count - 1
    while k >= first:
        if sectors[k] == value:
            return
        k -= 1
    sectors[count] = value
    st[_SECTORS] = count + 1


@inlined
def add_global(address: int, size: int, first: int, st: Any, out: Any, places: Any) -> Any:
    """Append the sectors of `size` bytes at `address`. False if no region is left."""
    raw = address >> 5
    last = (address + size - 1) >> 5
    while raw <= last:
        place = place_of(raw >> _REGION_BITS, st, places)
        if place < 0:
            return False
        add_sector(place << _REGION_BITS | (raw & _IN_REGION), first, st, out.sectors)
        raw += 1
    return True


@inlined
def add_all_global(count: int, size: int, first: int, st: Any, out: Any, places: Any, scratch: Any) -> Any:
    """Append the sectors of `count` lanes' accesses at `scratch.address`. False if no region is left.

    Lanes beside each other mostly stay in one sector, which is then looked up once.
    """
    before = np.int64(-1)
    for k in range(count):
        address = scratch.address[k]
        last = (address + size - 1) >> 5
        if address >> 5 == before and last == before:
            continue
        before = last
        if not add_global(address, size, first, st, out, places):
            return False
    return True


@inlined
def add_local(count: int, size: int, first: int, st: Any, out: Any, places: Any, scratch: Any) -> None:
    """Append the sectors of `count` lanes' local accesses at offsets `scratch.address`, word by word, lanes interleaved."""
    for word in range(max(1, size >> 2)):
        before = np.int64(-1)
        for k in range(count):
            row = (scratch.address[k] >> 2) + word
            key = row << 2 | scratch.lane[k] >> 3
            if key == before:
                continue
            before = key
            page = row >> _PAGE_BITS
            if places.pages[page, 0] != st[_EPOCH]:
                places.pages[page, 0] = st[_EPOCH]
                places.pages[page, 1] = st[_NEXT] % LOCAL_PAGES
                st[_NEXT] += 1
            base = LOCAL_TRACE_SECTOR + places.pages[page, 1] * LOCAL_PAGE_SECTORS
            add_sector(base + (key & (LOCAL_PAGE_SECTORS - 1)), first, st, out.sectors)


@inlined
def local_offset(address: int, st: Any) -> Any:
    """The offset in local memory of an address in its window, or of a bare offset; -1 if it is neither."""
    base = st[_LOCAL]
    if base > 0 and base <= address < base + LOCAL_WINDOW_BYTES:
        return address - base
    return address if 0 <= address < LOCAL_WINDOW_BYTES else np.int64(-1)


@inlined
def window_of(address: int, st: Any) -> Any:
    """Of a generic address: 2 in shared memory, 3 in local memory, 1 else (numbers of `Space`)."""
    if st[_LOCAL] > 0 and st[_LOCAL] <= address < st[_LOCAL] + LOCAL_WINDOW_BYTES:
        return 3
    if st[_SHARED] > 0 and st[_SHARED] <= address < st[_SHARED] + st[_SHARED_BYTES]:
        return 2
    return 1


@compiled
def bank_passes(count: int, size: int, scratch: Any) -> Any:
    """Passes through the 32 banks for `count` lanes, in order, of `size` bytes each: by half-warps for 8, quarters for 16."""
    share = 32 // max(1, min(size, 32) // 4)
    total = np.int64(0)
    k = 0
    while k < count:
        part = scratch.lane[k] // share
        scratch.banks[:] = 0
        words = 0
        most = np.int64(0)
        while k < count and scratch.lane[k] // share == part:
            low = scratch.address[k] >> 2
            high = (scratch.address[k] + size - 1) >> 2
            for word in range(low, high + 1):
                bank = word & 31
                held = scratch.banks[bank, 0]
                if held > 0:
                    if scratch.banks[bank, 1] == word:
                        continue
                    known = False
                    for j in range(words):
                        if scratch.words[j] == word:
                            known = True
                            break
                    if known:
                        continue
                else:
                    scratch.banks[bank, 1] = word
                if words < len(scratch.words):
                    scratch.words[words] = word
                    words += 1
                scratch.banks[bank, 0] = held + 1
                most = max(most, held + 1)
            k += 1
        total += most
    return total


@inlined
def most_sharing(count: int, scratch: Any) -> Any:
    """The most of `count` lanes that have one address."""
    best = np.int64(0)
    for k in range(count):
        same = np.int64(1)
        for j in range(k + 1, count):
            if scratch.address[j] == scratch.address[k]:
                same += 1
        best = max(best, same)
        if best >= count - k - 1:
            break
    return best

"""Compiled: the lanes of one memory instruction become its event: sectors, passes through the banks, lanes that share an address.

The caller puts the active lanes and their addresses into `scratch`, lowest lane first, and has made room for 4 event bytes and 512
sectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.traces.importers.layout import (
    ALL_LANES,
    FIRST_REGION,
    LOCAL_PAGE_ROWS,
    LOCAL_PAGE_SECTORS,
    LOCAL_PAGES,
    LOCAL_TRACE_SECTOR,
    LOCAL_WINDOW_BYTES,
    MOST_SECTORS,
    REGION_LIMIT,
    REGION_SHIFT,
    InstructionRow,
    Space,
    Status,
    StreamState,
    compiled,
    inlined,
)

# ruff: noqa: PLR1714, SIM102

_REGION_BITS = REGION_SHIFT - 5
_IN_REGION = (1 << _REGION_BITS) - 1
_PAGE_BITS = LOCAL_PAGE_ROWS.bit_length() - 1
_LOCAL, _SHARED = int(Space.LOCAL), int(Space.SHARED)


@inlined
def population(mask: int) -> Any:
    """Bits that are set in a mask of 32 bits."""
    mask = mask - ((mask >> 1) & 0x55555555)
    mask = (mask & 0x33333333) + ((mask >> 2) & 0x33333333)
    return ((((mask + (mask >> 4)) & 0x0F0F0F0F) * 0x01010101) & 0xFFFFFFFF) >> 24


@inlined
def fill_lanes(mask: int, scratch: Any) -> Any:
    """Fill `scratch.lane` with the active lanes, in order. Returns their number."""
    count = 0
    if mask == ALL_LANES:
        for lane in range(32):
            scratch.lane[lane] = lane
        return 32
    for lane in range(32):
        if mask >> lane & 1:
            scratch.lane[count] = lane
            count += 1
    return count


@inlined
def region_index(region: int, st: StreamState, places: Any) -> Any:
    """The index that stands for a region of addresses in sector numbers; -1 if none is left."""
    if region == st.region:
        return st.region_index
    k: Any = np.int64(0)
    while k < st.regions and places.regions[k] != region:
        k += 1
    if k == st.regions:
        if k + FIRST_REGION >= REGION_LIMIT:
            return np.int64(-1)
        places.regions[k] = region
        st.regions = k + 1
    st.region = region
    st.region_index = k + FIRST_REGION
    return st.region_index


@inlined
def add_sector(sector: int, first: int, st: StreamState, sectors: Any) -> None:
    """Append a sector unless the event, whose sectors begin at `first`, has it."""
    count = st.sectors
    value = np.uint32(sector)
    k = count - 1
    while k >= first:
        if sectors[k] == value:
            return
        k -= 1
    sectors[count] = value
    st.sectors = count + 1


@inlined
def add_bytes(address: int, size: int, first: int, st: StreamState, out: Any, places: Any) -> Any:
    """Append the sectors of `size` bytes at `address` in device memory. False if no region is left."""
    raw = address >> 5
    last = (address + size - 1) >> 5
    while raw <= last:
        index = region_index(raw >> _REGION_BITS, st, places)
        if index < 0:
            return False
        add_sector(index << _REGION_BITS | (raw & _IN_REGION), first, st, out.sectors)
        raw += 1
    return True


@inlined
def add_global(count: int, size: int, first: int, st: StreamState, out: Any, places: Any, scratch: Any) -> Any:
    """Append the sectors of `count` lanes in device memory. False if no region is left.

    Neighbouring lanes mostly stay in one sector, which is then looked up once.
    """
    before = np.int64(-1)
    for k in range(count):
        address = scratch.address[k]
        last = (address + size - 1) >> 5
        if address >> 5 == before and last == before:
            continue
        before = last
        if not add_bytes(address, size, first, st, out, places):
            return False
    return True


@inlined
def add_local(count: int, size: int, first: int, st: StreamState, out: Any, places: Any, scratch: Any) -> None:
    """Append the sectors of `count` lanes at offsets in local memory, word by word, lanes interleaved."""
    for word in range(max(1, size >> 2)):
        before = np.int64(-1)
        for k in range(count):
            row = (scratch.address[k] >> 2) + word
            key = row << 2 | scratch.lane[k] >> 3
            if key == before:
                continue
            before = key
            page = row >> _PAGE_BITS
            if places.pages[page, 0] != st.epoch:
                places.pages[page, 0] = st.epoch
                places.pages[page, 1] = st.local_pages % LOCAL_PAGES
                st.local_pages += 1
            base = LOCAL_TRACE_SECTOR + places.pages[page, 1] * LOCAL_PAGE_SECTORS
            add_sector(base + (key & (LOCAL_PAGE_SECTORS - 1)), first, st, out.sectors)


@inlined
def local_offset(address: int, st: StreamState) -> Any:
    """The offset in local memory of an address in its window, or of a bare offset; -1 if it is neither."""
    base = st.local_base
    if base > 0 and base <= address < base + LOCAL_WINDOW_BYTES:
        return address - base
    return address if 0 <= address < LOCAL_WINDOW_BYTES else np.int64(-1)


@inlined
def space_of(address: int, st: StreamState) -> Any:
    """The memory space that a generic address lies in, as a number of `Space`."""
    if st.local_base > 0 and st.local_base <= address < st.local_base + LOCAL_WINDOW_BYTES:
        return np.int64(Space.LOCAL)
    if st.shared_base > 0 and st.shared_base <= address < st.shared_base + st.shared_bytes:
        return np.int64(Space.SHARED)
    return np.int64(Space.GLOBAL)


@compiled
def in_pairs(count: int, step: int, scratch: Any) -> Any:
    """Whether lanes n and n ^ `step` have one address, wherever both are among the `count` in `scratch`, in the order of lanes."""
    for k in range(count):
        for j in range(k + 1, min(count, k + 1 + step)):
            if scratch.lane[j] == scratch.lane[k] ^ step and scratch.address[j] != scratch.address[k]:
                return False
    return True


@compiled
def bank_passes(count: int, size: int, loads: int, scratch: Any) -> Any:
    """Passes through the 32 banks for `count` lanes of `size` bytes each: by half-warps for 8 bytes, quarter-warps for 16, and by
    twice as many lanes for `loads` whose lanes read the same in pairs.
    """
    share = 32 // max(1, min(size, 32) // 4)
    if loads != 0 and share < 32 and (in_pairs(count, 1, scratch) or in_pairs(count, 2, scratch)):
        share *= 2
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


@inlined
def add_event(row: InstructionRow, count: int, st: StreamState, out: Any, places: Any, scratch: Any) -> Any:
    """Append the event of an access by the `count` lanes in `scratch`. Returns `Status.DONE` or what is wrong."""
    space, size = row.space, row.bytes
    event, first = st.events, st.sectors
    sharing = most_sharing(count, scratch) if row.atomic else 0
    passes = np.int64(0)
    if space == Space.GLOBAL:
        if not add_global(count, size, first, st, out, places, scratch):
            return np.int64(Status.REGIONS)
    elif space == Space.SHARED:
        passes = shared_passes(row, count, scratch)
    elif space == Space.LOCAL:
        for k in range(count):
            offset = local_offset(scratch.address[k], st)
            if offset < 0:
                return np.int64(Status.LOCAL_WINDOW)
            scratch.address[k] = offset
        add_local(count, size, first, st, out, places, scratch)
    else:
        passes = add_generic(size, row.loads, count, first, st, out, places, scratch)
        if passes < 0:
            return np.int64(Status.REGIONS)
    sectors = st.sectors - first
    if sectors > MOST_SECTORS or passes > MOST_SECTORS:
        return np.int64(Status.SECTOR_COUNT)
    if space != Space.SHARED:
        out.events[event] = sectors
        event += 1
    if space == Space.SHARED or space == Space.GENERIC:
        out.events[event] = passes
        event += 1
    if row.atomic:
        out.events[event] = sharing
        event += 1
    st.events = event
    return np.int64(Status.DONE)


@inlined
def shared_passes(row: InstructionRow, count: int, scratch: Any) -> Any:
    """Bank passes. In a matrix access, each of the first lanes has the address of a row of 16 bytes."""
    if row.lanes >= 32 and row.bytes * 2 != row.lanes:
        return bank_passes(count, row.bytes, row.loads, scratch)
    rows = 0
    while rows < count and scratch.lane[rows] < row.lanes:
        rows += 1
    return bank_passes(rows, 16, row.loads, scratch)


@compiled
def add_generic(size: int, loads: int, count: int, first: int, st: StreamState, out: Any, places: Any, scratch: Any) -> Any:
    """Append the sectors of generic accesses: first the lanes in device memory, then those in local memory.

    Returns the bank passes of those in shared memory, or -1 if no region is left.
    """
    in_local = 0
    in_shared = 0
    for k in range(count):
        address_space = space_of(scratch.address[k], st)
        if address_space == Space.GLOBAL:
            if not add_bytes(scratch.address[k], size, first, st, out, places):
                return np.int64(-1)
        in_local += address_space == Space.LOCAL
        in_shared += address_space == Space.SHARED
    if in_shared + in_local == 0:
        return np.int64(0)
    passes = np.int64(0)
    # The lanes of one space move to the front; what they overwrite is saved until its own turn.
    for k in range(count):
        scratch.saved[k, 0] = scratch.address[k]
        scratch.saved[k, 1] = scratch.lane[k]
    for space in (_LOCAL, _SHARED):
        n = 0
        for k in range(count):
            if space_of(scratch.saved[k, 0], st) == space:
                scratch.address[n] = local_offset(scratch.saved[k, 0], st) if space == _LOCAL else scratch.saved[k, 0]
                scratch.lane[n] = scratch.saved[k, 1]
                n += 1
        if space == _LOCAL:
            add_local(n, size, first, st, out, places, scratch)
        else:
            passes = bank_passes(n, size, loads, scratch)
    return passes

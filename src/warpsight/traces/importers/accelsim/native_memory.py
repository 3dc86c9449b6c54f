"""Compiled: the memory fields of a line become an event: sectors, passes through the banks, lanes that share an address."""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.traces.importers.accelsim.layout import (
    ADDRESS_LIMIT,
    FIRST_REGION,
    LOCAL_PAGE_ROWS,
    LOCAL_PAGE_SECTORS,
    LOCAL_PAGES,
    LOCAL_TRACE_SECTOR,
    LOCAL_WINDOW_BYTES,
    MOST_BULK_ADDRESSES,
    MOST_BULK_PIECE,
    MOST_SECTORS,
    REGION_LIMIT,
    REGION_SHIFT,
    Answer,
    Slot,
    Space,
    Static,
)
from warpsight.traces.importers.accelsim.native_text import compiled, decimal, hexadecimal, inlined

_REGION_BITS = REGION_SHIFT - 5
_IN_REGION = (1 << _REGION_BITS) - 1
_PAGE_BITS = LOCAL_PAGE_ROWS.bit_length() - 1
_REGION, _PLACE, _REGIONS = int(Slot.REGION), int(Slot.REGION_PLACE), int(Slot.REGIONS)
_SECTORS, _NEXT, _EPOCH = int(Slot.SECTORS), int(Slot.LOCAL_NEXT), int(Slot.EPOCH)
_SHARED_BASE, _SHARED_BYTES, _LOCAL_BASE = int(Slot.SHARED_BASE), int(Slot.SHARED_BYTES), int(Slot.LOCAL_BASE)


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
    base = st[_LOCAL_BASE]
    if base > 0 and base <= address < base + LOCAL_WINDOW_BYTES:
        return address - base
    return address if 0 <= address < LOCAL_WINDOW_BYTES else np.int64(-1)


@inlined
def window_of(address: int, st: Any) -> Any:
    """Of a generic address: 2 in shared memory, 3 in local memory, 1 else (numbers of `Space`)."""
    if st[_LOCAL_BASE] > 0 and st[_LOCAL_BASE] <= address < st[_LOCAL_BASE] + LOCAL_WINDOW_BYTES:
        return 3
    if st[_SHARED_BASE] > 0 and st[_SHARED_BASE] <= address < st[_SHARED_BASE] + st[_SHARED_BYTES]:
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


# -- Compiled: the memory fields of a line, read and turned into an event.

# ruff: noqa: PLR0912, SIM102

_ALL = 0xFFFFFFFF
_MODE, _ADDRESS, _BULK, _STRIDE = int(Answer.MODE), int(Answer.ADDRESS), int(Answer.BULK), int(Answer.STRIDE)
_FULL, _NO_REGION, _NO_WINDOW, _COUNT = int(Answer.FULL), int(Answer.REGIONS), int(Answer.LOCAL_WINDOW), int(Answer.SECTOR_COUNT)
_GLOBAL, _SHARED, _LOCAL, _GENERIC = int(Space.GLOBAL), int(Space.SHARED), int(Space.LOCAL), int(Space.GENERIC)
_SECTOR_SLOT, _EVENTS, _WRONG_AT = int(Slot.SECTORS), int(Slot.EVENTS), int(Slot.WRONG_AT)
_SPACE, _ATOMIC, _BYTES, _LANES = int(Static.SPACE), int(Static.ATOMIC), int(Static.BYTES), int(Static.LANES)


@inlined
def lanes_of(mask: int, scratch: Any) -> Any:
    """Fill `scratch.lane` with the active lanes, in order; gives their number."""
    count = 0
    if mask == _ALL:
        for lane in range(32):
            scratch.lane[lane] = lane
        return 32
    for lane in range(32):
        if mask >> lane & 1:
            scratch.lane[count] = lane
            count += 1
    return count


@inlined
def read_addresses(buf: Any, p: int, mask: int, st: Any, scratch: Any) -> Any:
    """Read mode and addresses behind the memory width; fills `scratch.address` and `scratch.lane` of the active lanes, in order.

    The place behind them, or minus the answer that says what is wrong (`WRONG_AT` is where).
    """
    st[_WRONG_AT] = p
    mode, p = decimal(buf, p)
    if p < 0 or mode < 0 or mode > 2:
        return np.int64(-_MODE)
    count = lanes_of(mask, scratch)
    stride = np.int64(0)
    address = np.int64(0)
    if mode == 1:
        if count > 1 and scratch.lane[count - 1] - scratch.lane[0] != count - 1:
            return np.int64(-_STRIDE)
        st[_WRONG_AT] = p
        address, p = hexadecimal(buf, p)
        if p >= 0:
            stride, p = decimal(buf, p)
        if p < 0:
            return np.int64(-_ADDRESS)
    elif mode == 2 and count == 0:
        address, p = hexadecimal(buf, p)
        if p < 0:
            return np.int64(-_ADDRESS)
    for k in range(count):
        st[_WRONG_AT] = p
        if mode == 1:
            address += stride if k else 0
        elif mode == 0 or k == 0:
            address, p = hexadecimal(buf, p)
        else:
            delta, p = decimal(buf, p)
            address += delta
        if p < 0 or address < 0 or address >= ADDRESS_LIMIT:
            return np.int64(-_ADDRESS)
        scratch.address[k] = address
    return p


@inlined
def add_event(row: Any, count: int, st: Any, out: Any, places: Any, scratch: Any) -> Any:
    """Append the event of an access by `count` lanes in `scratch`; 0, or the answer that says what is wrong.

    The caller has seen to room for 4 event bytes and 512 sectors.
    """
    space, size = row[_SPACE], row[_BYTES]
    at = st[_EVENTS]
    first = st[_SECTOR_SLOT]
    sharing = most_sharing(count, scratch) if row[_ATOMIC] else 0
    passes = np.int64(0)
    if space == _GLOBAL:
        if not add_all_global(count, size, first, st, out, places, scratch):
            return _NO_REGION
    elif space == _SHARED:
        passes = shared_passes(row, count, scratch)
    elif space == _LOCAL:
        for k in range(count):
            offset = local_offset(scratch.address[k], st)
            if offset < 0:
                return _NO_WINDOW
            scratch.address[k] = offset
        add_local(count, size, first, st, out, places, scratch)
    else:
        passes = add_generic(size, count, first, st, out, places, scratch)
        if passes < 0:
            return _NO_REGION
    found = st[_SECTOR_SLOT] - first
    if found > MOST_SECTORS or passes > MOST_SECTORS:
        return _COUNT
    if space != _SHARED:
        out.events[at] = found
        at += 1
    if space in (_SHARED, _GENERIC):
        out.events[at] = passes
        at += 1
    if row[_ATOMIC]:
        out.events[at] = sharing
        at += 1
    st[_EVENTS] = at
    return 0


@inlined
def shared_passes(row: Any, count: int, scratch: Any) -> Any:
    """Bank passes; of a matrix access, whose rows of 16 bytes have an address for each of the first lanes, by its rows."""
    if row[_LANES] >= 32 and row[_BYTES] * 2 != row[_LANES]:
        return bank_passes(count, row[_BYTES], scratch)
    rows = 0
    while rows < count and scratch.lane[rows] < row[_LANES]:
        rows += 1
    return bank_passes(rows, 16, scratch)


@compiled
def add_generic(size: int, count: int, first: int, st: Any, out: Any, places: Any, scratch: Any) -> Any:
    """Append the sectors of generic accesses: lanes in device memory, then those in local memory; the bank passes of those in
    shared
    memory, or -1 if no region is left.
    """
    locals_ = 0
    shared = 0
    for k in range(count):
        window = window_of(scratch.address[k], st)
        if window == _GLOBAL:
            if not add_global(scratch.address[k], size, first, st, out, places):
                return np.int64(-1)
        locals_ += window == _LOCAL
        shared += window == _SHARED
    if shared + locals_ == 0:
        return np.int64(0)
    passes = np.int64(0)
    # lanes of one kind are moved to the front: what stands there is kept until its own turn
    for k in range(count):
        scratch.kept[k, 0] = scratch.address[k]
        scratch.kept[k, 1] = scratch.lane[k]
    for kind in (_LOCAL, _SHARED):
        n = 0
        for k in range(count):
            if window_of(scratch.kept[k, 0], st) == kind:
                scratch.address[n] = local_offset(scratch.kept[k, 0], st) if kind == _LOCAL else scratch.kept[k, 0]
                scratch.lane[n] = scratch.kept[k, 1]
                n += 1
        if kind == _LOCAL:
            add_local(n, size, first, st, out, places, scratch)
        else:
            passes = bank_passes(n, size, scratch)
    return passes


@inlined
def bulk_head(buf: Any, p: int, st: Any) -> Any:
    """(bytes of each address, number of addresses, mode, place) of a bulk copy's fields up to its addresses; place < 0: what is
    wrong.

    Fields: barrier, multicast (and then the blocks' mask), bytes, bytes out of bounds, mode 3 or 4.
    """
    none = np.int64(0)
    st[_WRONG_AT] = p
    _, p = hexadecimal(buf, p)
    multicast = none
    if p >= 0:
        multicast, p = decimal(buf, p)
    if p >= 0 and multicast:
        _, p = hexadecimal(buf, p)
    size = none
    if p >= 0:
        size, p = decimal(buf, p)
    if p >= 0:
        _, p = decimal(buf, p)
    mode = none
    if p >= 0:
        mode, p = decimal(buf, p)
    if p < 0 or mode < 3 or mode > 4 or size < 0:
        return none, none, none, np.int64(-_BULK)
    # the list has its length first, the deltas have it behind the base
    q = p
    if mode == 4:
        _, q = hexadecimal(buf, p)
    count = none
    after = q
    if q >= 0:
        count, after = decimal(buf, q)
    if q < 0 or after < 0 or count < 0 or count > MOST_BULK_ADDRESSES:
        return none, none, none, np.int64(-_BULK)
    piece: Any = max(1, -(-size // count)) if count else none
    if piece > MOST_BULK_PIECE:
        return none, none, none, np.int64(-_BULK)
    return piece, count, mode, (after if mode == 3 else p)


@compiled
def add_bulk(buf: Any, p: int, mask: int, row: Any, st: Any, out: Any, places: Any) -> Any:
    """Read a bulk copy and append its events, of at most 255 sectors each: (events, place), place < 0: what is wrong.

    Without an active lane nothing is copied, whatever addresses stand there.
    """
    piece, count, mode, p = bulk_head(buf, p, st)
    if p < 0:
        return np.int64(0), p
    each = piece // 32 + 2
    if row[_SPACE] and (
        len(out.sectors) - st[_SECTOR_SLOT] < count * each + 512 or len(out.events) - st[_EVENTS] < 4 + count * each // 64
    ):
        return np.int64(0), np.int64(-_FULL)
    events = np.int64(1)
    first = st[_SECTOR_SLOT]
    address = np.int64(0)
    for k in range(count):
        st[_WRONG_AT] = p
        if mode == 3 or k == 0:
            address, p = hexadecimal(buf, p)
            if p >= 0 and mode == 4:
                _, p = decimal(buf, p)
        else:
            delta, p = decimal(buf, p)
            address += delta
        if p < 0 or address < 0 or address + piece >= ADDRESS_LIMIT:
            return events, np.int64(-_ADDRESS)
        if not row[_SPACE] or mask == 0:
            continue
        moved: Any = np.int64(0)
        while moved < piece:
            step: Any = min(32 - (address + moved) % 32, piece - moved)
            if not add_global(address + moved, step, first, st, out, places):
                return events, np.int64(-_NO_REGION)
            moved += step
            if st[_SECTOR_SLOT] - first == MOST_SECTORS and (moved < piece or k + 1 < count):
                close_bulk(row, MOST_SECTORS, st, out)
                first = st[_SECTOR_SLOT]
                events += 1
    if count == 0 and mode == 4:
        _, p = hexadecimal(buf, p)
        _, p = decimal(buf, p)
    if row[_SPACE]:
        close_bulk(row, st[_SECTOR_SLOT] - first, st, out)
    return events, p


@inlined
def close_bulk(row: Any, sectors: int, st: Any, out: Any) -> None:
    """Write the event of a bulk copy, or of a part of one."""
    out.events[st[_EVENTS]] = sectors
    st[_EVENTS] += 1
    if row[_ATOMIC]:
        out.events[st[_EVENTS]] = min(1, sectors)
        st[_EVENTS] += 1

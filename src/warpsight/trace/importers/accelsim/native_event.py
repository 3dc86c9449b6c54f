"""Compiled: the memory fields of a line, read and turned into an event."""

# ruff: noqa: PLR0912, SIM102

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.trace.importers.accelsim.compiled import compiled, inlined
from warpsight.trace.importers.accelsim.layout import (
    ADDRESS_LIMIT,
    MOST_BULK_ADDRESSES,
    MOST_BULK_PIECE,
    MOST_SECTORS,
    Answer,
    Slot,
    Space,
    Static,
)
from warpsight.trace.importers.accelsim.native_memory import (
    add_all_global,
    add_global,
    add_local,
    bank_passes,
    local_offset,
    most_sharing,
    window_of,
)
from warpsight.trace.importers.accelsim.native_text import decimal, hexadecimal

_ALL = 0xFFFFFFFF
_MODE, _ADDRESS, _BULK, _STRIDE = int(Answer.MODE), int(Answer.ADDRESS), int(Answer.BULK), int(Answer.STRIDE)
_FULL, _NO_REGION, _NO_WINDOW, _COUNT = int(Answer.FULL), int(Answer.REGIONS), int(Answer.LOCAL_WINDOW), int(Answer.SECTOR_COUNT)
_GLOBAL, _SHARED, _LOCAL, _GENERIC = int(Space.GLOBAL), int(Space.SHARED), int(Space.LOCAL), int(Space.GENERIC)
_SECTORS, _EVENTS, _WRONG_AT = int(Slot.SECTORS), int(Slot.EVENTS), int(Slot.WRONG_AT)
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
    first = st[_SECTORS]
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
    found = st[_SECTORS] - first
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
        len(out.sectors) - st[_SECTORS] < count * each + 512 or len(out.events) - st[_EVENTS] < 4 + count * each // 64
    ):
        return np.int64(0), np.int64(-_FULL)
    events = np.int64(1)
    first = st[_SECTORS]
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
            if st[_SECTORS] - first == MOST_SECTORS and (moved < piece or k + 1 < count):
                close_bulk(row, MOST_SECTORS, st, out)
                first = st[_SECTORS]
                events += 1
    if count == 0 and mode == 4:
        _, p = hexadecimal(buf, p)
        _, p = decimal(buf, p)
    if row[_SPACE]:
        close_bulk(row, st[_SECTORS] - first, st, out)
    return events, p


@inlined
def close_bulk(row: Any, sectors: int, st: Any, out: Any) -> None:
    """Write the event of a bulk copy, or of a part of one."""
    out.events[st[_EVENTS]] = sectors
    st[_EVENTS] += 1
    if row[_ATOMIC]:
        out.events[st[_EVENTS]] = min(1, sectors)
        st[_EVENTS] += 1

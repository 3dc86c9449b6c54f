"""Compiled: the loop over a trace's lines. Python sees a line only if its text is new, or wrong.

A line like one seen before (same pc, registers, opcode) is recognised by comparing its bytes with those that followed the previous
line last time; only mask and addresses are parsed again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.traces.importers.accelsim.native_text import (
    LF,
    Cursor,
    Lines,
    LineStatus,
    Phase,
    blanks,
    code_of,
    decimal,
    digit,
    hexadecimal,
    line_end,
    line_parts,
    same_bytes,
    structure,
    tail,
    word_end,
)
from warpsight.traces.importers.accesses import add_bytes, add_event, fill_lanes, population
from warpsight.traces.importers.layout import (
    ADDRESS_LIMIT,
    MOST_SECTORS,
    AddressMap,
    Fragments,
    InstructionRow,
    Kind,
    Output,
    Records,
    Scratch,
    Status,
    StreamState,
    compiled,
    compiled_and_kept,
    inlined,
)
from warpsight.traces.importers.streams import close_fragment, copy_part, count_instruction, is_full, lacks_fragments

# ruff: noqa: PLR0912, PLR1714

_MOST_BULK_ADDRESSES, _MOST_BULK_PIECE = 1 << 16, 1 << 18

# -- The memory fields of a line.


@inlined
def read_addresses(buf: Any, p: int, mask: int, cursor: Cursor, scratch: Any) -> Any:
    """Read mode and addresses behind the memory width into `scratch`, for the active lanes.

    Returns the place behind them, or minus the status that says what is wrong (at `error_at`).
    """
    cursor.error_at = p
    mode, p = decimal(buf, p)
    if p < 0 or mode < 0 or mode > 2:
        return np.int64(-LineStatus.MODE)
    count = fill_lanes(mask, scratch)
    stride = np.int64(0)
    address = np.int64(0)
    if mode == 1:
        if count > 1 and scratch.lane[count - 1] - scratch.lane[0] != count - 1:
            return np.int64(-LineStatus.STRIDE)
        cursor.error_at = p
        address, p = hexadecimal(buf, p)
        if p >= 0:
            stride, p = decimal(buf, p)
        if p < 0:
            return np.int64(-LineStatus.ADDRESS)
    elif mode == 2 and count == 0:
        address, p = hexadecimal(buf, p)
        if p < 0:
            return np.int64(-LineStatus.ADDRESS)
    for k in range(count):
        cursor.error_at = p
        if mode == 1:
            address += stride if k else 0
        elif mode == 0 or k == 0:
            address, p = hexadecimal(buf, p)
        else:
            delta, p = decimal(buf, p)
            address += delta
        if p < 0 or address < 0 or address >= ADDRESS_LIMIT:
            return np.int64(-LineStatus.ADDRESS)
        scratch.address[k] = address
    return p


@inlined
def bulk_head(buf: Any, p: int, cursor: Cursor) -> Any:
    """(bytes of each address, number of addresses, mode, place) of a bulk copy's fields up to its addresses.

    A place below 0 is minus the status. Fields: barrier, multicast (and then the blocks' mask), bytes, bytes out of bounds, mode 3
    or 4.
    """
    none = np.int64(0)
    cursor.error_at = p
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
        return none, none, none, np.int64(-LineStatus.BULK)
    # A list begins with its length, deltas have it behind the base.
    q = p
    if mode == 4:
        _, q = hexadecimal(buf, p)
    count = none
    after = q
    if q >= 0:
        count, after = decimal(buf, q)
    if q < 0 or after < 0 or count < 0 or count > _MOST_BULK_ADDRESSES:
        return none, none, none, np.int64(-LineStatus.BULK)
    piece: Any = max(1, -(-size // count)) if count else none
    if piece > _MOST_BULK_PIECE:
        return none, none, none, np.int64(-LineStatus.BULK)
    return piece, count, mode, (after if mode == 3 else p)


@compiled
def add_bulk(buf: Any, p: int, mask: int, row: InstructionRow, cursor: Cursor, st: StreamState, out: Any, places: Any) -> Any:
    """Read a bulk copy and append its events, of at most 255 sectors each. Returns (events, place), place < 0: minus the status.

    Without an active lane nothing is copied, whatever addresses there are.
    """
    piece, count, mode, p = bulk_head(buf, p, cursor)
    if p < 0:
        return np.int64(0), p
    each = piece // 32 + 2
    if row.space and (len(out.sectors) - st.sectors < count * each + 512 or len(out.events) - st.events < 4 + count * each // 64):
        return np.int64(0), np.int64(-Status.FULL)
    events = np.int64(1)
    first = st.sectors
    address = np.int64(0)
    for k in range(count):
        cursor.error_at = p
        if mode == 3 or k == 0:
            address, p = hexadecimal(buf, p)
            if p >= 0 and mode == 4:
                _, p = decimal(buf, p)
        else:
            delta, p = decimal(buf, p)
            address += delta
        if p < 0 or address < 0 or address + piece >= ADDRESS_LIMIT:
            return events, np.int64(-LineStatus.ADDRESS)
        if not row.space or mask == 0:
            continue
        moved: Any = np.int64(0)
        while moved < piece:
            step: Any = min(32 - (address + moved) % 32, piece - moved)
            if not add_bytes(address + moved, step, first, st, out, places):
                return events, np.int64(-Status.REGIONS)
            moved += step
            if st.sectors - first == MOST_SECTORS and (moved < piece or k + 1 < count):
                close_bulk(row, MOST_SECTORS, st, out)
                first = st.sectors
                events += 1
    if count == 0 and mode == 4:
        _, p = hexadecimal(buf, p)
        _, p = decimal(buf, p)
    if row.space:
        close_bulk(row, st.sectors - first, st, out)
    return events, p


@inlined
def close_bulk(row: InstructionRow, sectors: int, st: StreamState, out: Any) -> None:
    """Append the event of a bulk copy, or of a part of one."""
    out.events[st.events] = sectors
    st.events += 1
    if row.atomic:
        out.events[st.events] = min(1, sectors)
        st.events += 1


@inlined
def memory_fields(
    number: int, mask: int, buf: Any, q: int, cursor: Cursor, st: StreamState, rows: Any, out: Any, places: Any, scratch: Any
) -> Any:
    """Read what follows the text of a memory line and append its events: (events, place), place < 0: minus the status."""
    row = rows[number]
    if row.kind == Kind.BULK:
        return add_bulk(buf, q, mask, row, cursor, st, out, places)
    q = read_addresses(buf, q, mask, cursor, scratch)
    if q < 0 or row.space == 0:
        return np.int64(1), q
    status = add_event(row, population(mask), st, out, places, scratch)
    return np.int64(1), (q if status == 0 else np.int64(-status))


# -- One line of an instruction.


@inlined
def find_row(buf: Any, p: int, end: int, cursor: Cursor, st: StreamState, lines: Any, parts: Any) -> Any:
    """(row of the line's instruction, mask, place behind its text); row -1: it is new, below: minus the status."""
    none = np.int64(0)
    keys, pool, table = lines.keys, lines.pool, lines.table
    guess = keys[st.last].guess if st.last >= 0 else np.int64(-1)
    if guess >= 0:
        key = keys[guess]
        if same_bytes(buf, p, end, pool, key.at, key.head):
            q = p + key.head + 1
            mask = none
            digits = 0
            while digits < 9:
                d = digit(np.int64(buf[q]))
                if d < 0:
                    break
                mask = mask * 16 + d
                q += 1
                digits += 1
            if digits == 8 and buf[q] == 32 and same_bytes(buf, q + 1, end, pool, key.at + key.head, key.text):
                return guess, mask, q + 1 + key.text
    mask = line_parts(buf, p, 1 + cursor.lineinfo, parts)
    if mask < 0:
        cursor.error_at = parts[0]
        return np.int64(-LineStatus.NO_MASK if mask == -1 else -LineStatus.FIELDS), none, none
    slot = code_of(buf, parts[0], parts[1], parts[2], parts[3]) & (len(table) - 1)
    while table[slot] != 0:
        key = keys[table[slot] - 1]
        if key.head == parts[1] - parts[0] and key.text == parts[3] - parts[2] \
                and same_bytes(buf, parts[0], end, pool, key.at, key.head) \
                and same_bytes(buf, parts[2], end, pool, key.at + key.head, key.text):  # fmt: skip
            return np.int64(table[slot] - 1), mask, parts[3]
        slot = (slot + 1) & (len(table) - 1)
    cursor.head, cursor.head_end, cursor.text, cursor.text_end = parts[0], parts[1], parts[2], parts[3]
    return np.int64(-1), mask, parts[3]


@inlined
def next_has_same_pc(buf: Any, p: int, end: int, length: int) -> Any:
    """Whether the line after the one at `p` begins with the same `length` bytes: 1 or 0; 2 if it is not in the buffer."""
    q = line_end(buf, p) + 1
    if q >= end:
        return 2
    if q + length >= end:
        return 0
    for k in range(length):
        if buf[q + k] != buf[p + k]:
            return 0
    return 1


@compiled
def part_of_copy(
    number: int, mask: int, buf: Any, p: int, q: int, end: int, cursor: Cursor, st: StreamState, rows: Any, lines: Any, scratch: Any
) -> Any:
    """Which row of an LDGSTS a line is: the store to shared memory or, second or alone, the load; -1: more text is needed.

    The address decides. Without an active lane there is none: then the first of two lines, known by the next line, is the store.
    """
    load, store = number, rows[number].paired - 1
    if mask != 0:
        after = read_addresses(buf, q, mask, cursor, scratch)
        return number if after < 0 else copy_part(number, scratch.address[0], st, rows)  # an error is found again with the event
    if st.last == store:
        return load
    following = next_has_same_pc(buf, p, end, lines.keys[number].head)
    if following == 2 and not cursor.final:
        return np.int64(-1)
    return store if following == 1 else load


@compiled
def after_prefix(buf: Any, p: int, cursor: Cursor, st: StreamState) -> Any:
    """The place behind the numbers before a line's pc, or -1 if they are not those of the running block and warp."""
    x, p = decimal(buf, p)
    y = z = warp = np.int64(-1)
    if p >= 0:
        y, p = decimal(buf, p)
    if p >= 0:
        z, p = decimal(buf, p)
    if p >= 0:
        warp, p = decimal(buf, p)
    if p < 0 or x < 0 or y < 0 or z < 0 or x >= cursor.grid_x or y >= cursor.grid_y or z >= cursor.grid_z or warp != st.warp:
        return np.int64(-1)
    if x + cursor.grid_x * (y + cursor.grid_y * z) != st.block:
        return np.int64(-1)
    for _ in range(cursor.prefix - 4):
        p = word_end(buf, blanks(buf, p))
    return blanks(buf, p)


@inlined
def count_fields(fields: int, cursor: Cursor, st: StreamState) -> None:
    """Count the memory lines, and those that have another number of fields behind their addresses than the first of them."""
    if cursor.memory_lines == 0:
        cursor.last_fields = fields
    cursor.memory_lines += 1
    if fields != cursor.last_fields:
        if cursor.odd_lines == 0:
            cursor.odd_line = st.line + 1
        cursor.odd_lines += 1


@inlined
def instruction(
    buf: Any, p: int, end: int, cursor: Cursor, st: StreamState, rows: Any, lines: Any, fragments: Any, out: Any, places: Any,
    scratch: Any,
) -> Any:  # fmt: skip
    """Read one instruction line at `p`. Returns 0 and moves on, or the status, with nothing of the line taken in."""
    if cursor.phase != Phase.WARP:
        cursor.error_at = p
        return np.int64(LineStatus.NOT_IN_WARP if cursor.phase != Phase.OUTSIDE else LineStatus.NO_LINE)
    if cursor.declared < 0:
        cursor.error_at = p
        return np.int64(LineStatus.NO_COUNT)
    if cursor.prefix:
        p = after_prefix(buf, p, cursor, st)
        if p < 0:
            return np.int64(LineStatus.PREFIX)
    number, mask, q = find_row(buf, p, end, cursor, st, lines, scratch.parts)
    if number < 0:
        return np.int64(LineStatus.NEW_LINE) if number == -1 else -number
    paired = rows[number].paired
    if paired:
        number = part_of_copy(number, mask, buf, p, q, end, cursor, st, rows, lines, scratch)
        if number < 0:
            return np.int64(LineStatus.NEXT_LINE)
    sectors, events = st.sectors, st.events
    made: Any = np.int64(1)
    if rows[number].kind:
        made, q = memory_fields(number, mask, buf, q, cursor, st, rows, out, places, scratch)
        if q < 0:
            st.sectors, st.events = sectors, events
            return -q
    after, fields = tail(buf, q)
    if after < 0:
        st.sectors, st.events = sectors, events
        cursor.error_at = -1 - after
        return np.int64(LineStatus.TAIL)
    if rows[number].kind == Kind.ADDRESSED:
        count_fields(fields, cursor, st)
    lanes = population(mask)
    if st.last >= 0 and not paired:
        lines.keys[st.last].guess = number
    count_instruction(number, lanes, st, rows, fragments, out)
    for _ in range(made - 1):  # a bulk copy of more than 255 sectors goes on in the row behind it
        count_instruction(number + 1, lanes, st, rows, fragments, out)
    st.executed -= made - 1
    cursor.position = after + 1
    st.line += 1
    return np.int64(Status.DONE)


@compiled_and_kept
def parse(
    buf: Any, end: int, cursor: Cursor, st: StreamState, rows: Records, lines: Lines, fragments: Fragments, out: Output,
    places: AddressMap, scratch: Scratch,
) -> Any:  # fmt: skip
    """Read the complete lines `buf[position:end]`, the last byte of which is a line feed. Returns why it stopped."""
    while True:
        p = cursor.position
        if p >= end:
            return np.int64(Status.DONE)
        if is_full(st, out):
            return np.int64(Status.FULL)
        status = lacks_fragments(st, fragments)
        if status:
            return status
        p = blanks(buf, p)
        c = buf[p]
        if c == LF:
            cursor.position = p + 1
            st.line += 1
            continue
        if digit(np.int64(c)) >= 0 and not (c == 99 and buf[p + 1] == 108):  # c, l: a line about a cluster
            status = instruction(buf, p, end, cursor, st, rows, lines, fragments, out, places, scratch)
        else:
            if st.fragment_length > 0 and (c == 119 or c == 35):  # w, #: a warp or a block ends
                close_fragment(st, fragments, out)
            status = structure(buf, p, cursor, st, out)
        if status == LineStatus.NEXT_LINE:
            return np.int64(Status.DONE)
        if status != 0:
            return status

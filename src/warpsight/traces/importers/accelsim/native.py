"""Compiled: the loop over a trace's lines. Python meets a line only when its text is new, or wrong.

A line that is like one seen before (same pc, registers, opcode) is recognised by comparing its bytes with those that followed the
last line before; only mask and addresses are read anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.traces.importers.accelsim.layout import (
    LANES_SHIFT,
    MAX_REPEAT,
    MOST_FRAGMENTS,
    Answer,
    Branch,
    Fragments,
    Kind,
    Longs,
    Out,
    Phase,
    Places,
    Scratch,
    Slot,
    Static,
    Statics,
)
from warpsight.traces.importers.accelsim.native_memory import add_bulk, add_event, read_addresses
from warpsight.traces.importers.accelsim.native_text import (
    LF,
    blanks,
    code_of,
    compiled,
    compiled_and_kept,
    decimal,
    digit,
    inlined,
    line_end,
    line_parts,
    population,
    same_bytes,
    source_fingerprint,
    structure,
    tail,
    word_end,
)

# ruff: noqa: PLR1714

_POS, _LINE, _PHASE, _LAST, _GOT = int(Slot.POS), int(Slot.LINE), int(Slot.PHASE), int(Slot.LAST), int(Slot.GOT)
_START, _LENGTH, _WIDEST = int(Slot.FRAGMENT_START), int(Slot.FRAGMENT_LENGTH), int(Slot.FRAGMENT_LANES)
_FIRST, _ENTRIES, _FRAGMENTS, _STATICS = int(Slot.FIRST_ENTRY), int(Slot.ENTRIES), int(Slot.FRAGMENTS), int(Slot.STATICS)
_EVENTS, _SECTORS, _ROWS, _WRONG_AT = int(Slot.EVENTS), int(Slot.SECTORS), int(Slot.ROWS), int(Slot.WRONG_AT)
_PREFIX, _LINEINFO, _FINAL, _MASK, _SECOND = int(Slot.PREFIX), int(Slot.LINEINFO), int(Slot.FINAL), int(Slot.MASK), int(Slot.SECOND)
_HEAD, _WARP_PHASE, _OUTSIDE = int(Slot.HEAD), int(Phase.WARP), int(Phase.OUTSIDE)
_MORE, _NEW, _FULL, _GROW = int(Answer.MORE), int(Answer.NEW_LINE), int(Answer.FULL), int(Answer.FRAGMENTS_FULL)
_NO_LINE, _NO_MASK, _FIELDS, _TAIL = int(Answer.NO_LINE), int(Answer.NO_MASK), int(Answer.FIELDS), int(Answer.TAIL)
_NOT_IN_WARP, _MANY = int(Answer.NOT_IN_WARP), int(Answer.TOO_MANY_FRAGMENTS)
_AT, _HEAD_BYTES, _TEXT_BYTES = int(Static.AT), int(Static.HEAD), int(Static.TEXT)
_KIND, _SPACE, _BRANCH, _PAIRED = int(Static.KIND), int(Static.SPACE), int(Static.BRANCH), int(Static.PAIRED)
_SUCCESSOR, _GUESS, _EXECUTED, _LANE_SUM = (
    int(Static.SUCCESSOR), int(Static.GUESS), int(Static.EXECUTED), int(Static.LANE_SUM),
)  # fmt: skip
_BULK, _MEMORY = int(Kind.BULK), int(Kind.MEMORY)
_DECLARED, _BLOCK, _WARP = int(Slot.DECLARED), int(Slot.BLOCK), int(Slot.WARP)
_X, _Y, _Z = int(Slot.GRID_X), int(Slot.GRID_Y), int(Slot.GRID_Z)
_MEMORY_LINES, _LAST_FIELDS = int(Slot.MEMORY_LINES), int(Slot.LAST_FIELDS)
_ODD_LINES, _ODD_LINE = int(Slot.ODD_LINES), int(Slot.ODD_LINE)
_NO_COUNT, _WRONG_PREFIX = int(Answer.NO_COUNT), int(Answer.PREFIX)
_EXIT = int(Branch.EXIT)
_SHARED_BASE, _SHARED_BYTES = int(Slot.SHARED_BASE), int(Slot.SHARED_BYTES)


@inlined
def fragment_number(start: int, length: int, st: Any, fragments: Any) -> Any:
    """The number of a fragment, a new one if need be; the caller has seen to room."""
    size = len(fragments.table)
    slot = (start * 40503 + length * 2654435761) & (size - 1)
    while fragments.table[slot] != 0:
        number = fragments.table[slot] - 1
        if fragments.rows[number, 0] == start and fragments.rows[number, 1] == length:
            return np.int64(number)
        slot = (slot + 1) & (size - 1)
    number = st[_FRAGMENTS]
    fragments.rows[number, 0] = start
    fragments.rows[number, 1] = length
    fragments.table[slot] = number + 1
    st[_FRAGMENTS] = number + 1
    return number


@inlined
def close_fragment(st: Any, fragments: Any, out: Any) -> None:
    """Append the running fragment to the warp's entries, or count one more repetition."""
    if st[_LENGTH] == 0:
        return
    number = fragment_number(st[_START], st[_LENGTH], st, fragments)
    key = np.uint32(number | st[_WIDEST] << LANES_SHIFT)
    at = st[_ENTRIES]
    st[_LENGTH] = 0
    st[_WIDEST] = 0
    if at > st[_FIRST] and out.entries[at - 1, 0] == key and out.entries[at - 1, 1] < MAX_REPEAT:
        out.entries[at - 1, 1] += 1
        return
    out.entries[at, 0] = key
    out.entries[at, 1] = 1
    st[_ENTRIES] = at + 1


@inlined
def count_instruction(number: int, lanes: int, st: Any, statics: Any, fragments: Any, out: Any) -> None:
    """Add one execution to the warp's stream: the running fragment goes on where the line follows in a straight line.

    An exit is a fragment of its own, so that the lanes that leave are known.
    """
    rows = statics.rows
    last = st[_LAST]
    if st[_LENGTH] > 0:
        goes_on = False
        if not rows[last, _BRANCH]:
            if rows[last, _SUCCESSOR] < 0:
                rows[last, _SUCCESSOR] = number
            goes_on = rows[last, _SUCCESSOR] == number and rows[number, _BRANCH] != _EXIT
        if not goes_on:
            close_fragment(st, fragments, out)
    if st[_LENGTH] == 0:
        st[_START] = number
    st[_LENGTH] += 1
    st[_WIDEST] = max(st[_WIDEST], lanes)
    if last >= 0:
        rows[last, _GUESS] = number
    rows[number, _EXECUTED] += 1
    rows[number, _LANE_SUM] += lanes
    st[_LAST] = number
    st[_GOT] += 1


@inlined
def find_static(buf: Any, p: int, end: int, st: Any, statics: Any, parts: Any) -> Any:
    """(number of the line's static, mask, place behind its text); number -1: new, below: minus the answer that says what is
    wrong.
    """
    none = np.int64(0)
    rows, pool = statics.rows, statics.pool
    guess = rows[st[_LAST], _GUESS] if st[_LAST] >= 0 else np.int64(-1)
    if guess >= 0 and rows[guess, _PAIRED] == 0:
        at, length = rows[guess, _AT], rows[guess, _HEAD_BYTES]
        if same_bytes(buf, p, end, pool, at, length):
            q = p + length + 1
            mask = none
            digits = 0
            while digits < 9:
                d = digit(np.int64(buf[q]))
                if d < 0:
                    break
                mask = mask * 16 + d
                q += 1
                digits += 1
            if digits == 8 and buf[q] == 32 and same_bytes(buf, q + 1, end, pool, at + length, rows[guess, _TEXT_BYTES]):
                return guess, mask, q + 1 + rows[guess, _TEXT_BYTES]
    mask = line_parts(buf, p, 1 + st[_LINEINFO], parts)
    if mask < 0:
        st[_WRONG_AT] = parts[0]
        return np.int64(-_NO_MASK if mask == -1 else -_FIELDS), none, none
    table = statics.table
    slot = code_of(buf, parts[0], parts[1], parts[2], parts[3]) & (len(table) - 1)
    while table[slot] != 0:
        row = rows[table[slot] - 1]
        head, text = row[_HEAD_BYTES], row[_TEXT_BYTES]
        if head == parts[1] - parts[0] and text == parts[3] - parts[2] and same_bytes(buf, parts[0], end, pool, row[_AT], head) \
                and same_bytes(buf, parts[2], end, pool, row[_AT] + head, text):  # fmt: skip
            return np.int64(table[slot] - 1), mask, parts[3]
        slot = (slot + 1) & (len(table) - 1)
    for k in range(4):
        st[_HEAD + k] = parts[k]
    st[_MASK] = mask
    return np.int64(-1), mask, parts[3]


@inlined
def has_same_pc_next(buf: Any, p: int, end: int, head: int, length: int) -> Any:
    """Whether the line after the one at `p` begins with the same bytes: 1 or 0; 2 if it is not in the buffer."""
    p = line_end(buf, p) + 1
    if p >= end:
        return 2
    if p + length >= end:
        return 0
    for k in range(length):
        if buf[p + k] != buf[head + k]:
            return 0
    return 1


@compiled
def of_pair(number: int, mask: int, buf: Any, p: int, q: int, end: int, st: Any, statics: Any, scratch: Any) -> Any:
    """Which of the two statics of an LDGSTS a line is: the store to shared memory or, second or alone, the load; -1: more is
    needed.

    The address tells. Without an active lane there is none: then the first line of a pair, known by the next line, is the store.
    """
    rows = statics.rows
    load, store = number, rows[number, _PAIRED] - 1
    if mask != 0:
        after = read_addresses(buf, q, mask, st, scratch)
        if after < 0:
            return number  # told again, as an error, where the event is made
        first = scratch.address[0]
        base = st[_SHARED_BASE]
        inside = first < st[_SHARED_BYTES] or (base > 0 and base <= first < base + st[_SHARED_BYTES])
        return store if inside else load
    if st[_LAST] == store:
        return load
    following = has_same_pc_next(buf, p, end, p, rows[number, _HEAD_BYTES])
    if following == 2 and not st[_FINAL]:
        return np.int64(-1)
    return store if following == 1 else load


@inlined
def memory_fields(number: int, mask: int, buf: Any, q: int, st: Any, statics: Any, out: Any, places: Any, scratch: Any) -> Any:
    """Read what follows the text of a memory line and append its events: (events, place), place < 0: minus the answer."""
    row = statics.rows[number]
    if row[_KIND] == _BULK:
        return add_bulk(buf, q, mask, row, st, out, places)
    q = read_addresses(buf, q, mask, st, scratch)
    if q < 0 or row[_SPACE] == 0:
        return np.int64(1), q
    wrong = add_event(row, population(mask), st, out, places, scratch)
    return np.int64(1), (q if wrong == 0 else np.int64(-wrong))


@compiled
def after_prefix(buf: Any, p: int, st: Any) -> Any:
    """The place behind the numbers before a line's pc, or -1 where they are not those of the running block and warp."""
    x, p = decimal(buf, p)
    y = z = warp = np.int64(-1)
    if p >= 0:
        y, p = decimal(buf, p)
    if p >= 0:
        z, p = decimal(buf, p)
    if p >= 0:
        warp, p = decimal(buf, p)
    if p < 0 or x < 0 or y < 0 or z < 0 or x >= st[_X] or y >= st[_Y] or z >= st[_Z] or warp != st[_WARP]:
        return np.int64(-1)
    if x + st[_X] * (y + st[_Y] * z) != st[_BLOCK]:
        return np.int64(-1)
    for _ in range(st[_PREFIX] - 4):
        p = word_end(buf, blanks(buf, p))
    return blanks(buf, p)


@inlined
def note_fields(fields: int, st: Any) -> None:
    """Count the memory lines, and those that have another number of fields behind their addresses than the first of them."""
    if st[_MEMORY_LINES] == 0:
        st[_LAST_FIELDS] = fields
    st[_MEMORY_LINES] += 1
    if fields != st[_LAST_FIELDS]:
        if st[_ODD_LINES] == 0:
            st[_ODD_LINE] = st[_LINE] + 1
        st[_ODD_LINES] += 1


@inlined
def instruction(
    buf: Any, p: int, end: int, st: Any, statics: Any, fragments: Any, out: Any, places: Any, scratch: Any, parts: Any
) -> Any:
    """Read one instruction line at `p`. Gives 0 and moves on, or the answer, with nothing taken in of the line."""
    if st[_PHASE] != _WARP_PHASE:
        st[_WRONG_AT] = p
        return _NOT_IN_WARP if st[_PHASE] != _OUTSIDE else _NO_LINE
    if st[_DECLARED] < 0:
        st[_WRONG_AT] = p
        return _NO_COUNT
    if st[_PREFIX]:
        p = after_prefix(buf, p, st)
        if p < 0:
            return _WRONG_PREFIX
    number, mask, q = find_static(buf, p, end, st, statics, parts)
    if number < 0:
        return _NEW if number == -1 else -number
    if statics.rows[number, _PAIRED]:
        number = of_pair(number, mask, buf, p, q, end, st, statics, scratch)
        if number < 0:
            return _MORE + 1000
    sectors, events = st[_SECTORS], st[_EVENTS]
    made = np.int64(1)
    if statics.rows[number, _KIND]:
        made, q = memory_fields(number, mask, buf, q, st, statics, out, places, scratch)
        if q < 0:
            st[_SECTORS], st[_EVENTS] = sectors, events
            return -q
    after, fields = tail(buf, q)
    if after < 0:
        st[_SECTORS], st[_EVENTS] = sectors, events
        st[_WRONG_AT] = -1 - after
        return _TAIL
    if statics.rows[number, _KIND] == _MEMORY:
        note_fields(fields, st)
    lanes = population(mask)
    count_instruction(number, lanes, st, statics, fragments, out)
    for _ in range(made - 1):  # a bulk copy of more than 255 sectors goes on in the static behind it
        count_instruction(number + 1, lanes, st, statics, fragments, out)
    st[_GOT] -= made - 1
    st[_POS] = after + 1
    st[_LINE] += 1
    return 0


@inlined
def is_full(st: Any, out: Any) -> Any:
    """Whether a line may lack room: at most 3 event bytes, 256 sectors, an entry and two rows (bulk copies see to their own)."""
    streams = len(out.events) - st[_EVENTS] < 4096 or len(out.sectors) - st[_SECTORS] < 4096
    return streams or len(out.entries) - st[_ENTRIES] < 2048 or len(out.rows) - st[_ROWS] < 4


def _build(fingerprint: int) -> Any:
    """The parser, kept on disk as long as no source here changes."""

    @compiled_and_kept
    def parse(
        buf: Any, end: int, st: Longs, statics: Statics, fragments: Fragments, out: Out, places: Places, scratch: Scratch
    ) -> Any:
        """Read the complete lines `buf[POS:end]`, the last byte of which is a line feed. Gives why it came back (`Answer`)."""
        parts = scratch.parts
        while fingerprint:
            p = st[_POS]
            if p >= end:
                return _MORE
            if is_full(st, out):
                return _FULL
            if 2 * st[_FRAGMENTS] + 4096 > len(fragments.table) or st[_FRAGMENTS] + 2048 > len(fragments.rows):
                return _GROW if st[_FRAGMENTS] + 4096 < MOST_FRAGMENTS else _MANY
            p = blanks(buf, p)
            c = buf[p]
            if c == LF:
                st[_POS] = p + 1
                st[_LINE] += 1
                continue
            hexadecimal_first = digit(np.int64(c)) >= 0 and not (c == 99 and buf[p + 1] == 108)
            if hexadecimal_first:
                answer = instruction(buf, p, end, st, statics, fragments, out, places, scratch, parts)
            else:
                if st[_LENGTH] > 0 and (c == 119 or c == 35):
                    close_fragment(st, fragments, out)
                answer = structure(buf, p, st, out)
            if answer == _MORE + 1000:
                return _MORE
            if answer != 0:
                return answer
        return _MORE

    return parse


parse = _build(source_fingerprint())

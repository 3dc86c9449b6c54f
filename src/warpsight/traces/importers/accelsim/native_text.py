"""What the compiled parser of Accel-Sim's text and Python share; tokens, numbers, and the lines that give block and warp.

Every line ends with a line feed inside the buffer, where all compiled functions stop.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any, NamedTuple

import numpy as np

from warpsight.base.records import Record, dtype_of
from warpsight.traces.importers.layout import Bytes, Ints, Records, Status, StreamState, compiled, compiled_and_kept, inlined
from warpsight.traces.importers.streams import add_finished, start_warp

# ruff: noqa: PLR1714, SIM109

class Cursor(Record):
    """The parser's place in a file, and what it knows of the file."""

    position: int  # next byte of the buffer
    phase: int
    declared: int  # `insts =` of the warp, -1 before it is known
    previous_block: int
    # of the file
    prefix: int  # numbers before the pc (or the source line) that give block and warp
    lineinfo: int
    grid_x: int
    grid_y: int
    grid_z: int
    warps_per_block: int
    ordered: int  # 1: blocks must come in order
    final: int  # 1: the buffer holds the end of the file
    # parts of a line whose text is new
    head: int
    head_end: int
    text: int
    text_end: int
    error_at: int  # where something is wrong
    # fields behind the addresses: of the first memory line; how many lines have other numbers, and the first of them
    last_fields: int
    memory_lines: int
    odd_lines: int
    odd_line: int


class LineKey(Record):
    """Where the text of a line stands in the pool, and the line that is tried first behind it."""

    at: int  # where the text of a line begins in the pool
    head: int  # bytes of the part before the mask, and of the part behind it
    text: int
    guess: int  # the row that followed last, unless it is one of a pair; -1 before


CURSOR, KEY = dtype_of(Cursor), dtype_of(LineKey)


class Lines(NamedTuple):
    """The texts of distinct lines: a `KEY` record for each row of the table of instructions, the pool of their bytes, and a hash
    table of row numbers + 1 (a power of two long).
    """

    keys: Records
    pool: Bytes
    table: Ints


class Phase(IntEnum):
    """Where in a file the parser is."""

    OUTSIDE = 0
    BLOCK = auto()  # between #BEGIN_TB and the first warp
    WARP = auto()


class LineStatus(IntEnum):
    """Why the parser returned, beside `Status`: something to do, then what is wrong."""

    NEW_LINE = Status.FORMAT  # a line with a text that no row has
    NEXT_LINE = auto()  # the line cannot be read without the next one
    ORDER = auto()
    NO_LINE = auto()
    NO_MASK = auto()
    FIELDS = auto()
    MODE = auto()
    ADDRESS = auto()
    TAIL = auto()
    NUMBER = auto()
    NESTED = auto()
    NOT_IN_BLOCK = auto()
    NO_BLOCK_NUMBER = auto()
    OUTSIDE_GRID = auto()
    NOT_IN_WARP = auto()
    NO_SUCH_WARP = auto()
    MISCOUNT = auto()
    BULK = auto()
    TWICE = auto()
    NO_COUNT = auto()
    PREFIX = auto()
    STRIDE = auto()


# -- Compiled: tokens and numbers.

SPACE, TAB, CR, LF = 32, 9, 13, 10


@inlined
def blanks(buf: Any, p: Any) -> Any:
    """The place of the next byte that is not a blank."""
    while buf[p] == SPACE or buf[p] == TAB or buf[p] == CR:
        p += 1
    return p


@inlined
def word_end(buf: Any, p: Any) -> Any:
    """The place behind the token at `p`."""
    while buf[p] > SPACE:
        p += 1
    return p


@inlined
def line_end(buf: Any, p: Any) -> Any:
    """The place of the line feed."""
    while buf[p] != LF:
        p += 1
    return p


@inlined
def digit(c: Any) -> Any:
    """Value of a hexadecimal digit, -1 for any other byte."""
    if 48 <= c <= 57:
        return c - 48
    if 97 <= c <= 102:
        return c - 87
    if 65 <= c <= 70:
        return c - 55
    return -1


@inlined
def hexadecimal(buf: Any, p: int) -> Any:
    """(value, place behind it) of a hexadecimal number of at most 15 digits, with or without `0x`; place -1 if it is none."""
    p = blanks(buf, p)
    if buf[p] == 48 and (buf[p + 1] == 120 or buf[p + 1] == 88):
        p += 2
    value = np.int64(0)
    first = p
    while True:
        d = digit(np.int64(buf[p]))
        if d < 0:
            break
        if p - first >= 16 or value >> 59:
            return value, np.int64(-1)
        value = value * 16 + d
        p += 1
    if p == first or buf[p] > SPACE:
        return value, np.int64(-1)
    return value, p


@inlined
def decimal(buf: Any, p: int) -> Any:
    """(value, place behind it) of a decimal number of at most 18 digits, with or without a sign; place -1 if it is none."""
    value, p = decimal_of_list(buf, p)
    return value, (p if p < 0 or buf[p] <= SPACE else np.int64(-1))


@inlined
def decimal_of_list(buf: Any, p: int) -> Any:
    """As `decimal`, and a comma may follow."""
    p = blanks(buf, p)
    negative = buf[p] == 45
    if negative:
        p += 1
    value = np.int64(0)
    first = p
    while 48 <= buf[p] <= 57:
        if p - first >= 18:
            return value, np.int64(-1)
        value = value * 10 + (np.int64(buf[p]) - 48)
        p += 1
    if p == first or (buf[p] > SPACE and buf[p] != 44):
        return value, np.int64(-1)
    return (-value if negative else value), p


@inlined
def same_bytes(buf: Any, p: int, end: int, pool: Any, at: int, length: int) -> Any:
    """Whether `length` bytes of the pool from `at` stand at `p`, and a blank or the line's end behind them."""
    if p + length >= end or at < 0 or at + length > len(pool):
        return False
    for k in range(length):
        if buf[p + k] != pool[at + k]:
            return False
    return buf[p + length] <= SPACE


@compiled_and_kept
def code_of(buf: Any, head: int, head_end: int, text: int, text_end: int) -> Any:
    """Hash of a key's two parts (FNV-1a), not negative."""
    code = np.uint64(14695981039346656037)
    for k in range(head, head_end):
        code = (code ^ np.uint64(buf[k])) * np.uint64(1099511628211)
    code = (code ^ np.uint64(SPACE)) * np.uint64(1099511628211)
    for k in range(text, text_end):
        code = (code ^ np.uint64(buf[k])) * np.uint64(1099511628211)
    code ^= code >> np.uint64(29)
    return np.int64(code >> np.uint64(1))


@inlined
def tail(buf: Any, p: int) -> Any:
    """The place of the line feed behind a line's last fields, numbers and the words Val and NoVal, and the number of fields.

    The place is -1 - that of a byte that belongs to neither. Fields behind Val, one for each register, do not count.
    """
    fields = np.int64(0)
    valued = False
    before = np.uint8(SPACE)
    while buf[p] != LF:
        c = buf[p]
        if c > SPACE and before <= SPACE:
            fields += not valued
            valued = valued or c == 86
        before = c
        plain = 48 <= c <= 57 or c == SPACE or 97 <= c <= 102 or c == 45 or c == TAB or c == CR
        letters = 65 <= c <= 70 or c == 120 or c == 86 or c == 108 or c == 78 or c == 111  # A to F, x, and the letters of NoVal
        if not plain and not letters:
            return -1 - p, fields
        p += 1
    return p, fields


@compiled
def line_parts(buf: Any, p: int, head_tokens: int, parts: Any) -> Any:
    """Find the parts of an instruction line from its pc (or source line) on: `parts` receives where head and text begin and end.

    The text goes from the number of destinations to the memory width. Returns the mask, or a negative number if a field is wrong
    (at parts[0]): -1 for the mask.
    """
    parts[0] = p
    for _ in range(head_tokens):
        p = word_end(buf, blanks(buf, p))
    parts[1] = p
    mask, q = hexadecimal(buf, p)
    p = blanks(buf, p)
    if q - p != 8 or digit(np.int64(buf[p + 1])) < 0:  # 0x123456 is none
        parts[0] = p
        return np.int64(-1)
    parts[2] = blanks(buf, q)
    count, p = decimal(buf, q)
    if p < 0 or count < 0 or count > 8:
        parts[0] = q
        return np.int64(-2)
    for _ in range(count):
        p = word_end(buf, blanks(buf, p))
    opcode = blanks(buf, p)
    p = word_end(buf, opcode)
    gmma = opcode + 4 < p and buf[opcode + 1] == 71 and buf[opcode + 2] == 77 and buf[opcode + 3] == 77 and buf[opcode + 4] == 65
    count, q = decimal(buf, p)
    if q < 0 or count < 0 or count > 16 or p == opcode:
        parts[0] = opcode
        return np.int64(-2)
    for _ in range(count + gmma):
        q = word_end(buf, blanks(buf, q))
    width, p = decimal(buf, q)
    if p < 0 or width < 0:
        parts[0] = q
        return np.int64(-2)
    parts[3] = p
    return mask


# -- Compiled: the lines that give the block and warp of the instructions.

# ruff: noqa: PLR0912, SIM110

_BEGIN = np.frombuffer(b"#BEGIN_TB", np.uint8)
_END = np.frombuffer(b"#END_TB", np.uint8)
_THREAD_BLOCK = np.frombuffer(b"thread block", np.uint8)
_WARP_WORD = np.frombuffer(b"warp", np.uint8)
_INSTS = np.frombuffer(b"insts", np.uint8)
_CLUSTER_ID = np.frombuffer(b"cluster id", np.uint8)
_CLUSTER_CTA = np.frombuffer(b"cluster cta", np.uint8)
_CLUSTER_RANK = np.frombuffer(b"cluster rank", np.uint8)


@inlined
def begins(buf: Any, p: int, word: Any) -> Any:
    """Whether `word` stands at `p` (a line feed ends the comparison)."""
    for k in range(len(word)):
        if buf[p + k] != word[k]:
            return False
    return True


@inlined
def after_equals(buf: Any, p: int, word: Any) -> Any:
    """The place behind the `=` that follows `word` at `p`, or -1."""
    p = blanks(buf, p + len(word))
    return p + 1 if buf[p] == 61 else np.int64(-1)


@inlined
def ends(buf: Any, p: int) -> Any:
    """Whether nothing but blanks stands between `p` and the end of the line."""
    return p >= 0 and buf[blanks(buf, p)] == LF


@inlined
def is_cluster_line(buf: Any, p: int) -> Any:
    """Whether one of the three lines about a block's cluster stands at `p`: `cluster id = 0,0,0` and the like."""
    q: Any = np.int64(-1)
    if begins(buf, p, _CLUSTER_ID):
        q = after_equals(buf, p, _CLUSTER_ID)
    elif begins(buf, p, _CLUSTER_CTA):
        q = after_equals(buf, p, _CLUSTER_CTA)
    elif begins(buf, p, _CLUSTER_RANK):
        q = after_equals(buf, p, _CLUSTER_RANK)
    if q >= 0:
        _, q = decimal_of_list(buf, q)
    while q >= 0 and buf[q] == 44:
        _, q = decimal_of_list(buf, q + 1)
    return ends(buf, q)


@inlined
def end_warp(cursor: Cursor, st: StreamState, out: Any) -> Any:
    """Close the running warp, if any: 0, or what is wrong."""
    if st.warp < 0:
        return np.int64(0)
    if cursor.declared < 0:
        return np.int64(LineStatus.NO_COUNT)
    if st.executed != cursor.declared:
        return np.int64(LineStatus.MISCOUNT)
    add_finished(st.warp, st, out)
    start_warp(-1, st)
    cursor.declared = -1
    return np.int64(0)


@inlined
def begin_block(buf: Any, p: int, cursor: Cursor, st: StreamState) -> Any:
    """`thread block = x,y,z`: 0, or what is wrong."""
    if cursor.phase != Phase.BLOCK or st.block >= 0:
        return LineStatus.NOT_IN_BLOCK if cursor.phase == Phase.OUTSIDE else LineStatus.NESTED
    p = after_equals(buf, p, _THREAD_BLOCK)
    x: Any = np.int64(-1)
    y: Any = x
    z: Any = x
    if p >= 0:
        x, p = decimal_of_list(buf, p)
    if p >= 0 and buf[p] == 44:
        y, p = decimal_of_list(buf, p + 1)
    if p >= 0 and buf[p] == 44:
        z, p = decimal_of_list(buf, p + 1)
    if not ends(buf, p) or x < 0 or y < 0 or z < 0:
        return LineStatus.NUMBER
    if x >= cursor.grid_x or y >= cursor.grid_y or z >= cursor.grid_z:
        return LineStatus.OUTSIDE_GRID
    st.block = x + cursor.grid_x * (y + cursor.grid_y * z)
    if cursor.ordered and st.block <= cursor.previous_block:
        return LineStatus.ORDER
    if st.block == cursor.previous_block:
        return LineStatus.TWICE
    cursor.previous_block = st.block
    return 0


@compiled
def structure(buf: Any, p: int, cursor: Cursor, st: StreamState, out: Any) -> Any:
    """Read one line that is not an instruction. Returns 0 and moves on, or the status that says what is wrong."""
    cursor.error_at = p
    status = 0
    if begins(buf, p, _BEGIN) and ends(buf, p + len(_BEGIN)):
        status = LineStatus.NESTED if cursor.phase != Phase.OUTSIDE else 0
        cursor.phase, st.block, st.warp = Phase.BLOCK, -1, -1
    elif begins(buf, p, _END) and ends(buf, p + len(_END)):
        if cursor.phase == Phase.OUTSIDE:
            return LineStatus.NOT_IN_BLOCK
        if st.block < 0:
            return LineStatus.NO_BLOCK_NUMBER
        status = end_warp(cursor, st, out)
        if status == 0:
            add_finished(-1, st, out)
            cursor.phase = Phase.OUTSIDE
    elif begins(buf, p, _THREAD_BLOCK):
        status = begin_block(buf, p, cursor, st)
    elif is_cluster_line(buf, p):
        status = LineStatus.NOT_IN_BLOCK if cursor.phase != Phase.BLOCK else 0
    elif begins(buf, p, _WARP_WORD):
        status = begin_warp(buf, p, cursor, st, out)
    elif begins(buf, p, _INSTS):
        if cursor.phase != Phase.WARP or st.executed > 0 or cursor.declared >= 0:
            return LineStatus.NOT_IN_WARP
        p = after_equals(buf, p, _INSTS)
        if p >= 0:
            cursor.declared, p = decimal(buf, p)
        status = LineStatus.NUMBER if not ends(buf, p) or cursor.declared < 0 else 0
    elif buf[p] != 35 or begins(buf, p, _BEGIN[:7]) or cursor.phase != Phase.OUTSIDE:  # other comments stand only between blocks
        return LineStatus.NO_LINE
    if status == 0:
        cursor.position = line_end(buf, cursor.error_at) + 1
        st.line += 1
    return status


@inlined
def begin_warp(buf: Any, p: int, cursor: Cursor, st: StreamState, out: Any) -> Any:
    """`warp = n`: 0, or what is wrong."""
    if cursor.phase == Phase.OUTSIDE:
        return LineStatus.NOT_IN_BLOCK
    if st.block < 0:
        return LineStatus.NO_BLOCK_NUMBER
    status = end_warp(cursor, st, out)
    if status:
        return status
    p = after_equals(buf, p, _WARP_WORD)
    number = np.int64(-1)
    if p >= 0:
        number, p = decimal(buf, p)
    if not ends(buf, p):
        return LineStatus.NUMBER
    if number < 0 or number >= cursor.warps_per_block:
        return LineStatus.NO_SUCH_WARP
    cursor.phase, cursor.declared = Phase.WARP, -1
    start_warp(number, st)
    st.epoch += 1
    return np.int64(0)

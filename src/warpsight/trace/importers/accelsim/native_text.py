"""Compiled: tokens and numbers of a trace's lines. Every line ends with a line feed inside the buffer, where all of these stop."""

# ruff: noqa: PLR1714, SIM109

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.trace.importers.accelsim.compiled import compiled, compiled_and_kept, inlined

SPACE, TAB, CR, LF = 32, 9, 13, 10


@inlined
def blanks(buf: Any, p: Any) -> Any:
    """The place of the next byte that is no blank."""
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
    """(value, place behind it) of a hexadecimal number of at most 15 digits, `0x` before it or not; place -1 if it is none."""
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
    """(value, place behind it) of a decimal number of at most 18 digits, signed or not; place -1 if it is none."""
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
    """The place of the line feed behind a line's last fields, numbers and the words Val and NoVal, and how many fields they are.

    The place is -1 - that of a byte that fits neither. Fields behind Val, which are as many as registers, do not count.
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

    The text goes from the number of destinations to the memory width. Gives the mask, or -1 where it is wrong (parts[0] is
    the place then).
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


@inlined
def population(mask: int) -> Any:
    """Bits that are set in a mask of 32 bits."""
    mask = mask - ((mask >> 1) & 0x55555555)
    mask = (mask & 0x33333333) + ((mask >> 2) & 0x33333333)
    return ((((mask + (mask >> 4)) & 0x0F0F0F0F) * 0x01010101) & 0xFFFFFFFF) >> 24

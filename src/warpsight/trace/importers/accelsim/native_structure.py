"""Compiled: the lines that say which block and warp the instructions belong to."""

# ruff: noqa: PLR0912, SIM110

from __future__ import annotations

from typing import Any

import numpy as np

from warpsight.trace.importers.accelsim.compiled import compiled, inlined
from warpsight.trace.importers.accelsim.layout import Answer, Phase, Row, Slot
from warpsight.trace.importers.accelsim.native_text import LF, blanks, decimal, decimal_of_list, line_end

_POS, _LINE, _PHASE, _BLOCK, _WARP = int(Slot.POS), int(Slot.LINE), int(Slot.PHASE), int(Slot.BLOCK), int(Slot.WARP)
_DECLARED, _GOT, _LAST, _EPOCH = int(Slot.DECLARED), int(Slot.GOT), int(Slot.LAST), int(Slot.EPOCH)
_FIRST, _ENTRIES, _EVENTS, _SECTORS, _ROWS = (
    int(Slot.FIRST_ENTRY), int(Slot.ENTRIES), int(Slot.EVENTS), int(Slot.SECTORS), int(Slot.ROWS),
)  # fmt: skip
_X, _Y, _Z, _WARPS = int(Slot.GRID_X), int(Slot.GRID_Y), int(Slot.GRID_Z), int(Slot.WARPS_PER_BLOCK)
_PREVIOUS, _ORDERED, _WRONG_AT = int(Slot.PREVIOUS_BLOCK), int(Slot.ORDERED), int(Slot.WRONG_AT)
_OUTSIDE, _IN_BLOCK, _IN_WARP = int(Phase.OUTSIDE), int(Phase.BLOCK), int(Phase.WARP)
_R_BLOCK, _R_WARP, _R_ENTRIES, _R_EVENTS = int(Row.BLOCK), int(Row.WARP), int(Row.ENTRIES), int(Row.EVENTS)
_R_SECTORS, _R_LINE, _R_COUNT = int(Row.SECTORS), int(Row.LINE), int(Row.INSTRUCTIONS)
_NO_LINE, _NUMBER, _NESTED, _NOT_IN_BLOCK = int(Answer.NO_LINE), int(Answer.NUMBER), int(Answer.NESTED), int(Answer.NOT_IN_BLOCK)
_NO_BLOCK, _GRID, _NO_WARP, _COUNT = (
    int(Answer.NO_BLOCK_NUMBER), int(Answer.OUTSIDE_GRID), int(Answer.NO_SUCH_WARP), int(Answer.MISCOUNT),
)  # fmt: skip
_ORDER, _NOT_IN_WARP, _TWICE = int(Answer.ORDER), int(Answer.NOT_IN_WARP), int(Answer.TWICE)
_NO_COUNT = int(Answer.NO_COUNT)

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
def add_row(warp: int, st: Any, out: Any) -> None:
    """Note where a finished warp's streams end."""
    row = out.rows[st[_ROWS]]
    row[_R_BLOCK], row[_R_WARP], row[_R_LINE], row[_R_COUNT] = st[_BLOCK], warp, st[_LINE], st[_GOT]
    row[_R_ENTRIES], row[_R_EVENTS], row[_R_SECTORS] = st[_ENTRIES], st[_EVENTS], st[_SECTORS]
    st[_ROWS] += 1


@inlined
def end_warp(st: Any, out: Any) -> Any:
    """Close the running warp, if any: 0, or what is wrong."""
    if st[_WARP] < 0:
        return 0
    if st[_DECLARED] < 0:
        return _NO_COUNT
    if st[_GOT] != st[_DECLARED]:
        return _COUNT
    add_row(st[_WARP], st, out)
    st[_WARP], st[_DECLARED], st[_GOT], st[_LAST] = -1, -1, 0, -1
    st[_FIRST] = st[_ENTRIES]
    return 0


@inlined
def begin_block(buf: Any, p: int, st: Any) -> Any:
    """`thread block = x,y,z`: 0, or what is wrong."""
    if st[_PHASE] != _IN_BLOCK or st[_BLOCK] >= 0:
        return _NOT_IN_BLOCK if st[_PHASE] == _OUTSIDE else _NESTED
    p = after_equals(buf, p, _THREAD_BLOCK)
    x = y = z = np.int64(-1)
    if p >= 0:
        x, p = decimal_of_list(buf, p)
    if p >= 0 and buf[p] == 44:
        y, p = decimal_of_list(buf, p + 1)
    if p >= 0 and buf[p] == 44:
        z, p = decimal_of_list(buf, p + 1)
    if not ends(buf, p) or x < 0 or y < 0 or z < 0:
        return _NUMBER
    if x >= st[_X] or y >= st[_Y] or z >= st[_Z]:
        return _GRID
    st[_BLOCK] = x + st[_X] * (y + st[_Y] * z)
    if st[_ORDERED] and st[_BLOCK] <= st[_PREVIOUS]:
        return _ORDER
    if st[_BLOCK] == st[_PREVIOUS]:
        return _TWICE
    st[_PREVIOUS] = st[_BLOCK]
    return 0


@compiled
def structure(buf: Any, p: int, st: Any, out: Any) -> Any:
    """Read one line that is no instruction. Gives 0 and moves on, or what is wrong."""
    st[_WRONG_AT] = p
    wrong = 0
    if begins(buf, p, _BEGIN) and ends(buf, p + len(_BEGIN)):
        wrong = _NESTED if st[_PHASE] != _OUTSIDE else 0
        st[_PHASE], st[_BLOCK], st[_WARP] = _IN_BLOCK, -1, -1
    elif begins(buf, p, _END) and ends(buf, p + len(_END)):
        if st[_PHASE] == _OUTSIDE:
            return _NOT_IN_BLOCK
        if st[_BLOCK] < 0:
            return _NO_BLOCK
        wrong = end_warp(st, out)
        if wrong == 0:
            add_row(-1, st, out)
            st[_PHASE] = _OUTSIDE
    elif begins(buf, p, _THREAD_BLOCK):
        wrong = begin_block(buf, p, st)
    elif is_cluster_line(buf, p):
        wrong = _NOT_IN_BLOCK if st[_PHASE] != _IN_BLOCK else 0
    elif begins(buf, p, _WARP_WORD):
        wrong = begin_warp(buf, p, st, out)
    elif begins(buf, p, _INSTS):
        if st[_PHASE] != _IN_WARP or st[_GOT] > 0 or st[_DECLARED] >= 0:
            return _NOT_IN_WARP
        p = after_equals(buf, p, _INSTS)
        if p >= 0:
            st[_DECLARED], p = decimal(buf, p)
        wrong = _NUMBER if not ends(buf, p) or st[_DECLARED] < 0 else 0
    elif buf[p] != 35 or begins(buf, p, _BEGIN[:7]) or st[_PHASE] != _OUTSIDE:  # other comments stand between blocks alone
        return _NO_LINE
    if wrong == 0:
        st[_POS] = line_end(buf, st[_WRONG_AT]) + 1
        st[_LINE] += 1
    return wrong


@inlined
def begin_warp(buf: Any, p: int, st: Any, out: Any) -> Any:
    """`warp = n`: 0, or what is wrong."""
    if st[_PHASE] == _OUTSIDE:
        return _NOT_IN_BLOCK
    if st[_BLOCK] < 0:
        return _NO_BLOCK
    wrong = end_warp(st, out)
    if wrong:
        return wrong
    p = after_equals(buf, p, _WARP_WORD)
    number = np.int64(-1)
    if p >= 0:
        number, p = decimal(buf, p)
    if not ends(buf, p):
        return _NUMBER
    if number < 0 or number >= st[_WARPS]:
        return _NO_WARP
    st[_PHASE], st[_WARP], st[_DECLARED], st[_GOT], st[_LAST] = _IN_WARP, number, -1, 0, -1
    st[_FIRST] = st[_ENTRIES]
    st[_EPOCH] += 1
    return 0

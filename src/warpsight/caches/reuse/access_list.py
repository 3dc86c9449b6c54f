"""Reads the plain text access list of GPU cache models: what each thread accesses, in no order among threads.

The first line is `blocksize: BX BY BZ`, then one access a line: `<global thread> <0 load | 1 store> <byte address> <bytes>`; a
global thread is the number of its block times the threads of a block, plus its number in the block. `.gz` is read compressed.
"""

from __future__ import annotations

import gzip
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import compiled_and_kept
from warpsight.base.errors import FormatError, LimitError
from warpsight.caches.reuse.access_stream import AccessStream, bounded_blocks, coalesced
from warpsight.traces.schema import WARP_SIZE

Longs = npt.NDArray[np.int64]

SUFFIXES = (".trc", ".trc.gz")
_SIZES = (1, 2, 4, 8, 16)
_MOST_THREADS = 2**31
# Every warp up to that of the highest thread is modelled, those without accesses too: so many take a quarter of a minute.
_MOST_WARPS = 2**20


@dataclass(frozen=True)
class AccessList:
    """An access list in the order of the file, int64 [accesses] each. `block` is its size in three directions."""

    block: tuple[int, int, int]
    thread: Longs
    store: Longs
    address: Longs
    size: Longs
    origin: str = ""

    @property
    def threads_per_block(self) -> int:
        """Threads in a block."""
        return self.block[0] * self.block[1] * self.block[2]


def is_access_list(path: object) -> bool:
    """Whether `path` names an access list."""
    return str(path).endswith(SUFFIXES)


def read_access_list(path: str | Path) -> AccessList:
    """Read a list. Raises FormatError, with the line, for what does not follow the format."""
    try:
        raw = Path(path).read_bytes()
        data = gzip.decompress(raw) if str(path).endswith(".gz") else raw
    except FileNotFoundError:
        raise FormatError("there is no such file", place=str(path), remedy="give the path of an access list") from None
    except (OSError, EOFError) as error:
        raise FormatError(f"cannot be read: {error}", place=str(path), remedy="give a text file, or one made by gzip") from None
    head = data[: data.find(b"\n") + 1 or len(data)]
    found = re.fullmatch(rb"blocksize: +(\d{1,9}) +(\d{1,9}) +(\d{1,9})\s*", head)
    block = tuple(int(x) for x in found.groups()) if found else (0, 0, 0)
    if not 0 < block[0] * block[1] * block[2] <= 1024:
        what = "the first line is not `blocksize: BX BY BZ` with 1 to 1,024 threads"
        raise FormatError(what, place=f"{path}:1", remedy="say the block size first")
    thread, store, address, size = _columns(data, len(head), str(path))
    given = AccessList((block[0], block[1], block[2]), thread, store, address, size, str(path))
    _check(given)
    return given


@compiled_and_kept
def _numbers(text: npt.NDArray[np.uint8], start: int, found: Longs) -> int:
    """Lines of four whole numbers, one space between, from byte `start` on, into `found` [4, rows]; gives how many, or -1."""
    row, column, at = 0, 0, start
    while at < len(text):
        if row == found.shape[1]:
            return -1
        value, first = np.int64(0), at
        while at < len(text) and 48 <= text[at] <= 57:
            value = 10 * value + text[at] - 48
            at += 1
        if at == first or at - first > 18:
            return -1
        found[column, row] = value
        if column < 3:
            if at == len(text) or text[at] != 32:
                return -1
            column += 1
        else:
            if at < len(text) and text[at] != 10:
                return -1
            column = 0
            row += 1
        at += 1
    return row if column == 0 else -1


def _columns(data: bytes, start: int, path: str) -> list[Longs]:
    found = np.empty((4, data.count(b"\n") + 1), np.int64)
    rows = _numbers(np.frombuffer(data, np.uint8), start, found)
    return _any_columns(data[start:], path) if rows < 0 else [column[:rows] for column in found]


def _any_columns(body: bytes, path: str) -> list[Longs]:
    """As `_columns` for what is not written as plainly, or not at all. Raises FormatError."""
    import pyarrow
    from pyarrow import csv

    names = ["thread", "store", "address", "size"]
    body = body.rstrip()
    if not body:
        return [np.zeros(0, np.int64) for _ in names]
    options = csv.ReadOptions(column_names=names, use_threads=False)
    types = csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.int64()), null_values=[])
    # empty lines are refused: the reader would leave them out, and the lines told of all faults after them would be wrong
    form = csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False)
    try:
        table = csv.read_csv(io.BytesIO(body), options, form, types)
    except pyarrow.ArrowInvalid as error:
        row = re.search(r"[Rr]ow #(\d+)", str(error))
        raise _malformed(path, int(row[1]) + 1 if row else 0) from None
    return [table[name].to_numpy().astype(np.int64) for name in names]


def _malformed(path: str, line: int) -> FormatError:
    what = "is not `<thread> <0 or 1> <byte address> <bytes>`, four whole numbers below 2^63, one space between"
    return FormatError(what, place=f"{path}:{line}" if line else path, remedy="one access a line")


def _check(given: AccessList) -> None:
    wrong = (
        ((given.thread < 0) | (given.thread >= _MOST_THREADS), "thread", "is not a thread of a launch"),
        ((given.store != 0) & (given.store != 1), "store", "is neither 0, a load, nor 1, a store"),
        (given.address < 0, "address", "is not a byte address"),
        (~np.isin(given.size, _SIZES), "size", "is not what a thread accesses at once: 1, 2, 4, 8 or 16 B"),
    )
    for bad, name, what in wrong:
        rows = np.flatnonzero(bad)
        if len(rows):
            place = f"{given.origin}:{int(rows[0]) + 2}"
            raise FormatError(f"{name} {int(getattr(given, name)[rows[0]])} {what}", place=place, remedy="correct the list")


def of_list(given: AccessList, line_bytes: int, *, stores: bool = False, most_threads: int | None = None) -> AccessStream:
    """The k-th accesses of the lanes of a warp, coalesced; loads alone (with `stores`, all accesses) are counted for k.

    Those merge whose first byte lies in the same line, among 32 lanes, among 16 for accesses of 8 B, and among 8 for 16 B, each
    such group a request of its own, one after the other (CUDA C Programming Guide 4.0, section F.4.2, compute capability 2.x, to
    which HPCA 2014 refers in section 4.6). Raises UsageError for a bound below one block, LimitError for more than 2^20 warps.
    """
    per_block = given.threads_per_block
    blocks_there = int(given.thread.max(initial=-1)) // per_block + 1
    blocks = bounded_blocks(blocks_there, per_block, most_threads)
    warps_per_block = -(-per_block // WARP_SIZE)
    if blocks * warps_per_block > _MOST_WARPS:
        what = f"thread {int(given.thread.max()):,} makes {blocks * warps_per_block:,} warps, more than {_MOST_WARPS:,}"
        raise LimitError(what, place=given.origin, remedy="keep to the first with --max-threads, or number the threads from 0")
    found = coalesced((given.thread, given.store, given.address, given.size), line_bytes, per_block, blocks, stores)
    if isinstance(found, int):
        _check(given)
        raise ValueError(f"entry {found} is none of a list")
    stream, numbers, loads, crossing = found
    notes = [f"the first {blocks:,} of {blocks_there:,} blocks"] if blocks < blocks_there else []
    if crossing:
        notes.append(f"{crossing:,} accesses cross the end of a line and count for the line of their first byte")
    return AccessStream(stream, numbers, line_bytes, blocks, per_block, warps_per_block, loads, 1, tuple(notes))

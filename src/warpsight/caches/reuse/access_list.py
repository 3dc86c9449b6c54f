"""Reads the plain-text access list of GPU cache models: what each thread accesses, without an order between threads.

The first line is `blocksize: BX BY BZ`, then one access per line: `<global thread> <0 load | 1 store> <byte address> <bytes>`; a
global thread is the number of its block times the threads per block, plus its number in the block. `.gz` files are gzip.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from warpsight.base.compiled import compiled_and_kept
from warpsight.base.errors import FormatError, LimitError
from warpsight.base.inputs import read_input
from warpsight.caches.reuse.access_stream import AccessStream, bounded_blocks, coalesced
from warpsight.caches.reuse.structures import Longs
from warpsight.traces.schema import WARP_SIZE

SUFFIXES = (".trc", ".trc.gz")
_SIZES = (1, 2, 4, 8, 16)
_MOST_THREADS = 2**31
# Every warp up to that of the highest thread is modelled, with or without accesses: this many take a quarter of a minute.
_MOST_WARPS = 2**20


@dataclass(frozen=True)
class AccessList:
    """An access list in the order of the file, int64 [accesses] each. `block` is the block size in three dimensions."""

    block: tuple[int, int, int]
    thread: Longs
    store: Longs
    address: Longs
    size: Longs
    origin: str = ""

    @property
    def threads_per_block(self) -> int:
        """Threads in a block."""
        return math.prod(self.block)


def is_access_list(path: object) -> bool:
    """Whether `path` names an access list."""
    return str(path).endswith(SUFFIXES)


def read_access_list(path: str | Path) -> AccessList:
    """Read a list. Raises FormatError, with the line, for a line that does not follow the format."""
    try:
        raw = read_input(path)
        data = gzip.decompress(raw) if str(path).endswith(".gz") else raw
    except FileNotFoundError:
        raise FormatError("no such file", place=str(path), remedy="give the path of an access list") from None
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"cannot read the file: {error}", place=str(path), remedy="give a text file, or a gzip file") from None
    head = data[: data.find(b"\n") + 1 or len(data)]
    match = re.fullmatch(rb"blocksize: +(\d{1,9}) +(\d{1,9}) +(\d{1,9})\s*", head)
    block = tuple(int(x) for x in match.groups()) if match else (0, 0, 0)
    if not 0 < math.prod(block) <= 1024:
        what = "the first line is not `blocksize: BX BY BZ` with 1 to 1,024 threads"
        raise FormatError(what, place=f"{path}:1", remedy="begin the file with the block size")
    columns = np.empty((4, data.count(b"\n") + 1), np.int64)
    rows = _numbers(np.frombuffer(data, np.uint8), len(head), columns)
    thread, store, address, size = columns[:, :rows] if rows >= 0 else _any_columns(data[len(head) :], str(path))
    accesses = AccessList((block[0], block[1], block[2]), thread, store, address, size, str(path))
    _check(accesses)
    return accesses


@compiled_and_kept
def _numbers(text: npt.NDArray[np.uint8], start: int, columns: Longs) -> int:
    """Parse lines of four integers, one space between, from byte `start` on, into `columns` [4, rows]; returns the count or -1."""
    row, column, place = 0, 0, start
    while place < len(text):
        if row == columns.shape[1]:
            return -1
        value, first = np.int64(0), place
        while place < len(text) and 48 <= text[place] <= 57:
            value = 10 * value + text[place] - 48
            place += 1
        if place == first or place - first > 18:
            return -1
        columns[column, row] = value
        if column < 3:
            if place == len(text) or text[place] != 32:
                return -1
            column += 1
        else:
            if place < len(text) and text[place] != 10:
                return -1
            column = 0
            row += 1
        place += 1
    return row if column == 0 else -1


def _any_columns(body: bytes, path: str) -> list[Longs]:
    """As `_numbers`, with any signs and line ends. Raises FormatError for a line that is not an access."""
    from pyarrow import ArrowInvalid, csv, int64  # not at the top: it takes long to load, and most lists do not need it

    names = ["thread", "store", "address", "size"]
    body = body.rstrip()
    if not body:
        return [np.zeros(0, np.int64) for _ in names]
    options = csv.ReadOptions(column_names=names, use_threads=False)
    types = csv.ConvertOptions(column_types=dict.fromkeys(names, int64()), null_values=[])
    # empty lines are refused: the reader would skip them, and report wrong line numbers after them
    form = csv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=False)
    try:
        table = csv.read_csv(io.BytesIO(body), options, form, types)
    except ArrowInvalid as error:
        row = re.search(r"[Rr]ow #(\d+)", str(error))
        what = "is not `<thread> <0 or 1> <byte address> <bytes>`, four integers below 2^63, one space between"
        place = f"{path}:{int(row[1]) + 1}" if row else path
        raise FormatError(what, place=place, remedy="write one access per line") from None
    return [table[name].to_numpy().astype(np.int64) for name in names]


def _check(accesses: AccessList) -> None:
    faults = (
        ((accesses.thread < 0) | (accesses.thread >= _MOST_THREADS), "thread", "is not the number of a thread in a launch"),
        ((accesses.store != 0) & (accesses.store != 1), "store", "is neither 0, a load, nor 1, a store"),
        (accesses.address < 0, "address", "is not a byte address"),
        (~np.isin(accesses.size, _SIZES), "size", "is not the size of an access: 1, 2, 4, 8 or 16 B"),
    )
    for fault, name, what in faults:
        rows = np.flatnonzero(fault)
        if len(rows):
            place = f"{accesses.origin}:{int(rows[0]) + 2}"
            raise FormatError(f"{name} {int(getattr(accesses, name)[rows[0]])} {what}", place=place, remedy="correct the list")


def of_list(listed: AccessList, line_bytes: int, *, stores: bool = False, most_threads: int | None = None) -> AccessStream:
    """The k-th accesses of the lanes of a warp form one access of the warp; only loads count for k (with `stores`, all accesses).

    Accesses merge if their first bytes lie in the same line, among 32 lanes, among 16 for accesses of 8 B, and among 8 for 16 B;
    each such group is a request of its own, one after the other (CUDA C Programming Guide 4.0, section F.4.2, compute capability
    2.x, to which HPCA 2014 refers in section 4.6). Raises UsageError for a bound below one block, LimitError above 2^20 warps.
    """
    per_block = listed.threads_per_block
    all_blocks = int(listed.thread.max(initial=-1)) // per_block + 1
    blocks = bounded_blocks(all_blocks, per_block, most_threads)
    warps_per_block = -(-per_block // WARP_SIZE)
    if blocks * warps_per_block > _MOST_WARPS:
        what = f"thread {int(listed.thread.max()):,} means {blocks * warps_per_block:,} warps, more than {_MOST_WARPS:,}"
        raise LimitError(what, place=listed.origin, remedy="keep to the first with `max_threads`, or number the threads from 0")
    stream = coalesced((listed.thread, listed.store, listed.address, listed.size), line_bytes, per_block, blocks, stores)
    if isinstance(stream, int):
        _check(listed)
        raise ValueError(f"entry {stream} is not an access")
    accesses, numbers, loads, crossing = stream
    notes = [f"the first {blocks:,} of {all_blocks:,} blocks"] if blocks < all_blocks else []
    if crossing:
        notes.append(f"{crossing:,} accesses cross the end of a line and count for the line of their first byte")
    return AccessStream(accesses, numbers, line_bytes, blocks, per_block, warps_per_block, loads, 1, tuple(notes))

"""The state of a compiled engine as records with named fields, which Python fills and Numba compiles.

A *record* is a class of annotations: each field is an `int` (64 bits), a `float`, a `bool`, one of the narrower integers below,
another record, or a `Table` of these. A table lies anywhere in memory; the record holds its address. Compiled code reads and
writes `state.warps[slot].next_event += 1`: the record costs what a pointer to a C struct costs, and the type checker knows its
fields. Narrow integers are read as 64-bit ones, so that compiled code computes in 64 bits everywhere.

Compiled code does not check the bounds of a table.

    class Warp(Record):
        next_event: int
        lanes: UInt8

    class State(Record):
        cycle: int
        warps: Table[Warp]

    @compiled
    def _run(state: State) -> None:
        state.warps[0].next_event = state.cycle

    state_at = reference_to(State)  # of module `compiled`

    @compiled_and_kept
    def run(address: Address) -> None:
        _run(state_at(address))

    memory = Memory(State, warps=64)        # zeros
    memory["warps"]["lanes"] = 32           # NumPy structured array of 64 rows
    memory.root["cycle"] = 7                # NumPy record
    run(memory.address)
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

Item = TypeVar("Item")
Int32 = Annotated[int, np.int32]
UInt8 = Annotated[int, np.uint8]
UInt16 = Annotated[int, np.uint16]
UInt32 = Annotated[int, np.uint32]
Address = npt.NDArray[np.int64]

CACHE_LINE_BYTES = 64
_SCALARS: dict[Any, np.dtype[Any]] = {int: np.dtype(np.int64), float: np.dtype(np.float64), bool: np.dtype(np.bool_)}


class Record:
    """Base of the classes that declare a record. Never instantiated: compiled code gets a reference into NumPy's memory."""


class Constants(Record):
    """Base of records whose fields do not change while compiled code runs."""


class Table(Generic[Item]):
    """The type of a field that points to rows of `Item`, for the type checker; compiled code indexes it."""

    def __getitem__(self, row: int) -> Item:
        raise NotImplementedError

    def __setitem__(self, row: int, item: Item) -> None:
        raise NotImplementedError


@cache
def fields_of(record: type) -> dict[str, Any]:
    """The name and annotation of each field, in order of declaration."""
    return get_type_hints(record, include_extras=True)


@cache
def row_type(annotation: Any) -> Any | None:
    """The annotation of a table's rows; None if `annotation` is not a table."""
    return get_args(annotation)[0] if get_origin(annotation) is Table else None


@cache
def dtype_of(annotation: Any) -> np.dtype[Any]:
    """The NumPy type of a field or record, laid out as a C compiler does; a table is an address of 64 bits."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if row_type(annotation) is not None:
        return np.dtype(np.uint64)
    if get_origin(annotation) is Annotated:
        scalar: np.dtype[Any] = np.dtype(get_args(annotation)[1])
        return scalar
    return np.dtype([(name, dtype_of(field)) for name, field in fields_of(annotation).items()], align=True)


class Memory:
    """One record and the tables it points to, in one block of zeros; each table starts on a cache line of the host.

    `rows` gives the number of rows of each table of `record` that is allocated here. `memory["warps"]` is a table as a NumPy
    array [rows], `memory.root` the record itself, `memory.address` what compiled code takes.
    """

    def __init__(self, record: type, **rows: int) -> None:
        whole = dtype_of(record)
        self._rows = {name: dtype_of(row_type(field)) for name, field in fields_of(record).items() if row_type(field) is not None}
        starts, end = {}, _aligned(whole.itemsize)
        for name, count in rows.items():
            starts[name] = end
            end += _aligned(self._rows[name].itemsize * count)
        block = np.zeros(end + CACHE_LINE_BYTES, np.uint8)
        block = block[-block.ctypes.data % CACHE_LINE_BYTES :]
        self.root: Any = block[: whole.itemsize].view(whole)[0]
        self.address: Address = np.array([block.ctypes.data], np.int64)
        self._tables: dict[str, npt.NDArray[Any]] = {}
        for name, count in rows.items():
            dtype = self._rows[name]
            self.put(name, block[starts[name] : starts[name] + dtype.itemsize * count].view(dtype))

    def put(self, name: str, table: npt.NDArray[Any]) -> None:
        """Let the record's field `name` point to `table`, which is kept alive. Raises TypeError for another type or gaps."""
        if table.dtype != self._rows[name] or not table.flags.c_contiguous:
            raise TypeError(f"{name} points to contiguous {self._rows[name]}, not to {table.dtype}")
        self._tables[name] = table
        self.root[name] = table.ctypes.data

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._tables[name]


def _aligned(size: int) -> int:
    return -(-size // CACHE_LINE_BYTES) * CACHE_LINE_BYTES

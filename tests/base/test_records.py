"""Do records that Python fills and records that compiled code changes show the same values?"""

from __future__ import annotations

import numpy as np
import pytest

from warpsight.base.compiled import ask_for, compiled, equal_among_8, equal_among_16, inlined, reference_to
from warpsight.base.records import Address, Constants, Int32, Memory, Record, Table, UInt8, UInt16, UInt32, dtype_of

pytestmark = pytest.mark.unit


class Line(Record):
    tag: UInt32
    valid: UInt16
    level: UInt8
    dirty: bool
    ready: int


class Limits(Record):
    ways: int
    share: float


class State(Record):
    limits: Limits
    cycle: int
    change: Int32
    lines: Table[Line]
    times: Table[int]
    bytes: Table[UInt8]
    tags: Table[UInt32]


state_at = reference_to(State)


@inlined
def _mark(line: Line, ready: int) -> None:
    line.dirty = True
    line.ready += ready


@compiled
def _change(address: Address) -> None:
    state = state_at(address)
    state.lines[1] = state.lines[0]
    _mark(state.lines[1], state.limits.ways)
    state.lines[0].tag += 1
    state.change -= 3
    state.times[2] = state.lines[0].ready - state.lines[1].tag
    state.bytes[0] += 2
    state.limits.share /= 2


@pytest.fixture
def memory() -> Memory:
    made = Memory(State, lines=3, times=4)
    made.put("bytes", np.array([255, 7], np.uint8))
    made["lines"][0] = (2**32 - 1, 0x8001, 2, False, 100)
    made.root["limits"]["ways"], made.root["limits"]["share"], made.root["cycle"] = 6, 0.5, 2**62
    return made


def test_a_record_is_laid_out_as_a_c_struct() -> None:
    line = dtype_of(Line)
    assert [line.fields[name][1] for name in line.names] == [0, 4, 6, 7, 8]
    assert line.itemsize == 16
    assert dtype_of(State)["limits"] == dtype_of(Limits)


def test_tables_start_on_a_cache_line_of_the_host_with_zeros() -> None:
    made = Memory(State, lines=3, times=4, bytes=1)
    starts = [made[name].ctypes.data for name in ("lines", "times", "bytes")]
    assert [start % 64 for start in starts] == [0, 0, 0]
    assert [int(made.root[name]) for name in ("lines", "times", "bytes")] == starts
    assert not made["lines"]["ready"].any()


def test_compiled_code_reads_and_writes_what_python_sees(memory: Memory) -> None:
    _change(memory.address)
    assert memory["lines"][1].tolist() == (2**32 - 1, 0x8001, 2, True, 106)
    assert memory["lines"][2].tolist() == (0, 0, 0, False, 0)
    assert memory.root["change"] == -3
    assert memory.root["limits"].tolist() == (6, 0.25)
    assert memory.root["cycle"] == 2**62


def test_narrow_integers_are_read_as_64_bits_and_wrap_when_stored(memory: Memory) -> None:
    _change(memory.address)
    assert memory["lines"]["tag"][0] == 0
    assert memory["times"].tolist() == [0, 0, 100 - (2**32 - 1), 0]
    assert memory["bytes"].tolist() == [1, 7]


def test_a_table_can_be_moved(memory: Memory) -> None:
    moved = np.array([10, 20], np.uint8)
    memory.put("bytes", moved)
    _change(memory.address)
    assert moved.tolist() == [12, 20]


def test_a_table_of_another_type_is_refused(memory: Memory) -> None:
    with pytest.raises(TypeError, match="times"):
        memory.put("times", np.zeros(4, np.int32))
    with pytest.raises(TypeError, match="times"):
        memory.put("times", np.zeros(8, np.int64)[::2])


class Shape(Constants):
    rows: int
    narrow: UInt8
    is_filled: bool


class Grid(Record):
    shape: Shape
    cells: Table[int]


grid_at = reference_to(Grid)


@compiled
def _fill(address: Address) -> None:
    grid = grid_at(address)
    for row in range(grid.shape.rows):
        grid.cells[row] += 1000 * grid.shape.narrow + (1 if grid.shape.is_filled else 0)


def test_constants_that_python_changes_between_two_calls_are_read_again() -> None:
    made = Memory(Grid, cells=3)
    made.root["shape"] = (2, 255, True)
    _fill(made.address)
    assert made["cells"].tolist() == [255_001, 255_001, 0]
    made.root["shape"] = (1, 2, False)
    made.put("cells", np.array([5, 6], np.int64))
    _fill(made.address)
    assert made["cells"].tolist() == [2_005, 6]


@compiled
def _ask(address: Address, row: int) -> None:
    ask_for(state_at(address).lines, row)


@pytest.mark.parametrize("row", [0, 2, -1, 2**40, -(2**40)])
def test_asking_for_a_row_changes_nothing_and_never_faults(memory: Memory, row: int) -> None:
    before = memory["lines"].copy()
    _ask(memory.address, row)
    assert memory["lines"].tolist() == before.tolist()


@compiled
def _equal(address: Address, row: int, tag: int) -> None:
    state = state_at(address)
    state.times[0], state.times[1] = equal_among_8(state.tags, row, tag), equal_among_16(state.tags, row, tag)


@pytest.mark.parametrize(
    ("row", "tag", "of_8", "of_16"),
    [(0, 7, 1 << 3, 1 << 3 | 1 << 11), (3, 7, 1 << 0, 1 << 0 | 1 << 8 | 1 << 15), (1, 2**32 - 1, 0, 1 << 14), (0, 9, 0, 0)],
)
def test_rows_are_compared_at_once_from_any_row_on(row: int, tag: int, of_8: int, of_16: int) -> None:
    made = Memory(State, times=2, tags=19)
    made["tags"][[3, 11, 18]], made["tags"][15] = 7, 2**32 - 1
    _equal(made.address, row, tag)
    assert made["times"].tolist() == [of_8, of_16]

"""Is every damaged, cut or contradictory trace refused with a clear error, and never read as something else?"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from synthetic_trace import small_trace, whole

from warpsight.base.errors import FormatError
from warpsight.traces.schema import KernelTrace
from warpsight.traces.store import open_trace, save_trace

pytestmark = pytest.mark.unit
NAMES = ("header.json", "instructions.parquet", "blocks.parquet", "paths.parquet", "warps.parquet")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "t"
    save_trace(small_trace(), path)
    return path


def _content(trace: KernelTrace) -> Any:
    return (trace.header, trace.instructions, trace.block_start.tolist(), trace.paths.repeat.tolist(), whole(trace))


def _refused_or_unharmed(folder: Path, wanted: Any) -> bool:
    """True if refused. Raises whatever is neither a FormatError nor the trace that was written."""
    try:
        assert _content(open_trace(folder)) == wanted
    except FormatError as error:
        assert error.place
        assert error.remedy
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_any_byte_changed_is_refused_or_harmless(name: str, good: Path, tmp_path: Path) -> None:
    wanted = _content(open_trace(good))
    folder = tmp_path / "t"
    shutil.copytree(good, folder)
    data = (good / name).read_bytes()
    rng = np.random.default_rng(len(data))
    refused = 0
    places = rng.choice(len(data), 120, replace=False)
    for at in places:
        changed = bytearray(data)
        changed[at] ^= int(rng.integers(1, 256))
        (folder / name).write_bytes(changed)
        refused += _refused_or_unharmed(folder, wanted)
    # In the tables every byte counts; in the header, only white space does not.
    assert refused == len(places) if name != "header.json" else refused > 100


@pytest.mark.parametrize("name", NAMES)
def test_file_cut_anywhere_is_refused(name: str, good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "t")
    data = (good / name).read_bytes()
    for length in (0, 1, 3, 8, len(data) // 2, len(data) - 9, len(data) - 4):
        (tmp_path / "t" / name).write_bytes(data[:length])
        with pytest.raises(FormatError, match=name):
            open_trace(tmp_path / "t")


@pytest.mark.parametrize("name", NAMES[1:])
def test_file_missing_is_named(name: str, good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "t")
    (tmp_path / "t" / name).unlink()
    with pytest.raises(FormatError, match=f"{name}.*No such file.*\n.*make the trace again"):
        open_trace(tmp_path / "t")


def _forge(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header as a program that writes traces would: check sum and all."""
    document = json.loads((folder / "header.json").read_text())
    change(document)
    document.pop("crc32", None)
    document["crc32"] = zlib.crc32(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
    (folder / "header.json").write_text(json.dumps(document))


def _forge_table(folder: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Replace a table by another with check sums that match, so that only the content is wrong."""
    table = change(pq.read_table(folder / name))
    pq.write_table(table, folder / name)
    data = (folder / name).read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    pieces = [[end, zlib.crc32(data[:end])], [len(data) - end, zlib.crc32(data[end:])]]
    _forge(folder, lambda document: document["files"].update({name: pieces}))


def _set(table: Any, column: str, row: int, value: Any) -> Any:
    values = table.column(column).to_pylist()
    values[row] = value
    field = table.schema.field(column)
    return table.set_column(table.schema.get_field_index(column), field, pa.array(values, field.type))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(schema=9, tool_version="9.9"), "schema version 9.*reads version 7(.|\n)*9.9"),
        (lambda d: d.update(format="other"), "not the header of a trace"),
        (lambda d: d.pop("kernel"), "'kernel' is missing"),
        (lambda d: d.update(grid=[12, 1]), "grid must be of type tuple"),
        (lambda d: d.update(grid=[13, 1, 1]), "24 warps.*states 26"),
        (lambda d: d.update(block=[0, 1, 1]), "below one"),
        (lambda d: d.update(block=[128, 1, 1]), "24 warps.*states 48"),
        (lambda d: d.update(warp_instructions=-1), "warp_instructions must be of type int"),
        (lambda d: d.update(notes="x"), "notes must be"),
        (lambda d: d.update(paths=1), "not in order of the 1 paths"),
        (lambda d: d.update(paths=2**31 - 1), "states 2,147,483,647 paths, more than"),
        (lambda d: d.update(files={}), "header.json does not list it"),
        (lambda d: d.update(files={"warps.parquet": [["a", 1]]}), "count of bytes"),
    ],
)
def test_header_of_a_faulty_writer_is_refused(change: Callable[[Any], Any], said: str, good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "t")
    _forge(tmp_path / "t", change)
    with pytest.raises(FormatError, match=said):
        whole(open_trace(tmp_path / "t"))


@pytest.mark.parametrize(
    ("name", "column", "value", "said"),
    [
        ("warps.parquet", "warp", 7, "not consecutive"),
        ("warps.parquet", "path", 2, "not among the 2 paths"),
        ("warps.parquet", "path", -1, "not among the 2 paths"),
        ("warps.parquet", "events", b"", "warp 3 has 0 event bytes"),
        ("warps.parquet", "events", bytes(8), "warp 3 has . sectors, and.*need 0"),
        ("warps.parquet", "sectors", [1] * 99, "warp 3 has 99 sectors"),
        ("paths.parquet", "block", 3, "not among the 3 blocks"),
        ("paths.parquet", "block", -1, "not among the 3 blocks"),
        ("paths.parquet", "lanes", 33, "more than 32 lanes"),
        ("paths.parquet", "repeat", 0, "less than once"),
        ("paths.parquet", "repeat", 2**31 - 1, "event bytes"),
        ("paths.parquet", "path", 0, "event bytes"),
        ("blocks.parquet", "first_pc", 4, "do not divide the 6 instructions"),
        ("instructions.parquet", "pc", 0, "has pc 0"),
        ("instructions.parquet", "access", "read", 'has access "read"'),
        ("instructions.parquet", "sources", [-2], "negative register"),
    ],
)
def test_table_of_a_faulty_writer_is_refused(
    name: str, column: str, value: Any, said: str, good: Path, tmp_path: Path
) -> None:
    shutil.copytree(good, tmp_path / "t")
    row = {"warps.parquet": 3, "blocks.parquet": 2}.get(name, 2)
    _forge_table(tmp_path / "t", name, lambda table: _set(table, column, row, value))
    with pytest.raises(FormatError, match=said):
        whole(open_trace(tmp_path / "t"))


def test_table_of_other_columns_is_refused(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "t")
    _forge_table(tmp_path / "t", "paths.parquet", lambda table: table.drop_columns(["lanes"]))
    with pytest.raises(FormatError, match="its columns are path, block, repeat"):
        open_trace(tmp_path / "t")


def test_file_changed_after_opening_is_refused_while_iterated(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "t")
    trace = open_trace(tmp_path / "t")
    data = bytearray((tmp_path / "t" / "warps.parquet").read_bytes())
    data[100] ^= 1
    (tmp_path / "t" / "warps.parquet").write_bytes(data)
    with pytest.raises(FormatError, match="are not what was written"):
        whole(trace)

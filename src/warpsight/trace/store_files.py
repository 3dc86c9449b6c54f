"""Parquet files of a stored trace, written with a check sum per row group."""

from __future__ import annotations

import dataclasses
import zlib
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from warpsight.trace import store_schema as tables
from warpsight.trace.store_header import Pieces

_COMPRESSION_LEVEL = 3


@dataclasses.dataclass
class _CheckedFile:
    """A file that keeps the length and CRC-32 of what was written since `cut` was last called."""

    file: IO[bytes]
    closed: bool = False
    size: int = 0
    crc: int = 0
    position: int = 0

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.file.write(view)
        self.size += view.nbytes
        self.position += view.nbytes
        self.crc = zlib.crc32(view, self.crc)
        return view.nbytes

    def cut(self) -> tuple[int, int]:
        piece = (self.size, self.crc)
        self.size = self.crc = 0
        return piece

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        self.file.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True
        self.file.close()


class TableFile:
    """One Parquet file, a row group per `write`; `close` gives its pieces."""

    def __init__(self, path: Path) -> None:
        self._file = _CheckedFile(path.open("wb"))
        self._pieces: Pieces = []
        options: dict[str, Any] = {"compression": "zstd", "compression_level": _COMPRESSION_LEVEL, "use_dictionary": True}
        options |= tables.WRITE_OPTIONS.get(path.name, {})
        sink: Any = self._file  # has the methods that pyarrow calls
        self._writer = pq.ParquetWriter(sink, tables.SCHEMAS[path.name], write_statistics=False, **options)

    def write(self, table: Any) -> None:
        """Write one row group."""
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))
        self._pieces.append(self._file.cut())

    def close(self) -> Pieces:
        """Write the footer and close."""
        self._writer.close()
        self._pieces.append(self._file.cut())
        self._file.close()
        return self._pieces


def write_table(path: Path, table: Any) -> Pieces:
    """Write `table` as a file of one row group; its name says which table it is. Raises OSError if the disk refuses."""
    file = TableFile(path)
    file.write(table)
    return file.close()

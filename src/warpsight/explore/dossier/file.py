"""Where a report is written: whole or not at all."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from warpsight.base.errors import UsageError
from warpsight.explore.sweep.whole_files import written_whole


def write_report(path: str | PathLike[str], text: str) -> Path:
    """Write `text` to `path`; what was there stays until the new file is whole. A device or a pipe is written to as it is.

    Raises UsageError.
    """
    if Path(path).is_dir():
        raise UsageError("is a folder", place=str(path), remedy="name a file in it")
    try:
        if Path(path).exists() and not Path(path).is_file():
            Path(path).write_text(text, "utf-8")
            return Path(path)
        with written_whole(Path(path)) as temporary:
            temporary.write_text(text, "utf-8")
    except OSError as error:
        remedy = "name another file with -o, in a folder that is there"
        raise UsageError(f"cannot be written: {error.strerror or error}", place=str(path), remedy=remedy) from None
    return Path(path)

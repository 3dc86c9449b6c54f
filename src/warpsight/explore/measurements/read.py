"""The way in: a file of measurements of whichever tool wrote it."""

from __future__ import annotations

from pathlib import Path

from warpsight.base.errors import FormatError, UsageError
from warpsight.explore.measurements.accelsim import is_accelsim, read_accelsim
from warpsight.explore.measurements.launch import Measurements
from warpsight.explore.measurements.ncu import is_ncu, read_ncu
from warpsight.explore.measurements.nvprof import is_nvprof, read_nvprof

_REMEDY = (
    "give what `ncu --csv` (--page raw or details), `nvprof --csv` or Accel-Sim writes; docs/reference/measurements.md"
)


def read_measurements(path: str) -> Measurements:
    """The measurements in the file `path`. Raises UsageError if it cannot be read, FormatError with `file:line`."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=_REMEDY) from None
    found = measurements_of(text_of(data, path), path)
    if found is None:
        raise FormatError("is no table of Nsight Compute or nvprof and no log of Accel-Sim", place=path, remedy=_REMEDY)
    return found


def measurements_of(text: str, origin: str) -> Measurements | None:
    """The measurements that `text` holds, None when it has no table of a known tool. Raises FormatError."""
    if is_accelsim(text):
        return read_accelsim(text, origin)
    if is_ncu(text):
        return read_ncu(text, origin)
    return read_nvprof(text, origin) if is_nvprof(text) else None


def text_of(data: bytes, origin: str) -> str:
    """The text of a file: UTF-8, or UTF-16 with its mark, as PowerShell writes what is redirected. Raises FormatError."""
    wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError("is not text in UTF-8", place=origin, remedy="write it as CSV") from None

"""What predictions are compared with: a CSV of references, or the file of a profiler."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warpsight.base.errors import UsageError
from warpsight.explore.compare.measured import match_measured
from warpsight.explore.compare.references import Reference, match, references_of
from warpsight.explore.compare.several import Turn
from warpsight.explore.measurements.launch import Measurements
from warpsight.explore.measurements.read import measurements_of, text_of

if TYPE_CHECKING:
    from warpsight.trace.schema import TraceHeader


@dataclass(frozen=True)
class Against:
    """The file `origin`: rows of references, or (`measurements` not None) launches that a profiler measured."""

    origin: str
    references: tuple[Reference, ...]
    measurements: Measurements | None

    def match(self, gpu: str, header: TraceHeader, label: str, turn: Turn | None = None) -> Reference:
        """The row of a launch on `gpu`, of the name `label` where one is given. Raises UsageError.

        `turn` says how manieth of its program's launches it is, by which a profiler's file tells several apart.
        """
        if self.measurements is None:
            return match(self.references, gpu, header, label, self.origin)
        launch = match_measured(self.measurements, header, label, turn)
        return Reference(
            gpu="",
            kernel=launch.kernel,
            size="",
            cycles=launch.value("cycles"),
            grid=launch.grid,
            block=launch.block,
            cpi_stack={},
            place=launch.place,
            seconds=launch.value("seconds"),
            measured=launch,
        )


def read_against(path: str) -> Against:
    """The file `path`, or stdin for ``-``. Raises UsageError if it cannot be read, FormatError with `file:line`."""
    origin = "<stdin>" if path == "-" else path
    try:
        data = sys.stdin.read().encode("utf-8", "surrogateescape") if path == "-" else Path(path).read_bytes()
    except OSError as error:
        remedy = "name a CSV file with the columns gpu,kernel,cycles, or what ncu --csv, nvprof --csv or Accel-Sim wrote"
        raise UsageError(f"cannot be read: {error.strerror}", place=path, remedy=remedy) from None
    text = text_of(data, origin)
    measurements = measurements_of(text, origin)
    return Against(origin, () if measurements else tuple(references_of(text, origin)), measurements)

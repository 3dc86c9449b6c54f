"""What a model is given, beside what was measured: is the model off, or its input?

Instructions are the trace's: of PTX, where the kernel was emulated, and a GPU executes SASS. Hit rates, sectors and DRAM traffic
are those of the cache simulation. Ours are of requests, each of what a warp's access touches of one line; a profiler's are of 32 B
sectors. A request for a line on its way is counted apart (a merge); how a profiler counts those its documentation does not say, so
that both numbers are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpsight.profile.requests import dram_bytes
from warpsight.result.prediction import relative_error
from warpsight.trace.schema import LOAD, STORE

if TYPE_CHECKING:
    from warpsight.explore.measurements.launch import MeasuredLaunch
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.gpu.spec import GpuSpec

COUNT, SHARE, BYTES = "count", "share", "bytes"


@dataclass(frozen=True)
class InputRow:
    """One input. `predicted` is ours, `with_merges` (shares) ours with merges counted as hits; None: ours does not exist."""

    name: str
    kind: str
    predicted: float | None
    with_merges: float | None
    measured: float
    metric: str

    @property
    def error(self) -> float | None:
        """Signed relative error; None for shares, whose difference says more, and where nothing was measured to divide by."""
        if self.predicted is None or self.kind == SHARE or not self.measured:
            return None
        return relative_error(self.predicted, self.measured)

    @property
    def difference(self) -> float | None:
        """Ours less the measured, of shares as fractions."""
        return None if self.predicted is None else self.predicted - self.measured

    def to_json(self) -> dict[str, Any]:
        """Its part of the result document."""
        return {**self.__dict__, "error": self.error, "difference": self.difference}


def compare_inputs(profiled: ProfiledTrace, gpu: GpuSpec, launch: MeasuredLaunch) -> tuple[InputRow, ...]:
    """The inputs of which both sides exist; of several metrics of one input the nearest to ours."""
    ours = _ours(profiled, gpu)
    rows = []
    for name, kind, fields in _ROWS:
        found = next((field for field in fields if field in launch.measures), "")
        if found:
            predicted, with_merges = ours[fields[0]]
            measure = launch.measures[found]
            rows.append(InputRow(name, kind, predicted, with_merges, measure.value, measure.metric))
    split = {"DRAM bytes read", "DRAM bytes written"} <= {row.name for row in rows}
    return tuple(row for row in rows if not (split and row.name == "DRAM bytes"))


# name, kind, fields of a measurement that are it, the nearest to ours first
_ROWS = (
    ("warp instructions", COUNT, ("warp_instructions",)),
    ("thread instructions", COUNT, ("thread_instructions",)),
    ("L1 load sectors", COUNT, ("l1_load_sectors",)),
    ("L1 store sectors", COUNT, ("l1_store_sectors",)),
    ("L1 hit rate", SHARE, ("l1_load_hit_rate", "l1_hit_rate")),
    ("L2 hit rate", SHARE, ("l2_hit_rate",)),
    ("DRAM bytes read", BYTES, ("dram_read_bytes",)),
    ("DRAM bytes written", BYTES, ("dram_write_bytes",)),
    ("DRAM bytes", BYTES, ("dram_bytes",)),
)


def _ours(profiled: ProfiledTrace, gpu: GpuSpec) -> dict[str, tuple[float | None, float | None]]:
    """Each field as we have it, of the whole launch, and shares once more with merges as hits."""
    header, misses = profiled.trace.header, profiled.misses
    totals = misses.totals()
    # of a sample, the launch has as many times more as it has blocks more
    whole = header.blocks / header.recorded_blocks
    sectors = {LOAD: 0.0, STORE: 0.0}
    for instruction, count in zip(profiled.trace.instructions, misses.sectors.tolist(), strict=True):
        if instruction.access in sectors and instruction.space in ("global", "generic"):
            sectors[instruction.access] += count * whole
    reached = totals["l2_reads"] + totals["l2_writes"]
    l2_hits, l2_merges = totals["l2_read_hits"] + totals["l2_write_hits"], totals["l2_read_merges"]
    read, written = (whole * part for part in dram_bytes(misses, gpu.l2))
    return {
        "warp_instructions": (float(header.warp_instructions), None),
        "thread_instructions": (float(header.thread_instructions), None),
        "l1_load_sectors": (sectors[LOAD], None),
        "l1_store_sectors": (sectors[STORE], None),
        "l1_load_hit_rate": _shares(totals["l1_hits"], totals["l1_merges"], totals["l1_reads"]),
        "l2_hit_rate": _shares(l2_hits, l2_merges, reached),
        "dram_read_bytes": (read, None),
        "dram_write_bytes": (written, None),
        "dram_bytes": (read + written, None),
    }


def _shares(hits: int, merges: int, whole: int) -> tuple[float | None, float | None]:
    return (hits / whole, (hits + merges) / whole) if whole else (None, None)

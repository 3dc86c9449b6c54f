"""Addresses of one program of another tool: the same numbers in each of its launches.

An imported trace numbers the regions of addresses in the order in which its launch uses them (`layout.REGION_SHIFT`). What a
launch leaves in the L2 is found by the next one only if both have the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import LimitError
from warpsight.traces.importers.layout import FIRST_REGION, LOCAL_TRACE_SECTOR, REGION_LIMIT, REGION_SHIFT
from warpsight.traces.schema import SECTOR_BYTES, ChunkSource, KernelTrace, TraceChunk

_BITS = REGION_SHIFT - (SECTOR_BYTES.bit_length() - 1)  # of a sector within its region


class _Renumbered(ChunkSource):
    """Chunks whose sectors have other numbers of regions: `number` [REGION_LIMIT] by the number that they had."""

    def __init__(self, chunks: ChunkSource, number: npt.NDArray[np.uint32]) -> None:
        self._chunks, self._number = chunks, number

    def __iter__(self) -> Iterator[TraceChunk]:
        for chunk in self._chunks:
            sectors = chunk.sectors
            device = sectors < LOCAL_TRACE_SECTOR  # local memory is no part of the address space
            region = np.where(device, sectors >> _BITS, 0)
            moved = self._number[region] << np.uint32(_BITS) | sectors & np.uint32((1 << _BITS) - 1)
            yield replace(chunk, sectors=np.where(device, moved, sectors))


@dataclass
class ProgramAddresses:
    """The regions that the launches of a program have used so far, in the order of their numbers."""

    regions: list[int] = field(default_factory=list)

    def _number(self, region: int) -> int:
        if region not in self.regions:
            if len(self.regions) + FIRST_REGION >= REGION_LIMIT:
                what = f"the program's addresses lie in more than {REGION_LIMIT - FIRST_REGION} regions of 256 MiB"
                raise LimitError(what, place="launches", remedy="choose fewer launches, or predict each with `caches_before=cold`")
            self.regions.append(region)
        return self.regions.index(region) + FIRST_REGION

    def renumbered(self, trace: KernelTrace) -> KernelTrace:
        """The trace of a launch with the program's numbers. Raises LimitError beyond what a trace can number."""
        known = trace.extra.get("accelsim", {}).get("regions")
        if known is None:
            return trace
        number = np.arange(REGION_LIMIT, dtype=np.uint32)
        for place, region in enumerate(known, FIRST_REGION):
            number[place] = self._number(region)
        extra = {**trace.extra, "accelsim": {**trace.extra["accelsim"], "regions": list(self.regions)}}
        return replace(trace, chunks=_Renumbered(trace.chunks, number), extra=extra)

    def written(self, copies: Sequence[tuple[int, int]]) -> npt.NDArray[np.int64]:
        """What copies to the device, as (address, bytes), have written, as `caches.exact.between.touch` takes it."""
        rows = []
        for start, size in copies:
            address, end = start, start + size
            while address < end:
                part = min(end, (address >> REGION_SHIFT) + 1 << REGION_SHIFT) - address
                numbered = self._number(address >> REGION_SHIFT) << REGION_SHIFT | address & ((1 << REGION_SHIFT) - 1)
                rows.append((numbered, part, part, 1, 1))
                address += part
        return np.array(rows, np.int64).reshape(-1, 5)

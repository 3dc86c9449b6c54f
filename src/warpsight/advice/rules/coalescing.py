"""What if the loads and stores of a line were coalesced?"""

from __future__ import annotations

from collections.abc import Iterator

from warpsight.advice.base import PROGRAMMER, Case, WhatIf, heaviest_lines, line_name, place_of
from warpsight.advice.coalescing import coalesced
from warpsight.advice.registry import RULES
from warpsight.base.format import three_digits
from warpsight.explore.explain.rows import Row
from warpsight.trace.schema import ATOMIC, LOAD, SECTOR_BYTES, WARP_SIZE

# Requests or sectors beyond what a full warp's bytes need by less than this are not worth a proposal.
_EXCESS = 1.05


class Coalescing:
    """Accesses whose lanes are apart: the trace is rewritten and everything made again from it."""

    name = "coalescing"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each line with such accesses, those with most requests first."""
        misses = case.profiled.misses
        weight = misses.l1_reads + misses.l1_writes
        for requests, row, pcs in heaviest_lines(case, lambda pc: self._scattered(case, pc), weight):
            yield self._change(case, row, pcs, requests)

    def _scattered(self, case: Case, pc: int) -> bool:
        instruction, misses = case.trace.instructions[pc], case.profiled.misses
        if not instruction.has_sectors or instruction.access == ATOMIC or not instruction.access_bytes:
            return False
        executions, warp_bytes = int(misses.executions[pc]), instruction.access_bytes * WARP_SIZE
        requests = int(misses.l1_reads[pc] + misses.l1_writes[pc])
        lines, sectors = -(-warp_bytes // case.gpu.l1.line_bytes), -(-warp_bytes // SECTOR_BYTES)
        return requests > _EXCESS * lines * executions or int(misses.sectors[pc]) > _EXCESS * sectors * executions

    def _change(self, case: Case, row: Row, pcs: list[int], requests: int) -> WhatIf:
        accesses = {case.trace.instructions[pc].access for pc in pcs}
        what = "loads and stores" if len(accesses) > 1 else "loads" if accesses == {LOAD} else "stores"
        misses = case.profiled.misses
        executions, sectors = int(misses.executions[pcs].sum()), int(misses.sectors[pcs].sum())
        seen = f"{three_digits(requests / executions)} requests and {three_digits(sectors / executions)} sectors"
        return WhatIf(
            title=f"{what} of {line_name(row)} coalesced",
            place=place_of(row),
            reason=f"a warp's access makes {seen} there",
            cost="another data layout or index order, or a way through shared memory",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_trace(coalesced(case.trace, pcs, case.gpu.l1.line_bytes)),
        )


RULES.add(Coalescing.name, Coalescing())

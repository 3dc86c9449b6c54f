"""What if the threads of a warp agreed at a branch?"""

from __future__ import annotations

from collections.abc import Iterator

from warpsight.advice.base import PROGRAMMER, Case, WhatIf
from warpsight.advice.compaction import Parting, compacted, partings
from warpsight.advice.registry import RULES
from warpsight.base.format import percent
from warpsight.result.prediction import Prediction

# Below this part of all warp instructions a branch is not worth a proposal.
_LEAST = 0.001


class Divergence:
    """Branches whose ways are run one after the other: fewer instructions, the same traffic, profile and model made again."""

    name = "divergence"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """One change for each branch that parts the lanes of warps, those that cost most instructions first."""
        recorded = case.trace.header.recorded_instructions
        for part in partings(case.trace):
            if part.executed - part.needed > _LEAST * recorded:
                yield self._change(case, part, recorded)

    def _change(self, case: Case, part: Parting, recorded: int) -> WhatIf:
        branch = case.trace.instructions[int(case.trace.block_start[part.block + 1]) - 1]
        name = branch.file.replace("\\", "/").rpartition("/")[2]
        where = f"line {branch.line}" if branch.file else f"PTX line {branch.ptx_line}"
        lanes = percent(part.needed / part.executed)
        return WhatIf(
            title=f"threads of a warp agree at the branch of {where}",
            place=f"{name}:{branch.line}" if branch.file else where,
            reason=f"{percent(part.executed / recorded)} of the instructions run behind it, with {lanes} of the lanes",
            cost="work sorted or grouped so that neighbouring threads go the same way",
            owner=PROGRAMMER,
            evaluate=lambda: _agreed(case, part.block),
        )


def _agreed(case: Case, block: int) -> Prediction:
    trace, misses = compacted(case.trace, case.profiled.misses, block)
    return case.with_misses(misses, trace)


RULES.add(Divergence.name, Divergence())

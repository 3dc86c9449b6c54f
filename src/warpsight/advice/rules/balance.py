"""What if the blocks were spread evenly over the SMs?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsight.advice.base import PROGRAMMER, Case, WhatIf
from warpsight.advice.registry import RULES
from warpsight.base.format import percent
from warpsight.profile.interval_profile import IntervalProfile, divided


def balanced(profile: IntervalProfile, sm_count: int) -> IntervalProfile:
    """The same instructions in as many blocks as fill the SMs equally. A launch must be known."""
    assert profile.launch is not None
    blocks = -(-profile.launch.blocks // sm_count) * sm_count
    demands = profile.demands and divided(profile.demands, blocks / profile.launch.blocks)
    return replace(profile, launch=replace(profile.launch, blocks=blocks), demands=demands)


class Balance:
    """SMs that run fewer blocks than others wait for them: the model is evaluated for the same work in equal parts."""

    name = "balance"

    def propose(self, case: Case) -> Iterator[WhatIf]:
        """The change, where the blocks are not a multiple of the SMs."""
        profile, sms = case.profiled.profile, case.gpu.sm_count
        if profile.launch is None or profile.launch.blocks % sms == 0:
            return
        even = balanced(profile, sms)
        assert even.launch is not None
        busiest = -(-profile.launch.blocks // sms)
        idle = 1 - profile.launch.blocks / (busiest * sms)
        yield WhatIf(
            title=f"the same work in {even.launch.blocks} blocks instead of {profile.launch.blocks}, equally many on each SM",
            place="launch",
            reason=f"the busiest of {sms} SMs runs {busiest} blocks, and {percent(idle)} of the SMs' time is spent waiting for it",
            cost="another division of the work: a grid-stride loop over a multiple of the SMs, or smaller blocks",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_profile(even),
        )


RULES.add(Balance.name, Balance())

"""What if the blocks were spread evenly over the SMs?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from warpsight.advice.base import PROGRAMMER, Case, WhatIf
from warpsight.advice.registry import RULES
from warpsight.base.format import percent, three_digits
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
        """The change, where the blocks are not a multiple of the SMs, or have unequal work."""
        profile, sms = case.profiled.profile, case.gpu.sm_count
        if profile.launch is None:
            return
        even = balanced(profile, sms)
        assert even.launch is not None
        blocks, busiest = profile.launch.blocks, -(-profile.launch.blocks // sms)
        if blocks % sms:
            idle = percent(1 - blocks / (busiest * sms))
            has = "1 block" if busiest == 1 else f"{busiest} blocks"
            title = f"the same work in {even.launch.blocks} blocks instead of {blocks}, equally many on each SM"
            reason = f"the busiest of {sms} SMs runs {has}, and {idle} of the SMs' time is spent waiting for it"
        elif profile.demands is not None and profile.demands.work_imbalance > 1:
            more = three_digits(profile.demands.work_imbalance)
            title = f"the same work divided equally over the {blocks} blocks"
            reason = f"the busiest of {sms} SMs has {more} times the mean's work, in as many blocks"
        else:
            return
        yield WhatIf(
            title=title,
            place="launch",
            reason=reason,
            cost="another division of the work: a grid-stride loop over a multiple of the SMs, or smaller blocks",
            owner=PROGRAMMER,
            evaluate=lambda: case.with_profile(even),
        )


RULES.add(Balance.name, Balance())

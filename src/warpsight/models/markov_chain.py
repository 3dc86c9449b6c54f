"""Chen and Aamodt's Markov chain of a multithreaded core."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError
from warpsight.equations.markov import MAX_WARPS, chain_parameters, throughput
from warpsight.models.base import About, Design
from warpsight.models.component_words import INTERVAL_STRAINS, interval_components
from warpsight.models.interval_model import IntervalModel
from warpsight.models.registry import MODELS
from warpsight.profile.interval_profile import IntervalProfile

Floats = npt.NDArray[np.float64]


class MarkovChain(IntervalModel):
    """Chen and Aamodt, HPCA 2009, as GPUMech (MICRO 2014, section VIII) describes and evaluates it.

    States are the suspended warps of a scheduler; an issued instruction suspends its warp with probability p, a suspended warp
    resumes with probability 1 / M. p is stalls per instruction and M the mean stall of the representative warp. GPUMech does not
    print the transition matrix: one issue a cycle (here the issue width) and independent resumptions are what its words say. The
    cache contention model of the same paper is not part of it, since caches are simulated here.
    """

    name = "markov-chain"
    title = "Markov chain of suspended warps"
    source = "Chen and Aamodt: A first-order fine-grained multithreaded throughput model, HPCA 2009, as in GPUMech, section VIII"
    needs = frozenset()
    about = About(
        equations=(
            "p = stalls / instructions, M = stall cycles / stalls of the representative warp (GPUMech eq. 4)",
            "from i suspended warps: min(width, warps - i) instructions issue, each suspends its warp with probability p",
            "each of the i resumes with probability 1 / M",
            "IPC of a scheduler = mean of min(width, warps - i) over the stationary distribution",
        ),
        assumptions=(
            "one representative warp stands for all",
            "active warps are picked at random, whatever the scheduler's policy",
            "all stalls are of one kind, their lengths geometric with mean M",
            "a stall does not lengthen with the requests of other warps",
        ),
        fails=(
            "memory-bound kernels, divergent loads above all: neither MSHRs nor bandwidth limit, and cycles come out low",
            "policies that keep warps together or apart: only their mean is seen",
        ),
        citation="X. E. Chen and T. M. Aamodt. A first-order fine-grained multithreaded throughput model. HPCA 2009.",
        stack=("base", "com_data", "mem_data", "idle"),
        by_component=interval_components("instructions x W / (schedulers x IPC of the chain's stationary distribution)"),
        strained_by=(*INTERVAL_STRAINS, "noc-load", "dram-load"),
    )

    def contention_free(self, profile: IntervalProfile, design: Design, warps: Floats) -> Floats:
        """Cycles [R] of an SM whose schedulers run at the chain's throughput.

        Raises UsageError for more than 1024 warps on a scheduler, since the chain has a state for each.
        """
        suspend, stall = chain_parameters(profile.instructions, profile.stall_cycles)
        own = warps / design.schedulers
        if own.max() > MAX_WARPS:
            what = f"has {own.max():g} warps on a scheduler, and the Markov chain has a state for each of at most {MAX_WARPS}"
            raise UsageError(what, place=profile.kernel, remedy="check warps_per_sm, or choose another model")
        # few different schedulers stand behind many designs
        cases, case = np.unique(own + 1j * design.issue_width, return_inverse=True)
        rate = np.array([throughput(each.real, each.imag, suspend, stall) for each in cases])
        return np.asarray(profile.instructions.sum() * warps / (design.schedulers * rate[case.reshape(-1)]))


MODELS.add(MarkovChain.name, MarkovChain())

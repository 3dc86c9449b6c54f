"""The Markov chain of a multithreaded core (Chen and Aamodt, HPCA 2009; as GPUMech, MICRO 2014, has it).

A warp is active or suspended. The state of the chain is the number of suspended warps. In a cycle, the scheduler issues one
instruction of each of up to `width` active warps, chosen at random; each suspends its warp with probability `suspend`. Every
warp that was suspended resumes with probability 1 / `stall_cycles`, so that a suspension lasts so long on average.
"""

from __future__ import annotations

import numpy as np

from warpsight.base.errors import UsageError
from warpsight.gpu.design import Design
from warpsight.intervals.interval_profile import Floats, IntervalProfile
from warpsight.models.base import MODELS, About
from warpsight.models.interval_model import INTERVAL_CHECKS, IntervalModel, interval_components

MAX_WARPS = 1024


def chain_parameters(instructions: Floats, stall_cycles: Floats) -> tuple[float, float]:
    """`suspend` and `stall_cycles` of the chain for the intervals [I] of one warp: p and M in GPUMech, section VIII.

    p is stalls per instruction and M the mean stall, so a warp alone runs at 1 / (1 + p M), which is GPUMech's eq. 5. If the mean
    stall is shorter than a cycle, the step of the chain, the stall cycles are put into fewer stalls of one cycle each.
    """
    stalls, total = int(np.count_nonzero(stall_cycles)), float(stall_cycles.sum())
    if total == 0:
        return 0.0, 1.0
    mean = max(total / stalls, 1.0)
    return total / mean / float(instructions.sum()), mean


def throughput(warps: float, width: float, suspend: float, stall_cycles: float) -> float:
    """Instructions per cycle of a scheduler with `warps` (0 to `MAX_WARPS`) that issues up to `width` (a whole number) a cycle.

    A fraction is the mean over schedulers of which some have one warp more: 2.5 warps are 2 on half of them and 3 on half.
    """
    lower = int(np.floor(warps))
    part = warps - lower
    below = _whole(lower, int(width), suspend, stall_cycles)
    return below if part == 0 else (1 - part) * below + part * _whole(lower + 1, int(width), suspend, stall_cycles)


def _whole(warps: int, width: int, suspend: float, stall_cycles: float) -> float:
    """The same for a whole number of warps."""
    issued = np.minimum(warps - np.arange(warps + 1.0), width)
    if suspend == 0:
        return float(issued[0])
    return float(stationary(transitions(warps, width, suspend, 1 / stall_cycles)) @ issued)


def transitions(warps: int, width: int, suspend: float, resume: float) -> Floats:
    """Probabilities [warps + 1, warps + 1] to go from one number of suspended warps to another in a cycle."""
    resumed = binomials(warps, resume)
    issuing = binomials(min(width, warps), suspend)
    matrix = np.zeros((warps + 1, warps + 1))
    for suspended in range(warps + 1):
        staying = resumed[suspended, suspended::-1]
        added = issuing[min(width, warps - suspended), : min(width, warps - suspended) + 1]
        matrix[suspended, : suspended + len(added)] = np.convolve(staying, added)
    return matrix


def binomials(most: int, probability: float) -> Floats:
    """[n, k]: that k of n things happen, each with `probability`; n and k from 0 to `most`."""
    table = np.zeros((most + 1, most + 1))
    table[0, 0] = 1
    for n in range(most):
        table[n + 1] = (1 - probability) * table[n]
        table[n + 1, 1:] += probability * table[n, :-1]
    return table


def stationary(matrix: Floats) -> Floats:
    """A stationary distribution [n] of the chain `matrix` [n, n], the only one where one class of states is never left.

    By Grassmann, Taksar and Heyman's elimination, which subtracts nothing and so keeps every digit of small probabilities.
    """
    reduced = matrix.copy()
    first = 0
    for state in range(len(matrix) - 1, 0, -1):
        downward = reduced[state, :state].sum()
        if downward == 0:
            first = state  # from here no lower state is reached again
            break
        reduced[:state, state] /= downward
        reduced[:state, :state] += np.outer(reduced[:state, state], reduced[state, :state])
    weights = np.zeros(len(matrix))
    weights[first] = 1
    for state in range(first + 1, len(matrix)):
        weights[state] = weights[:state] @ reduced[:state, state]
    return np.asarray(weights / weights.sum())



class MarkovChain(IntervalModel):
    """Chen and Aamodt, HPCA 2009, as GPUMech (MICRO 2014, section VIII) describes and evaluates it.

    States are the suspended warps of a scheduler; an issued instruction suspends its warp with probability p, a suspended warp
    resumes with probability 1 / M. p is stalls per instruction and M the mean stall of the representative warp. GPUMech does not
    print the transition matrix; its text describes one issue a cycle (here the issue width) and independent resumptions. The cache
    contention model of the same paper is not included, since caches are simulated here.
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
            "one representative warp stands for all warps",
            "active warps are picked at random, for any scheduling policy",
            "all stalls are of one kind, and their lengths are geometrically distributed with mean M",
            "requests of other warps do not lengthen a stall",
        ),
        fails=(
            "memory-bound kernels, in particular divergent loads: neither MSHRs nor bandwidth are a limit, and cycles are too low",
            "policies that keep warps together or apart: the model sees only the mean",
        ),
        citation="X. E. Chen and T. M. Aamodt. A first-order fine-grained multithreaded throughput model. HPCA 2009.",
        by_component=interval_components("instructions x W / (schedulers x IPC of the chain's stationary distribution)"),
        checks=(*INTERVAL_CHECKS, "noc-load", "dram-load"),
    )

    def contention_free(self, profile: IntervalProfile, design: Design, warps: Floats) -> Floats:
        """Cycles [R] of an SM whose schedulers run at the chain's throughput.

        Raises UsageError for more than 1024 warps on a scheduler, since the chain has a state for each.
        """
        suspend, stall = chain_parameters(profile.instructions, profile.stall_cycles)
        own = warps / design.sm_schedulers
        if own.max() > MAX_WARPS:
            what = f"has {own.max():g} warps on a scheduler, and the Markov chain has a state for each of at most {MAX_WARPS}"
            raise UsageError(what, place=profile.kernel, remedy="check warps_per_sm, or choose another model")
        # many designs have few different schedulers
        cases, case = np.unique(own + 1j * design.sm_issue_width, return_inverse=True)
        rate = np.array([throughput(each.real, each.imag, suspend, stall) for each in cases])
        return np.asarray(profile.instructions.sum() * warps / (design.sm_schedulers * rate[case.reshape(-1)]))


MODELS.add(MarkovChain.name, MarkovChain())

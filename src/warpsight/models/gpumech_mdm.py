"""GPUMech and MDM: eight models as one table. Most are rows of Table V in the MDM paper (MICRO 2020).

All of them are interval models: GPUMech's multithreading (eqs. 4-16), and for each interval the cycles that requests wait for
MSHRs, at the NoC and at DRAM. They differ in the model of each of these three waits, which are the columns of the table:
`contention.py` has the functions. Without requests that leave the SM, all of them are the model `mt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsight.equations import queues
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import Floats, IntervalProfile
from warpsight.models.base import MODELS, About
from warpsight.models.contention import Waiting, gpumech_mshrs, gpumech_queues, mdm_mshrs, mdm_queues
from warpsight.models.interval_model import INTERVAL_CHECKS, IntervalModel, interval_components, residency

# Models of the wait for MSHRs: GPUMech's expected delay at the latency without queues, the same "w/ queue", MDM's batches.
NO, EXPECTED, EXPECTED_QUEUED, BATCHES = "none", "expected delay", "expected delay w/ queue", "batches"
# Models of the queues at NoC and DRAM: GPUMech's M/D/1 queue; MDM's, in full in an interval that is divergent, or divergent while
# the NoC is saturated, and by half in others.
MD1, DIVERGENT, SATURATED = "M/D/1", "divergent", "divergent and saturated"


@dataclass(frozen=True)
class Variant:
    """One model of the family: its row of the table.

    `mshr` is the model of the wait for MSHRs; `noc` and `dram` are those of the queues (`NO`, `MD1`, `DIVERGENT` or `SATURATED`;
    both of MDM's kind or neither). `equations`, `assumptions`, `fails` and `citation` are as in `About`, without what all rows
    share.
    """

    name: str
    title: str
    mshr: str
    noc: str
    dram: str
    source: str
    description: str
    equations: tuple[str, ...]
    assumptions: tuple[str, ...]
    fails: tuple[str, ...]
    citation: str


class GpumechMdm(IntervalModel):
    """A model of the family, as its row of the table says."""

    def __init__(self, row: Variant) -> None:
        self.name, self.title, self.source = row.name, row.title, row.source
        waits = {"mshr": _MSHR[row.mshr, row.noc], "noc": _NOC[row.noc], "dram": _DRAM[row.dram]}
        checks = [key for key, model in (("noc-load", row.noc), ("dram-load", row.dram)) if model == NO]
        self.about = About(
            row.equations, ("one representative warp stands for all warps", *row.assumptions), row.fails, row.citation,
            by_component=interval_components(**{name: text for name, text in waits.items() if text}),
            checks=(*INTERVAL_CHECKS, *checks), description=row.description,
        )
        needs = {"misses": row.mshr != NO, "dram": row.dram == MD1}
        self.needs = frozenset(part for part, needed in needs.items() if needed)
        self._variant = row

    def waiting(self, profile: IntervalProfile, design: Design, warps: Floats) -> Waiting:
        """The waits in each interval, for `warps` [R] resident warps on each design point [R]."""
        row = self._variant
        if row.noc in (DIVERGENT, SATURATED):
            behind = mdm_queues(profile, design, warps, saturation=row.noc == SATURATED)
        else:
            behind = gpumech_queues(profile, design, warps, noc=row.noc == MD1, dram=row.dram == MD1)
        if row.mshr == BATCHES:
            return mdm_mshrs(profile, design, warps, behind)
        return gpumech_mshrs(profile, design, warps, behind, queued=row.mshr == EXPECTED_QUEUED)

    def contention(self, profile: IntervalProfile, design: Design, warps: Floats) -> dict[str, Floats]:
        """See `IntervalModel.contention`."""
        return {} if self._variant.mshr == NO else self.waiting(profile, design, warps).by_component()

    def remarks(self, profile: IntervalProfile, gpu: GpuSpec) -> dict[str, Any]:
        """`l1_miss_latency`: where a mean L1 read miss spends its cycles (MDM, Fig. 3); nothing without read misses."""
        waves = residency(profile, Design.of(gpu))
        weight = profile.read_misses * (waves.times * waves.warps)[:, None] if self._variant.mshr != NO else np.zeros(1)
        if not weight.any():
            return {}
        waiting = self.waiting(profile, waves.design, waves.warps)
        requests = np.maximum(queues.core_requests(profile.read_misses, waves.warps[:, None]), waiting.registers)
        parts = {
            "mshr": queues.expected_queueing_delay(requests, waiting.registers, waiting.miss_cycles),
            "noc_queue": waiting.queues.noc,
            "l2": float(gpu.l2.latency_cycles),
            "dram_queue": waiting.queues.dram,
            "dram": profile.llc_miss_ratio * gpu.dram.latency_cycles,
        }
        return {"l1_miss_latency": {name: float((weight * cycles).sum() / weight.sum()) for name, cycles in parts.items()}}


# -- The equation of each component (`About.by_component`), by the model of the wait; W and sums as in `interval_model`.

_LATENCY = "L2 latency + LLC miss ratio x DRAM latency"
_VISIBLE = "; where issue is the bound, only the part that exceeds it"


def _expected(latency: str) -> str:
    rounds = "rounds the mean of ceil(j / MSHRs) over the SM's read misses j = 1, 2, ..."
    return f"GPUMech eqs. 18-20: sum of memory instructions x M x (rounds - 1), {rounds}, M = {latency}{_VISIBLE}"


def _batches(equations: str) -> str:
    return (
        f"{equations}: sum of (ceil(read misses x W / MSHRs) - 1) x M, M = {_LATENCY} + both queues; "
        f"MSHRs, or the capacity of the NoC's queue where that is smaller{_VISIBLE}"
    )


def _md1(line: str, level: str, requests: str) -> str:
    queue = "GPUMech eqs. 21-23: sum of min(r s / (2 (1 - r)), s x requests / 2)"
    service = f"s = clock x {line} line / {level} bandwidth"
    load = f"requests = ({requests}) x W x SMs, r = s x requests / (instructions + stalls)"
    return f"{queue}, {service}, {load}{_VISIBLE}"


def _mdm(equations: str, service: str, condition: str) -> str:
    misses = "(min(read misses x W, MSHRs) + write misses x W)"
    return f"{equations}: sum of {misses} x SMs x s, s = {service}; in full {condition}, else by half{_VISIBLE}"


_NOC_SERVICE, _DRAM_SERVICE = "clock x L1 line / NoC bandwidth", "LLC miss ratio x clock x L2 line / DRAM bandwidth"
_IF_DIVERGENT = "where the interval is divergent"
_IF_SATURATED = "where the interval is divergent (eq. 2) and the NoC saturated (eq. 10)"
# by the model of the MSHRs and of the NoC's queue, since the letter numbers the equations of the batches otherwise
_MSHR = {
    (NO, NO): "",
    (EXPECTED, NO): _expected(_LATENCY),
    (EXPECTED_QUEUED, MD1): _expected(f"{_LATENCY} + both queues"),
    (EXPECTED_QUEUED, SATURATED): _expected(f"{_LATENCY} + both queues"),
    (BATCHES, MD1): _batches("MDM eqs. 4-6"),
    (BATCHES, SATURATED): _batches("MDM eqs. 4-6"),
    (BATCHES, DIVERGENT): _batches("CAL 2019, eqs. 6-8"),
}
_NOC = {
    NO: "",
    MD1: _md1("L1", "NoC", "read + write misses"),
    DIVERGENT: _mdm("CAL 2019, eqs. 2, 4 and 5", _NOC_SERVICE, _IF_DIVERGENT),
    SATURATED: _mdm("MDM eqs. 3, 7, 9 and 10", _NOC_SERVICE, _IF_SATURATED),
}
_DRAM = {
    NO: "",
    MD1: _md1("L2", "DRAM", "DRAM reads + writes"),
    DIVERGENT: _mdm("CAL 2019, eqs. 3-5", _DRAM_SERVICE, _IF_DIVERGENT),
    SATURATED: _mdm("MDM eqs. 3 and 8-10", _DRAM_SERVICE, _IF_SATURATED),
}

# -- The table.

_GPUMECH = "Huang, Lee, Kim and Lee: GPUMech, MICRO 2014"
_MDM = "Wang, Jahre, Almutaz Adileh and Eeckhout: MDM, MICRO 2020"
_GPUMECH_CITED = (
    "J.-C. Huang, J. H. Lee, H. Kim and H.-H. S. Lee. GPUMech: GPU performance modeling technique based on interval analysis. "
    "MICRO 2014."
)
_MDM_CITED = "L. Wang, M. Jahre, A. Adileh and L. Eeckhout. MDM: the GPU memory divergence model. MICRO 2020."
_LETTER_CITED = (
    "L. Wang, M. Jahre, A. Adileh, Z. Wang and L. Eeckhout. Modeling emerging memory-divergent GPU applications. "
    "IEEE Computer Architecture Letters, 2019."
)
_INTERVALS = "GPUMech eqs. 4-16: intervals and multithreading"
_TWO_MD1 = "GPUMech eqs. 21-23: M/D/1 queues at DRAM and at the NoC"
_EVENLY = "requests are spread evenly over an interval and over all channels"
_UNLIMITED = "functional units, shared-memory banks and barriers are never a limit"
_IN_BATCHES = "the misses of an SM pass its MSHRs in whole batches, one after the other"
_FREE = "barriers and bank conflicts cost nothing"
_OVERLAP = "in hardware, batches overlap, and NoC and DRAM work in parallel: cycles of divergent loads are too high"
_FEW_SLICES = "stores whose lines map to few L2 slices: cycles are too low"
_ALL_QUEUE = "divergent loads: each request queues behind all requests of its interval, even without an MSHR: far too many cycles"

VARIANTS = (
    Variant(
        "mt", "Multithreading alone, round-robin or greedy-then-oldest", NO, NO, NO, f"{_GPUMECH}, eqs. 4-16",
        "Huang et al., MICRO 2014, eqs. 7-16 (MT in Table II), for the GPU's scheduling policy (`sm.policy` lrr or gto). If no "
        "requests leave the SM, every model from `mt-mshr` to `mdm` equals this one.",
        equations=("GPUMech eq. 4: intervals of the representative warp", "GPUMech eqs. 7-11: round-robin",
                   "GPUMech eqs. 7-9 and 12-16: greedy-then-oldest"),
        assumptions=("the intervals of the warps interleave at random", "no request waits for another"),
        fails=("memory-bound kernels: neither MSHRs nor bandwidth are a limit",),
        citation=_GPUMECH_CITED,
    ),
    Variant(
        "mt-mshr", "Multithreading and MSHRs", EXPECTED, NO, NO, f"{_GPUMECH}, eqs. 4-20",
        "Huang et al., MICRO 2014, eqs. 7-20: MT_MSHR in Table II, which is GPUMech without its DRAM queue.",
        equations=(f"{_INTERVALS}, as in mt", "GPUMech eqs. 18-20: expected delay for a free MSHR"),
        assumptions=("all requests of an interval are issued at once", "NoC and DRAM carry any number of requests"),
        fails=("kernels bound by bandwidth, in particular by stores, which need no MSHR",),
        citation=_GPUMECH_CITED,
    ),
    Variant(
        "gpumech", "GPUMech: interval analysis with MSHR and DRAM queues", EXPECTED, NO, MD1, f"{_GPUMECH}, eqs. 4-23",
        "Huang et al., MICRO 2014, eqs. 7-23, with the errors in eqs. 15 and 16 corrected. Read misses occupy MSHRs. The load of "
        "the DRAM queue is all traffic that reaches DRAM, including writes. The mean miss latency of eq. 19 is the latency of an "
        "LLC access: the L2 latency, plus the DRAM latency times the LLC miss ratio.",
        equations=("eq. 4: intervals of the representative warp", "eqs. 7-16: multithreading, round-robin or greedy-then-oldest",
                   "eqs. 18-20: expected delay for a free MSHR",
                   "eqs. 21-23: M/D/1 queue at DRAM, at most half the service time of all requests"),
        assumptions=(_EVENLY, _UNLIMITED),
        fails=("divergent loads: there is no NoC, and a request waits for MSHRs at the uncontended latency, so cycles are too low",
               _FREE),
        citation=_GPUMECH_CITED,
    ),
    Variant(
        "gpumech-plus", "GPUMech+: GPUMech with a NoC queue", EXPECTED_QUEUED, MD1, MD1, f"{_MDM}, section IV, Table V",
        "Wang et al., MICRO 2020, section IV and Table V: GPUMech with the smallest change that models the NoC. The NoC has "
        "the queue of eqs. 21-23, too, loaded by all L1 misses. Both queueing delays add to the miss latency of eq. 19.",
        equations=(_INTERVALS, _TWO_MD1, "GPUMech eqs. 18-20, the miss latency with both queues"),
        assumptions=(_EVENLY, "a memory instruction waits for an MSHR as long as a mean request", _UNLIMITED),
        fails=(_ALL_QUEUE, _FREE),
        citation=_MDM_CITED,
    ),
    Variant(
        "mdm-mshr", "MDM-MSHR: GPUMech+ with MDM's batches", BATCHES, MD1, MD1, f"{_MDM}, Table V",
        "Wang et al., MICRO 2020, Table V: GPUMech+ with the batches of section III-C1. It shows the effect of the batches alone.",
        equations=(_INTERVALS, _TWO_MD1, "MDM eqs. 2 and 4-6: batches through the MSHRs"),
        assumptions=(_IN_BATCHES, _EVENLY, _UNLIMITED),
        fails=(_ALL_QUEUE, "each batch then waits in these queues: even more cycles than gpumech-plus", _FREE),
        citation=_MDM_CITED,
    ),
    Variant(
        "mdm-queue", "MDM-Queue: GPUMech+ with MDM's queues", EXPECTED_QUEUED, SATURATED, SATURATED, f"{_MDM}, Table V",
        "Wang et al., MICRO 2020, Table V: GPUMech+ with the queues of section III-C2. It shows the effect of the queues alone.",
        equations=(_INTERVALS, "MDM eqs. 2-3 and 7-10: queues of NoC and DRAM, saturation of the NoC",
                   "GPUMech eqs. 18-20, the miss latency with both queues"),
        assumptions=("a request queues behind the misses of all SMs at the NoC and at DRAM: behind all of them if the interval is "
                     "divergent and the NoC saturated, else behind half", _UNLIMITED),
        fails=("divergent loads: MSHRs delay a mean request, not whole batches: about half of MDM's delay", _FEW_SLICES, _FREE),
        citation=_MDM_CITED,
    ),
    Variant(
        "mdm", "MDM: GPU memory divergence model", BATCHES, SATURATED, SATURATED, f"{_MDM}, eqs. 1-10",
        "Wang et al., MICRO 2020, eqs. 1-10; without misses it is GPUMech's multithreading model (C_i of eq. 1). Bandwidths are "
        "totals over all channels, so service latencies are not divided by the number of channels again.",
        equations=("GPUMech eqs. 4-16: intervals and multithreading, C_i of eq. 1",
                   "eqs. 2-3: memory-divergent intervals, misses in flight",
                   "eqs. 4-6: miss latency, its stall under contention, batches through the MSHRs",
                   "eqs. 7-10: service latencies and queues of NoC and DRAM, saturation of the NoC"),
        assumptions=(_IN_BATCHES, "every batch queues behind the misses of all SMs at the NoC and at DRAM: behind all of them if "
                     "the NoC is saturated, else behind half", _UNLIMITED),
        fails=(_OVERLAP, _FEW_SLICES, _FREE),
        citation=_MDM_CITED,
    ),
    Variant(
        "mdm-letter", "MDM as first published: no saturation condition", BATCHES, DIVERGENT, DIVERGENT,
        "Wang, Jahre, Almutaz Adileh, Wang and Eeckhout: IEEE CAL 2019, eqs. 1-8",
        "Wang et al., IEEE CAL 2019, eqs. 1-8: the first version of MDM, a letter. In a divergent interval a request waits for the "
        "whole queue, whether or not the NoC is saturated.",
        equations=("GPUMech eqs. 4-16: intervals and multithreading, Ci of eq. 1", "eqs. 2-3: service latencies of NoC and DRAM",
                   "eqs. 4-5: misses in flight, queues; in full in divergent intervals",
                   "eqs. 6-8: miss latency, its stall under contention, batches through the MSHRs"),
        assumptions=(_IN_BATCHES, "divergence saturates the memory system", _UNLIMITED),
        fails=("divergent loads that the LLC serves quickly: part of their queueing is hidden, and cycles are too high",
               _OVERLAP, _FREE),
        citation=_LETTER_CITED,
    ),
)  # fmt: skip

for _variant in VARIANTS:
    MODELS.add(_variant.name, GpumechMdm(_variant))

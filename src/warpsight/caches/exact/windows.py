"""What is seen of a stretch of blocks while the caches are simulated: how far blocks have got apart, and the counts of a window."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.records import Memory
from warpsight.caches.exact.l2 import Traffic, traffic_of
from warpsight.caches.exact.simulate import counts_of
from warpsight.caches.exact.state import NEVER
from warpsight.caches.miss_profile import COUNTS, SHARES

_BATCH, _LEAST_BATCHES = 1 / 16, 4  # of the first wave: accesses of a wave, and how many are simulated at least
_STEADY = 0.01  # by which the misses of two batches of the first wave may differ when its simulation ends
STARTED = 1 / 4  # of the first wave: so far it is simulated to see how fast blocks get out of step

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Spread:
    """How far blocks that began together have got apart, as standard deviations: of the means of SMs, relative to how far they have
    come, and of the blocks of an SM, as a part of the time of a block.
    """

    of_sms: float
    within_sm: float

    @classmethod
    def of(cls, memory: Memory, events: npt.NDArray[np.int64], warps_per_block: int) -> Spread:
        """Of the resident blocks. `events`: bytes of events of each warp."""
        numbers, slots = memory["slots"]["id"], int(memory.root["machine"]["warp_slots"])
        warps, sms, numbers = memory["warps"][numbers >= 0], np.flatnonzero(numbers >= 0) // slots, numbers[numbers >= 0]
        left = warps["event_end"] - warps["event"] + warps["event_laps"].astype(np.int64) * warps["event_period"]
        _, first, block = np.unique(numbers // warps_per_block, return_index=True, return_inverse=True)
        if not len(first):
            return cls(0.0, 0.0)
        done, whole = (np.bincount(block, weights=each) for each in (events[numbers] - left, events[numbers]))
        come, (_, sm) = done / np.maximum(whole, 1), np.unique(sms[first], return_inverse=True)
        mean = np.bincount(sm, weights=come) / np.bincount(sm)
        variance = float(((come - mean[sm]) ** 2).sum()) / max(1, len(come) - len(mean))
        return cls(float(mean.std()) / max(float(come.mean()), 1e-9), math.sqrt(variance))

    def after(self, earlier: Spread) -> Spread:
        """That at the end of a block, of this one at a quarter and an earlier one at an eighth of it: blocks of an SM go on to get
        apart as they did: not at all where they wait for each other, in proportion to time where a scheduler prefers some.
        """
        growth = min(max(self.within_sm / max(earlier.within_sm, 1e-9), 1.0), 2.0)
        return replace(self, within_sm=self.within_sm * growth ** -math.log2(STARTED))

    def begin(
        self, blocks: int, wave: int, sms: int, *, first: int, place: float
    ) -> tuple[npt.NDArray[np.float64], Places]:
        """The last share of its laps that each of the `blocks` of a stretch runs that begins with block `first` of the launch: all,
        but those that begin at once, a `wave`, around a `place` of their loops; and where these start, numbered SM by SM.

        SMs are independent of each other, and get farther apart with each wave; the blocks of one SM wait for each other's data,
        and do not. A block starts where one has ended, so they are in the order of their numbers: each is farther than those behind
        it, and one that has come to its end has made room for the last, at its beginning.
        """
        share, random = np.ones(blocks), np.random.default_rng(first)
        of_sm = self.of_sms * math.sqrt(first / wave) * random.permutation(_normal(sms))
        left = (1 - place + np.repeat(of_sm, wave // sms) + self.within_sm * random.permutation(_normal(wave))) % 1
        places = np.argsort(left, kind="stable")
        share[:wave] = np.where(left > 0, left, 1)[places]
        return share, places


def _normal(count: int) -> npt.NDArray[np.float64]:
    """So many values that are distributed normally: its quantiles."""
    return np.array([NormalDist().inv_cdf((k + 1 / 2) / count) for k in range(count)])


class Window:
    """Counts what is done while a stretch is simulated, from so many accesses on for so many, and ends its simulation then; by
    default all of it, to its end. `stopped` tells whether it ends anyway.
    """

    def __init__(self, stopped: Callable[[], bool], first: int = 0, accesses: int = NEVER) -> None:
        self._stopped, self._first, self._accesses = stopped, first, accesses
        self.memory: Any = None
        self._before, self._middle = dict[str, Any](), dict[str, Any]()
        self._turns, self._seen = list[int](), list[Traffic]()
        self._begin = 0

    def __call__(self, memory: Memory, reports: bool) -> bool:
        """As an `Observer` of a simulation."""
        self.memory = memory
        done = int(memory["counters"]["executions"].sum())
        if done >= self._first:
            if not self._before:
                self._before, self._begin = counts_of(memory), done
            elif not self._middle and done - self._begin >= self._accesses / 2:
                self._middle = counts_of(memory)
            self._turns.append(int(memory.root["turns"]))
            self._seen.append(traffic_of(memory))
        return (bool(self._before) and done - self._begin >= self._accesses) or self._stopped()

    def counts_of_halves(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The counts in the earlier and in the later half of the window; of a stretch that ends before it, all counts as both."""
        end = counts_of(self.memory)
        nothing = {name: np.zeros_like(end[name]) for name in COUNTS}
        before = self._before or nothing
        middle = self._middle or end
        earlier, later = ({name: late[name] - early[name] for name in COUNTS} for early, late in ((before, middle), (middle, end)))
        return earlier, later

    def halves(self) -> Traffic:
        """The traffic in the earlier and in the later half of the turns, int64 [2, kinds, 2]."""
        if not self._turns:
            return np.zeros((2, len(SHARES) + 1, 2), np.int64)
        middle = int(np.searchsorted(self._turns, (self._turns[0] + self._turns[-1]) / 2))
        return np.diff([self._seen[0], self._seen[middle], self._seen[-1]], axis=0)


class FromStart(Window):
    """A window from the beginning of a launch until its misses are steady: until two batches of accesses, the later one a quarter
    of a wave from the beginning or more, differ by no more than `_STEADY` in their misses in L1 and L2.
    """

    def __init__(self, stopped: Callable[[], bool], accesses: int) -> None:
        """`accesses` of the wave."""
        super().__init__(stopped)
        self._batch, self._ends = round(_BATCH * accesses), [[0, 0, 0]]

    def __call__(self, memory: Memory, reports: bool) -> bool:
        """As an `Observer` of a simulation."""
        ends = super().__call__(memory, reports)
        counters = memory["counters"]
        done = int(counters["executions"].sum())
        if done < self._ends[-1][0] + self._batch:
            return ends
        self._ends.append([done, *(int(counters[name].sum()) for name in ("l1_misses", "l2_read_misses"))])
        return ends or (len(self._ends) > _LEAST_BATCHES and self._is_steady())

    def _is_steady(self) -> bool:
        steps = np.diff(self._ends[-3:], axis=0)
        rates = steps[:, 1:] / steps[:, :1]
        return bool((np.abs(rates[1] - rates[0]) <= _STEADY * rates[0]).all())

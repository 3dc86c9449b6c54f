"""The parameters of the reuse-distance model: a cache, latencies, and the extensions that are on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.addressing.mapping import SET_INDEX_RULES
from warpsight.base.errors import SpecError, UsageError
from warpsight.gpu.spec import CacheSpec, L1Spec

ISSUES = ("access", "request")
EXTENSIONS = ("latency", "associativity", "mshr", "divergence")
UNLIMITED = 2**40
MOST_LATENCY = 10**6
MOST_SEED = 2**32 - 1
_DRAWS = 4096


@dataclass(frozen=True)
class ReuseSettings:
    """A cache and the model's parameters. Latencies count time stamps, one for each access, not cycles (HPCA 2014, section 4.2).

    `index` is a rule of `addressing.mapping`, or `bits`: then `index_bits` gives, for each bit of the set index from the lowest
    on, the bits of the line number that are XORed. A miss takes `miss_latency` + |N(0, `sigma`)|, rounded, from `seed` (section
    4.2). `mshrs` per core and `warp_mshrs` per warp (0: no limit per warp); section 5.2 measures 64 and 6 on Fermi. `clip`: a
    request for a line that is in flight comes back with the first one (section 4.2, after Table 4), else after its own latency
    (Tables 3 to 5). `issue`: `access`, all transactions of an access at one time stamp, as in the paper; or `request`, one per time
    stamp, each only when it finds a free MSHR (the rest of the access is issued again). `without`: the `EXTENSIONS` that are off.
    """

    size_bytes: int
    line_bytes: int
    ways: int
    index: str = "modulo"
    index_bits: tuple[tuple[int, ...], ...] = ()
    mshrs: int = 64
    warp_mshrs: int = 6
    hit_latency: int = 0
    miss_latency: int = 100
    sigma: float = 5.0
    seed: int = 1
    clip: bool = True
    issue: str = "access"
    without: frozenset[str] = frozenset()

    @property
    def lines(self) -> int:
        """Lines of the cache."""
        return self.size_bytes // self.line_bytes

    @property
    def sets(self) -> int:
        """Sets that the model keeps apart: 1 with associativity off."""
        return 1 if "associativity" in self.without else self.lines // self.ways

    @property
    def ways_modelled(self) -> int:
        """The lines of a stack that hit: the ways, or all lines with associativity off."""
        return self.lines if "associativity" in self.without else self.ways

    def off(self, *names: str) -> ReuseSettings:
        """The same with these extensions off too."""
        return replace(self, without=self.without | set(names))

    def check(self) -> None:
        """Raise SpecError or UsageError for what cannot be modelled."""
        _check_cache(self)
        for name in ("hit_latency", "miss_latency", "sigma"):
            value = getattr(self, name)
            if not 0 <= value <= MOST_LATENCY:
                place = f"--{name.replace('_', '-')}"
                raise UsageError(f"{value} is not a latency", place=place, remedy=f"give 0 to {MOST_LATENCY:,} time stamps")
        if not 0 <= self.seed <= MOST_SEED:
            raise UsageError(f"{self.seed} is not a seed", place="seed", remedy=f"give an integer from 0 to {MOST_SEED}")
        if self.issue not in ISSUES:
            raise UsageError(f'unknown issue "{self.issue}"', place="issue", remedy=f"use one of {', '.join(ISSUES)}")
        unknown = self.without - set(EXTENSIONS)
        if unknown:
            what = f'"{min(unknown)}" is not an extension of the model'
            raise UsageError(what, place="without", remedy=f"give some of {', '.join(EXTENSIONS)}")
        if self.mshrs < 1 or self.warp_mshrs < 0:
            what = f"{self.mshrs} MSHRs, {self.warp_mshrs} per warp: out of range"
            raise SpecError(what, place="l1.mshrs", remedy="give at least 1, and 0 or more per warp")


def _check_cache(s: ReuseSettings) -> None:
    if s.line_bytes < 1 or s.ways < 1 or s.size_bytes < 1 or s.size_bytes % (s.line_bytes * s.ways):
        what = f"{s.size_bytes:,} B is not a whole number of sets of {s.ways} ways x {s.line_bytes} B"
        raise SpecError(what, place="l1.size", remedy=f"make it a multiple of {max(1, s.line_bytes * s.ways):,} B")
    if s.index not in (*SET_INDEX_RULES, "bits"):
        raise SpecError(f'unknown set index "{s.index}"', place="l1.index", remedy=f"use one of {', '.join(SET_INDEX_RULES)}")
    sets = s.lines // s.ways
    if s.index in ("xor", "fermi", "bits") and sets & (sets - 1) and "associativity" not in s.without:
        what = f"the {s.index} set index needs a power of two of sets, not {sets}"
        raise SpecError(what, place="l1.index", remedy="use modulo, or other ways or another size")
    if s.index == "bits" and 1 << len(s.index_bits) != sets and "associativity" not in s.without:
        what = f"{len(s.index_bits)} groups of bits select one of {1 << len(s.index_bits)} sets, and the cache has {sets}"
        raise SpecError(what, place="index_bits", remedy=f"give {max(0, sets.bit_length() - 1)} groups, the lowest bit's first")


def settings_of(cache: CacheSpec) -> ReuseSettings:
    """The settings for a cache of a GPU description, its slices as one, with the model's own latencies."""
    return ReuseSettings(
        cache.size_bytes, cache.line_bytes, cache.ways, cache.index, mshrs=cache.mshrs,
        warp_mshrs=cache.warp_mshrs if isinstance(cache, L1Spec) else 0,
    )


def set_numbers(lines: npt.NDArray[Any], sets: int, index: str, bits: tuple[tuple[int, ...], ...]) -> npt.NDArray[np.int32]:
    """The set of each line number (an integer, 0 or more), int32 [n]."""
    if sets == 1:
        return np.zeros(len(lines), np.int32)
    if index == "fermi":
        folded = (lines >> 6) & 7 | (lines >> 7) & 8 | (lines >> 8) & 16
        numbers = ((lines & 63) ^ folded) & (sets - 1)
    elif index == "bits":
        numbers = np.zeros(len(lines), np.int64)
        for place, group in enumerate(bits):
            for bit in group:
                numbers ^= ((lines >> bit) & 1) << place
    else:
        # NumPy vectorises the division by one number, but not the remainder
        numbers = lines & (sets - 1) if sets & (sets - 1) == 0 else lines - lines // sets * sets
        if index == "xor":
            numbers = numbers ^ (lines // sets % sets)
    return numbers.astype(np.int32)


def spread_of(sigma: float) -> npt.NDArray[np.int64]:
    """Equally likely additions to the miss latency, int64: the half-normal distribution at 4,096 equal steps of probability."""
    return _spread(sigma).copy()


@lru_cache(maxsize=8)  # it takes longer than a run over a few thousand accesses, of which a sweep makes many
def _spread(sigma: float) -> npt.NDArray[np.int64]:
    if sigma == 0:
        return np.zeros(1, np.int64)
    normal = NormalDist(0.0, sigma)
    return np.array([round(normal.inv_cdf(0.5 + (k + 0.5) / (2 * _DRAWS))) for k in range(_DRAWS)], np.int64)

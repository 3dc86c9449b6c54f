"""The result of the reuse-distance model. The attributes are the keys of the JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class CacheResult:
    """Misses of a launch at the L1, all counts over the cores and threads modelled.

    `accesses` of single threads; `transactions` after coalescing = `hits` + `misses`; `misses` = `compulsory` + `capacity` +
    `associativity` + `latency` + `mshr`; `miss_rate` = misses / transactions (0 without transactions), and
    `miss_rate_without_latency` as hardware counters count it (HPCA 2014, section 6.1). `histogram`: transactions by reuse distance
    ("inf": none before) in the stacks that decide on a hit, one for each set, or one for the whole cache with associativity off;
    `histogram_whole_cache` in the latter. `mshr_difference` may be negative: fewer MSHRs, fewer misses. `cancelled` accesses
    were issued again. `instructions` and `source_lines`: the same classes for each. `l2` is empty unless requested.
    """

    kernel: str
    gpu: str
    accesses: int
    transactions: int
    hits: int
    misses: int
    miss_rate: float
    miss_rate_without_latency: float
    compulsory: int
    capacity: int
    associativity: int
    latency: int
    mshr: int
    mshr_difference: int
    cancelled: int
    histogram: dict[str, int]
    histogram_whole_cache: dict[str, int]
    cores: int
    blocks_per_core: int
    blocks: int
    threads: int
    settings: dict[str, Any]
    instructions: list[dict[str, Any]] = field(default_factory=list)
    source_lines: list[dict[str, Any]] = field(default_factory=list)
    l2: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    tool: str = ""

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return asdict(self)

    def curve(self, *, whole_cache: bool = True) -> list[tuple[int, float]]:
        """The cumulative curve: (lines n, share of transactions at a distance below n), where it changes; n = 0 first.

        With the stack of the whole cache it is the hit rate of a fully associative LRU cache of n lines, in this order of accesses.
        """
        counts = self.histogram_whole_cache if whole_cache else self.histogram
        total, below, points = sum(counts.values()), 0, [(0, 0.0)]
        for distance, count in sorted((int(d), n) for d, n in counts.items() if d != "inf"):
            below += count
            points.append((distance + 1, below / total))
        return points

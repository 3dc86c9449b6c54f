"""Where the cycles of an L1 miss go, by the simulator: MDM (MICRO 2020), Fig. 3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.papers.figures.base import MDM, About, Claim, Content, Figure, Number, Table
from warpsight.papers.figures.errors import both, nonempty
from warpsight.papers.results import Cast, Point, Results, Variant
from warpsight.pipeline.suites import SuiteKernel

# As the simulator and MDM's prediction call them, and what they are.
PARTS = {
    "mshr": "waiting for an MSHR",
    "noc_queue": "in the NoC's queues",
    "l2": "to the L2 and back",
    "dram_queue": "in DRAM's queue",
    "dram": "in DRAM",
}
_WAITS = ("mshr", "noc_queue", "dram_queue")
_MODEL = "mdm"
_MEANING = (
    "The paper counts the delay for an MSHR from when a request is generated. So does the simulator, for the instruction that the "
    "load-store unit has in hand: what waits for the unit behind that instruction is in none of these cycles."
)
_CLASSES = ("not memory-divergent", "memory-divergent")


@dataclass(frozen=True)
class MissLatency:
    """One kernel's mean L1 read miss: cycles by part, by the simulator and by MDM (None: no answer)."""

    member: SuiteKernel
    simulator: dict[str, float]
    model: dict[str, float] | None

    @property
    def total(self) -> float:
        """The simulator's cycles."""
        return sum(self.simulator.values())

    def share(self, parts: Sequence[str]) -> float:
        """The share of those parts, 0 to 1."""
        return sum(self.simulator[part] for part in parts) / self.total


@dataclass(frozen=True)
class Latency:
    """Stacked bars, one for each kernel that misses."""

    about: About

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(cast.by_class(), [Variant(self.about.gpu)])

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        rows = self._rows(cast, results)
        spread, others = ([row for row in rows if row.member.divergent is divergent] for divergent in (True, False))
        missing = len(cast.members) - len(rows)
        return Content(
            panels=[self._panel(name, some) for name, some in zip(_CLASSES, (others, spread), strict=True) if some],
            rows=[{"kernel": row.member.name, "class": row.member.expected_class, "holdout": row.member.holdout,
                   "simulator": row.simulator, _MODEL: row.model} for row in rows],
            tables=[_table(rows)],
            numbers=_numbers(spread, others),
            claims=_claims(spread, others),
            differences=nonempty([_farthest(rows)]),
            notes=[_MEANING, *([f"{missing} kernels have no L1 read miss, or no result, and are left out."] if missing else [])],
        )  # fmt: skip

    def _rows(self, cast: Cast, results: Results) -> list[MissLatency]:
        rows, variant = [], Variant(self.about.gpu)
        for member in cast.by_class():
            simulated = results.simulator(member.name, variant)
            if simulated is None or not sum(simulated["l1_miss_latency"].values()):
                continue
            prediction = results.prediction(member.name, variant, _MODEL)
            model = prediction.provenance["model"].get("l1_miss_latency") if prediction is not None else None
            rows.append(MissLatency(member, simulated["l1_miss_latency"], model))
        return rows

    def _panel(self, name: str, rows: Sequence[MissLatency]) -> dict[str, Any]:
        return {
            "chart": "bars",
            "title": f"A mean L1 read miss by the simulator: {name}",
            "axis": {"label": "latency", "unit": "cycles"},
            "groups": [row.member.name for row in rows],
            "series": [{"name": name, "values": [row.simulator[part] for row in rows]} for part, name in PARTS.items()],
            "stacked": True,
        }


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _numbers(spread: Sequence[MissLatency], others: Sequence[MissLatency]) -> list[Number]:
    numbers = []
    for name, rows in (("divergent", spread), ("not divergent", others)):
        numbers += [
            Number(f"{name}: latency of a miss, mean over kernels", "cycles", None, _mean([row.total for row in rows])),
            Number(f"{name}: share waiting for an MSHR", "%", None, _mean([100 * row.share(["mshr"]) for row in rows])),
            Number(f"{name}: share in queues of NoC and DRAM", "%", None,
                   _mean([100 * row.share(["noc_queue", "dram_queue"]) for row in rows])),
        ]  # fmt: skip
    return numbers


def _claims(spread: Sequence[MissLatency], others: Sequence[MissLatency]) -> list[Claim]:
    if not spread or not others:
        return []
    totals = [sum(row.total for row in rows) / len(rows) for rows in (spread, others)]
    waits, mshr = (
        [100 * sum(row.share(parts) for row in rows) / len(rows) for rows in (spread, others)] for parts in (_WAITS, ["mshr"])
    )
    return [
        Claim("Misses take longer in divergent kernels", "section III-A, Fig. 3", totals[0] > totals[1],
              f"{totals[0]:,.0f} against {totals[1]:,.0f} cycles"),
        Claim("Divergent kernels spend much of a miss (here: a quarter) waiting for an MSHR", "section III-A, Fig. 3",
              mshr[0] >= 25, f"{mshr[0]:.0f} %; the others {mshr[1]:.0f} %"),
        Claim("MSHRs and queues make much of a miss in divergent kernels, little (here: less than a quarter) in the others",
              "caption of Fig. 3", waits[0] > 50 and waits[1] < 25, f"{waits[0]:.0f} % against {waits[1]:.0f} %"),
    ]  # fmt: skip


def _table(rows: Sequence[MissLatency]) -> Table:
    columns = ["kernel", "class", "holdout", *(f"{part}, cycles" for part in PARTS), "all, cycles", f"`{_MODEL}` says, cycles"]
    lines = [
        [row.member.name, "MD" if row.member.divergent else "NMD", "yes" if row.member.holdout else "",
         *(row.simulator[part] for part in PARTS), row.total, None if row.model is None else sum(row.model.values())]
        for row in rows
    ]  # fmt: skip
    return Table("Cycles of a mean L1 read miss", columns, lines)


def _farthest(rows: Sequence[MissLatency]) -> str:
    """Where MDM's own account of a miss is farthest from the simulator's."""
    known = [(row, row.model) for row in rows if row.model is not None]
    if not known:
        return ""
    row, model = max(known, key=lambda pair: abs(sum(pair[1].values()) - pair[0].total))
    part = max(PARTS, key=lambda name: abs(model[name] - row.simulator[name]))
    return (
        f"`{_MODEL}`'s own account of a miss is farthest off on `{row.member.name}`: {sum(model.values()):,.0f} cycles against "
        f"{row.total:,.0f}, most in `{part}`, {model[part]:,.0f} against {row.simulator[part]:,.0f}."
    )


FIGURES: tuple[Figure, ...] = (
    Latency(
        About("mdm-3", "Where an L1 miss spends its cycles", MDM, "Fig. 3",
              "Latency of an L1 miss by where it is spent, for selected applications, from simulation", "mdm-pascal"),
    ),
)  # fmt: skip

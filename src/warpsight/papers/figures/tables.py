"""How common divergence is, and what models cost beside simulation: MDM (MICRO 2020), Tables I and II."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warpsight.jobs.fingerprint import SIMULATOR
from warpsight.papers.figures.base import MDM, About, Claim, Content, Figure, Number, Table
from warpsight.papers.figures.errors import both, compared, nonempty
from warpsight.papers.results import Cast, Point, Results, Variant
from warpsight.pipeline.suites import DIVERGENT, SuiteKernel

_LIMIT_DPKI = 10
_DESIGNS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Prevalence:
    """Kernels by domain and class, by the DPKI that the simulator counts (Table I)."""

    about: About

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return [Point(SIMULATOR, member.name, Variant(self.about.gpu)) for member in cast.members]

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        known: list[tuple[SuiteKernel, float, bool]] = []
        for member in cast.members:
            simulated = results.simulator(member.name, Variant(self.about.gpu))
            if simulated is not None:
                known.append((member, simulated["dpki"], simulated["class"] == DIVERGENT))
        domains = sorted({member.domain for member, _, _ in known})
        counts = {
            domain: [sum(spread == counted for m, _, spread in known if m.domain == domain) for counted in (True, False)]
            for domain in domains
        }
        many = sum(spread for _, _, spread in known)
        share = 100 * many / len(known) if known else None
        spread_dpki, others_dpki = ([dpki for _, dpki, spread in known if spread == counted] for counted in (True, False))
        mean = sum(spread_dpki) / len(spread_dpki) if spread_dpki else None
        numbers = [
            Number("share of divergent kernels", "%", 38.0, share, "section I, Table I: 21 of 56"),
            Number("mean DPKI of the divergent", "", 64.0, mean, "section I"),
            Number("largest DPKI of the others", "", 3.0, max(others_dpki, default=None), "section I"),
        ]
        misclassified = [member.name for member, _, spread in known if spread != member.divergent]
        notes = [f"Divergent: more than {_LIMIT_DPKI} divergent loads in 1,000 warp instructions (DPKI), as in the paper."]
        if misclassified:
            listed = ", ".join(misclassified)
            notes.append(f"By the simulator's count these are of another class than their manifests say: {listed}.")
        return Content(
            panels=[self._panel(counts)] if counts else [],
            rows=[{"kernel": member.name, "domain": member.domain, "dpki": dpki, "divergent": spread}
                  for member, dpki, spread in known],
            tables=[
                Table("Kernels by domain", ["domain", "divergent", "not divergent", "all"],
                      [*([domain, a, b, a + b] for domain, (a, b) in counts.items()),
                       ["all", many, len(known) - many, len(known)]]),
            ],
            numbers=numbers,
            claims=[Claim("Divergent kernels are common", "section I, Table I", 3 * many >= len(known), f"{many} of {len(known)}")]
            if known else [],
            differences=nonempty([compared(number) for number in numbers]),
            notes=[*notes, "Warpsight's suite was made to have about as many of one class as of the other; the paper counts what "
                   "is there."],
        )  # fmt: skip

    def _panel(self, counts: dict[str, list[int]]) -> dict[str, Any]:
        return {
            "chart": "bars",
            "title": "Kernels by domain and class",
            "axis": {"label": "kernels"},
            "groups": list(counts),
            "series": [
                {"name": name, "values": [each[k] for each in counts.values()]}
                for k, name in enumerate(("memory-divergent", "not memory-divergent"))
            ],
            "stacked": True,
        }


@dataclass(frozen=True)
class Cost:
    """Seconds of simulation and of models over the number of designs (Table II)."""

    about: About

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(cast.members, [Variant(self.about.gpu)])

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        seconds = {m.name: times for m in cast.members if (times := results.seconds(m.name, Variant(self.about.gpu))) is not None}
        sums = {part: sum(times[part] for times in seconds.values()) for part in ("trace", "simulation", "profile", "equations")}
        once, recurring, equations = sums["trace"], sums["profile"] + sums["equations"], sums["equations"]
        curves = {
            "simulation": [sums["simulation"] * n for n in _DESIGNS],
            "models, caches again for each design": [once + recurring * n for n in _DESIGNS],
            "models, caches once": [once + sums["profile"] + equations * n for n in _DESIGNS],
        }
        numbers = []
        if seconds:
            simulated, again, kept = curves.values()
            numbers = [
                Number("speedup of the models, 1 design", "times", 65.0, simulated[0] / again[0], "section II, Table II"),
                Number("speedup of the models, 1000 designs", "times", 6371.0, simulated[-1] / again[-1], "section II, Table II"),
                Number("speedup of the models, 1000 designs, caches once", "times", None, simulated[-1] / kept[-1]),
                Number("1 design: simulation over recurring cost", "times", 9.8 * 24 * 30, sums["simulation"] / recurring,
                       "section II, Table II: 9.8 days, 2 minutes"),
            ]  # fmt: skip
        return Content(
            panels=[self._panel(curves)] if seconds else [],
            rows=[{"kernel": name, **{f"{part}_seconds": s for part, s in times.items()}} for name, times in seconds.items()],
            tables=[self._table(curves, once, recurring)],
            numbers=numbers,
            claims=_cost_claims(curves) if seconds else [],
            differences=nonempty([compared(number) for number in numbers]),
            notes=[
                "Seconds of one core of the machine that made this page, as each kernel was computed; engines were loaded before. "
                "They change from run to run and are not to be compared between machines.",
                "One-time cost: running the kernel and keeping its trace. Recurring cost: caches, interval profile, representative "
                "warp and the equations. *Caches once* is for designs that change bandwidths, MSHRs or clocks alone.",
                "The paper's kernels run for days in GPGPU-sim. The simulator is compiled and the kernels here are small, so that "
                "running a kernel once is most of what a single design costs.",
            ],
        )

    def _panel(self, curves: dict[str, list[float]]) -> dict[str, Any]:
        return {
            "chart": "lines",
            "title": "Time to evaluate all kernels on so many designs",
            "x": {"label": "designs", "scale": "log"},
            "y": {"label": "time", "unit": "s", "scale": "log"},
            "xs": list(_DESIGNS),
            "series": [{"name": name, "values": values} for name, values in curves.items()],
        }

    def _table(self, curves: dict[str, list[float]], once: float, recurring: float) -> Table:
        simulated, again, kept = curves.values()
        lines = [
            [n, simulated[k], once, recurring * n, simulated[k] / again[k] if again[k] else None, kept[k]]
            for k, n in enumerate(_DESIGNS)
        ]
        columns = ["designs", "simulation, s", "models: one-time, s", "models: recurring, s", "times faster",
                   "models with caches once, all, s"]  # fmt: skip
        return Table("Evaluation time", columns, lines)


def _cost_claims(curves: dict[str, list[float]]) -> list[Claim]:
    simulated, again, _ = curves.values()
    return [
        Claim("Models are faster than simulation for one design", "section II, Table II", again[0] < simulated[0],
              f"{again[0]:.1f} s against {simulated[0]:.1f} s"),
        Claim("The lead grows with the number of designs", "section II, Table II",
              simulated[-1] / again[-1] > simulated[0] / again[0],
              f"{simulated[0] / again[0]:.2f} times for 1, {simulated[-1] / again[-1]:.2f} for {_DESIGNS[-1]}"),
    ]  # fmt: skip


FIGURES: tuple[Figure, ...] = (
    Prevalence(
        About("mdm-table-1", "Memory-divergent kernels by domain", MDM, "Table I",
              "Memory-divergent applications in widely used benchmark suites", "mdm-pascal"),
    ),
    Cost(
        About("mdm-table-2", "Evaluation time over the number of designs", MDM, "Table II",
              "Evaluation time of detailed simulation and of MDM over the number of configurations", "mdm-pascal"),
    ),
)  # fmt: skip

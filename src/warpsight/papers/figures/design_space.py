"""Performance over SM count and DRAM bandwidth, by simulator and models: MDM (MICRO 2020), Figs. 11 and 12."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from warpsight.papers.figures.base import MDM, About, Claim, Content, Figure, Number, Table
from warpsight.papers.figures.errors import Judged, both, judge, kernels_table, nonempty, worst
from warpsight.papers.results import Cast, Point, Results, Variant
from warpsight.pipeline.suites import SuiteKernel
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error

SMS, BANDWIDTHS = (15, 28, 40, 60, 80), (240, 480, 720, 960)
BASE, _LARGEST = (28, 480), (SMS[-1], BANDWIDTHS[-1])
_SIMULATOR = "simulator"
_MODELS = ("gpumech", "mdm", "warpsight")
Cell = tuple[int, int]
Map = dict[Cell, float]


@dataclass(frozen=True)
class DesignSpace:
    """A heat map of performance for the simulator and for each model, of the kernel called `kernel` or else another of its class.

    `original` is the application in the paper. Performance is one over cycles, in units of the simulator's at the base design.
    """

    about: About
    kernel: str
    original: str
    divergent: bool

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both([self._member(cast)], list(self._variants().values()))

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        member, variants = self._member(cast), self._variants()
        rows = judge(results, [member], list(variants.values()), _MODELS, "IPC")
        by_variant = {row.variant: row for row in rows}
        cells = {cell: by_variant[variant] for cell, variant in variants.items() if variant in by_variant}
        maps = _maps(cells)
        most = max((value for each in maps.values() for value in each.values()), default=1.0)
        return Content(
            panels=[self._panel(name, member, each, most) for name, each in maps.items()],
            rows=[{"sms": cell[0], "dram_gb_per_s": cell[1], **row.to_json(stacks=False)} for cell, row in cells.items()],
            tables=[_gains_table(maps), kernels_table([cells[BASE]] if BASE in cells else [], _MODELS)],
            numbers=_numbers(maps),
            claims=self._claims(maps),
            differences=nonempty([worst(rows, model) for model in _MODELS]),
            notes=[
                f"`{member.name}` ({member.title}) stands for the paper's {self.original}. Its grid is made for 28 SMs.",
                "The paper's text does not give the values of the axes; these are ours.",
            ],
        )

    def _member(self, cast: Cast) -> SuiteKernel:
        return cast.prefer(self.kernel, divergent=self.divergent)

    def _variants(self) -> dict[Cell, Variant]:
        variants = {}
        for bandwidth in BANDWIDTHS:
            for sms in SMS:
                changes = [f"sm_count={sms}"] if sms != BASE[0] else []
                changes += [f"dram.bandwidth={bandwidth}GB/s"] if bandwidth != BASE[1] else []
                variants[sms, bandwidth] = Variant(self.about.gpu, tuple(changes), f"{sms} SMs, {bandwidth} GB/s")
        return variants

    def _panel(self, name: str, member: SuiteKernel, values: Map, most: float) -> dict[str, Any]:
        return {
            "chart": "heat map",
            "title": f"{name}: performance of {member.name}, simulator at 28 SMs and 480 GB/s is 1",
            "x": {"label": "SMs"},
            "y": {"label": "DRAM", "unit": "GB/s"},
            "columns": [str(sms) for sms in SMS],
            "rows": [str(bandwidth) for bandwidth in reversed(BANDWIDTHS)],
            "values": [[values.get((sms, bandwidth)) for sms in SMS] for bandwidth in reversed(BANDWIDTHS)],
            "most": most,
        }

    def _claims(self, maps: Mapping[str, Map]) -> list[Claim]:
        gains = {name: _gain(each, _LARGEST) for name, each in maps.items()}
        if any(gains.get(name) is None for name in (_SIMULATOR, "gpumech", "mdm")):
            return []
        simulator, gpumech, mdm = (gains[name] or 0.0 for name in (_SIMULATOR, "gpumech", "mdm"))
        shown = f"from base to {SMS[-1]} SMs and {BANDWIDTHS[-1]} GB/s: "
        shown += f"simulator {simulator:.2f}, gpumech {gpumech:.2f}, mdm {mdm:.2f}"
        where = f"section VII, {self.about.place}"
        if self.divergent:
            return [
                Claim("GPUMech over-predicts what more SMs and bandwidth bring", where, gpumech > 1.1 * simulator, shown),
                Claim("MDM's gain is nearer to the simulated one", where, abs(mdm - simulator) < abs(gpumech - simulator), shown),
            ]
        near = all(abs(gain / simulator - 1) < 0.25 for gain in (gpumech, mdm))
        return [Claim("GPUMech and MDM both capture the trend (here: the gain within a quarter)", where, near, shown)]


def _maps(cells: Mapping[Cell, Judged]) -> dict[str, Map]:
    """Performance by cell, of the simulator and each model."""
    if BASE not in cells:
        return {}
    base = cells[BASE].reference["cycles"]
    maps: dict[str, Map] = {_SIMULATOR: {cell: base / row.reference["cycles"] for cell, row in cells.items()}}
    for model in _MODELS:
        predictions = {cell: row.predictions[model] for cell, row in cells.items()}
        maps[model] = {cell: base / prediction.cycles for cell, prediction in predictions.items() if prediction is not None}
    return maps


def _gain(values: Map, cell: Cell) -> float | None:
    """From the base design to that of `cell`."""
    return values[cell] / values[BASE] if cell in values and BASE in values else None


def _trend_error(values: Map, truth: Map) -> float | None:
    """Mean absolute error in per cent of the performance relative to each one's own base, over the other designs."""
    if BASE not in values or BASE not in truth:
        return None
    shared = [cell for cell in values if cell in truth and cell != BASE]
    errors = [relative_error(values[cell] / values[BASE], truth[cell] / truth[BASE]) for cell in shared]
    return mean_absolute_percentage_error(errors) if errors else None


def _numbers(maps: Mapping[str, Map]) -> list[Number]:
    return [
        Number(f"{model}, error of the trend, mean over designs", "%", None, _trend_error(maps[model], maps[_SIMULATOR]))
        for model in _MODELS
        if model in maps
    ]


def _gains_table(maps: Mapping[str, Map]) -> Table:
    steps: dict[str, Cell] = {
        f"{SMS[-1]} SMs": (SMS[-1], BASE[1]), f"{BANDWIDTHS[-1]} GB/s": (BASE[0], BANDWIDTHS[-1]), "both": _LARGEST
    }
    lines = [[name, *(_gain(values, cell) for values in maps.values())] for name, cell in steps.items()]
    return Table("Performance gained over each one's own base design, times", ["change", *maps], lines)


def _about(number: int, application: str, kind: str) -> About:
    shows = f"Performance of {application} over SM count and DRAM bandwidth, by simulation, GPUMech and MDM"
    return About(f"mdm-{number}", f"The design space of a kernel that is {kind}", MDM, f"Fig. {number}", shows, "mdm-pascal")


FIGURES: tuple[Figure, ...] = (
    DesignSpace(_about(11, "BT", "not memory-divergent"), "softmax_rows", "BT (B+ trees)", False),
    DesignSpace(_about(12, "CFD", "memory-divergent"), "lattice_boltzmann", "CFD", True),
)

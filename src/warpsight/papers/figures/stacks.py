"""CPI stacks over designs, beside the simulator: MDM (MICRO 2020), Fig. 14; GPUMech (MICRO 2014), Fig. 16."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warpsight.papers.figures.base import GPUMECH, MDM, About, Claim, Content, Figure, Number, Table
from warpsight.papers.figures.errors import CPI, Judged, both, judge, mape, nonempty, worst
from warpsight.papers.figures.gpumech_errors import warp_overrides
from warpsight.papers.results import Cast, Point, Results, Variant
from warpsight.pipeline.suites import SuiteKernel
from warpsight.result.prediction import COMPONENTS, with_whole

_SIMULATOR = "simulator"
Stack = Mapping[str, float]


@dataclass(frozen=True)
class Role:
    """`original` is the paper's application; `kernel` stands for it, or else another of its class."""

    original: str
    kernel: str
    divergent: bool


@dataclass(frozen=True)
class Stacks:
    """A panel for each kernel: at each design the simulator's stack and each model's, in units of the simulator's CPI at `base`.

    `steps` are designs by label; `base` is one of them.
    """

    about: About
    roles: tuple[Role, ...]
    steps: tuple[tuple[str, tuple[str, ...]], ...]
    base: str
    models: tuple[str, ...]
    what: str
    notes: tuple[str, ...] = ()

    def points(self, cast: Cast) -> list[Point]:
        """See `Figure`."""
        return both(list(self._members(cast).values()), list(self._variants().values()))

    def content(self, cast: Cast, results: Results) -> Content:
        """See `Figure`."""
        content = Content(notes=list(self.notes))
        for role, member in self._members(cast).items():
            rows = judge(results, [member], list(self._variants().values()), self.models, CPI)
            content.notes.append(f"`{member.name}` ({member.title}) stands for the paper's {role.original}.")
            base = next((row.reference["cpi"] for row in rows if row.variant.label == self.base), None)
            if base is None:
                content.notes.append(f"`{member.name}` has no result at {self.base}, by which its stacks would be scaled.")
                continue
            content.panels.append(self._panel(member, rows, base))
            content.rows += [row.to_json() for row in rows]
            content.tables.append(self._table(member, rows))
            content.numbers += [
                Number(f"{member.name}, {model}: mean error of CPI", "%", None, mape(rows, model)) for model in self.models
            ]
            content.claims += self._claims(member, rows)
            content.differences += nonempty([worst(rows, model) for model in self.models])
        return content

    def _members(self, cast: Cast) -> dict[Role, SuiteKernel]:
        return {role: cast.prefer(role.kernel, divergent=role.divergent) for role in self.roles}

    def _variants(self) -> dict[str, Variant]:
        return {label: Variant(self.about.gpu, overrides, label) for label, overrides in self.steps}

    def _panel(self, member: SuiteKernel, rows: Sequence[Judged], base: float) -> dict[str, Any]:
        bars: list[tuple[str, Stack]] = []
        for row in rows:
            bars.append((_SIMULATOR, row.reference["cpi_stack"]))
            bars += [(model, with_whole(each.cpi_stack, COMPONENTS)) for model, each in row.predictions.items() if each is not None]
        spans = [[row.variant.label, 1 + sum(each is not None for each in row.predictions.values())] for row in rows]
        return {
            "chart": "bars",
            "title": f"CPI of {member.name} over {self.what}; the simulator's at {self.base} is 1",
            "axis": {"label": "CPI, relative"},
            "groups": [name for name, _ in bars],
            "series": [
                {"name": part, "values": [stack[part] / base for _, stack in bars], "style": style}
                for style, part in enumerate(COMPONENTS)
                if any(stack[part] for _, stack in bars)
            ],
            "stacked": True,
            "spans": spans,
        }

    def _table(self, member: SuiteKernel, rows: Sequence[Judged]) -> Table:
        lines: list[list[Any]] = []
        for row in rows:
            head = [row.variant.label, row.reference["warps_per_sm"]]
            stack = row.reference["cpi_stack"]
            lines.append([*head, _SIMULATOR, row.reference["cpi"], None, *(stack[part] for part in COMPONENTS)])
            for model, prediction in row.predictions.items():
                if prediction is not None:
                    error = 100 * (row.error(model) or 0.0)
                    stack = with_whole(prediction.cpi_stack, COMPONENTS)
                    lines.append([*head, model, prediction.cpi, error, *(stack[part] for part in COMPONENTS)])
        columns = [self.what, "warps that fit an SM", "by", "CPI", "error, %", *COMPONENTS]
        return Table(f"CPI stacks of {member.name}, cycles", columns, lines)

    def _claims(self, member: SuiteKernel, rows: Sequence[Judged]) -> list[Claim]:
        if self.about.cite == GPUMECH:
            return _scaling(member, rows, f"section VII-A, {self.about.place}")
        where = f"section VII, {self.about.place}"
        pairs = [(row.error("mdm"), row.error("gpumech")) for row in rows]
        known = [(abs(mdm), abs(gpumech)) for mdm, gpumech in pairs if mdm is not None and gpumech is not None]
        stacks = [(each.cpi, each.cpi_stack) for row in rows if (each := row.predictions["mdm"]) is not None]
        shares = [sum(stack[part] for part in ("mshr", "noc", "dram")) / cpi for cpi, stack in stacks]
        return [
            Claim("MDM predicts the CPI better than GPUMech at every bandwidth", where,
                  all(mdm < gpumech for mdm, gpumech in known) if known else None,
                  f"mdm {_list(row.error('mdm') for row in rows)}; gpumech {_list(row.error('gpumech') for row in rows)}"),
            Claim("MSHRs and queues make most of MDM's CPI", where, min(shares) > 0.5 if shares else None,
                  f"{', '.join(f'{100 * share:.0f} %' for share in shares)} of it"),
        ]  # fmt: skip


def _scaling(member: SuiteKernel, rows: Sequence[Judged], where: str) -> list[Claim]:
    """GPUMech finds the number of warps at which the kernel is fastest."""
    simulator = {row.variant.label: float(row.reference["cpi"]) for row in rows}
    model = {row.variant.label: prediction.cpi for row in rows if (prediction := row.predictions["gpumech"]) is not None}
    if len(model) < 2:
        return []
    simulated, predicted = min(simulator, key=simulator.__getitem__), min(model, key=model.__getitem__)
    says = f"GPUMech predicts how {member.name} scales: the same number of warps is best"
    return [Claim(says, where, simulated == predicted, f"simulator {simulated}, gpumech {predicted}")]


def _list(errors: Any) -> str:
    return ", ".join("none" if error is None else f"{100 * error:+.0f} %" for error in errors)


def _scaled(factor: float) -> tuple[str, ...]:
    """NoC and DRAM bandwidth of MDM's Table III, both times `factor`."""
    return () if factor == 1 else (f"noc.bandwidth={1050 * factor:g}GB/s", f"dram.bandwidth={480 * factor:g}GB/s")


FIGURES: tuple[Figure, ...] = (
    Stacks(
        About("mdm-14", "CPI over NoC and DRAM bandwidth", MDM, "Fig. 14",
              "CPI of BFS over NoC and DRAM bandwidth relative to the baseline, by simulation, GPUMech and MDM",
              "mdm-pascal"),
        (Role("BFS", "bfs_frontier", True),),
        tuple((f"{factor:g}x", _scaled(factor)) for factor in (0.5, 1, 1.5, 2)), "1x", ("gpumech", "mdm"), "NoC and DRAM bandwidth",
        ("The paper's text does not give the values of the axis; these are ours. The simulator has a stack of its own.",),
    ),
    Stacks(
        About("gpumech-16", "CPI stacks over warps of an SM", GPUMECH, "Fig. 16",
              "CPI stacks of three kernels of no, medium and full divergence over warps per core, beside the simulated CPI",
              "gpumech"),
        (Role("cfd_step_factor (coalesced)", "spmv_ell_band", False),
         Role("cfd_compute_flux (some loads of up to 16 requests)", "lattice_boltzmann", True),
         Role("kmeans_invert_mapping (up to 32 requests, scattered stores)", "integral_rows", True)),
        tuple((f"{warps} warps", warp_overrides(warps)) for warps in (8, 16, 32, 48)), "8 warps", ("gpumech",), "warps of an SM",
        ("The paper's components BASE, DEP, MSHR and QUEUE are `base`, `com_data`, `mshr` and `dram` here; its L1, L2 and DRAM are "
         "together `mem_data`.",
         "In the paper MSHR makes 10.8 % and QUEUE 3.8 % of cfd_compute_flux at 8 warps; that kernel is not in the suite."),
    ),
)  # fmt: skip

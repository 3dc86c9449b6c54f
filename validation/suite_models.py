"""Errors of Warpsight's own model and the papers', relative to the simulator, on every kernel of the suite, as Markdown tables.

    python validation/suite_models.py            # prints the tables
    python validation/suite_models.py --write    # also rewrites them in validation/suite_models.md
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from marked_page import put
from warpsight.gpu.loader import load_gpu
from warpsight.pipeline.evaluate import predict_profiled, profile_trace
from warpsight.pipeline.simulation import simulate_trace
from warpsight.pipeline.suites import SuiteKernel, load_suite
from warpsight.pipeline.tracing import trace_kernel
from warpsight.result.prediction import MEMORY_CLASSES, Prediction, mean_absolute_percentage_error, relative_error, with_whole

PAGE = Path(__file__).resolve().with_suffix(".md")
COMMAND = "python validation/suite_models.py --write"
GPU = "mdm-pascal"
OWN = "warpsight"
MODELS = (OWN, "mdm", "gpumech", "mdm-queue", "bottleneck")
LARGE = 0.35
# The papers' MAPE by class, per cent: MDM, MICRO 2020, Fig. 5 (its own kernels and simulator).
PAPERS = {
    "mdm": {"all": 13.9, MEMORY_CLASSES[0]: 18.0, MEMORY_CLASSES[1]: 9.0},
    "gpumech": {"all": 162.0, MEMORY_CLASSES[0]: 298.0, MEMORY_CLASSES[1]: 9.0},
}


@dataclass(frozen=True)
class Outcome:
    """One kernel by the simulator and by every model."""

    kernel: SuiteKernel
    simulator: Prediction
    predictions: dict[str, Prediction]

    @property
    def divergent(self) -> bool:
        """Whether the simulator finds it memory-divergent."""
        return self.simulator.memory_class == MEMORY_CLASSES[0]

    def error(self, model: str) -> float:
        """Signed relative error of the model's cycles."""
        return relative_error(self.predictions[model].cycles, self.simulator.cycles)

    def widest(self, model: str) -> tuple[str, float, float]:
        """The component of the CPI stack in which model and simulator differ most, with what it is in both."""
        theirs = self.simulator.cpi_stack
        ours = with_whole(self.predictions[model].cpi_stack, theirs)
        name = max(ours, key=lambda component: abs(ours[component] - theirs[component]))
        return name, ours[name], theirs[name]


def outcomes() -> list[Outcome]:
    """Every kernel of the suite, in the suite's order."""
    gpu = load_gpu(GPU)
    found = []
    for kernel in load_suite("warpsight"):
        trace = trace_kernel(kernel.request())
        simulator = simulate_trace(trace, gpu).prediction
        answers = predict_profiled(profile_trace(trace, gpu), gpu, MODELS)
        found.append(Outcome(kernel, simulator, {answer.model: answer for answer in answers}))
    return found


def mape(rows: list[Outcome], model: str) -> float:
    """Mean absolute percentage error of the model over `rows`."""
    return mean_absolute_percentage_error([row.error(model) for row in rows])


def halves(found: list[Outcome]) -> dict[str, list[Outcome]]:
    """The half that models may be developed on, the half that is set aside, and both."""
    return {
        "development": [o for o in found if not o.kernel.holdout],
        "holdout": [o for o in found if o.kernel.holdout],
        "all": found,
    }


def tables(found: list[Outcome]) -> dict[str, str]:
    """All tables by name."""
    return {"mape": _mape_table(found), "errors": _errors(found), "large": _large(found)}


def _mape_table(found: list[Outcome]) -> str:
    parts = halves(found)
    lines = [
        f"| class | model | {' | '.join(f'{half} ({len(rows)})' for half, rows in parts.items())} | largest, all | paper |",
        "|---|---|" + "---:|" * (len(parts) + 2),
    ]
    groups = {MEMORY_CLASSES[0]: (True,), MEMORY_CLASSES[1]: (False,), "all": (True, False)}
    for title, classes in groups.items():
        chosen = {half: [o for o in rows if o.divergent in classes] for half, rows in parts.items()}
        for model in MODELS:
            cells = [f"{mape(rows, model):.1f} %" for rows in chosen.values()]
            largest = max((o.error(model) for o in chosen["all"]), key=abs)
            paper = PAPERS.get(model, {}).get(title)
            paper_text = f"{paper:g} %" if paper is not None else ""
            lines.append(f"| {title} | `{model}` | {' | '.join(cells)} | {100 * largest:+.0f} % | {paper_text} |")
    return "\n".join(lines)


def _errors(found: list[Outcome]) -> str:
    lines = [
        f"| kernel | class | half | simulator cycles | {' | '.join(f'`{model}`' for model in MODELS)} |",
        "|---|---|---|---:|" + "---:|" * len(MODELS),
    ]
    for o in sorted(found, key=lambda o: (not o.divergent, o.kernel.name)):
        cells = " | ".join(f"{100 * o.error(model):+.1f} %" for model in MODELS)
        half = "holdout" if o.kernel.holdout else "development"
        lines.append(f"| {o.kernel.name} | {'MD' if o.divergent else 'NMD'} | {half} | {o.simulator.cycles:,.0f} | {cells} |")
    return "\n".join(lines)


def _large(found: list[Outcome]) -> str:
    lines = [
        "| model | kernel | error | component | CPI, model | CPI, simulator |",
        "|---|---|---:|---|---:|---:|",
    ]
    for model in MODELS:
        for o in sorted(found, key=lambda o: -abs(o.error(model))):
            if abs(o.error(model)) > LARGE:
                name, ours, theirs = o.widest(model)
                error = f"{100 * o.error(model):+.0f} %"
                lines.append(f"| `{model}` | {o.kernel.name} | {error} | {name} | {ours:.2f} | {theirs:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Print the tables; with --write also keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"rewrite the tables in {PAGE.name}")
    write = parser.parse_args().write
    found = tables(outcomes())
    print("\n\n".join(found.values()))
    if write:
        put(PAGE, COMMAND, found)


if __name__ == "__main__":
    main()

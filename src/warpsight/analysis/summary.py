"""The summary of a prediction: its largest causes with their lines, the changes that help, and what makes the number uncertain.

`warpsight predict` shows it first. It takes about a tenth of the time of a prediction: no change and no check in it simulates the
caches again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from warpsight.analysis.advice.advise import LEAST_SHOWN, first_advice
from warpsight.analysis.advice.rule import Case, WhatIf
from warpsight.analysis.assumptions import assumptions
from warpsight.analysis.explanation import Explanation, explained, place_of, views_of
from warpsight.analysis.explanation_rows import ExplanationRow, Wait
from warpsight.analysis.report_data.resources import Need, alone, needs_of, speed_of_light
from warpsight.base.units import thousands, three_digits
from warpsight.equations import resources
from warpsight.gpu.design import Design
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.usage import without_conflicts
from warpsight.models.base import get_model
from warpsight.models.interval_model import sms_with_clusters, waves_of
from warpsight.pipeline.evaluate import ProfiledTrace
from warpsight.pipeline.provenance import running
from warpsight.result.prediction import Component, Prediction, components_of, relative_error, with_whole
from warpsight.traces.schema import KernelTrace

# A cause is a component of at least this part of the cycles; the largest one always is.
_LEAST_CAUSE, _MOST_CAUSES = 0.05, 4
# Of a cause's lines, those with at least this part of its heaviest line.
_LEAST_LINE, _MOST_LINES, _MOST_OPCODES = 0.25, 3, 2
# From here on accesses to shared memory take so many times the passes that they need without conflicts.
_CONFLICT = 1.5
# A component's shares in model and simulator differ by this part of the cycles before it is said.
_DISAGREEMENT = 0.15

Summary = dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """What the summary of a prediction and its report are both made from.

    `explanations` are by one or more of `views_of` the trace, the first of them first; `needs`, `speed` and `alone` are what the
    functions of `report_data.resources` give.
    """

    explanations: list[Explanation]
    needs: list[Need]
    speed: list[dict[str, Any]]
    alone: list[dict[str, Any]]

    @classmethod
    def of(cls, profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, views: Sequence[str]) -> Findings:
        """Those of a `prediction` that was made of the profiled trace."""
        gpu = running(gpu, prediction)
        needs = needs_of(profiled, gpu)
        explanations = explained(prediction, profiled, gpu, views)
        return cls(explanations, needs, speed_of_light(needs, gpu, prediction), alone(needs, profiled, gpu))

    @property
    def prediction(self) -> Prediction:
        """The prediction that they are about."""
        return self.explanations[0].prediction

    def by(self, profiled: ProfiledTrace, gpu: GpuSpec, views: Sequence[str]) -> Findings:
        """The same with explanations by all these views, of which only those that are not there yet are made."""
        there = {each.by: each for each in self.explanations}
        missing = [view for view in views if view not in there]
        made = explained(self.prediction, profiled, running(gpu, self.prediction), missing) if missing else []
        there |= {each.by: each for each in made}
        return replace(self, explanations=[there[view] for view in views])


def summary(
    profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, others: Sequence[Prediction] = (),
    simulated: Prediction | None = None, found: Findings | None = None, advice: dict[str, Any] | None = None,
) -> Summary:
    """The summary of a trace's `prediction` (JSON values; docs/reference/prediction.md describes the keys).

    `others` are predictions of the same launch by further models, `simulated` is the simulator's, if it was run, `found` and
    `advice` (see `advised`) what is known of the prediction already.
    """
    found = found or Findings.of(profiled, gpu, prediction, views_of(profiled.trace)[:1])
    first = found.explanations[0]
    advice = advice or advised(Case(profiled, gpu, prediction.model, prediction, first.rows))
    checked = assumptions(profiled, gpu, prediction, found.speed, found.alone, again=False)
    rows = _placed(first.rows, first.by)
    hottest = max(rows, key=lambda row: row.share, default=None)
    return {
        "place": kernel_place(profiled.trace),
        "view": first.by,
        "why": [_cause(name, profiled, gpu, prediction, rows) for name in _largest(prediction)],
        "hottest": None if hottest is None else _line(hottest, hottest.share),
        **advice,
        "violated": [check for check in checked["checks"] if check["violated"]],
        "others": [
            {"model": each.model, "cycles": each.cycles, "difference": relative_error(each.cycles, prediction.cycles)}
            for each in others
        ],
        "simulator": None if simulated is None else _simulated(prediction, simulated),
    }


def advised(case: Case) -> dict[str, Any]:
    """The keys of the summary that are advice: `advice`, changes that take little time to evaluate, and `not_tried`, the others."""
    first, prediction = first_advice(case), case.prediction
    rows = _placed(case.rows, views_of(case.trace)[0])
    lines = {_line(row, 0.0)["place"]: row for row in reversed(rows)}
    waiting = _waiting(case.profiled, rows) if first.left else {}
    return {
        "advice": [
            {**change.to_json(), "speedup": prediction.cycles / change.prediction.cycles}
            for change in sorted(first.changes, key=lambda change: change.what_if.at_most) if change.gain >= LEAST_SHOWN
        ],
        "not_tried": [
            {"title": each.title, "place": each.place, "share": _most(each, prediction, lines.get(each.place), waiting)}
            for each in first.left
        ],
    }


def _placed(rows: Sequence[ExplanationRow], by: str) -> list[ExplanationRow]:
    """Those with a place in the view `by`."""
    return [row for row in rows if row.file or by != "source"]


def kernel_place(trace: KernelTrace) -> dict[str, Any] | None:
    """The file and line where the kernel is declared; without its source text, of its first instruction; None without lines."""
    source = Path(trace.header.source).name
    own = [each for each in trace.instructions if each.file and each.file.replace("\\", "/").rpartition("/")[2] == source]
    first = next(iter(own), None)
    if first is None:
        return None
    name = re.compile(rf"\b{re.escape(re.split(r'[<(]', trace.header.kernel)[0].rpartition('::')[2])}\s*\(")
    try:
        before = Path(first.file).read_text("utf-8", errors="replace").splitlines()[: first.line]
    except (OSError, ValueError):
        before = []
    declared = next((number for number in range(len(before), 0, -1) if name.search(before[number - 1])), first.line)
    return {"file": first.file, "line": declared}


def _waiting(profiled: ProfiledTrace, rows: Sequence[ExplanationRow]) -> dict[int, float]:
    """What all lines have of `mem_data`, by the pc of the load that they wait for."""
    found: dict[int, float] = {}
    for row in rows:
        waits = _awaited(profiled, [row], memory=True)
        stalls = sum(wait.stall_cycles for wait in waits)
        for wait in waits if stalls else ():
            found[wait.pc] = found.get(wait.pc, 0.0) + row.cpi_stack.get("mem_data", 0.0) * wait.stall_cycles / stalls
    return found


def _most(change: WhatIf, prediction: Prediction, row: ExplanationRow | None, waiting: Mapping[int, float]) -> float:
    """About the most that a change can save that was not evaluated, as a part of the cycles: what its line has of the components
    that it relieves, and what other lines wait for its loads. Idle SMs shrink with the rest."""
    if row is None:
        return 0.0
    stack = prediction.cpi_stack
    relieved = sum(row.cpi_stack.get(name, 0.0) for name in change.relieves or stack if name != "mem_data")
    if not change.relieves or "mem_data" in change.relieves:
        relieved += sum(waiting.get(pc, 0.0) for pc in row.pcs)
    return change.part * relieved / max(prediction.cpi - stack.get("idle", 0.0) - stack.get("launch", 0.0), 1e-300)


# -- Why: the largest components of the stack, each with what is known of its cause.

def _largest(prediction: Prediction) -> list[str]:
    """The components that are causes, largest first."""
    stack = prediction.cpi_stack
    largest = sorted(stack, key=lambda name: -stack[name])[:_MOST_CAUSES]
    return [name for name in largest if name == largest[0] or stack[name] >= _LEAST_CAUSE * prediction.cpi]


def _cause(
    name: str, profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, rows: Sequence[ExplanationRow]
) -> dict[str, Any]:
    """One cause: its `component`, its `share` of the cycles, a `text`, its `lines` with their shares of the cycles, and the places
    of the `loads` that these wait for."""
    part = prediction.cpi_stack[name]
    heaviest = _heaviest(rows, name)
    component = components_of(prediction.to_json())[name]
    text = _idle(profiled, gpu, prediction, component) if name == "idle" else _text(component, profiled, gpu, prediction, heaviest)
    return {
        "component": name,
        "share": part / prediction.cpi,
        "text": text,
        "lines": [_line(row, row.cpi_stack[name] / prediction.cpi) for row in heaviest],
        "loads": _loads(profiled, heaviest) if name == "mem_data" else [],
    }


def _heaviest(rows: Sequence[ExplanationRow], component: str) -> list[ExplanationRow]:
    """The lines with the largest parts of a component."""
    parts = sorted(rows, key=lambda row: -row.cpi_stack.get(component, 0.0))[:_MOST_LINES]
    most = parts[0].cpi_stack.get(component, 0.0) if parts else 0.0
    return [row for row in parts if most > 0 and row.cpi_stack[component] >= _LEAST_LINE * most]


def _line(row: ExplanationRow, share: float) -> dict[str, Any]:
    """A line's place, and its share of the cycles (of one component, or of all)."""
    address = None if row.machine is None else row.machine.address
    place = place_of(row.file, row.line, row.ptx_lines[0], row.text, address)
    return {"place": place, "file": row.file, "line": row.line, "share": share}


def _text(
    component: Component, profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, lines: Sequence[ExplanationRow]
) -> str:
    """What the lines wait for, where the profile shows it; else what the component means."""
    if component.name == "com_data" and (waits := _awaited(profiled, lines, memory=False)):
        cycles: dict[str, float] = {}
        for wait in waits:
            opcode = wait.opcode.split(".")[0]
            cycles[opcode] = cycles.get(opcode, 0.0) + wait.stall_cycles
        return f"waiting for results of {' and '.join(sorted(cycles, key=lambda name: -cycles[name])[:_MOST_OPCODES])}"
    if component.name in {"banks", "com_struct"}:
        pcs, misses = [pc for row in lines for pc in row.pcs], profiled.misses
        least = int(without_conflicts(profiled.trace.instructions, misses).shared_passes[pcs].sum())
        if least and (ways := int(misses.shared_passes[pcs].sum()) / least) >= _CONFLICT:
            return f"shared memory: {ways:.3g}-way bank conflicts"
    demands = profiled.profile.demands if "demands" in get_model(prediction.model).needs else None
    if component.name == "dram" and demands is not None:
        design, without = Design.of(running(gpu, prediction)), replace(demands, dram_rows=0.0)
        if resources.dram_cycles(without, design) < resources.dram_cycles(demands, design):  # more bandwidth would not help
            return f"{component.meaning}: opening rows takes longer than the transfers"
    return component.meaning or component.bound_by


def _awaited(profiled: ProfiledTrace, lines: Sequence[ExplanationRow], *, memory: bool) -> list[Wait]:
    """The operands that lines wait for, from accesses to memory or from all other instructions, longest stall first."""
    waits = [wait for row in lines for wait in row.waits_for]
    chosen = [wait for wait in waits if (profiled.trace.instructions[wait.pc].op_class == "memory") == memory]
    return sorted(chosen, key=lambda wait: -wait.stall_cycles)


def _loads(profiled: ProfiledTrace, lines: Sequence[ExplanationRow]) -> list[dict[str, Any]]:
    """The places of the loads that lines wait for, longest stall first."""
    found: dict[str, dict[str, Any]] = {}
    for wait in _awaited(profiled, lines, memory=True):
        place = place_of(wait.file, wait.line, wait.ptx_line, wait.opcode)
        if wait.file or wait.ptx_line:
            found.setdefault(place, {"place": place, "file": wait.file, "line": wait.line})
    return list(found.values())[:_MOST_LINES]


def _idle(profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, component: Component) -> str:
    """Why SMs have no warps left: too few blocks, a last wave that does not fill them, unequal blocks or one slow warp."""
    launch, demands, sms = profiled.profile.launch, profiled.profile.demands, gpu.sm_count
    if launch is None or demands is None:
        return component.meaning
    if launch.blocks < sms:
        return f"{sms - launch.blocks} of {sms} SMs have no block"
    by_count = waves_of(launch, Design.of(gpu)).imbalance.item()
    unequal, stack = demands.work_imbalance, prediction.cpi_stack
    # the busiest SM's time over the mean, which the largest of the reasons must explain at least by half
    whole = 1 + stack["idle"] / max(prediction.cpi - stack["idle"] - stack.get("launch", 0.0), 1e-300)
    if max(by_count, unequal) - 1 < (whole - 1) / 2:
        return f"one warp takes {three_digits(demands.longest_warp)} times as long as the mean" if demands.longest_warp > 1 else (
            component.meaning
        )
    if unequal > by_count:
        return f"unequal blocks: the busiest SM has {three_digits(unequal)} times the mean work"
    used = round(sms_with_clusters(launch, Design.of(gpu)).item())
    if by_count > 1 and used < sms and launch.blocks % used == 0:
        return f"clusters of {launch.cluster_blocks} blocks leave {sms - used} of {sms} SMs without one: GPCs hold whole clusters"
    busiest = -(-launch.blocks // used)
    return f"the busiest SM runs {thousands(busiest)} blocks, the mean is {three_digits(launch.blocks / sms)}"


# -- What the simulator says.

def _simulated(prediction: Prediction, simulated: Prediction) -> dict[str, Any]:
    """The simulator's time, its difference from the prediction, and the component whose share differs most, if much."""
    stacks = (with_whole(prediction.cpi_stack, simulated.cpi_stack), simulated.cpi_stack)
    shares = [{name: part / each.cpi for name, part in stack.items()}
              for stack, each in zip(stacks, (prediction, simulated), strict=True)]  # fmt: skip
    both = [name for name in shares[0] if name in shares[1]]
    most = max(both, key=lambda name: abs(shares[0][name] - shares[1][name]))
    differs = abs(shares[0][most] - shares[1][most]) >= _DISAGREEMENT
    return {
        "cycles": simulated.cycles,
        "seconds": simulated.seconds,
        "difference": relative_error(simulated.cycles, prediction.cycles),
        "differs": {"component": most, "share": shares[0][most], "simulator_share": shares[1][most]} if differs else None,
    }

"""The input and output of an advice rule, and the registry of rules (entry-point group `warpsight.advice`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from warpsight.analysis import explanation as places
from warpsight.analysis.explanation_rows import ExplanationRow, has_machine_code, machine_word
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.base.progress import Watch
from warpsight.base.registry import Registry
from warpsight.caches.miss_profile import Counts, MissProfile
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.pipeline.evaluate import ProfiledTrace, predict_profiled, predict_trace
from warpsight.result.prediction import Prediction
from warpsight.traces.schema import InMemory, KernelTrace, StaticInstruction

T = TypeVar("T")
PROGRAMMER, ARCHITECT = "programmer", "architect"
# What the evaluation of a change makes again: a model's answer (milliseconds), the interval profile too, or the caches as well.
MODEL, PROFILE, CACHES = "model", "profile", "caches"
_KEPT_INSTRUCTIONS = 1 << 22  # warp instructions of a trace that is held in memory: tens of bytes each


@dataclass(frozen=True)
class Case:
    """A profiled trace with its `prediction` by `model`, and the explanation's `rows` by source line, or as the kernel was written
    (see `views_of`).
    """

    profiled: ProfiledTrace
    gpu: GpuSpec
    model: str
    prediction: Prediction
    rows: tuple[ExplanationRow, ...]
    watch: Watch | None = field(default=None, compare=False)
    _proposed: dict[str, tuple[WhatIf, ...]] = field(default_factory=dict, init=False, repr=False, compare=False)
    _evaluated: dict[WhatIf, Prediction | WarpsightError] = field(default_factory=dict, init=False, repr=False, compare=False)
    _found: dict[Callable[[Case], Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def proposed(self, rule: Rule) -> tuple[WhatIf, ...]:
        """What `rule` proposes for this case. It is asked once, also where what others propose depends on it."""
        if rule.name not in self._proposed:
            self._proposed[rule.name] = tuple(rule.propose(self))
        return self._proposed[rule.name]

    def evaluated(self, change: WhatIf) -> Prediction:
        """The prediction with a change that was proposed for this case; it is made once. Raises what `evaluate` raises."""
        if change not in self._evaluated:
            try:
                self._evaluated[change] = change.evaluate()
            except WarpsightError as error:
                self._evaluated[change] = error
        found = self._evaluated[change]
        if isinstance(found, WarpsightError):
            raise found
        return found

    def once(self, find: Callable[[Case], T]) -> T:
        """What `find` finds of this case. It looks once, also where several rules need it."""
        if find not in self._found:
            self._found[find] = find(self)
        found: T = self._found[find]
        return found

    @property
    def trace(self) -> KernelTrace:
        """The trace of the launch."""
        return self.profiled.trace

    def with_trace(self, trace: KernelTrace) -> Prediction:
        """For another trace: evaluates caches, profile and model again. A small one is rewritten once, and not for each of them.
        Raises UsageError for sampled waves: the blocks around them, which the caches see too, were not rewritten.
        """
        if trace.waves is not None:
            raise UsageError("other code is not predicted from sampled waves", remedy="advise on a smaller launch")
        if trace.header.recorded_instructions <= _KEPT_INSTRUCTIONS:
            trace = replace(trace, chunks=InMemory(list(trace.chunks)))
        return predict_trace(trace, self.gpu, [self.model], self.profiled.method, watch=self.watch)[0]

    def with_gpu(self, gpu: GpuSpec) -> Prediction:
        """On another GPU: evaluates occupancy, caches, profile and model again."""
        profiled = self.profiled
        return predict_trace(self.trace, gpu, [self.model], profiled.method, store=profiled.store, watch=self.watch)[0]

    def with_misses(self, misses: MissProfile, trace: KernelTrace | None = None) -> Prediction:
        """With other cache counts, and optionally another trace that is not simulated again: evaluates profile and model again."""
        return predict_profiled(self.profiled.changed(self.gpu, misses, trace), self.gpu, [self.model])[0]

    def with_profile(self, profile: IntervalProfile) -> Prediction:
        """With another interval profile: evaluates the model again."""
        return predict_profiled(replace(self.profiled, profile=profile), self.gpu, [self.model])[0]


@dataclass(frozen=True)
class WhatIf:
    """A change and how to evaluate it.

    `title` names the change, `place` where (`file:line`, a GPU key), `reason` what was measured there, `cost` what it takes,
    `owner` whether it is the programmer's or the architect's. `evaluate` returns the prediction with the change; it may raise
    WarpsightError. `setting` is the change as a GPU override (`key=value`), empty if there is none. `again` is what `evaluate`
    makes again: `MODEL`, `PROFILE` or `CACHES`. `relieves` are the components of the CPI stack that it makes smaller (none named:
    any), and `part` is the largest part of them, at its place, that it can save. `at_most`: the prediction leaves out what the
    change costs, so that its gain is a bound.
    """

    title: str
    place: str
    reason: str
    cost: str
    owner: str
    evaluate: Callable[[], Prediction]
    setting: str = ""
    again: str = CACHES
    relieves: tuple[str, ...] = ()
    part: float = 1.0
    at_most: bool = False


class Rule(Protocol):
    """A kind of change. `propose` is cheap: it evaluates nothing."""

    name: str

    def propose(self, case: Case) -> Iterable[WhatIf]:
        """The changes of this kind for this case, the most promising first."""


def heaviest_lines(case: Case, chosen: Callable[[int], bool], weight: Counts) -> list[tuple[int, ExplanationRow, list[int]]]:
    """The lines with chosen pcs, as (total weight of these pcs, row, pcs), the heaviest first."""
    lines = []
    for row in case.rows:
        pcs = [pc for pc in row.pcs if chosen(pc)]
        if pcs:
            lines.append((int(weight[pcs].sum()), row, pcs))
    return sorted(lines, key=lambda item: -item[0])


def place_of(row: ExplanationRow) -> str:
    """`file:line` without folders, or the instruction's line in a kernel without source lines, or its address in machine code."""
    address = None if row.machine is None else row.machine.address
    return places.place_of(row.file, row.line, row.ptx_lines[0], row.text, address)


def place_of_instruction(trace: KernelTrace, instruction: StaticInstruction) -> str:
    """The same for an instruction of the trace."""
    native = has_machine_code(trace) and not instruction.ptx_line
    address = machine_word(trace, instruction).address if native else None
    text = trace.extra.get("ptx", {}).get(str(instruction.pc), "")
    return places.place_of(instruction.file, instruction.line, instruction.ptx_line, text, address)


def line_name(row: ExplanationRow) -> str:
    """`line 27`, `PTX line 63`, or `SASS 0x000a0`."""
    return f"line {row.line}" if row.file else place_of(row)


# Lines that a title and a reason name; the others are counted.
NAMED = 3


def listed(rows: Sequence[ExplanationRow]) -> str:
    """`line 46`, `lines 46 and 70`, `lines 1, 2, 3 and 4 more`; names of other kinds, such as `PTX line 7`, in full."""
    shown = [line_name(row) for row in rows[:NAMED]]
    if len(shown) > 1 and all(name.startswith("line ") for name in shown):
        shown = [name.removeprefix("line ") for name in shown]
        shown[0] = f"lines {shown[0]}"
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    *first, last = [*shown, *more]
    return f"{', '.join(first)} and {last}" if first else last


# The rules of plug-ins and ours. Entry-point group `warpsight.advice`.
RULES: Registry[Rule] = Registry("rule", "warpsight.advice")

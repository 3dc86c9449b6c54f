"""Long launches from sampled waves: which blocks run, and how far the prediction can be off (docs/adr/0037-sampled-launches.md)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch, remark, stage, step
from warpsight.caches.exact.apart import WINDOW, NotApart, fills_l2, has_long_loops
from warpsight.caches.exact.waves import ScatteredReuse
from warpsight.gpu.occupancy import occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.intervals.interval_profile import IntervalProfile
from warpsight.pipeline.caches_before import CarriedL2, resolved
from warpsight.pipeline.evaluate import misses_of_waves, need_counts, profile_of_waves
from warpsight.pipeline.request import COLD, WARM, KernelRequest, Method
from warpsight.pipeline.rows import Columns, model_rows
from warpsight.pipeline.tracing import launch_of, listing, obtain_trace, run_ready, trace_launch, wants_results
from warpsight.traces.schema import KernelTrace, WaveSample
from warpsight.traces.waves import part_of

if TYPE_CHECKING:
    from warpsight.emulator.run.launch import PreparedKernel
    from warpsight.emulator.run.memory import Memory
    from warpsight.emulator.run.sampled import SampledRun
    from warpsight.pipeline.kernel_input import ReadyLaunch

autotune: Any = lazy.load("warpsight.pipeline.autotune", suppress_warning=True)
emulator: Any = lazy.load("warpsight.emulator.run.sampled", suppress_warning=True)  # compilers take long to load

DEFAULT_ACCURACY = 0.02
LEAST_INSTRUCTIONS = 1 << 25  # of warps: launches of fewer take seconds as they are
_FIRST_PARTS = 4
_MOST_SHARE = 0.5  # of the blocks, that the caches are simulated for: beyond it, running all costs little more
# Waves that blocks need at most to get out of step, where they are measured so: a judgement, from 3.4 in one launch (ADR 0037).
_IN_STEP = 4
# Of the cycles: how far the state in which waves apart begin was off at most, where their spread did not show it (ADR 0082).
_BEGINNING = 0.006
_SECOND = 8  # waves between the first and the last, from which on second differences tell how unlike they are
_LEAST_WAVE = 56  # blocks, where waves are few: blocks on four SMs stay in step for a whole launch, on 14 they do not (ADR 0067)
_MOST_FIXED = 3 / 4  # of the accuracy: what more waves do not narrow. The rest is left for their spread.
_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples, less the whole parts, are spread evenly, however many there are

Blocks = tuple[int, int]
Floats = np.ndarray[Any, np.dtype[np.float64]]


class NotSampled(Exception):
    """All blocks of a launch have to run; the text says why. `of_kernel`: it is not the launch's length, but what its blocks do."""

    of_kernel = False


def trace_to_predict(
    request: KernelRequest, gpu: GpuSpec, model: str, method: Method, accuracy: float = DEFAULT_ACCURACY, *,
    least_instructions: int | None = None, watch: Watch | None = None,
) -> KernelTrace:
    """A trace from which the prediction by `model` is as good as from the whole launch: sampled waves where the launch is long and
    its blocks are independent, else all of it.

    The half-width of the 95 % confidence interval is at most `accuracy` of the cycles. A launch of fewer than `least_instructions`
    warp instructions runs whole. Raises UsageError for an accuracy that is
    not above 0 and below 1, and as `obtain_trace`.
    """
    check_accuracy(accuracy)
    if _needs_all(request, gpu, method):
        return obtain_trace(request, gpu=gpu, watch=watch)
    ready, prepared = launch_of(request, gpu, watch)
    try:
        with step("run sampled waves"):
            return sampled_waves(ready, prepared, gpu, model, method, accuracy, least_instructions=least_instructions, watch=watch)
    except NotSampled as reason:
        remark(f"all blocks run: {reason}")
        return trace_launch(ready, prepared, watch)


def is_sampled(request: KernelRequest, gpu: GpuSpec, method: Method, watch: Watch | None = None) -> bool:
    """Whether `trace_to_predict` samples a launch, as far as its first wave shows. Raises as `obtain_trace`."""
    if _needs_all(request, gpu, method):
        return False
    ready = autotune.prepare_tuned(request, gpu, run_ready, watch)
    try:
        Plan.of(ready, gpu, apart=True)
        with Sampler(*launch_of(request, gpu, watch), watch=watch) as sampler:
            sampler.first_plan(gpu)
    except NotSampled:
        return False
    return True


def check_accuracy(accuracy: float, place: str = "accuracy") -> float:
    """The accuracy as it is. Raises UsageError, which names the `place`, for one that is not above 0 and below 1."""
    if not 0 < accuracy < 1:
        remedy = "give a share such as 0.02, or 2 %; `--exact` runs all blocks"
        raise UsageError(f"{accuracy:g} is not a share of the cycles above 0 and below 1", place=place, remedy=remedy)
    return accuracy


def sampled_waves(
    ready: ReadyLaunch, prepared: PreparedKernel, gpu: GpuSpec, model: str, method: Method, accuracy: float, *,
    least_instructions: int | None = None, memory: Memory | None = None, carried: CarriedL2 | None = None,
    watch: Watch | None = None,
) -> KernelTrace:
    """The trace of sampled waves of a launch, arguments as above. `memory` that exists and the L2 that is `carried` to this launch
    of a program stay as they are. Raises NotSampled where all blocks have to be recorded.
    """
    Plan.of(ready, gpu, apart=carried is None)  # refuses a short launch before memory is made
    with Sampler(ready, prepared, memory, watch) as sampler:
        return sampler.grown(gpu, [model], method, accuracy, least_instructions=least_instructions, carried=carried).trace


def _needs_all(request: KernelRequest, gpu: GpuSpec, method: Method) -> bool:
    """Whether the request itself asks for all blocks: for results, checks, or what only the whole launch leaves."""
    state = resolved(method.caches_before, gpu)
    asked = wants_results(request) or request.sample is not None
    return asked or request.is_trace or method.caches != "exact" or state not in (COLD, WARM)


# -- Which blocks.

@dataclass(frozen=True)
class Part:
    """A part of the launch, blocks `low` to `high`, and the first block of the wave that is measured in it. Parts have `number`s
    from 1 on, in the order in which they were made.
    """

    number: int
    low: int
    high: int
    wave: int


@dataclass(frozen=True)
class Plan:
    """Waves of `wave` blocks of a launch of `blocks`, each but the first after `before` blocks that warm the caches up.

    Behind each but the first and the last come `behind` others: blocks that start where others end share the caches with them.
    Waves that are simulated `apart` are so for a part of their time.
    """

    blocks: int
    wave: int
    before: int
    behind: int
    apart: bool
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, ready: ReadyLaunch, gpu: GpuSpec, *, apart: bool = False, least_before: int = 0) -> Plan:
        """The first plan for a launch on `gpu`, of waves that are simulated `apart` or in sequence. Raises NotSampled if the launch
        is short; waves apart suffice for a shorter one. A row of the grid warms up, unless it is too much of the launch, and
        `least_before` blocks or more.
        """
        launch, use = ready.launch, ready.registers
        shared = use.static_shared_bytes + launch.shared_bytes
        resident = occupancy(gpu, launch.threads_per_block, use.registers, shared, launch.cluster_blocks).blocks_per_sm
        wave, row = resident * gpu.sm_count, launch.grid[0]
        near, behind = (0, math.ceil(WINDOW * wave)) if apart else (wave, wave)
        for before in (max(each, least_before) for each in ((near + row, near) if row < launch.blocks else (near,))):
            plan = cls(launch.blocks, wave, before, behind, apart, ())
            low, high = wave, launch.blocks - wave - before
            if plan.simulated(_FIRST_PARTS) <= _MOST_SHARE * launch.blocks and (high - low) // _FIRST_PARTS >= plan.stretch:
                bounds = [low + (high - low) * k // _FIRST_PARTS for k in range(_FIRST_PARTS + 1)]
                return replace(plan, parts=tuple(plan._placed(k + 1, bounds[k], bounds[k + 1]) for k in range(_FIRST_PARTS)))
        raise NotSampled(f"the launch is {launch.blocks / wave:.3g} waves")

    def _placed(self, number: int, low: int, high: int, room: Blocks | None = None) -> Part:
        """A part with a wave in it, within `room`, at a place that differs from part to part: no period of the grid meets all."""
        first, end = room or (low, high)
        free = end - first - self.stretch
        if free < 0:
            raise NotSampled("its waves are too unlike for a sample of half of them")
        return Part(number, low, high, first + self.before + int(free * (number * _GOLDEN % 1)))

    @property
    def stretch(self) -> int:
        """Blocks that run in a part."""
        return self.before + self.wave + self.behind

    @property
    def executed(self) -> int:
        """Blocks that run."""
        return self.wave + len(self.parts) * self.stretch + self.before + self.wave

    def simulated(self, parts: int) -> float:
        """For so many blocks are the caches simulated, with so many parts. Executing a block costs little beside that."""
        return 2 * self.wave + self.before + parts * (WINDOW * self.wave if self.apart else self.stretch)

    def doubled(self) -> Plan:
        """Twice as many parts; the waves measured before stay. Raises NotSampled where that is too much of the launch."""
        parts = [half for number, part in enumerate(self.parts, len(self.parts) + 1) for half in self._halves(part, number)]
        plan = replace(self, parts=tuple(parts))
        if plan.simulated(len(parts)) > _MOST_SHARE * self.blocks:
            raise NotSampled("its waves are too unlike for a sample of half of them")
        return plan

    def _halves(self, part: Part, number: int) -> tuple[Part, Part]:
        middle = (part.low + part.high) // 2
        first, end = part.wave - self.before, part.wave + self.wave + self.behind
        if first + end < 2 * middle:
            return replace(part, high=middle), self._placed(number, middle, part.high, (max(middle, end), part.high))
        return self._placed(number, part.low, middle, (part.low, min(middle, first))), replace(part, low=middle)

    @property
    def waves(self) -> list[int]:
        """The first blocks of the measured waves, in order."""
        return [0, *(part.wave for part in self.parts), self.blocks - self.wave]

    @property
    def places(self) -> list[float]:
        """At which part of their loops the blocks of each stretch that is simulated apart begin: all over them, and the last one
        at their beginning.
        """
        return [0.0, *(part.number * _GOLDEN % 1 for part in self.parts), 0.0]

    @property
    def ranges(self) -> list[Blocks]:
        """The blocks that run."""
        _, *between, last = self.waves
        stretches = [(first - self.before, first + self.wave + self.behind) for first in between]
        return [(0, self.wave), *stretches, (last - self.before, self.blocks)]

    @property
    def each_stands_for(self) -> float:
        """How many blocks a measured one stands for: those between the first and the last wave decide it."""
        return (self.blocks - 2 * self.wave) / (len(self.parts) * self.wave)

    def labels(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """`WaveSample.label` of the blocks that run. Of the first and the last wave as many are measured as stand for it."""
        labels = []
        few = max(1, round(self.wave / self.each_stands_for))
        some = (2 * np.arange(few) + 1) * self.wave // (2 * few)
        for number, ((first, end), wave) in enumerate(zip(self.ranges, self.waves, strict=True), 1):
            label = np.zeros(end - first, np.int64)
            label[wave - first + (some if number in (1, len(self.ranges)) else np.arange(self.wave))] = number
            labels.append(label)
        return np.concatenate(labels)


# -- The sample grows until the interval is narrow.

@dataclass(frozen=True)
class Sampled:
    """A trace of sampled waves, which stands for the launch on one GPU, and the half-width of the 95 % confidence interval of the
    cycles, relative to them: float64 [models, designs].
    """

    trace: KernelTrace
    half_width: Floats


class Sampler:
    """Sampled waves of one launch, on one GPU after the other. Blocks that have run for one serve the others whose waves have them,
    and so do simulations of the same waves in the same caches. Used in a `with` statement.
    """

    def __init__(
        self, ready: ReadyLaunch, prepared: PreparedKernel, memory: Memory | None = None, watch: Watch | None = None
    ) -> None:
        """`memory` that exists stays as it is. Raises NotSampled for a kernel whose blocks all have to run."""
        self._ready, self._prepared, self._watch = ready, prepared, watch
        self._samples: dict[Plan, KernelTrace] = {}
        self._stretches: dict[str, dict[Any, Any]] = {}
        with _refusing():
            self._run: SampledRun = emulator.SampledRun(
                prepared, ready.launch, registers=ready.registers, max_instructions=ready.max_instructions, threads=ready.threads,
                progress=stage(watch, "running sampled waves"), options=ready.options, memory=memory,
            )

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._run.__exit__(kind, error, trace)

    def first_plan(self, gpu: GpuSpec, least_instructions: int | None = None, carried: CarriedL2 | None = None) -> Plan:
        """The plan that the sample begins with: of waves apart, if the launch's first one shows that they can be, which runs if it
        has not. Raises NotSampled for a launch of few waves, or of fewer than `least_instructions` warp instructions (None:
        `LEAST_INSTRUCTIONS`).
        """
        least = LEAST_INSTRUCTIONS if least_instructions is None else least_instructions
        apart = Plan.of(self._ready, gpu, apart=carried is None)
        with _refusing():
            self._execute(apart.ranges[:1])
        first = self._run.trace(apart.ranges[:1])
        if first.header.warp_instructions < least:
            raise NotSampled(f"the launch has fewer than {least:,} warp instructions")
        if not apart.apart or not has_long_loops(first):
            return Plan.of(self._ready, gpu)
        if apart.wave < _LEAST_WAVE or fills_l2(first, gpu):
            # Of few waves that are small or fill the L2, samples were more than 1 % off and did not show it (ADR 0067).
            Plan.of(self._ready, gpu)
        return apart

    def grown(
        self, gpu: GpuSpec, models: Sequence[str], method: Method, accuracy: float, *, least_instructions: int | None = None,
        carried: CarriedL2 | None = None, columns: Columns | None = None, count: int = 1,
    ) -> Sampled:
        """A sample with which the interval of the first of `models` is within `accuracy` on all designs: `gpu` with its model-only
        keys as in `columns`, float64 [count] by key. It is wider where half of the launch would not do, and all of it is longer
        than a launch may be. Raises NotSampled; `least_instructions` as for `first_plan`.
        """
        plan = self.first_plan(gpu, least_instructions, carried)
        with _refusing():
            return self._grown(plan, _Designs(gpu, models, method, carried, columns or {}, count), accuracy)

    def _grown(self, plan: Plan, designs: _Designs, accuracy: float) -> Sampled:
        apart: list[Sampled] = []  # not narrow enough, but of a launch whose blocks cannot all run instead
        try:
            return self._narrowed(plan, designs, accuracy, apart)
        except (NotSampled, ScatteredReuse):
            if not apart:
                raise
            return apart[0]

    def _narrowed(self, plan: Plan, designs: _Designs, accuracy: float, apart: list[Sampled]) -> Sampled:
        """As `grown`. Waves apart that are given up for one simulation are added to `apart` if the launch is too long to run."""
        while True:
            self._execute(plan.ranges)
            trace = self._measured(plan)
            try:
                with step(f"time of {len(plan.parts)} sampled waves"):
                    half_width, fixed = half_widths(trace, plan, designs, self._watch)
                refused = "blocks come to rest slowly" if _widest(fixed) > _MOST_FIXED * accuracy else ""
                if refused and self._is_too_long(trace):
                    apart.append(self._sampled(plan, trace, half_width, accuracy))
            except NotApart as reason:
                refused = reason.what
            except ScatteredReuse as reason:  # or in a pattern that is longer than a stretch
                try:
                    plan = Plan.of(self._ready, designs.gpu, apart=plan.apart, least_before=2 * max(plan.before, plan.wave))
                except NotSampled:
                    raise reason from None
                remark(f"{reason}: {plan.before:,} blocks warm up")
                continue
            if refused:
                remark(f"{refused}: all waves in one simulation")
                plan = Plan.of(self._ready, designs.gpu)
                continue
            widest = _widest(half_width)
            remark(f"{len(plan.parts)} waves between the first and the last: +-{100 * widest:.2g} %")
            if apart and widest > max(accuracy, _widest(apart[0].half_width)):
                remark("the waves that were simulated apart have the narrower interval")
                return apart[0]
            larger = self._larger(plan, trace) if widest > accuracy else None
            if larger is None:
                return self._sampled(plan, trace, half_width, accuracy)
            plan = larger

    def _sampled(self, plan: Plan, trace: KernelTrace, half_width: Floats, accuracy: float) -> Sampled:
        """The answer: the trace with what was sampled and the interval."""
        texts = listing(self._prepared, trace.instructions)
        document = _document(plan, accuracy, _widest(half_width))
        return Sampled(replace(trace, notes=self._ready.notes, extra=texts | {"sampling": document}), half_width)

    def _is_too_long(self, trace: KernelTrace) -> bool:
        """Whether all blocks together pass the instructions that a launch may have."""
        return trace.header.warp_instructions > self._ready.max_instructions

    def _larger(self, plan: Plan, trace: KernelTrace) -> Plan | None:
        """The plan with twice as many parts; None where these are too much of a launch that is also longer than one may be, or are
        themselves longer: a wide interval tells more than a run that ends at its limit. Raises NotSampled where all blocks can run
        instead.
        """
        try:
            larger = plan.doubled()
        except NotSampled:
            if not self._is_too_long(trace):
                raise
            return None
        executed = trace.header.warp_instructions * larger.executed / larger.blocks
        return larger if executed <= self._ready.max_instructions else None

    def _execute(self, ranges: Sequence[Blocks]) -> None:
        self._run.execute([each for each in ranges if each not in self._run.ranges])

    def _measured(self, plan: Plan) -> KernelTrace:
        """The trace of the measured blocks, which stand for the launch."""
        if plan not in self._samples:
            executed, labels = self._run.trace(plan.ranges), plan.labels()
            first, end = np.array(plan.ranges).T
            start = np.cumsum([0, *(end - first)[:-1]])
            sample = WaveSample(
                executed, labels, start, first, np.array(plan.places), stretches=self._stretches, threads=self._ready.threads,
                apart=plan.apart,
            )  # fmt: skip
            self._samples[plan] = replace(part_of(executed, labels > 0), waves=sample)
        return self._samples[plan]


@contextmanager
def _refusing() -> Iterator[None]:
    """What the blocks do, and makes a sample impossible, as NotSampled."""
    try:
        yield
    except (emulator.Dependent, ScatteredReuse) as reason:
        refused = NotSampled(str(reason))
        refused.of_kernel = True
        raise refused from None


# -- The interval.

def _widest(half_width: Floats) -> float:
    """By the first model, on the designs that it does not refuse."""
    return float(np.nan_to_num(half_width[0]).max())


@dataclass(frozen=True)
class _Designs:
    """Designs that a sample is evaluated on, by which models and how; as the arguments of `Sampler.grown`."""

    gpu: GpuSpec
    models: Sequence[str]
    method: Method
    carried: CarriedL2 | None = None
    columns: Columns = field(default_factory=dict)
    count: int = 1

    def cycles(self, profile: IntervalProfile) -> Floats:
        """By each model, float64 [models, designs]; NaN where it refuses a design."""
        return np.array([model_rows(profile, self.gpu, self.columns, self.count, name)["cycles"] for name in self.models])


def half_widths(trace: KernelTrace, plan: Plan, designs: _Designs, watch: Watch | None = None) -> tuple[Floats, Floats]:
    """Half of the 95 % confidence interval, relative to the cycles, and how much of it more waves do not narrow; each float64
    [models, designs].

    By the jackknife: how the prediction changes when a wave is left out, with all that its stretch of blocks tells about the
    launch. There is one wave in each part, so that the variance is that of successive differences: a trend along the launch,
    which the parts follow, is no uncertainty (Wolter, Introduction to Variance Estimation, 2007, chapter 4 and section 8.2). Of
    `_SECOND` waves and more these are second differences, which a steady trend does not widen; of fewer they would be too few.
    What the spread of the waves cannot show is added. Blocks begin in step, get out of it, and load slices and channels more evenly
    then, and find more or less in the caches: a launch has more time for that than a sample, and may change as much again as the
    sample has from its first half to its second. And of the first and the last wave few blocks are measured, which may be ill
    chosen: by no more than the prediction changes when they are left out.

    Waves that are simulated apart begin at different places of their loops. If they come to rest in the earlier half of the time in
    which they are counted, both halves together are off by half of their difference; if they differ by their places, more waves
    narrow that. They do not narrow the rest. The launch may be as its first wave, in step, for `_IN_STEP` waves, of which the
    prediction has one. Of N waves, it differs from the first by N - 1 times what each of the others adds to it. The state in which
    these waves begin is modelled, and off by `_BEGINNING`, whatever the others are: so the root of the sum of squares (Guide to the
    Expression of Uncertainty in Measurement, 5.1.2).
    """
    gpu, method, count = designs.gpu, designs.method, len(plan.parts)
    every, misses = range(1, count + 3), misses_of_waves(trace, gpu, method, watch, designs.carried)
    counts = need_counts(designs.models)

    def cycles(waves: Sequence[int], stretches: Sequence[int], half: int | None = None) -> Floats:
        return designs.cycles(profile_of_waves(trace, misses, waves, stretches, gpu, method, half, counts=counts))

    whole = cycles(every, every)
    drift = abs(cycles(every, every, 1) - cycles(every, every, 0)) / whole
    fixed = np.zeros_like(whole)
    if misses.apart:
        further = min(1.0, (_IN_STEP - 1) * plan.wave / (plan.blocks - plan.wave))
        in_step = further * abs(cycles(every[:1], every) - whole) / whole
        drift, fixed = np.hypot(drift / 2 + in_step, _BEGINNING), np.hypot(in_step, _BEGINNING)
    edges = sum(abs(cycles([each for each in every if each != edge], every) - whole) for edge in (every[0], every[-1]))
    rests = ([each for each in every if each != left_out] for left_out in every[1:-1])
    pseudo_values = np.array([count * whole - (count - 1) * cycles(rest, rest) for rest in rests])
    order = 2 if count >= _SECOND else 1
    variance = (np.diff(pseudo_values, order, axis=0) ** 2).mean(axis=0) / math.comb(2 * order, order)
    unseen = math.sqrt(max(0.0, 1 - count * plan.wave / (plan.blocks - 2 * plan.wave)))
    degrees = _degrees(count - order, order)
    by_waves = (_student(degrees) * np.sqrt(variance / count) * unseen + edges) / whole
    return by_waves + drift, fixed


def _degrees(count: int, order: int) -> float:
    """The degrees of freedom of the mean square of so many successive differences of an order, which are correlated."""
    weights = np.array([(-1) ** k * math.comb(order, k) for k in range(order + 1)])
    correlation = np.correlate(weights, weights, "full")[order + 1 :] / (weights @ weights)
    return float(count**2 / (count + 2 * sum((count - lag) * each**2 for lag, each in enumerate(correlation, 1))))


def _student(degrees: float) -> float:
    """The 97.5 % quantile of Student's t, by Cornish and Fisher's expansion: within 3 % from 2 degrees of freedom on."""
    z = 1.959964
    terms = (
        z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )  # fmt: skip
    return sum(term / degrees**power for power, term in enumerate(terms))


def _document(plan: Plan, accuracy: float, half_width: float) -> dict[str, Any]:
    return {
        "waves": len(plan.waves), "of_waves": plan.blocks / plan.wave, "executed_blocks": plan.executed, "blocks": plan.blocks,
        "measured_blocks": int((plan.labels() > 0).sum()), "confidence": 0.95, "accuracy": accuracy,
        "half_width": half_width,
    }

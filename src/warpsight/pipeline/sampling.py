"""Long launches from sampled waves: which blocks run, and how far the prediction can be off (docs/adr/0037-sampled-launches.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import lazy_loader as lazy
import numpy as np

from warpsight.base.errors import UsageError
from warpsight.base.progress import Watch, remark, stage, step
from warpsight.caches.exact.apart import WINDOW, NotApart, begins_unknown, has_long_loops
from warpsight.caches.exact.waves import ScatteredReuse
from warpsight.gpu.occupancy import occupancy
from warpsight.gpu.spec import GpuSpec
from warpsight.models.base import get_model
from warpsight.pipeline.caches_before import CarriedL2, resolved
from warpsight.pipeline.evaluate import misses_of_waves, profile_of_waves
from warpsight.pipeline.request import COLD, WARM, KernelRequest, Method
from warpsight.pipeline.tracing import launch_of, listing, obtain_trace, trace_launch, wants_results
from warpsight.traces.schema import KernelTrace, WaveSample
from warpsight.traces.waves import part_of

if TYPE_CHECKING:
    from warpsight.emulator.run.launch import PreparedKernel
    from warpsight.emulator.run.memory import Memory
    from warpsight.emulator.run.sampled import SampledRun
    from warpsight.pipeline.kernel_input import ReadyLaunch

emulator: Any = lazy.load("warpsight.emulator.run.sampled", suppress_warning=True)  # compilers take long to load

DEFAULT_ACCURACY = 0.02
LEAST_INSTRUCTIONS = 1 << 25  # of warps: launches of fewer take seconds as they are
_FIRST_PARTS = 4
_MOST_SHARE = 0.5  # of the blocks: beyond it, running all costs little more
_IN_STEP = 4  # waves that blocks need at most to get out of step, where they are measured so
_MOST_FIXED = 3 / 4  # of the accuracy: what more waves do not narrow
_MOST_ROWS = 4  # waves of a row of the grid that warms up
_GOLDEN = (math.sqrt(5) - 1) / 2

Blocks = tuple[int, int]


class NotSampled(Exception):
    """All blocks of a launch have to run; the text says why. `of_kernel`: it is not the launch's length, but what its blocks do."""

    of_kernel = False


def trace_to_predict(
    request: KernelRequest, gpu: GpuSpec, model: str, method: Method, accuracy: float = DEFAULT_ACCURACY, *,
    least_instructions: int = LEAST_INSTRUCTIONS, watch: Watch | None = None,
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


def check_accuracy(accuracy: float) -> float:
    """The accuracy as it is. Raises UsageError for one that is not above 0 and below 1."""
    if not 0 < accuracy < 1:
        remedy = "give a share such as 0.02, or 2 %; `--exact` runs all blocks"
        raise UsageError(f"{accuracy:g} is not a share of the cycles above 0 and below 1", place="accuracy", remedy=remedy)
    return accuracy


def sampled_waves(
    ready: ReadyLaunch, prepared: PreparedKernel, gpu: GpuSpec, model: str, method: Method, accuracy: float, *,
    least_instructions: int = LEAST_INSTRUCTIONS, memory: Memory | None = None, carried: CarriedL2 | None = None,
    watch: Watch | None = None,
) -> KernelTrace:
    """The trace of sampled waves of a launch, arguments as above. `memory` that exists and the L2 that is `carried` to this launch
    of a program stay as they are. Raises NotSampled where all blocks have to be recorded.
    """
    return _Sampling(ready, prepared, gpu, model, method, memory, carried).grown(accuracy, least_instructions, watch)


def _needs_all(request: KernelRequest, gpu: GpuSpec, method: Method) -> bool:
    """Whether the request itself asks for all blocks: for results, checks, or what only the whole launch leaves."""
    state = resolved(method.caches_before, gpu)
    asked = wants_results(request) or request.sample is not None
    return asked or request.is_trace or method.caches != "exact" or state not in (COLD, WARM)


# -- Which blocks.

@dataclass(frozen=True)
class Part:
    """A part of the launch, blocks `low` to `high`, and the first block of the wave that is measured in it."""

    low: int
    high: int
    wave: int


@dataclass(frozen=True)
class Plan:
    """Waves of `wave` blocks of a launch of `blocks`, each but the first after `before` blocks that warm the caches up.

    Behind each but the first and the last come `behind` others: blocks that start where others end share the caches with them.
    """

    blocks: int
    wave: int
    before: int
    behind: int
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, ready: ReadyLaunch, gpu: GpuSpec, *, apart: bool = False) -> Plan:
        """The first plan for a launch on `gpu`, of waves that are simulated `apart` or in sequence. Raises NotSampled if the launch
        is short.
        """
        launch, use = ready.launch, ready.registers
        shared = use.static_shared_bytes + launch.shared_bytes
        resident = occupancy(gpu, launch.threads_per_block, use.registers, shared, launch.cluster_blocks).blocks_per_sm
        wave, row = resident * gpu.sm_count, launch.grid[0]
        near, behind = (0, math.ceil(WINDOW * wave)) if apart else (wave, wave)
        before = near + row if row < launch.blocks and row <= _MOST_ROWS * wave else near
        plan = cls(launch.blocks, wave, before, behind, ())
        if plan.executed + _FIRST_PARTS * plan.stretch > _MOST_SHARE * launch.blocks:
            raise NotSampled(f"the launch is {launch.blocks / wave:.3g} waves")
        low, high = wave, launch.blocks - wave - before
        bounds = [low + (high - low) * k // _FIRST_PARTS for k in range(_FIRST_PARTS + 1)]
        parts = [plan._placed(bounds[k], bounds[k + 1], k) for k in range(_FIRST_PARTS)]
        return replace(plan, parts=tuple(parts))

    def _placed(self, low: int, high: int, number: int, room: Blocks | None = None) -> Part:
        """A part with a wave in it, within `room`, at a place that differs from part to part: no period of the grid meets all."""
        first, end = room or (low, high)
        free = end - first - self.stretch
        if free < 0:
            raise NotSampled("its waves are too unlike for a sample of half of them")
        return Part(low, high, first + self.before + int(free * ((number + 1) * _GOLDEN % 1)))

    @property
    def stretch(self) -> int:
        """Blocks that run in a part."""
        return self.before + self.wave + self.behind

    @property
    def executed(self) -> int:
        """Blocks that run."""
        return self.wave + len(self.parts) * self.stretch + self.before + self.wave

    def doubled(self) -> Plan:
        """Twice as many parts; the waves measured before stay. Raises NotSampled where that is too much of the launch."""
        parts = [half for k, part in enumerate(self.parts) for half in self._halves(part, k)]
        plan = replace(self, parts=tuple(parts))
        if plan.executed > _MOST_SHARE * self.blocks:
            raise NotSampled("its waves are too unlike for a sample of half of them")
        return plan

    def _halves(self, part: Part, number: int) -> tuple[Part, Part]:
        middle = (part.low + part.high) // 2
        first, end = part.wave - self.before, part.wave + self.wave + self.behind
        if first + end < 2 * middle:
            return replace(part, high=middle), self._placed(middle, part.high, number, (max(middle, end), part.high))
        return self._placed(part.low, middle, number, (part.low, min(middle, first))), replace(part, low=middle)

    @property
    def waves(self) -> list[int]:
        """The first blocks of the measured waves, in order."""
        return [0, *(part.wave for part in self.parts), self.blocks - self.wave]

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

class _Sampling:
    """Sampled waves of one launch on a GPU."""

    def __init__(
        self, ready: ReadyLaunch, prepared: PreparedKernel, gpu: GpuSpec, model: str, method: Method,
        memory: Memory | None = None, carried: CarriedL2 | None = None,
    ) -> None:
        self._ready, self._prepared, self._gpu, self._model, self._method = ready, prepared, gpu, model, method
        self._memory, self._carried = memory, carried
        self._plan = Plan.of(ready, gpu)

    def grown(self, accuracy: float, least_instructions: int, watch: Watch | None) -> KernelTrace:
        """The trace of a sample whose interval is within `accuracy`. Raises NotSampled."""
        ready = self._ready
        try:
            with emulator.SampledRun(
                self._prepared, ready.launch, registers=ready.registers, max_instructions=ready.max_instructions,
                threads=ready.threads, progress=stage(watch, "running sampled waves"), options=ready.options, memory=self._memory,
            ) as run:
                return self._grown(run, accuracy, least_instructions, watch)
        except (emulator.Dependent, ScatteredReuse) as reason:
            refused = NotSampled(str(reason))
            refused.of_kernel = True
            raise refused from None

    def _grown(self, run: SampledRun, accuracy: float, least_instructions: int, watch: Watch | None) -> KernelTrace:
        plan = self._plan
        run.execute(plan.ranges[:1])
        if run.trace().header.warp_instructions < least_instructions:
            raise NotSampled(f"the launch has fewer than {least_instructions:,} warp instructions")
        first = run.trace()
        apart = self._carried is None and has_long_loops(first) and not begins_unknown(first, self._gpu)
        if apart:
            plan = Plan.of(self._ready, self._gpu, apart=True)
        while True:
            run.execute([each for each in plan.ranges if each not in run.ranges])
            trace = _measured(run.trace(plan.ranges), plan, self._ready.threads, apart)
            try:
                with step(f"time of {len(plan.parts)} sampled waves"):
                    half_width, in_step, unrest = self._half_width(trace, plan, watch)
                refused = "blocks come to rest slowly" if in_step + unrest > _MOST_FIXED * accuracy else ""
            except NotApart as reason:
                refused = reason.what
            if refused:
                remark(f"{refused}: all waves in one simulation")
                apart, plan = False, self._plan
                continue
            remark(f"{len(plan.parts)} waves between the first and the last: +-{100 * half_width:.2g} %")
            if half_width <= accuracy:
                texts = listing(self._prepared, trace.instructions)
                return replace(trace, notes=self._ready.notes, extra=texts | {"sampling": _document(plan, half_width)})
            plan = plan.doubled()

    def _half_width(self, trace: KernelTrace, plan: Plan, watch: Watch | None) -> tuple[float, float, float]:
        """Half of the 95 % confidence interval, relative to the cycles; what of it is about blocks in step, and what about waves
        apart that may not have come to rest.

        By the jackknife: how the prediction changes when a wave is left out, with all that its stretch of blocks tells about the
        launch. There is one wave in each part, so that the variance is that of successive differences: a trend along the launch,
        which the parts follow, is no uncertainty (Wolter, Introduction to Variance Estimation, 2007, chapter 4 and section 8.2).
        What the spread of the waves cannot show is added. Blocks begin in step, get out of it, and load slices and channels
        more evenly then: a launch has more time for that than a sample, and may change as much again as the sample has from its
        first half to its second. Waves that are measured out of step are counted in a part of their time. If they come to rest
        in the earlier half of it, both halves together are off by half of their difference. The launch may be as its first wave
        for `_IN_STEP` waves. And of the first and the last wave few blocks are measured, which may be ill chosen: by no more
        than the prediction changes when they are left out.
        """
        model, count = get_model(self._model), len(plan.parts)
        every, misses = range(1, count + 3), misses_of_waves(trace, self._gpu, self._method, watch, self._carried)

        def cycles(waves: Sequence[int], stretches: Sequence[int], half: int | None = None) -> float:
            profile = profile_of_waves(trace, misses, waves, stretches, self._gpu, self._method, half)
            return model.predict(profile, self._gpu).cycles

        whole = cycles(every, every)
        drift = abs(cycles(every, every, 1) - cycles(every, every, 0)) / whole
        drift, unrest = (0.0, drift / 2) if misses.apart else (drift, 0.0)
        share = min(1.0, _IN_STEP * plan.wave / plan.blocks) if misses.apart else 0.0
        in_step = share * abs(cycles(every[:1], every) - whole) / whole
        edges = sum(abs(cycles([each for each in every if each != edge], every) - whole) for edge in (every[0], every[-1]))
        rests = ([each for each in every if each != left_out] for left_out in every[1:-1])
        pseudo_values = np.array([count * whole - (count - 1) * cycles(rest, rest) for rest in rests])
        variance = float((np.diff(pseudo_values) ** 2).mean()) / 2
        unseen = math.sqrt(max(0.0, 1 - count * plan.wave / (plan.blocks - 2 * plan.wave)))
        degrees = 2 * (count - 1) ** 2 / (3 * count - 4)
        by_waves = (_student(degrees) * math.sqrt(variance / count) * unseen + edges) / whole
        return by_waves + drift + unrest + in_step, in_step, unrest


def _student(degrees: float) -> float:
    """The 97.5 % quantile of Student's t, by Cornish and Fisher's expansion: within 3 % from 2 degrees of freedom on."""
    z = 1.959964
    terms = (
        z, (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )  # fmt: skip
    return sum(term / degrees**power for power, term in enumerate(terms))


def _measured(executed: KernelTrace, plan: Plan, threads: int, apart: bool) -> KernelTrace:
    """The trace of the measured blocks, which stand for the launch; its waves are simulated on so many threads, `apart` if they
    can be.
    """
    labels = plan.labels()
    lengths = [end - first for first, end in plan.ranges]
    sample = WaveSample(executed, labels, np.cumsum([0, *lengths[:-1]]), threads=threads, apart=apart)
    return replace(part_of(executed, labels > 0), waves=sample)


def _document(plan: Plan, half_width: float) -> dict[str, Any]:
    return {
        "waves": len(plan.waves), "of_waves": plan.blocks / plan.wave, "executed_blocks": plan.executed, "blocks": plan.blocks,
        "measured_blocks": int((plan.labels() > 0).sum()), "confidence": 0.95, "half_width": half_width,
    }

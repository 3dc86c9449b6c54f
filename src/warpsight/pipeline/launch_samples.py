"""Which launches of a program are recorded and predicted, and how long the others take.

Programs launch a handful of kernels thousands of times. Launches are of one kind that have the same kernel, grid, block, shared
memory and sizes of arrays. As a stratum in Sieve (Naderan-Tahan et al., ISPASS 2023) a kind has samples, and the time of another
launch follows from the sample with the closest number of warp instructions. Sieve scales the time by that number. But a launch of
fewer warps takes as long as before where the time of one warp bounds it. So the samples tell how much of the time follows the
number: all of it, nothing, or what lies between.

How often to sample is found while the program runs:

- A window of launches is recorded, until every kind of launch in it has come twice. If the samples from before the window foretell
  the times in it, the launches that follow are executed without recording, twice as many after each such window. If they do not,
  they were too many: windows follow each other until one is right, and half as many launches after it are not recorded.
- Launches of one kind with the same number of instructions can take different times: their mean in the latest window counts.
- A kind of launch that is new, and one with fewer or more instructions than its samples had, begins a window at once.
- After launches that were not recorded, the L2 is not as they left it. So the first launch of each kind in a window brings it into
  its state, and its own time is foretold.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from warpsight.kernels.launch import Launch
from warpsight.programs.session import ExecutedLaunch

LEAST = 16  # launches in a window
DEVIATION = 0.02  # of the time of a window, that samples may be wrong by
_RANGE = 0.1  # of the instructions, that launches may lie outside of what samples had
_SAMPLES = 8  # that are kept of a kind, those with other numbers of instructions


@dataclass(frozen=True)
class Pace:
    """How long a launch of a kernel takes, by one that was predicted: `fixed` seconds, and `seconds` for each warp instruction.

    A warp that tests an mbarrier until its phase is over executes any number of them. A kernel that does has `seconds` a block.
    """

    fixed: float
    seconds: float
    tests: bool

    @classmethod
    def of(cls, launch: ExecutedLaunch, seconds: float, fixed: float) -> Pace:
        """That of a launch that took `seconds`."""
        tests = launch.trace is not None and any(i.polls_mbarrier for i in launch.trace.instructions)
        return cls(fixed, (seconds - fixed) / max(1, cls._work(launch, tests)), tests)

    @staticmethod
    def _work(launch: ExecutedLaunch, tests: bool) -> int:
        return launch.launch.blocks if tests else launch.warp_instructions

    def after(self, earlier: Pace | None, number: int) -> Pace:
        """The mean of launches alike in a window: this is that of launch `number`, `earlier` the mean of those before."""
        if number == 1 or earlier is None:
            return self
        return replace(self, seconds=earlier.seconds + (self.seconds - earlier.seconds) / number)

    def seconds_of(self, launch: ExecutedLaunch) -> float:
        """What another launch of the kernel takes."""
        return self.fixed + self.seconds * self._work(launch, self.tests)


Paces = Mapping[str, Pace]  # by model
Samples = Mapping[int, Paces]  # by warp instructions


def _foretold(samples: Samples, launch: ExecutedLaunch, model: str) -> float | None:
    """What a launch takes, by the sample with the closest number of instructions. Each further instruction takes the slope of the
    line through the samples (least squares), but nothing at least, and its share of that sample's time at most.
    """
    known = {count: paces[model] for count, paces in samples.items() if model in paces}
    if not known:
        return None
    closest = min(known, key=lambda count: abs(count - launch.warp_instructions))
    pace = known[closest]
    if pace.tests or len(known) == 1:
        return pace.seconds_of(launch)
    mean = sum(known) / len(known)
    along = sum((count - mean) * each.seconds * count for count, each in known.items())
    slope = min(max(0.0, along / sum((count - mean) ** 2 for count in known)), pace.seconds)
    return pace.fixed + pace.seconds * closest + slope * (launch.warp_instructions - closest)


def kind_of(launch: Launch, arrays: tuple[int, ...]) -> Hashable:
    """What launches of one kind have in common; `arrays` are the sizes of what it points to."""
    return (launch.kernel, launch.grid, launch.block, launch.cluster, launch.shared_bytes, arrays)


@dataclass
class _Window:
    """Launches that are recorded one after the other. `judged` seconds of them were foretold, `wrong` by so many seconds."""

    launches: int = 0
    kinds: dict[Hashable, Samples] = field(default_factory=dict)  # with the samples from before the window
    like: dict[tuple[Hashable, int], int] = field(default_factory=dict)  # launches of a kind and a number of instructions
    judged: float = 0.0
    wrong: float = 0.0

    @property
    def full(self) -> bool:
        """Whether it can be judged."""
        return self.launches >= max(LEAST, 2 * len(self.kinds)) and self.judged > 0


class LaunchSamples:
    """The samples of the launches of one program. `every`: all are recorded.

    `checked` and `wrong`: seconds of the launches in windows after the first that was right, and by how many seconds samples were
    wrong there.
    """

    def __init__(self, every: bool) -> None:
        self.checked = self.wrong = 0.0
        self._every = every
        self._samples: dict[Hashable, dict[int, Paces]] = {}
        self._of_kernel: dict[str, Paces] = {}
        self._window, self._left, self._gap = _Window(), 0, 0
        self._longest = 0  # gap after a window that follows another, since longer ones were wrong; 0: none was

    def wants(self, kind: Hashable) -> bool:
        """Is the next launch, which is of this kind, to be recorded?"""
        if self._every:
            return True
        if kind not in self._samples:
            self._begin(gap=0)
        if self._left == 0:
            return True
        self._left -= 1
        return False

    def foretold(self, kind: Hashable, launch: ExecutedLaunch, model: str) -> float | None:
        """Its time in seconds from the sample with the closest number of instructions, or from another launch of the kernel."""
        samples = self._samples.get(kind) or {launch.warp_instructions: self._of_kernel.get(launch.kernel, {})}
        return _foretold(samples, launch, model)

    def only_warms(self, kind: Hashable) -> bool:
        """Whether the launch of this kind that is recorded now finds another L2 than the program leaves it."""
        return self._gap > 0 and kind not in self._window.kinds

    def skipped(self, kind: Hashable, launch: ExecutedLaunch) -> None:
        """A launch has not been recorded."""
        counts = self._samples.get(kind, {})
        least, most = min(counts, default=0) * (1 - _RANGE), max(counts, default=0) * (1 + _RANGE)
        if not least <= launch.warp_instructions <= most:
            self._begin(gap=0)

    def recorded(self, kind: Hashable, launch: ExecutedLaunch, paces: Paces) -> None:
        """A launch has been recorded and predicted, with `paces` of the models that could."""
        window, model = self._window, next(iter(paces), "")
        only_warms, is_first = self.only_warms(kind), kind not in window.kinds
        samples = self._samples.setdefault(kind, {})
        before = window.kinds.setdefault(kind, dict(samples)) or samples  # a new kind has none from before
        window.launches += 1
        if only_warms:
            return
        if paces:
            expected = _foretold(before, launch, model)
            if expected is not None and not is_first:
                actual = paces[model].seconds_of(launch)
                window.judged += actual
                window.wrong += abs(expected - actual)
            count = launch.warp_instructions
            window.like[kind, count] = alike = window.like.get((kind, count), 0) + 1
            earlier = samples.pop(count, {})
            # the latest is at the end
            samples[count] = {name: pace.after(earlier.get(name), alike) for name, pace in paces.items()}
            self._of_kernel[launch.kernel] = samples[count]
            if len(samples) > _SAMPLES:
                del samples[next(iter(samples))]
        if window.full:
            self._judge(window)

    def _judge(self, window: _Window) -> None:
        if self._gap > 0:
            self.checked += window.judged
            self.wrong += window.wrong
        if self._every or window.wrong > DEVIATION * window.judged:
            self._longest = max(1, self._gap // 2) if self._gap > 0 else self._longest
            self._begin(gap=0)
        else:
            self._begin(gap=2 * self._gap or self._longest or window.launches)

    def _begin(self, gap: int) -> None:
        """Begin a window after `gap` launches."""
        self._window, self._left, self._gap = _Window(), gap, gap

"""Kernels over core clock and memory speed: a study whose latencies keep their time where their clock is not the core's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warpsight.base.errors import UsageError
from warpsight.base.units import FREQUENCY, parse_quantity
from warpsight.gpu.spec import GpuSpec
from warpsight.pipeline.request import DEFAULT_METHOD, DEFAULT_MODEL, KernelRequest, Method
from warpsight.sweeps.answers.energy import PowerCurve, power_curve
from warpsight.sweeps.axes import parse_axis
from warpsight.sweeps.expressions import Expression, parse_expression
from warpsight.sweeps.study import Axis, Study, StudyKernel, check_study
from warpsight.sweeps.study_arguments import study_of_options

CORE, MEMORY = "core_clock", "dram.bandwidth"
OWN_CLOCK, CORE_CLOCK = "own", "core"
"""Whose clock the L2 and the network have."""


def dvfs_study(
    kernels: Sequence[KernelRequest | StudyKernel], gpu: GpuSpec, name: str, *, clocks: str, memory: Sequence[float] = (),
    l2_clock: str = OWN_CLOCK, models: Sequence[str] = (DEFAULT_MODEL,), method: Method = DEFAULT_METHOD, suite: str | None = None,
    settings: Sequence[str] = (),
) -> Study:
    """The study of `kernels` on `gpu`, which is the description called `name` with `settings`, over core clocks.

    `clocks` as an axis has them (`1GHz:2GHz:100MHz`); `memory` factors of the described DRAM bandwidth (none: as described). The
    latency of DRAM is the same in seconds at every core clock, and at every factor: its cells do not get faster. The L2 and the
    network have a clock of their `own`, or the `core`'s: then their cycles stay and the network's bandwidth goes with the clock.
    Raises UsageError for an invalid clock or factor, and as `study_of_options`.
    """
    if l2_clock not in (OWN_CLOCK, CORE_CLOCK):
        raise UsageError(f'unknown L2 clock "{l2_clock}"', place="l2_clock", remedy=f"give {OWN_CLOCK} or {CORE_CLOCK}")
    study = study_of_options(kernels, suite=suite, name="dvfs", gpu=name, settings=settings, models=models, method=method)
    if study.axes:
        what = f"{study.axes[0].key} has several values, and only clocks vary here"
        raise UsageError(what, place="overrides", remedy="give one value, or use `warpsight sweep`")
    axes = [parse_axis(f"{CORE}={clocks}", f"core_clock {clocks}")]
    if axes[0].continuous:
        raise UsageError("is a continuous range", place=f"core_clock {clocks}", remedy="give for example 1GHz:2GHz:100MHz")
    if memory:
        axes.append(_memory_axis(gpu, memory))
    kept = tuple(text for text in study.overrides if text.partition("=")[0] not in (CORE, MEMORY if memory else CORE))
    changed = replace(study, overrides=kept, axes=tuple(axes), derived=_derived(gpu, l2_clock, kept))
    check_study(changed)
    return changed


def _memory_axis(gpu: GpuSpec, factors: Sequence[float]) -> Axis:
    for factor in factors:
        if not 0 < factor <= 100:
            what = f"{factor:g} is not a valid factor of the memory bandwidth"
            raise UsageError(what, place="memory", remedy="give factors above 0, as 0.5,0.75,1")
    return Axis(MEMORY, tuple(gpu.dram.bandwidth_bytes_per_s * factor for factor in dict.fromkeys(factors)))


def _derived(gpu: GpuSpec, l2_clock: str, kept: Sequence[str]) -> tuple[tuple[str, Expression], ...]:
    """What follows the core clock; a key that the user set is the user's."""
    ratio = f"core_clock / {gpu.core_clock_hz!r}"
    derived = {"dram.latency": f"round({gpu.dram.latency_cycles} * {ratio})"}
    if l2_clock == OWN_CLOCK:
        derived["l2.latency"] = f"max(1, round({gpu.l2.latency_cycles} * {ratio}))"
    else:
        derived["noc.bandwidth"] = f"{gpu.noc.bandwidth_bytes_per_s!r} * {ratio}"
    overridden = {text.partition("=")[0] for text in kept}
    return tuple((key, parse_expression(text, key)) for key, text in derived.items() if key not in overridden)


def power_points(text: str) -> PowerCurve:
    """`1GHz=90W,1.4GHz=120W` as a curve. Raises UsageError for text of another form."""
    points = []
    for part in text.split(","):
        clock, _, watts = part.partition("=")
        number = watts.strip().removesuffix("W").strip()
        try:
            points.append((float(parse_quantity(clock.strip(), FREQUENCY, key="clock", place="power_curve")), float(number)))
        except ValueError:
            what = f'"{part}" is not a clock with its power'
            raise UsageError(what, place="power_curve", remedy="write for example 1GHz=90W,1.4GHz=120W") from None
    return power_curve(points, "power_curve")

"""Values of a design's keys as people write them, and axes of pictures over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.base.format import three_digits
from warpsight.base.units import BANDWIDTH, COUNT, CYCLES, FREQUENCY, SIZE, UNITS, format_quantity
from warpsight.gpu.keys import KEYS
from warpsight.report.drawing.charts import Axis

_LONGEST = 12
_METRICS = {"geomean": "geometric mean of the kernels' speeds", "total": "speed by the time of all kernels",
            "worst": "speed of the worst kernel"}  # fmt: skip
# from the largest: the first that the greatest value reaches
_SCALES = {FREQUENCY: ("GHz", "MHz", "Hz"), BANDWIDTH: ("GB/s", "MB/s", "B/s"), SIZE: ("MiB", "KiB", "B"), CYCLES: ("cycles",)}
_PREFIXES = (("", 1.0), ("m", 1e-3), ("u", 1e-6), ("n", 1e-9), ("p", 1e-12), ("f", 1e-15), ("a", 1e-18))


def key_text(key: str, value: Any) -> str:
    """The value of a key in its unit (`1.05 TB/s`, `96 KiB`, `28`): as it is where that is short, else with four digits."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    kind = KEYS[key].kind if key in KEYS else ""
    whole = float(value).is_integer()
    if value < 0 or kind not in _SCALES or not (whole or kind in (FREQUENCY, BANDWIDTH)):
        return f"{value:.0f}" if whole and abs(value) < 1e15 else three_digits(value)
    text = format_quantity(int(value) if whole and kind in (SIZE, COUNT, CYCLES) else value, kind)
    return text if len(text) <= _LONGEST or kind not in (FREQUENCY, BANDWIDTH) else format_quantity(float(f"{value:.3e}"), kind)


def keys_text(keys: dict[str, Any]) -> str:
    """All keys of a design: `sm_count=28, noc.bandwidth=1.05 TB/s`."""
    return ", ".join(f"{key}={key_text(key, value)}" for key, value in keys.items())


def metric_text(metric: str) -> str:
    """What performance means by that metric."""
    return _METRICS.get(metric, f"speed of {metric.removeprefix('kernel:')}")


def si_prefix(value: float) -> tuple[str, float]:
    """The prefix that writes a value with one to three digits before the point, and what it stands for. From 1 on there is none."""
    return next((each for each in _PREFIXES if value >= each[1]), _PREFIXES[-1])


def axis_over(key: str, values: Sequence[float]) -> tuple[Axis, list[float]]:
    """An axis for numbers of a key, in the largest unit that its greatest value reaches, and the values in that unit."""
    kind = KEYS[key].kind if key in KEYS else ""
    if kind not in _SCALES:
        return Axis(key), list(values)
    units = _SCALES[kind]
    unit = next((each for each in units if max(values) >= UNITS[kind][each]), units[-1])
    return Axis(key, unit), [value / UNITS[kind][unit] for value in values]

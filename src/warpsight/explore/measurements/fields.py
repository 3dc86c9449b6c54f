"""From the metrics of a launch, whatever tool wrote them, to its measures."""

from __future__ import annotations

from collections.abc import Mapping

from warpsight.base.errors import FormatError
from warpsight.explore.measurements.launch import Measure
from warpsight.explore.measurements.metrics import SOURCES, Quotient, Source, wanted
from warpsight.explore.measurements.notation import PERCENT, Notation, factor

_KINDS = wanted()


def is_wanted(metric: str) -> bool:
    """Whether any field is made of the metric."""
    return metric in _KINDS


def in_base_unit(metric: str, text: str, unit: str, notation: Notation, place: str) -> float | None:
    """The value of a wanted metric in the base unit of its kind; None for a unit of another kind (two metrics of one name).

    Raises FormatError for no number, a negative one, and for a unit that is none of the metric's where a name is unique.
    """
    scale = factor(unit, _KINDS[metric])
    if scale is None:
        if " " in metric:
            return None  # a details page has Memory Throughput in % and in byte/second
        what = f'{metric} has the unit "{unit}", where {_article(_KINDS[metric])} is due'
        raise FormatError(what, place=place, remedy="keep the row of units, as ncu writes it")
    value = notation.number(text, metric, place) * scale
    if value < 0:
        raise FormatError(f'{metric} is "{text}", which is negative', place=place, remedy="measure it again")
    return value


def measures_of(values: Mapping[str, float]) -> dict[str, Measure]:
    """The fields that `values` (base units, by metric) give, each from the best metric there is."""
    found: dict[str, Measure] = {}
    for name, sources in SOURCES.items():
        for source in sources:
            measure = _single(source, values) if isinstance(source, Source) else _combined(source, values)
            if measure is not None:
                found[name] = measure
                break
    if "dram_bytes" not in found and {"dram_read_bytes", "dram_write_bytes"} <= set(found):
        read, write = found["dram_read_bytes"], found["dram_write_bytes"]
        found["dram_bytes"] = Measure(read.value + write.value, f"{read.metric} + {write.metric}")
    return found


def _single(source: Source, values: Mapping[str, float]) -> Measure | None:
    return Measure(values[source.metric] * source.scale, source.metric) if source.metric in values else None


def _combined(source: Quotient, values: Mapping[str, float]) -> Measure | None:
    first, second = _single(source.first, values), _single(source.second, values)
    if first is None or second is None or not (source.times or second.value):
        return None
    if source.times:
        return Measure(first.value * second.value, f"{first.metric} x {second.metric}")
    return Measure(first.value / second.value, f"{first.metric} / {second.metric}")


def _article(kind: str) -> str:
    return "a share in %" if kind == PERCENT else f"one of {kind}"

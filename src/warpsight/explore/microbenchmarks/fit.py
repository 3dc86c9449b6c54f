"""From timings of the micro-benchmarks to keys of a GPU description: the result document, and the description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from warpsight.base.units import format_quantity
from warpsight.explore.microbenchmarks.bandwidth import bandwidths
from warpsight.explore.microbenchmarks.fitted import Answer, Fitted
from warpsight.explore.microbenchmarks.geometry import geometry
from warpsight.explore.microbenchmarks.latency import latencies
from warpsight.explore.microbenchmarks.mshrs import miss_registers
from warpsight.explore.microbenchmarks.timings import Timings
from warpsight.explore.provenance import TOOL
from warpsight.gpu.describe import resolved
from warpsight.gpu.keys import KEYS, WORD
from warpsight.gpu.spec import GpuSpec


def fit(timings: Timings, gpu: GpuSpec) -> dict[str, Any]:
    """The result document: `fitted` keys with value, goodness and the value that `gpu` has, and `refused` ones with their reason.

    `gpu` says what the timings do not: the number of SMs, the clock, the L1's line, and about how large L1 and L2 are.
    """
    levels = latencies(timings, gpu)
    l1, l2, dram = (_value(answer) for answer in levels)
    registers = miss_registers(timings, l1)
    answers: list[Answer] = [*levels, registers, *geometry(timings, gpu, l1, l2)]
    answers += bandwidths(timings, gpu, _value(registers), l2, dram)
    described = resolved(gpu)
    fitted = [
        {
            "key": answer.key,
            "value": answer.value,
            "text": _text(answer),
            "described": _described(described, answer.key),
            "timings": answer.rows,
            "deviation": answer.deviation,
            "quality": answer.quality,
        }
        for answer in answers
        if isinstance(answer, Fitted)
    ]
    refused = [{"key": answer.key, "reason": answer.reason} for answer in answers if not isinstance(answer, Fitted)]
    return {
        "tool": TOOL,
        "gpu": gpu.name,
        "timings": timings.origin,
        "device": timings.device or None,
        "rows": len(timings.rows),
        "fitted": fitted,
        "refused": refused,
    }


def description(document: dict[str, Any], like: str, name: str) -> str:
    """A GPU description in YAML that inherits from `like` and has the fitted keys, each with its source and its goodness."""
    file = Path(document["timings"]).name
    lines = ["schema: 1", f"like: {_quoted(like)}", f"name: {_quoted(name)}"]
    sections: dict[str, list[str]] = {}
    for row in document["fitted"]:
        section, _, key = row["key"].partition(".")
        sections.setdefault(section, []).append(f"  {key}: {row['text']}")
    for section, keys in sections.items():
        lines += [f"{section}:", *keys]
    lines.append("sources:")
    for row in document["fitted"]:
        source = f"calibrated: {file}; {row['timings']} timings, {row['quality']}"
        lines.append(f"  {row['key']}: {_quoted(source)}")
    return "\n".join(lines) + "\n"


def _value(answer: Answer) -> float | None:
    return float(answer.value) if isinstance(answer, Fitted) else None


def _described(document: dict[str, Any], key: str) -> str:
    section, _, name = key.partition(".")
    return str(document[section][name])


def _text(answer: Fitted) -> str:
    kind = KEYS[answer.key].kind
    if kind == WORD:
        return str(answer.value)
    number = float(answer.value)
    # more digits of a bandwidth than a clock holds still for say nothing
    return format_quantity(float(f"{number:.4g}") if kind == "bandwidth" else int(number), kind)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'

"""The last line of an answer: the next useful command, ready to paste."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from warpsight.reports.stack import dominant
from warpsight.result.prediction import STRUCT_PARTS

# For each component that a design can reduce: the GPU key, and the factor that helps.
_LEVERS = {
    "mshr": ("l1.mshrs", 2.0),
    "noc": ("noc.bandwidth", 2.0),
    "dram": ("dram.bandwidth", 2.0),
    "mem_data": ("dram.latency", 0.5),
    "base": ("sm_count", 2.0),
    "com_data": ("sm_count", 2.0),
    "com_struct": ("sm_count", 2.0),
    **{part: ("sm_count", 2.0) for part in STRUCT_PARTS if part != "banks"},  # padding helps against bank conflicts: see `advise`
    "idle": ("sm_count", 0.5),
}


def line(command: Sequence[str], why: str = "") -> str:
    """`next: warpsight ...   # why`, quoted for a shell."""
    return f"next: {shlex.join(['warpsight', *command])}" + (f"   # {why}" if why else "")


def after_prediction(document: dict[str, Any], command: Sequence[str]) -> str:
    """The line after the prediction of `command` (without `warpsight`): the same with twice the resource of the bottleneck."""
    if dominant(document) == "banks" and "-" not in command:
        return line(["advise", *command[1:]], "what the bank conflicts cost")
    key, factor = _LEVERS.get(dominant(document), ("", 1.0))
    value = _scaled(_lookup(document["provenance"].get("gpu", {}), key), factor)
    if value and "-" not in command and not any(word.startswith(f"{key}=") for word in command):
        return line([*command, "--set", f"{key}={value}"], f"{'twice' if factor > 1 else 'half'} the {key}")
    return line(["models", "show", document["model"]], "the model's assumptions")


def followed_by(
    name: str, command: Sequence[str], model: str, why: str, *, without: Sequence[str] = (), flags: Sequence[str] = (),
    added: Sequence[str] = (),
) -> str:
    """The line with `command_after`; for input from stdin, which cannot be read again, the model's assumptions."""
    if "-" in command:
        return line(["models", "show", model], "the model's assumptions")
    return f"next: {command_after(name, command, without=without, flags=flags, added=added)}   # {why}"


def command_after(name: str, command: Sequence[str], *, without: Sequence[str], flags: Sequence[str], added: Sequence[str]) -> str:
    """`warpsight NAME ...`, quoted for a shell, for the same kernel and GPU as `command`.

    Omits the options `without` with their values and the `flags`, which take none, and appends `added`.
    """
    words, skip = ["warpsight", name], False
    for word in command[1:]:
        if not skip and word.partition("=")[0] not in without and word not in flags:
            words.append(word)
        skip = not skip and word in without
    return shlex.join([*words, *added])


def _lookup(spec: Any, key: str) -> str:
    """A value by dotted key, flat or nested, as text; empty if it is missing."""
    if isinstance(spec, dict) and key in spec:
        return str(spec[key])
    for part in key.split("."):
        spec = spec.get(part) if isinstance(spec, dict) else None
    return "" if spec is None or isinstance(spec, dict) else str(spec)


def _scaled(text: str, factor: float) -> str:
    """`480 GB/s` times a factor, unit kept; empty if it is not a number or would become zero."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(\s*.*)", text)
    if not match:
        return ""
    number = float(match[1]) * factor
    whole = number if "." in match[1] or number == int(number) else int(number)
    return f"{whole:g}{match[2]}" if whole > 0 and float(f"{whole:g}") == whole else ""

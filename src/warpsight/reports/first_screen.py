"""The first screen of a prediction: how long, why, what to do, what makes the number uncertain; then the CPI stack if it fits."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection, Sequence
from pathlib import PurePath
from typing import Any

from warpsight.base.units import thousands, three_digits
from warpsight.reports.next_step import ANY_SHORT_LAUNCH, untried_changes
from warpsight.reports.prediction import (
    caches_before,
    classification,
    difference,
    launch_shape,
    miss_latency,
    notes_of,
    with_changes,
)  # fmt: skip
from warpsight.reports.stack import stack_table
from warpsight.reports.terminal import PLAIN, WIDTH, Style, shortened
from warpsight.result.prediction import components_of

_GAP = "   "
_LABEL = 11  # columns before the text of a cause or a change
_MOST_CHANGES = 3
_NO_BREAK = "\N{NO-BREAK SPACE}"


def first_screen(
    document: dict[str, Any], style: Style = PLAIN, *, width: int = WIDTH, lines: int = 0, stack: bool = False,
    said: Collection[str] = (),
) -> str:
    """The screen of a prediction document with a `summary`, in `width` columns. The CPI stack is shown with `stack`, and where all
    fits into `lines` (0: any number). Notes that were `said` before are left out."""
    summary = document["summary"]
    simulator, model = summary["simulator"], document["model"]
    beside = "" if simulator is None else (
        f"; simulator {thousands(simulator['cycles'])} cycles ({difference(simulator['cycles'], document['cycles'])})"
    )
    screen = [*screen_head(document, summary["place"], model + beside, style, width), *_causes(document, style, width)]
    screen += [*_changes(summary, style, width), *_doubts(document, style, width)]
    for note in notes_of([document]):
        if note not in said:
            screen += [style.faint(line) for line in textwrap.wrap(f"note: {note}", width, subsequent_indent="  ")]
    whole = [*screen, "", *_details(document, style, width)]
    return "\n".join(whole if stack or not lines or len(whole) <= lines else screen)


def screen_head(prediction: dict[str, Any], place: dict[str, Any] | None, about: str, style: Style, width: int) -> list[str]:
    """Kernel, launch, GPU with its clock and changed values, level and state of the caches; then time and cycles, and what
    is said `about` them."""
    provenance = prediction["provenance"]
    launch, before = provenance["launch"], caches_before(provenance["method"]["caches_before"])
    where = f"{PurePath(place['file']).name}:{place['line']}" if place else PurePath(launch["source"]).name
    plain = shortened(f"{where} {prediction['kernel']}".strip(), width)
    kernel = style.strong(plain)
    parts = [
        kernel, launch_shape(launch, launch_size),
        f"{prediction['gpu']} {clock_of(provenance)}{with_changes(provenance, clock=False)}", f"{level_of(launch)}, {before}",
    ]  # fmt: skip
    time = style.time(prediction["seconds"])
    strong = style.strong(time)
    times = [f"  {strong}", f"({thousands(prediction['cycles'])} cycles)", about]
    return [*_joined(parts, width, hidden=len(kernel) - len(plain)), *_joined(times, width, hidden=len(strong) - len(time))]


def clock_of(provenance: dict[str, Any]) -> str:
    """The clock of a prediction, which a power limit may have lowered."""
    power, described = provenance.get("power") or {}, (provenance.get("gpu") or {}).get("core_clock", "")
    return f"{power['clock_hz'] / 1e9:.2f} GHz (power limit)" if power.get("note") else str(described)


def _joined(parts: Sequence[str], width: int, *, hidden: int = 0, indent: str = "  ") -> list[str]:
    """The parts with gaps between them, on as many lines as it takes; the first has `hidden` characters of style."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) - (hidden if len(lines) == 1 else 0) + len(_GAP) + len(part) <= width:
            lines[-1] += _GAP + part
        else:
            lines.append(indent + part)
    return lines


def level_of(launch: dict[str, Any]) -> str:
    """The level of a launch, of machine code with the architecture: `sass sm_80`, `ptx`."""
    return f"sass {launch['target']}".removesuffix(" sass") if launch["level"] == "sass" else "ptx"


def launch_size(size: Sequence[int]) -> str:
    """A grid or block as CUDA takes it: `48`, `(1,48)`."""
    used = max((k + 1 for k, each in enumerate(size) if each != 1), default=1)
    return str(size[0]) if used == 1 else f"({','.join(map(str, size[:used]))})"


def _entries(label: str, entries: Sequence[tuple[str, str, Callable[[str], str]]], style: Style, width: int) -> list[str]:
    """Figures, each with its text and its colour, under a label: `WHY  56 %  text`."""
    lines = []
    for number, (figure, text, coloured) in enumerate(entries):
        parts = textwrap.wrap(text, width - _LABEL, break_on_hyphens=False)
        head = style.strong(f"{label:<4}" if number == 0 else " " * 4)
        lines += [f"{head}{coloured(f'{figure:>5}')}  {parts[0]}", *(" " * _LABEL + part for part in parts[1:])]
    return lines


def _causes(document: dict[str, Any], style: Style, width: int) -> list[str]:
    own = (document["summary"]["place"] or {}).get("file")

    def coloured(cause: dict[str, Any]) -> Callable[[str], str]:
        return lambda text: style.component(cause["component"], text, cause["share"])

    entries = [(f"{100 * cause['share']:.0f} %", _cause(cause, own), coloured(cause)) for cause in document["summary"]["why"]]
    return _entries("WHY", entries, style, width)


def _cause(cause: dict[str, Any], own: str | None) -> str:
    """The text of a cause with its lines; the loads that they wait for, where these are of other lines."""
    lines, loads = (_places(cause[key], own) for key in ("lines", "loads"))
    if loads and loads != lines:
        return f"{cause['text']} of {', '.join(loads)}, needed in {', '.join(lines)}"
    return ", ".join([cause["text"], *lines])


def _places(lines: Sequence[dict[str, Any]], own: str | None) -> list[str]:
    """Where the lines are: `lines 46 and 70` of the kernel's `own` file, `part.cuh:7` of another one."""
    numbers = sorted(line["line"] for line in lines if line["file"] and line["file"] == own)
    listed = " and ".join([", ".join(map(str, numbers[:-1])), str(numbers[-1])]) if len(numbers) > 1 else "".join(map(str, numbers))
    inside = [f"line{'s' if len(numbers) > 1 else ''} {listed}"] if numbers else []
    return inside + [line["place"] for line in lines if not (line["file"] and line["file"] == own)]


def _changes(summary: dict[str, Any], style: Style, width: int) -> list[str]:
    """What would help, with the speed-up of each change alone; what may help and takes longer to evaluate; what has only a bound.
    Last of those with a speed-up is what helps any short launch, as it says nothing of this kernel."""
    titles = untried_changes(summary)[:_MOST_CHANGES]
    named = f"{', '.join(titles)} (`advise` evaluates {'them' if len(titles) > 1 else 'it'})"
    untried = [("?", named, style.warning)] if titles else []
    ordered = sorted(summary["advice"], key=lambda change: (change["rule"] == ANY_SHORT_LAUNCH, change.get("at_most", False)))
    bounds = ["<" if change.get("at_most") else "" for change in ordered]
    tried = [(f"{bound}{three_digits(change['speedup'])}x", change["title"], style.good)
             for bound, change in zip(bounds, ordered, strict=True)]  # fmt: skip
    none = [("-", "no change that was evaluated saves 5 % of the cycles", style.faint)]
    shown = tried[: _MOST_CHANGES - len(untried)]
    sure = [*bounds[: len(shown)], "<"].index("<")
    return _entries("DO", [*shown[:sure], *untried, *shown[sure:]] or none, style, width)


def _doubts(document: dict[str, Any], style: Style, width: int) -> list[str]:
    """What makes the prediction uncertain, each with an exclamation mark."""
    sentences = [violation(document["model"], each) for each in document["summary"]["violated"]] + disagreement(document)
    return [line for sentence in sentences for line in _warning(sentence, style, width)]


def violation(model: str, check: dict[str, Any]) -> str:
    """An assumption that the launch violates, with what was measured."""
    return f"{model} assumes that {_clause(check['assumption'])}; here: {check['detail']}"


def disagreement(document: dict[str, Any]) -> list[str]:
    """The component about which model and simulator differ, as a sentence; nothing if they agree or it was not run."""
    differs = (document["summary"]["simulator"] or {}).get("differs")
    if not differs:
        return []
    meaning = components_of(document)[differs["component"]].meaning
    shares = [f"{100 * differs[key]:.0f} %" for key in ("share", "simulator_share")]
    component = f"{differs['component']} ({meaning})"
    return [f"{document['model']} and simulator differ: {component} is {shares[0]} here and {shares[1]} there"]


def _warning(text: str, style: Style, width: int) -> list[str]:
    first, *rest = textwrap.wrap(text, width - 2, break_on_hyphens=False)
    return [f"{style.warning('!')} {first}", *(f"  {line}" for line in rest)]


def _clause(sentence: str) -> str:
    """A sentence as the end of another one: without its point, and small where its first word is no name."""
    small = sentence[1:2].islower() or sentence[1:2] == " "
    return (sentence[:1].lower() if small else sentence[:1]) + sentence[1:].rstrip(".")


def _details(document: dict[str, Any], style: Style, width: int) -> list[str]:
    """Throughput, occupancy and class in short, the CPI stack, and the predictions of other models."""
    limiter = f", limited by {document['occupancy_limiter']}" if document["occupancy_limiter"] else ""
    parts = [f" IPC/SM {three_digits(document['ipc_sm_warp'])} (warp)", f"occupancy {three_digits(document['occupancy'])}{limiter}",
             f"bound by {document['bound_by']}", classification(document)]  # fmt: skip
    lines = _joined([part for part in parts if part], width, indent=" ")
    lines += ["", *stack_table(document, style, width), *miss_latency(document)]
    others = document["summary"]["others"]
    if others:
        models = [f"{each['model']} {thousands(each['cycles'])} ({100 * each['difference']:+,.0f} %)" for each in others]
        listed = ", ".join(model.replace(" ", _NO_BREAK) for model in models)
        wrapped = textwrap.wrap(f"papers' models: {listed}", width, initial_indent=" ", subsequent_indent="   ")
        lines += ["", *(line.replace(_NO_BREAK, " ") for line in wrapped)]
    return lines


"""The CPI stack as terminal text: components as shares, and a table with bars for one prediction or several side by side."""

from __future__ import annotations

import math
from typing import Any

from warpsight.base.units import percent
from warpsight.reports.terminal import PLAIN, WIDTH, Style
from warpsight.result.prediction import components_of, in_order

QUEUES = ("mshr", "noc", "dram")


def shares(document: dict[str, Any]) -> dict[str, float]:
    """Each component over the CPI, as fractions: the shared components in order, then those of the document's model."""
    stack = in_order(document["cpi_stack"])
    total = sum(stack.values())
    return {name: value / total if total else 0.0 for name, value in stack.items()}


def dominant(document: dict[str, Any]) -> str:
    """The largest component."""
    share = shares(document)
    return max(share, key=share.__getitem__)


def queueing(document: dict[str, Any]) -> float:
    """The share of the MSHRs and of the NoC and DRAM queues."""
    return sum(shares(document).get(name, 0.0) for name in QUEUES)


# -- The CPI stack as a table with bars: one prediction, or two side by side.

_CHARACTERS_PER_WHOLE = 40
_LONGEST_BAR, _LONGEST_BAR_NARROW, _LONGEST_BAR_OF_GROUP = 24, 9, 12
_MEANING_WIDTH = 36


def decimals(largest: float) -> int:
    """How many decimals give `largest` three significant digits, so that one column can share them."""
    return min(9, max(0, 2 - math.floor(math.log10(largest)))) if largest > 0 else 2


def shown(documents: list[dict[str, Any]]) -> list[str]:
    """The components that are not zero in at least one document, in stack order; `base` always."""
    names = dict.fromkeys(name for document in documents for name in in_order(document["cpi_stack"]))
    return [name for name in names if name == "base" or any(document["cpi_stack"].get(name, 0) > 0 for document in documents)]


def bar(share: float, scale: float) -> str:
    """`share` drawn with `scale` characters for 100 %; anything above zero is at least a dot."""
    return "#" * round(share * scale) or ("." if share > 0 else "")


def stack_table(document: dict[str, Any], style: Style = PLAIN, width: int = WIDTH) -> list[str]:
    """The lines of one CPI stack: component, CPI, share, bar, meaning, and with `WIDTH` columns the nearest Nsight stall name."""
    wide = width >= WIDTH
    share, stack, components = shares(document), document["cpi_stack"], components_of(document)
    digits = decimals(document["cpi"])
    longest = _LONGEST_BAR if wide else _LONGEST_BAR_NARROW
    scale = min(_CHARACTERS_PER_WHOLE, longest / max(share.values(), default=1.0)) if any(share.values()) else 0.0
    bars = {name: bar(share[name], scale) for name in share}
    space = max(map(len, bars.values()), default=0) + 3
    number = max(7, len(f"{document['cpi']:,.{digits}f}") + 1)
    name_width = max(10, *map(len, share))
    head = f" {'CPI stack':<{name_width}}{'CPI':>{number - 1}}{'share':>9}   "
    titles = f"{'what it means':<{_MEANING_WIDTH}}{'Nsight calls it (nearest)' if wide else ''}"
    lines = [style.strong((head + " " * space + titles).rstrip())]
    for name in shown([document]):
        drawn = style.component(name, bars[name], share[name]) + " " * (space - len(bars[name]))
        numbers = f" {name:<{name_width}}{stack[name]:>{number - 1},.{digits}f}{percent(share[name]):>9}   "
        nsight = components[name].nsight if wide else ""
        lines.append((numbers + drawn + f"{components[name].meaning:<{_MEANING_WIDTH}}{nsight}").rstrip())
    lines.append(style.strong(f" {'total':<{name_width}}{document['cpi']:>{number - 1},.{digits}f}{'100 %':>9}"))
    return lines


def stacks_beside(documents: list[dict[str, Any]], titles: list[str], style: Style = PLAIN) -> list[str]:
    """The lines of several CPI stacks with common rows and one column group each: CPI, share, bar."""
    groups = [_group(document, title, shown(documents), style) for document, title in zip(documents, titles, strict=True)]
    components = {name: each for document in documents for name, each in components_of(document).items()}
    names = ["CPI stack", *shown(documents), "total"]
    meanings = ["what it means", *(components[name].meaning for name in names[1:-1]), ""]
    rows = zip(names, zip(*groups, strict=True), meanings, strict=True)
    lines = [f" {name:<10}{''.join(cells)}{meaning}".rstrip() for name, cells, meaning in rows]
    return [style.strong(lines[0]), *lines[1:-1], style.strong(lines[-1])]


def _group(document: dict[str, Any], title: str, names: list[str], style: Style) -> list[str]:
    """One column group: a header, a cell per component and a total, all of one visible width."""
    share, digits = shares(document), decimals(document["cpi"])
    scale = _LONGEST_BAR_OF_GROUP / max([*share.values(), 1e-12])
    cells = [f"{title:>16}" + " " * (_LONGEST_BAR_OF_GROUP + 4)]
    for name in names:
        drawn = bar(share.get(name, 0.0), scale)
        value = document["cpi_stack"].get(name, 0.0)
        numbers = f"{value:>8,.{digits}f}{percent(share.get(name, 0.0)):>8}  "
        cells.append(numbers + style.component(name, drawn, share.get(name, 0.0)) + " " * (_LONGEST_BAR_OF_GROUP + 2 - len(drawn)))
    cells.append(f"{document['cpi']:>8,.{digits}f}{'100 %':>8}" + " " * (_LONGEST_BAR_OF_GROUP + 4))
    return cells

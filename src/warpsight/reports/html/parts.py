"""Parts that several sections of a page share: charts, and CPI stacks as HTML bars, which a script can change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from warpsight.base.units import percent
from warpsight.reports.drawing.canvas import stack_style, style_of
from warpsight.reports.drawing.charts import Chart
from warpsight.reports.drawing.svg import svg
from warpsight.result.prediction import COMPONENTS, in_order


def drawn(chart: Chart) -> Markup:
    """A chart as SVG in the page's own colours."""
    return Markup(svg(chart, themed=True))


# -- CPI stacks as HTML bars, which a script can change and a narrow page can hold: colour, hatch, share.

def paint(name: str) -> str:
    """The CSS background of a component: the colour and the hatch that it has in every picture."""
    style = style_of(stack_style(name))
    if not style.hatch:
        return f"background: {style.colour}"
    picture = f'<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8">{style.hatch_path}</svg>'
    return f"background: {style.colour} url('data:image/svg+xml,{quote(picture)}')"


def paint_class(name: str) -> str:
    """The class of a component's paint in `paints`; a name that a class cannot have shares one with others like it."""
    return f"paint-{name}" if name.isidentifier() and name.isascii() else "paint-other"


def paints(components: Iterable[str]) -> str:
    """The style sheet of the paints of the shared components and of `components`, each once, by their classes."""
    sheet = {paint_class(name): paint(name) for name in (*COMPONENTS, "other", *components)}
    return "\n".join(f".{name} {{ {background}; }}" for name, background in sheet.items())


def stack_bar(label: str, stack: Mapping[str, float], whole: float, text: str) -> dict[str, Any]:
    """A horizontal bar: its `parts` with their width in per cent of `whole` and their class, `label` before and `text` after it."""
    total = sum(stack.values())
    parts = [
        {"name": name, "width": 100 * size / whole, "paint": paint_class(name), "tip": f"{name}: {percent(size / total)}"}
        for name, size in in_order(stack).items() if size > 0
    ]  # fmt: skip
    shares = ", ".join(str(part["tip"]) for part in parts)
    return {"label": label, "text": text, "parts": parts, "spoken": f"{label}: {text}. {shares}"}

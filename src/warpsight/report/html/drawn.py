"""Charts in a page."""

from __future__ import annotations

from markupsafe import Markup

from warpsight.report.drawing.charts import Chart
from warpsight.report.drawing.sheet import svg


def drawn(chart: Chart) -> Markup:
    """A chart as SVG in the page's own colours."""
    return Markup(svg(chart, themed=True))

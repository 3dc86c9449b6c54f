"""The fills of the CPI stack's components for a script that draws stacks: hatched as in every other picture."""

from __future__ import annotations

from warpsight.report.drawing.canvas import pattern
from warpsight.report.drawing.palette import STACK_STYLES, style_of


def component_key() -> str:
    """An SVG without size that defines a pattern `stack-NAME` for each component; a fill refers to it as `url(#stack-NAME)`."""
    patterns = "".join(pattern(style_of(number), f"stack-{name}") for name, number in STACK_STYLES.items())
    return f'<svg width="0" height="0" class="away" aria-hidden="true"><defs>{patterns}</defs></svg>'

"""How a value shows itself in a notebook: whoever draws pictures says so here, and the values below need not know it.

`warpsight` itself enters the drawing of `report/html` when it is imported. Without one, a notebook shows the value's text.
"""

from __future__ import annotations

from collections.abc import Callable

from warpsight.base.errors import WarpsightError

Drawing = Callable[[object], str]


class Display:
    """Holds the function that makes HTML of a value."""

    def __init__(self) -> None:
        self._draw: Drawing | None = None

    def by(self, draw: Drawing) -> None:
        """From now on values are drawn by `draw`."""
        self._draw = draw

    def html(self, value: object) -> str | None:
        """`value` as HTML for a notebook; None, which notebooks take for "not so", where nothing draws it or can."""
        try:
            return None if self._draw is None else self._draw(value)
        except WarpsightError:  # of a study whose designs all failed, say: its text is shown instead
            return None


DISPLAY = Display()

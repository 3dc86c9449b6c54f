"""Rows of states over steps of time, each state with a letter, a colour and a height."""

from __future__ import annotations

from warpsight.report.drawing.canvas import FONT, Canvas, shortened, text_width
from warpsight.report.drawing.charts import State, Strips
from warpsight.report.drawing.frame import GAP, LABEL_LETTERS, ROW, SMALL, TITLE_ROOM, draw_title, title_width
from warpsight.report.drawing.palette import FAINT, INK, PAPER, luminance

_STEP, _STRIP, _BETWEEN = 9.0, 13.0, 3.0
_TICKS = 10  # steps from one tick to the next


def draw_strips(canvas: Canvas, top: float, chart: Strips) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    names = [shortened(name, LABEL_LETTERS) for name in chart.rows]
    left = max(map(text_width, names), default=0.0) + 2 * GAP
    steps = max((sum(count for _, count in runs) for runs in chart.runs), default=0)
    low, high = top + TITLE_ROOM, (_STRIP + _BETWEEN) * len(names)
    draw_title(canvas, left, top, chart.title)
    for tick in range(-(-chart.begin // _TICKS) * _TICKS, chart.begin + steps + 1, _TICKS):
        x = left + (tick - chart.begin) * _STEP
        canvas.path(f"M{x:.1f} {low:.1f}v{high:.1f}", FAINT)
        canvas.text(x, low + high + FONT + 2, f"{tick:,}", anchor="middle")
    known = {state.letter: state for state in chart.states}
    for row, (name, runs) in enumerate(zip(names, chart.runs, strict=True)):
        y, x = low + row * (_STRIP + _BETWEEN), left
        canvas.text(left - GAP, y + _STRIP - 3, name, anchor="end")
        for letter, count in runs:
            if letter in known:
                _run(canvas, x, y, count, known[letter])
            x += count * _STEP
    low += high + ROW
    canvas.text(left + steps * _STEP / 2, low + FONT, chart.axis.heading, anchor="middle")
    return max(left + steps * _STEP, title_width(chart.title) + left) + 3 * GAP, low + ROW - top


def _run(canvas: Canvas, x: float, y: float, count: int, state: State) -> None:
    """`count` steps in one state, its letter in the first."""
    room = state.height * _STRIP
    canvas.rect(x, y + _STRIP - room, count * _STEP, room, state.colour, edge=INK)
    ink = INK if luminance(state.colour) > 0.2 else PAPER
    # its own ink over a colour that is the same in every theme
    canvas.text(x + _STEP / 2, y + _STRIP - 3, state.letter, size=SMALL, anchor="middle", colour=_FIXED[ink])


_FIXED = {INK: "#1b1f24", PAPER: "#fffffe"}

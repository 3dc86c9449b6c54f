"""The memory chart, as profilers draw it: kernel, L1 and shared memory, L2, DRAM, with an arrow for each kind of traffic.

The colour of an arrow and the length and colour of the bar in a box are the share of the peak, which is also written there.
"""

from __future__ import annotations

from collections.abc import Sequence

from warpsight.base.units import percent
from warpsight.reports.drawing.canvas import FAINT, FONT, INK, PAPER, Canvas, heat, shortened, text_width
from warpsight.reports.drawing.charts import Flow, Memory, MemoryChart
from warpsight.reports.drawing.frame import GAP, SMALL

_BOX, _BETWEEN = 106.0, 128.0  # widths of a box and of the room for arrows
_SLOT, _LEAST = 38.0, 78.0  # heights of an arrow with its texts, and of a box
_LINE, _BAR = 14.0, 7.0
_PAIRS = (("kernel", "l1"), ("kernel", "shared"), ("l1", "l2"), ("l2", "dram"))


def draw_memory_chart(canvas: Canvas, top: float, chart: MemoryChart) -> tuple[float, float]:
    """Draw `chart` with its upper edge at `top`; its width and height."""
    return (_upright if chart.upright else _lying)(canvas, top, chart)


def _lying(canvas: Canvas, top: float, chart: MemoryChart) -> tuple[float, float]:
    """From left to right: arrows lie between columns of boxes."""
    flows = {pair: chart.flows.get(pair, ()) for pair in _PAIRS}
    upper = max(_LEAST, _SLOT * max(len(flows["kernel", "l1"]), len(flows["l1", "l2"]), len(flows["l2", "dram"])))
    lower = max(_LEAST, _SLOT * len(flows["kernel", "shared"]))
    columns = [k * (_BOX + _BETWEEN) + 1 for k in range(4)]
    begin, middle = top + _LINE + 4, top + _LINE + 4 + upper + 8
    height = upper + 8 + lower
    for name, column, y, high in (
        ("kernel", 0, begin, height), ("l1", 1, begin, upper), ("shared", 1, middle, lower), ("l2", 2, begin, height),
        ("dram", 3, begin, height),
    ):  # fmt: skip
        _box(canvas, columns[column], y, _BOX, high, chart.boxes[name])
    canvas.text(columns[1] + _BOX / 2, top + FONT, _fitting(chart.unit, _BETWEEN + _BOX / 2), anchor="middle", size=SMALL)
    for pair, column, y, high in (
        (_PAIRS[0], 0, begin, upper), (_PAIRS[1], 0, middle, lower), (_PAIRS[2], 1, begin, upper), (_PAIRS[3], 2, begin, upper),
    ):  # fmt: skip
        slot = high / max(1, len(flows[pair]))
        for number, flow in enumerate(flows[pair]):
            _lying_arrow(canvas, columns[column] + _BOX, y + (number + 0.5) * slot, flow)
    _key(canvas, columns[2] + _BOX + 1, top)
    return columns[3] + _BOX + 1, _LINE + 4 + height + 2


def _lying_arrow(canvas: Canvas, x: float, y: float, flow: Flow) -> None:
    begin, end = (x + _BETWEEN - 4, x + 4) if flow.inward else (x + 4, x + _BETWEEN - 4)
    head = 9 if begin < end else -9
    data = (f"M{begin:.1f} {y - 3:.1f}H{end - head:.1f}V{y - 7:.1f}L{end:.1f} {y:.1f}L{end - head:.1f} {y + 7:.1f}V{y + 3:.1f}"
            f"H{begin:.1f}z")  # fmt: skip
    canvas.path(data, INK, width=0.7, fill=heat(flow.share), tip=_spoken(flow))
    for text, low in ((f"{flow.name} {flow.count}".strip(), y - 8), (f"{flow.size}, {percent(flow.share)}", y + 15)):
        canvas.text(x + _BETWEEN / 2, low, _fitting(text, _BETWEEN + 6), anchor="middle", size=SMALL)


_WIDE, _L1, _SHARED = 340.0, 152.0, 182.0
_ROW, _NEAR, _FAR = 58.0, 74.0, 44.0  # heights of a row of arrows and of boxes
_ARROWS = 2  # in a row


def _upright(canvas: Canvas, top: float, chart: MemoryChart) -> tuple[float, float]:
    """From top to bottom, as wide as a telephone: arrows stand between rows of boxes, with their texts on their right."""
    right, y = 1 + _WIDE - _SHARED, top + 2
    flows = [chart.flows.get(pair, ()) for pair in _PAIRS]
    _box(canvas, 1, y, _WIDE, _FAR - 10, chart.boxes["kernel"], wide=True)
    y += _FAR - 10
    for x, width, each in ((1.0, _L1, flows[0]), (right, _SHARED, flows[1])):
        _standing_arrows(canvas, x, y, width, each)
    y += _room(*flows[:2])
    _box(canvas, 1, y, _L1, _NEAR, chart.boxes["l1"])
    _box(canvas, right, y, _SHARED, _NEAR, chart.boxes["shared"])
    y += _NEAR
    canvas.text(right + _SHARED / 2, y + FONT + 2, _fitting(chart.unit, _SHARED), anchor="middle", size=SMALL)
    for each, below in ((flows[2], "l2"), (flows[3], "dram")):
        _standing_arrows(canvas, 1, y, _L1, each)
        y += _room(each)
        _box(canvas, 1, y, _WIDE, _FAR, chart.boxes[below], wide=True)
        y += _FAR
    _key(canvas, 1, y + 6)
    return _WIDE + 6, y + 24 - top


def _room(*flows: Sequence[Flow]) -> float:
    """The height of the arrows between two rows of boxes."""
    return _ROW * max(1, *(-(-len(each) // _ARROWS) for each in flows)) if any(flows) else _ROW / 3


def _standing_arrows(canvas: Canvas, x: float, top: float, width: float, flows: Sequence[Flow]) -> None:
    for number, flow in enumerate(flows):
        row, place = divmod(number, _ARROWS)
        middle, low, high = x + 8 + place * width / _ARROWS, top + row * _ROW + 3, top + (row + 1) * _ROW - 3
        begin, end = (high, low) if flow.inward else (low, high)
        head = 9 if begin < end else -9
        data = (f"M{middle - 3:.1f} {begin:.1f}V{end - head:.1f}H{middle - 7:.1f}L{middle:.1f} {end:.1f}L{middle + 7:.1f} "
                f"{end - head:.1f}H{middle + 3:.1f}V{begin:.1f}z")  # fmt: skip
        canvas.path(data, INK, width=0.7, fill=heat(flow.share), tip=_spoken(flow))
        texts = [text for text in (flow.name, flow.count, flow.size, percent(flow.share)) if text]
        for line, text in enumerate(texts):
            fitting = _fitting(text, width / _ARROWS - 10)
            canvas.text(middle + 9, low + 11 + 12 * line + 6 * (4 - len(texts)), fitting, size=SMALL)


def _box(canvas: Canvas, x: float, y: float, width: float, height: float, box: Memory, *, wide: bool = False) -> None:
    """The box with its texts in the middle, if it is `wide` in one line, and a bar of its share of the peak at the bottom."""
    canvas.rect(x, y, width, height, FAINT, edge=INK)
    lines = [*box.lines, *([] if box.share is None else [f"{percent(box.share)} of peak"])]
    lines = [", ".join(lines)] if wide else lines
    low = y + (height - _LINE * (1 + len(lines))) / 2 + FONT - (_BAR / 2 if box.share is not None else 0.0)
    canvas.text(x + width / 2, low, _fitting(box.title, width, FONT), anchor="middle", bold=True)
    for number, line in enumerate(lines, 1):
        canvas.text(x + width / 2, low + number * _LINE, _fitting(line, width), anchor="middle", size=SMALL)
    if box.share is not None:
        filled = (width - 2 * GAP) * min(1.0, max(0.0, box.share))
        canvas.rect(x + GAP, y + height - _BAR - 4, width - 2 * GAP, _BAR, PAPER, edge=INK)
        tip = f"{box.title}: {percent(box.share)} of peak"
        canvas.rect(x + GAP, y + height - _BAR - 4, filled, _BAR, heat(box.share), edge=INK, tip=tip)


def _key(canvas: Canvas, x: float, y: float) -> None:
    """What the colours mean."""
    canvas.text(x, y + SMALL, "0 %", size=SMALL)
    for number in range(10):
        canvas.rect(x + 26 + number * 10, y + 2, 10.3, 8, heat((number + 0.5) / 10))
    canvas.text(x + 130, y + SMALL, "100 % of peak", size=SMALL)


def _fitting(text: str, width: float, size: float = SMALL) -> str:
    """`text`, cut where it is wider than `width`."""
    return shortened(text, int(width / text_width("x", size)))


def _spoken(flow: Flow) -> str:
    return ", ".join(text for text in (flow.name, flow.count, flow.size, f"{percent(flow.share)} of peak") if text)

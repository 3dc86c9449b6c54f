"""Pictures of the reuse-distance cache model: the cumulative curve of distances, and a sweep in bars as in HPCA 2014, Fig. 12."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from typing import Any
from xml.sax.saxutils import escape

_COLOURS = {"compulsory": "#4c9f38", "capacity": "#c9472f", "associativity": "#e2a33b", "latency": "#8f8f8f", "mshr": "#6a4fa3"}
_LEFT, _TOP, _HEIGHT = 60, 40, 260


def _head(width: float, title: str) -> list[str]:
    height = _TOP + _HEIGHT + 90
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width:.0f}" height="{height}" fill="white"/>',
        _text(width / 2, 22, title, 'text-anchor="middle" font-size="14"'),
    ]


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{escape(text)}</text>'


def _shares(width: float, most: float) -> list[str]:
    """The vertical axis: percent from 0 to `most`."""
    lines = []
    for step in range(6):
        y = _TOP + _HEIGHT * (1 - step / 5)
        lines.append(f'<path d="M{_LEFT} {y:.1f}H{width - 20:.0f}" stroke="#ddd"/>')
        lines.append(_text(_LEFT - 6, y + 4, f"{100 * most * step / 5:.3g} %", 'text-anchor="end"'))
    return lines


def curve_svg(curve: Sequence[tuple[int, float]], name: str, settings: dict[str, Any]) -> str:
    """Share of transactions below each distance (`CacheResult.curve`) over lines, on a scale of powers of two."""
    width = 720.0
    capacity = settings["size_bytes"] // settings["line_bytes"]
    last = max(curve[-1][0], capacity, 2)
    scale = (width - _LEFT - 20) / (log2(last) + 1)

    def x_of(lines: int) -> float:
        return _LEFT + scale * (log2(lines) + 1 if lines else 0)

    parts = [*_head(width, f"{name}: transactions below a reuse distance"), *_shares(width, 1.0)]
    path, height = "", 0.0
    for lines, share in curve:
        y = _TOP + _HEIGHT * (1 - share)
        path += f"{'L' if path else 'M'}{x_of(lines):.1f} {_TOP + _HEIGHT * (1 - height):.1f}L{x_of(lines):.1f} {y:.1f}"
        height = share
    parts.append(f'<path d="{path}H{width - 20:.0f}" fill="none" stroke="#2166ac" stroke-width="2"/>')
    x = x_of(capacity)
    parts.append(f'<path d="M{x:.1f} {_TOP}V{_TOP + _HEIGHT}" stroke="#c9472f" stroke-dasharray="4 3"/>')
    parts.append(_text(x + 4, _TOP + 12, f"{capacity} lines: this cache", 'fill="#c9472f"'))
    power = 1
    while power <= last:
        parts.append(_text(x_of(power), _TOP + _HEIGHT + 18, str(power), 'text-anchor="middle"'))
        power *= 4
    parts.append(_text(width / 2, _TOP + _HEIGHT + 44, "lines of a fully associative LRU cache", 'text-anchor="middle"'))
    return "\n".join([*parts, "</svg>\n"])


def sweep_svg(rows: Sequence[dict[str, Any]], axes: Sequence[str], name: str) -> str:
    """A bar for each row, its misses by class as shares of the transactions; `axes` label it."""
    step = max(6.0, min(46.0, 1400 / len(rows)))
    width = _LEFT + step * len(rows) + 40
    width = max(width, 560.0)
    most = max((row["miss_rate"] for row in rows), default=0.0) or 1.0
    parts = [*_head(width, f"{name}: miss rate by class"), *_shares(width, most)]
    for place, row in enumerate(rows):
        x, y = _LEFT + step * place + step * 0.1, float(_TOP + _HEIGHT)
        for kind, colour in _COLOURS.items():
            high = _HEIGHT * row[kind] / max(1, row["transactions"]) / most
            y -= high
            if high > 0:
                parts.append(f'<rect x="{x:.1f}" y="{y:.2f}" width="{step * 0.8:.1f}" height="{high:.2f}" fill="{colour}"/>')
        for level, axis in enumerate(axes if step >= 24 else ()):
            below = _TOP + _HEIGHT + 14 + 13 * level
            parts.append(_text(x + step * 0.4, below, _short(row[axis]), 'text-anchor="middle" font-size="10"'))
    for level, axis in enumerate(axes if step >= 24 else ()):
        parts.append(_text(_LEFT - 6, _TOP + _HEIGHT + 14 + 13 * level, axis, 'text-anchor="end" font-size="10"'))
    for place, (kind, colour) in enumerate(_COLOURS.items()):
        x, y = _LEFT + 100 * place, _TOP + _HEIGHT + 80
        parts.append(f'<rect x="{x}" y="{y - 10}" width="10" height="10" fill="{colour}"/>')
        parts.append(_text(x + 14, y, kind))
    return "\n".join([*parts, "</svg>\n"])


def _short(number: int) -> str:
    return f"{number // 1024}K" if number >= 1024 and number % 1024 == 0 else str(number)

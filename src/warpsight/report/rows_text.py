"""Several predictions that differ in one thing as a table: a row each, the CPI stack in columns."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import thousands, three_digits
from warpsight.report.prediction_text import heading, notes_text
from warpsight.report.stack_text import decimals, shown
from warpsight.report.style import PLAIN, Style

_NAME = 28
_TITLES = {"warps_per_sm": "warps per SM", "representative": "representative"}


def rows_text(documents: list[dict[str, Any]], style: Style = PLAIN) -> str:
    """A table per model. `provenance.varied` of each document names what is different in its row."""
    models = dict.fromkeys(document["model"] for document in documents)
    tables = [_table([document for document in documents if document["model"] == model], style) for model in models]
    return "\n\n".join(tables) + notes_text(documents, style)


def _table(documents: list[dict[str, Any]], style: Style) -> str:
    """Heading, column names and rows of one model."""
    names = shown(documents)
    digits = decimals(max(document["cpi"] for document in documents))
    number = max(len(f"{document['cpi']:,.{digits}f}") for document in documents)
    widths = {name: max(len(name), number) + 2 for name in ("CPI", *names)}
    labels = _labels(documents)
    titles = "".join(f"{_TITLES.get(key, key):>{width}}" for key, width in labels.items())
    columns = "".join(f"{name:>{widths[name]}}" for name in names)
    head = f"{titles}{'cycles':>14}{'IPC/SM':>9}{'CPI':>{widths['CPI']}}  ={columns}"
    lines = [heading(documents[0]), "", style.strong(head)]
    for document in documents:
        varied = document["provenance"]["varied"]
        label = "".join(f"{_short(varied[key]):>{width}}" for key, width in labels.items())
        figures = f"{thousands(document['cycles']):>14}{three_digits(document['ipc_sm_warp']):>9}"
        total = f"{document['cpi']:>{widths['CPI']},.{digits}f}"
        parts = [style.component(name, f"{document['cpi_stack'][name]:>{widths[name]},.{digits}f}") for name in names]
        lines.append(f"{label}{figures}{total}   {''.join(parts)}")
    return "\n".join(lines)


def _labels(documents: list[dict[str, Any]]) -> dict[str, int]:
    """Width of the column of each thing that differs."""
    varied = [document["provenance"]["varied"] for document in documents]
    least = {"launch": 8}
    return {
        key: max(least.get(key, 15), *(len(_short(row[key])) + 2 for row in varied)) for key in varied[0]
    }  # fmt: skip


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _NAME else f"{text[: _NAME - 2]}.."

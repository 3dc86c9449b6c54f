"""MWP-CWP from parameters as terminal text: one line per intermediate, with its equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.base.format import duration, significant


def parameters_text(document: dict[str, Any], results: Sequence[tuple[str, str, str]]) -> str:
    """The results in order; `results` are (name, unit, equation)."""
    lines = [f"{document['tool']}   {document['parameters_file']}   model {document['model']}", ""]
    lines.append(f" {'intermediate':<22}{'value':>16}  {'':<7} equation")
    for name, unit, equation in results:
        if name == "Case":
            lines.append(f" {'case':<22}{'':>16}  {'':<7} ({document['results'][name]}) holds")
            continue
        value = document["results"][name]
        text = "no limit" if value is None else _number(value)
        lines.append(f" {name:<22}{text:>16}  {unit:<7} {equation}".rstrip())
    lines += ["", f"  predicted    {_number(document['cycles'])} cycles   {duration(document['seconds'])}"]
    return "\n".join([*lines, *(f" note: {note}" for note in document["notes"])])


def _number(value: float) -> str:
    """Whole numbers in full, others with six significant digits."""
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else significant(value, 6)

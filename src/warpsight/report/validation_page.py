"""A figure of a paper made again, as a Markdown page and a picture: functions of its result document alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warpsight.report.drawing.panels import chart_of
from warpsight.report.drawing.sheet import svg

# A page says how many points failed; the first ones it shows, the document has them all.
_MOST_FAILED = 20


def figure_svg(document: dict[str, Any]) -> str:
    """The picture."""
    return svg([chart_of(panel) for panel in document["panels"]], heading(document))


def heading(document: dict[str, Any]) -> str:
    """The paper's name, the number there, and the title."""
    return f"{_paper(document)}, {document['paper']['place']}: {document['title']}"


def figure_page(document: dict[str, Any]) -> str:
    """The page, which shows NAME.svg beside it."""
    name, paper = document["figure"], document["paper"]
    parts = [
        f"<!-- Made from {name}.json by `{document['command']}`. Do not edit. -->",
        f"# {heading(document)}",
        f"The original: {paper['shows']} ({paper['cite']}, {paper['place']}). Here: the referee and the models on "
        f"{len(document['kernels'])} kernels of the suite `{document['suite']}`, {len(document['holdout'])} of them set aside "
        f"(holdout), on `{document['gpu']['name']}`.",
        f"![{_cell(heading(document))}]({name}.svg)",
        *_numbers(document["numbers"]),
        *_claims(document["claims"]),
        "## Where they differ, and why",
        "\n".join(f"- {sentence}" for sentence in [*document["differences"], *document["notes"]]),
    ]
    for table in document["tables"]:
        parts += [f"## {table['title']}", markdown_table(table["columns"], table["rows"])]
    parts += _failed(document["failed"])
    parts.append(f"The data are in [{name}.json]({name}.json). Again: `{document['command']} --out DIR`.")
    return "\n\n".join(parts) + "\n"


def index_page(documents: Sequence[dict[str, Any]]) -> str:
    """A page that leads to those of `documents`, with the papers' numbers beside ours."""
    rows = []
    for document in documents:
        name = document["figure"]
        given = [number for number in document["numbers"] if number["paper"] is not None]
        held = [claim["holds"] for claim in document["claims"] if claim["holds"] is not None]
        shown = "; ".join(f"{n['what']}: {_number(n['ours'])} ({_number(n['paper'])}) {n['unit']}".rstrip() for n in given[:4])
        rows.append([f"[{document['paper']['place']}]({name}.md)", _paper(document), document["title"], shown,
                     f"{sum(held)} of {len(held)}" if held else ""])  # fmt: skip
    columns = ["figure", "paper", "shows", "here (in the paper)", "what the paper observes holds here"]
    suites = ", ".join(f"`{name}`" for name in dict.fromkeys(document["suite"] for document in documents))
    command = f"warpsight validate --suite {documents[0]['suite']} --figure all --out docs/validation" if documents else ""
    return "\n\n".join([
        f"<!-- Made from the JSON files beside it by `{command}`. Do not edit. -->",
        "# The papers' figures again",
        f"The referee and the models on the suite {suites}, beside what the papers say. "
        "[How they are made](../reference/validate.md).",
        markdown_table(columns, rows),
        "The command in this file's first line makes all of them again.",
    ]) + "\n"  # fmt: skip


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; numbers to the right, in three significant digits."""
    numeric = [
        any(_is_number(row[k]) for row in rows) and all(_is_number(row[k]) or row[k] is None for row in rows)
        for k in range(len(columns))
    ]
    lines = [
        f"| {' | '.join(_cell(name) for name in columns)} |",
        "|" + "|".join("---:" if number else "---" for number in numeric) + "|",
    ]
    lines += [f"| {' | '.join(_shown(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _numbers(numbers: Sequence[dict[str, Any]]) -> list[str]:
    if not numbers:
        return []
    rows = [
        [n["what"], _with_unit(n["ours"], n["unit"]), _with_unit(n["paper"], n["unit"]), _signed(n["difference"]), n["where"]]
        for n in numbers
    ]
    return ["## Our numbers beside the paper's", markdown_table(["what", "here", "in the paper", "difference", "where"], rows)]


def _claims(claims: Sequence[dict[str, Any]]) -> list[str]:
    if not claims:
        return []
    words = {True: "yes", False: "**no**", None: "cannot be said"}
    rows = [[claim["says"], words[claim["holds"]], claim["ours"], claim["where"]] for claim in claims]
    return ["## What the paper observes", markdown_table(["observation", "holds here", "by", "where"], rows)]


def _failed(failed: Sequence[dict[str, str]]) -> list[str]:
    if not failed:
        return []
    rows = [[row["kernel"], row["design"] or "baseline", row["what"], row["reason"]] for row in failed[:_MOST_FAILED]]
    more = f"{len(failed)} points have no result and are missing above."
    if len(failed) > _MOST_FAILED:
        more += f" The first {_MOST_FAILED}:"
    return ["## Points that failed", more, markdown_table(["kernel", "design", "what", "reason"], rows)]


def _paper(document: dict[str, Any]) -> str:
    return "MDM" if document["figure"].startswith("mdm-") else "GPUMech"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return _number(value) if _is_number(value) else _cell(str(value))


def _number(value: float | None) -> str:
    """Three significant digits, whole numbers whole."""
    if value is None:
        return "none"
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{_number(value)} {unit}".rstrip()


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+.3g}"


def _cell(text: str) -> str:
    """Text that a table cell can hold."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")

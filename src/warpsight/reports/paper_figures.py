"""Reproduced figures of the papers: as terminal text, as Markdown pages with pictures, and as files."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from warpsight.base.errors import UsageError
from warpsight.base.outputs import write_whole
from warpsight.papers.validate import figure_names
from warpsight.reports.drawing.charts import Axis, Bars, Chart, Dot, HeatMap, Lines, Scatter, Series
from warpsight.reports.drawing.svg import svg
from warpsight.reports.formats import json_text

# Failed points that a page lists; the document has them all.
_MOST_FAILED = 20


def figure_svg(document: dict[str, Any]) -> str:
    """The picture."""
    return svg([chart_of(panel) for panel in document["panels"]], heading(document))


def chart_of(panel: dict[str, Any]) -> Chart:
    """The chart that a panel describes: `chart` is bars, lines, scatter or heat map, the other keys are the chart's fields."""
    kind = panel["chart"]
    fields = {key: value for key, value in panel.items() if key != "chart"}
    fields |= {name: Axis(**fields[name]) for name in ("axis", "x", "y") if name in fields}
    if kind == "heat map":
        return HeatMap(**fields)
    if kind == "scatter":
        series = tuple((each["name"], tuple(Dot(**dot) for dot in each["dots"])) for each in fields["series"])
        return Scatter(**{**fields, "series": series})
    fields["series"] = tuple(Series(**each) for each in fields["series"])
    if fields.get("line") is not None:
        fields["line"] = Series(**fields["line"])
    fields |= {name: tuple(map(tuple, fields[name])) for name in ("spans", "marks") if name in fields}
    return Bars(**fields) if kind == "bars" else Lines(**fields)


def heading(document: dict[str, Any]) -> str:
    """The paper's name, the figure's number there, and the title."""
    return f"{_paper(document)}, {document['paper']['place']}: {document['title']}"


def figure_page(document: dict[str, Any]) -> str:
    """The page, which includes NAME.svg."""
    name, paper = document["figure"], document["paper"]
    parts = [
        f"<!-- Generated from {name}.json by `{document['command']}`. Do not edit. -->",
        f"# {heading(document)}",
        f"In the paper: {paper['shows']} ({paper['cite']}, {paper['place']}). On this page: the simulator and the models with "
        f"{len(document['kernels'])} kernels of the suite `{document['suite']}`, {len(document['holdout'])} of them held out, on "
        f"`{document['gpu']['name']}`.",
        f"![{_cell(heading(document))}]({name}.svg)",
        *_numbers(document["numbers"]),
        *_claims(document["claims"]),
        "## Differences, and why",
        "\n".join(f"- {sentence}" for sentence in [*document["differences"], *document["notes"]]),
    ]
    for table in document["tables"]:
        parts += [f"## {table['title']}", markdown_table(table["columns"], table["rows"])]
    parts += _failed(document["failed"])
    parts.append(f"The data are in [{name}.json]({name}.json). To reproduce: `{document['command']} --out DIR`.")
    return "\n\n".join(parts) + "\n"


def index_page(documents: Sequence[dict[str, Any]]) -> str:
    """The index page of `documents`, with the papers' numbers and ours."""
    rows = []
    for document in documents:
        name = document["figure"]
        numbers = [number for number in document["numbers"] if number["paper"] is not None]
        claims = [claim["holds"] for claim in document["claims"] if claim["holds"] is not None]
        text = "; ".join(f"{n['what']}: {_number(n['ours'])} ({_number(n['paper'])}) {n['unit']}".rstrip() for n in numbers[:4])
        rows.append([f"[{document['paper']['place']}]({name}.md)", _paper(document), document["title"], text,
                     f"{sum(claims)} of {len(claims)}" if claims else ""])  # fmt: skip
    columns = ["figure", "paper", "content", "our value (paper's value)", "observations that hold"]
    suites = ", ".join(f"`{name}`" for name in dict.fromkeys(document["suite"] for document in documents))
    command = f"warpsight validate --suite {documents[0]['suite']} --figure all --out docs/validation" if documents else ""
    return "\n\n".join([
        f"<!-- Generated from the JSON files in this folder by `{command}`. Do not edit. -->",
        "# The papers' figures, reproduced",
        f"These are the figures and tables of the papers, made again with the simulator and the models on the suite {suites}. Each "
        "row has up to four of the values that we computed, with the paper's value in parentheses. The last column says how many "
        "of the paper's observations hold here, too. [validate.md](../reference/validate.md) describes the method.",
        markdown_table(columns, rows),
        f"To make all of them again: `{command}`.",
    ]) + "\n"  # fmt: skip


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table; numbers right-aligned, with three significant digits."""
    kinds = [{_is_number(row[k]) for row in rows if row[k] is not None} for k in range(len(columns))]
    numeric = [kind == {True} for kind in kinds]
    return "\n".join([
        f"| {' | '.join(map(_cell, columns))} |",
        "|" + "|".join("---:" if number else "---" for number in numeric) + "|",
        *(f"| {' | '.join(map(_cell, row))} |" for row in rows),
    ])  # fmt: skip


def _numbers(numbers: Sequence[dict[str, Any]]) -> list[str]:
    if not numbers:
        return []
    rows = [
        [n["what"], _with_unit(n["ours"], n["unit"]), _with_unit(n["paper"], n["unit"]), _signed(n["difference"]), n["where"]]
        for n in numbers
    ]
    return ["## Our numbers and the paper's", markdown_table(["quantity", "reproduced", "paper", "difference", "section"], rows)]


def _claims(claims: Sequence[dict[str, Any]]) -> list[str]:
    if not claims:
        return []
    words = {True: "yes", False: "**no**", None: "unknown"}
    rows = [[claim["says"], words[claim["holds"]], claim["ours"], claim["where"]] for claim in claims]
    return ["## Observations of the paper", markdown_table(["observation", "holds", "evidence", "section"], rows)]


def _failed(failed: Sequence[dict[str, str]]) -> list[str]:
    if not failed:
        return []
    rows = [[row["kernel"], row["design"] or "baseline", row["what"], row["reason"]] for row in failed[:_MOST_FAILED]]
    first = f" The first {_MOST_FAILED}:" if len(failed) > _MOST_FAILED else ""
    return ["## Points that failed", f"{len(failed)} points have no result and are missing above.{first}",
            markdown_table(["kernel", "design", "what", "reason"], rows)]  # fmt: skip


def _paper(document: dict[str, Any]) -> str:
    return "MDM" if document["figure"].startswith("mdm-") else "GPUMech"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: float | None) -> str:
    """Three significant digits, whole numbers whole."""
    if value is None:
        return "none"
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 100 else f"{value:.3g}"


def _with_unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{_number(value)} {unit}".rstrip()


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+.3g}"


def _cell(value: Any) -> str:
    """A number, or text escaped for a table cell; empty for None."""
    if value is None:
        return ""
    return _number(value) if _is_number(value) else " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;")


# -- Reproduced figures as terminal text.

_MOST_REASONS = 3


def list_text(figures: Sequence[dict[str, str]]) -> str:
    """A line for each figure."""
    width = max(len(row["figure"]) for row in figures)
    lines: dict[str, list[str]] = {}
    for row in figures:
        lines.setdefault(row["paper"], [row["paper"]]).append(f"  {row['figure']:<{width}}  {row['title']}")
    return "\n".join(line for paper in lines.values() for line in paper)


def figures_text(documents: Sequence[dict[str, Any]], written: Sequence[Path]) -> str:
    """For each figure the paper's numbers and ours, which observations hold, and where the page is."""
    blocks = []
    for index, document in enumerate(documents):
        lines = [heading(document), f"  {len(document['kernels'])} kernels of {document['suite']} on {document['gpu']['name']}"]
        numbers = [number for number in document["numbers"] if number["ours"] is not None or number["paper"] is not None]
        width = max((len(number["what"]) for number in numbers), default=0)
        for number in numbers:
            ours, paper = (_value(number[key], number["unit"]) for key in ("ours", "paper"))
            lines.append(f"  {number['what']:<{width}}  {ours:>12}   paper {paper:>12}".rstrip())
        words = {True: "holds", False: "does not hold", None: "unknown"}
        lines += [f"  {words[claim['holds']]}: {claim['says']} ({claim['ours']})" for claim in document["claims"]]
        failed = document["failed"]
        if failed:
            lines.append(f"  {len(failed)} points failed; the first:")
            lines += [f"    {row['kernel']}, {row['design'] or 'baseline'}, {row['what']}: {row['reason']}"
                      for row in failed[:_MOST_REASONS]]  # fmt: skip
        if written:
            lines.append(f"  {written[index]}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _value(value: float | None, unit: str) -> str:
    return "none" if value is None else f"{value:,.1f} {unit}".rstrip()


# -- The files of figures: data, picture and page, each written atomically.

INDEX = "README.md"


def ready_folder(out: str) -> Path:
    """The folder `out`, created if needed. Raises UsageError if it is not writable, before hours are spent."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:
        raise _refused(folder, error) from None
    return folder


def write_figures(folder: Path, documents: Sequence[dict[str, Any]]) -> list[Path]:
    """NAME.json, NAME.svg and NAME.md for each document, and an index of all figures in the folder. The pages, in order."""
    pages = []
    for document in documents:
        name = document["figure"]
        _write(folder / f"{name}.json", document_text(document))
        _write(folder / f"{name}.svg", figure_svg(document))
        _write(folder / f"{name}.md", figure_page(document))
        pages.append(folder / f"{name}.md")
    _write(folder / INDEX, index_page(read_figures(folder)))
    return pages


def document_text(document: dict[str, Any]) -> str:
    """The document as JSON with one line per row of data: easy to read, and small in a repository."""
    rows = ",\n  ".join(json.dumps(row, allow_nan=False) for row in document["rows"])
    head = json_text({**document, "rows": []})
    return head.replace('"rows": []', f'"rows": [\n  {rows}\n ]' if rows else '"rows": []', 1) + "\n"


def read_figures(folder: Path) -> list[dict[str, Any]]:
    """The documents in the folder, in the order of the list of figures."""
    documents = []
    for name in figure_names():
        with suppress(OSError, ValueError):
            documents.append(json.loads((folder / f"{name}.json").read_text("utf-8")))
    return documents


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise _refused(path, error) from None


def _refused(path: Path, error: OSError | ValueError) -> UsageError:
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"cannot be written: {reason}", place=str(path), remedy="give a writable folder as `out`")

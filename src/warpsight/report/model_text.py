"""The performance models as terminal text, and as the page of the documentation."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.report.style import WIDTH
from warpsight.result.cpi_stack import STACK

_NEEDS = {
    "misses": "L1 misses of each interval (read_misses, write_misses)",
    "dram": "DRAM accesses of each interval (dram_reads, dram_writes)",
    "launch": "the launch's blocks and residency",
    "dpki": "divergent loads per kilo-instruction",
    "demands": "what the launch asks of each resource (demands)",
    "counts": "instructions by kind, coalesced and not (counts)",
}
_LABEL = 14


def model_list_text(documents: list[dict[str, Any]]) -> str:
    """One model a line: name, title and where its equations are from."""
    name = max((len(document["name"]) for document in documents), default=0) + 3
    lines = [textwrap.wrap(f"{document['title']}. {document['source']}", WIDTH - name - 1) for document in documents]
    indent = " " * (name + 1)
    return "\n".join(
        f" {document['name']:<{name}}" + f"\n{indent}".join(wrapped) for document, wrapped in zip(documents, lines, strict=True)
    )


def model_text(document: dict[str, Any]) -> str:
    """One model: what it is, its equations, needs, assumptions, where it fails, the citation, and its CPI stack."""
    lines = [f"{document['name']}   {document['title']}", ""]
    lines += [*textwrap.wrap(document["description"], WIDTH - 2, initial_indent="  ", subsequent_indent="  "), ""]
    for label, texts in _parts(document):
        lines += _labelled(label, texts)
    lines += ["", " CPI stack   what it means, and how it comes about (W: warps resident on an SM)"]
    indent = " " * (_LABEL - 1)
    for name in document["stack"]:
        lines.append(f" {STACK[name].name:<11} {STACK[name].meaning}")
        lines += textwrap.wrap(document["by_component"].get(name, ""), WIDTH, initial_indent=indent, subsequent_indent=indent)
    return "\n".join(lines)


def models_page(documents: list[dict[str, Any]], command: str) -> str:
    """The Markdown page of all models; `command` makes it again."""
    lines = [
        "# Models",
        "",
        f"<!-- made by: {command} -->",
        "",
        "What `warpsight models show NAME` says of each; `--model NAME[,NAME]` chooses. The components of a CPI stack that a model",
        "does not fill are 0; [cpi-stack.md](../explanation/cpi-stack.md) explains them. In their equations W are the warps",
        "resident on an SM, N those that are active, and a sum is over the intervals of the representative warp and the waves of",
        "the launch, divided by the instructions that an SM executes in them.",
        "",
        "| model | is |",
        "|---|---|",
        *(f"| [`{document['name']}`](#{document['name']}) | {document['title']} |" for document in documents),
    ]
    for document in documents:
        lines += ["", f"## {document['name']}", "", f"{document['title']}.", *textwrap.wrap(document["description"], WIDTH), ""]
        for label, texts in _parts(document):
            lines += [f"- {label}:", *(f"  - {text}" for text in texts)] if len(texts) > 1 else [f"- {label}: {texts[0]}"]
        lines += ["", "| component | comes about as |", "|---|---|"]
        lines += [f"| `{name}` | {document['by_component'].get(name, '')} |" for name in document["stack"]]
    return "\n".join(lines) + "\n"


def _parts(document: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The labelled parts of a model in their order."""
    needs = [_NEEDS.get(need, need) for need in document["needs"]] or ["the intervals alone"]
    return [
        ("source", [document["source"]]),
        ("equations", document["equations"]),
        ("needs", needs),
        ("assumes", document["assumptions"]),
        ("fails", document["fails"]),
        ("cite", [document["citation"]]),
    ]


def _labelled(label: str, texts: list[str]) -> list[str]:
    """The texts in a column beside their label, each wrapped with a further indent."""
    column, lines = " " * _LABEL, []
    for text in texts:
        lines += textwrap.wrap(text, WIDTH, initial_indent=column, subsequent_indent=column + "  ")
    return [f"  {label:<{_LABEL - 2}}{lines[0][_LABEL:]}", *lines[1:]]

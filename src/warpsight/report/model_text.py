"""The performance models as terminal text."""

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
    "counts": "instructions by kind, coalesced and not (counts)",
}


def model_list_text(documents: list[dict[str, Any]]) -> str:
    """One model a line: name, title and where its equations are from."""
    name = max((len(document["name"]) for document in documents), default=0) + 3
    lines = [textwrap.wrap(f"{document['title']}. {document['source']}", WIDTH - name - 1) for document in documents]
    indent = " " * (name + 1)
    return "\n".join(
        f" {document['name']:<{name}}" + f"\n{indent}".join(wrapped) for document, wrapped in zip(documents, lines, strict=True)
    )


def model_text(document: dict[str, Any]) -> str:
    """One model: title, source, what it needs of a profile, its assumptions, and the components of its CPI stack."""
    needs = [_NEEDS.get(need, need) for need in document["needs"]] or ["the intervals alone"]
    lines = [f"{document['name']}   {document['title']}", "", f"  equations    {document['source']}"]
    lines += [f"  {'needs' if number == 0 else '':<11}  {need}" for number, need in enumerate(needs)]
    lines += ["", *textwrap.wrap(document["description"], WIDTH - 2, initial_indent="  ", subsequent_indent="  "), ""]
    lines.append(" CPI stack   what it means")
    lines += [f" {component.name:<11} {component.meaning}" for component in STACK.values()]
    return "\n".join(lines)

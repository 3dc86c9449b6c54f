"""The performance models and this installation (tools, libraries, instructions) as text."""

from __future__ import annotations

import textwrap
from typing import Any

from warpsight.isa.sass.opcodes import SOURCE
from warpsight.reports.terminal import WIDTH

_NEEDS = {
    "misses": "L1 misses of each interval (read_misses, write_misses)",
    "dram": "DRAM accesses of each interval (dram_reads, dram_writes)",
    "launch": "blocks of the launch, and resident blocks per SM",
    "dpki": "divergent loads per 1000 instructions",
    "demands": "the launch's demand on each resource (demands)",
    "counts": "instruction counts by kind, coalesced and uncoalesced (counts)",
}
_LABEL = 14


def model_list_text(documents: list[dict[str, Any]]) -> str:
    """One line per model: name, title and source of its equations."""
    width = max((len(document["name"]) for document in documents), default=0) + 3
    lines = []
    for document in documents:
        text = textwrap.wrap(f"{document['title']}. {document['source']}", WIDTH - width - 1)
        lines.append(f" {document['name']:<{width}}" + f"\n{' ' * (width + 1)}".join(text))
    return "\n".join(lines)


def model_text(document: dict[str, Any]) -> str:
    """One model: description, equations, inputs, assumptions, limitations, citation, and its CPI stack."""
    lines = [f"{document['name']}   {document['title']}", ""]
    lines += [*textwrap.wrap(document["description"], WIDTH - 2, initial_indent="  ", subsequent_indent="  "), ""]
    for label, texts in _parts(document):
        lines += _labelled(label, texts)
    lines += ["", " CPI stack   meaning, and how the model computes it (W: resident warps per SM)"]
    for name in document["stack"]:
        lines.append(f" {name:<11} {document['meanings'][name]}")
        lines += textwrap.wrap(document["by_component"].get(name, ""), WIDTH, initial_indent=" " * 13, subsequent_indent=" " * 13)
    return "\n".join(lines)


def models_page(documents: list[dict[str, Any]], command: str) -> str:
    """The Markdown page of all models; `command` regenerates it."""
    lines = [
        "# Models",
        "",
        f"<!-- made by: {command} -->",
        "",
        "This is the output of `warpsight models show NAME` for each model; `--model NAME[,NAME]` selects models. Components",
        "that a model does not use are 0; [cpi-stack.md](../explanation/cpi-stack.md) explains them. In the equations, W is the",
        "number of resident warps per SM, and N the number of active warps. A sum is over the intervals of the representative",
        "warp and the waves of the launch, divided by the instructions that an SM executes in them.",
        "",
        "| model | description |",
        "|---|---|",
        *(f"| [`{document['name']}`](#{document['name']}) | {document['title']} |" for document in documents),
    ]
    for document in documents:
        lines += ["", f"## {document['name']}", "", f"{document['title']}.", *textwrap.wrap(document["description"], WIDTH), ""]
        for label, texts in _parts(document):
            lines += [f"- {label}:", *(f"  - {text}" for text in texts)] if len(texts) > 1 else [f"- {label}: {texts[0]}"]
        lines += ["", "| component | equation |", "|---|---|"]
        lines += [f"| `{name}` | {document['by_component'].get(name, '')} |" for name in document["stack"]]
    return "\n".join(lines) + "\n"


def _parts(document: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The labelled parts of a model in their order."""
    needs = [_NEEDS.get(need, need) for need in document["needs"]] or ["only the intervals"]
    parameters = [f"{row['name']} ({row['kind']}, default {row['default']}): {row['meaning']}" for row in document["parameters"]]
    return [
        ("source", [document["source"]]),
        ("equations", document["equations"]),
        ("needs", needs),
        *([("parameters", parameters)] if parameters else []),
        ("assumes", document["assumptions"]),
        ("fails", document["fails"]),
        ("cite", [document["citation"]]),
    ]


def _labelled(label: str, texts: list[str]) -> list[str]:
    """The texts in a column next to their label, each wrapped with an indent."""
    column, lines = " " * _LABEL, []
    for text in texts:
        lines += textwrap.wrap(text, WIDTH, initial_indent=column, subsequent_indent=column + "  ")
    return [f"  {label:<{_LABEL - 2}}{lines[0][_LABEL:]}", *lines[1:]]


# -- The installation as terminal text.

_HINTS = {
    "nvcc": "not on PATH: files with host code are compiled with NVRTC",
    "C compiler": "not on PATH: `warpsight run` needs one",
}


def instructions_text(rows: list[dict[str, Any]]) -> str:
    """One line per opcode: executed or not, op class, description or the reason why it is refused."""
    name = max(len(row["opcode"]) for row in rows) + 2
    lines = [f" {'opcode':<{name}}{'executed':<10}{'op class':<12}what"]
    for row in rows:
        mark, reason = ("yes", "") if row["executed"] else ("no", f" ({row['why_not']})")
        lines.append(f" {row['opcode']:<{name}}{mark:<10}{row['op_class']:<12}{row['what']}{reason}")
    executed = sum(row["executed"] for row in rows)
    lines += ["", f" {executed} of {len(rows)} opcodes are executed. Unsupported forms of an opcode are refused with their line."]
    return "\n".join(lines)


def native_rows_text(rows: list[dict[str, Any]]) -> str:
    """One line per SASS opcode."""
    name = max(len(row["opcode"]) for row in rows) + 2
    lines = [f" {'opcode':<{name}}{'op class':<10}{'access':<16}what"]
    for row in rows:
        access = f"{row['space']} {row['access']}".strip()
        lines.append(f" {row['opcode']:<{name}}{row['op_class']:<10}{access:<16}{row['what']}")
    return "\n".join(lines)


def native_text(rows: list[dict[str, Any]]) -> str:
    """The SASS opcodes that imported traces may have, by op class, and the source of the table."""
    classes: dict[str, list[str]] = {}
    for row in rows:
        classes.setdefault(row["op_class"], []).append(row["opcode"])
    lines = [f" {'op class':<12}{'opcodes':>8}  SASS opcodes of imported traces"]
    for name, opcodes in sorted(classes.items(), key=lambda item: -len(item[1])):
        text = ""
        for opcode in opcodes:
            if len(text) + len(opcode) > 90:
                text += " ..."
                break
            text += f" {opcode}"
        lines.append(f" {name:<12}{len(opcodes):>8} {text}")
    accesses = sum(bool(row["access"]) for row in rows)
    lines += ["", f" {len(rows)} SASS opcodes, {accesses} of them access memory ({SOURCE}, sm_35 to sm_100). "
              "Others get the op class of the nearest name, with a warning."]
    return "\n".join(lines)


def environment_text(document: dict[str, Any]) -> str:
    """Versions, tools and the cache, one line each; a missing one with its remedy."""
    packages, tools, cache = document["packages"], document["tools"], document["cache"]
    return "\n".join([
        f"warpsight {document['warpsight']}   Python {document['python']}   {document['machine']}", "",
        *(f"  {package:<22}{version or f'missing: python -m pip install {package}'}" for package, version in packages.items()),
        *(f"  {tool:<22}{path or _HINTS[tool]}" for tool, path in tools.items()),
        f"  {'cache':<22}{cache['folder']}   {cache['files']:,} files, {cache['bytes'] / (1 << 20):,.1f} MiB",
    ])  # fmt: skip

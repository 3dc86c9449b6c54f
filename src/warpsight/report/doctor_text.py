"""What an installation can do, as terminal text."""

from __future__ import annotations

from typing import Any

_HINTS = {
    "nvcc": "not on PATH: files with host code go through NVRTC",
    "C compiler": "not on PATH: `warpsight run` needs one",
}


def instructions_text(rows: list[dict[str, Any]]) -> str:
    """One opcode a line: executed or not, op class, what it is or why it is refused."""
    name = max(len(row["opcode"]) for row in rows) + 2
    lines = [f" {'opcode':<{name}}{'executed':<10}{'op class':<12}what"]
    for row in rows:
        mark = "yes" if row["executed"] else "no"
        what = row["what"] if row["executed"] else f"{row['what']} ({row['why_not']})"
        lines.append(f" {row['opcode']:<{name}}{mark:<10}{row['op_class']:<12}{what}")
    executed = sum(row["executed"] for row in rows)
    lines += ["", f" {executed} of {len(rows)} opcodes are executed. A form of one that is not modelled is refused, with its line."]
    return "\n".join(lines)


def native_rows_text(rows: list[dict[str, Any]]) -> str:
    """One native opcode a line."""
    name = max(len(row["opcode"]) for row in rows) + 2
    lines = [f" {'opcode':<{name}}{'op class':<10}{'access':<16}what"]
    for row in rows:
        access = f"{row['space']} {row['access']}".strip()
        lines.append(f" {row['opcode']:<{name}}{row['op_class']:<10}{access:<16}{row['what']}")
    return "\n".join(lines)


def native_text(rows: list[dict[str, Any]]) -> str:
    """How many native opcodes imported traces may have, by op class, and where the table is from."""
    from warpsight.isa.sass.table import SOURCE

    classes: dict[str, list[str]] = {}
    for row in rows:
        classes.setdefault(row["op_class"], []).append(row["opcode"])
    lines = [f" {'op class':<12}{'opcodes':>8}  native opcodes (SASS) of imported traces"]
    for name, opcodes in sorted(classes.items(), key=lambda item: -len(item[1])):
        shown = ""
        for opcode in opcodes:
            if len(shown) + len(opcode) > 90:
                shown += " ..."
                break
            shown += f" {opcode}"
        lines.append(f" {name:<12}{len(opcodes):>8} {shown}")
    accesses = sum(bool(row["access"]) for row in rows)
    lines += ["", f" {len(rows)} native opcodes, {accesses} of them access memory ({SOURCE}, sm_35 to sm_100). "
              "Others are priced by the nearest name, with a warning."]
    return "\n".join(lines)


def environment_text(document: dict[str, Any]) -> str:
    """Versions, tools and the cache, a line each; what is missing says what to do."""
    lines = [f"warpsight {document['warpsight']}   Python {document['python']}   {document['machine']}", ""]
    for package, version in document["packages"].items():
        lines.append(f"  {package:<22}{version or f'missing: python -m pip install {package}'}")
    for tool, path in document["tools"].items():
        lines.append(f"  {tool:<22}{path or _HINTS[tool]}")
    cache = document["cache"]
    lines.append(f"  {'cache':<22}{cache['folder']}   {cache['files']:,} files, {cache['bytes'] / (1 << 20):,.1f} MiB")
    return "\n".join(lines)

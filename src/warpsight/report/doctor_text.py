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

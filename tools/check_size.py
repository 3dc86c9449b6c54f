"""The size budget of the house: short files, short functions. Exits with 1 and a list if it is not kept.

Usage: python tools/check_size.py [ROOT]
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

MEDIAN_LINES, FILE_LINES, FUNCTION_LINES = 150, 400, 60
BUDGETED = ("src", "tools")
CAPPED = (*BUDGETED, "tests", "benchmarks")
SUFFIXES = (".py", ".c", ".h", ".cu", ".js", ".css", ".jinja")
EXEMPT = "size-budget: generated"
"""A file with these words in a comment within its first ten lines is a generated table and does not count."""


def lines_of(path: Path) -> list[str] | None:
    """The file's lines, or None if it is exempt."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return None if any(EXEMPT in line and line.lstrip()[:1] in "#/*<{" for line in lines[:10]) else lines


def long_functions(path: Path, source: str) -> Iterator[tuple[int, str, int]]:
    """(line, name, lines) of each function that is too long. Raises SyntaxError if `source` is not Python."""
    for node in ast.walk(ast.parse(source, str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield node.lineno, node.name, lines


def faults(root: Path) -> list[str]:
    """What breaks the budget under `root`, one line each. Tests and benchmarks keep only the limit on a file."""
    found: list[str] = []
    sizes: list[int] = []
    for folder in CAPPED:
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in SUFFIXES and p.is_file()):
            lines = lines_of(path)
            if lines is None:
                continue
            place = path.relative_to(root)
            if len(lines) > FILE_LINES:
                found.append(f"{place}: {len(lines)} lines, the limit is {FILE_LINES}")
            if folder in BUDGETED:
                sizes += [len(lines)] if lines else []
                if path.suffix == ".py":
                    functions = long_functions(path, "\n".join(lines))
                    found += [f"{place}:{at}: {name} has {n} lines, the limit is {FUNCTION_LINES}" for at, name, n in functions]
    if sizes and statistics.median(sizes) > MEDIAN_LINES:
        found.append(f"the median file has {statistics.median(sizes):.0f} lines, the limit is {MEDIAN_LINES}")
    return found


def main(arguments: list[str]) -> int:
    """Check the tree at the first argument, or the one that this script stands in."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    found = faults(root)
    for line in found:
        sys.stdout.write(f"size budget: {line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The rules of the house that a program can check: sizes of files and functions, imports at the top, no import circle.

Exits with 1 and a list if a rule is broken. `--figures` prints the structure of `src/` in numbers instead.
"""

from __future__ import annotations

import argparse
import ast
import gc
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

FILE_LINES, FUNCTION_LINES, LOCAL_IMPORTS = 500, 60, 20
SMALL_FILE_LINES = 50
BUDGETED = ("src", "tools")
CAPPED = (*BUDGETED, "tests", "benchmarks")
SUFFIXES = (".py", ".c", ".h", ".cu", ".js", ".css", ".jinja")
EXEMPT = "size-budget: generated"
"""A file with this text in a comment within its first ten lines is a generated table and does not count."""

Circle = list[str]


def faults(root: Path) -> list[str]:
    """The violations of rules under `root`, one line each. For tests and benchmarks only the limit on a file applies."""
    house = House(root / "src")
    lines = list(_sizes(root))
    lines += [f"{' -> '.join(circle)}: these modules import each other in a circle" for circle in house.circles()]
    if len(house.local_imports) > LOCAL_IMPORTS:
        lines += [f"src/{place}: an import inside a function" for place in house.local_imports]
        lines.append(f"src: {len(house.local_imports)} imports inside functions, the limit is {LOCAL_IMPORTS}")
    return lines


def _sizes(root: Path) -> Iterator[str]:
    for folder in CAPPED:
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in SUFFIXES and p.is_file()):
            lines = path.read_text(encoding="utf-8").splitlines()
            if any(EXEMPT in line and line.lstrip()[:1] in "#/*<{" for line in lines[:10]):
                continue
            place = path.relative_to(root)
            if len(lines) > FILE_LINES:
                yield f"{place}: {len(lines)} lines, the limit is {FILE_LINES}"
            if folder in BUDGETED and path.suffix == ".py":
                for line, name, length in _long_functions(path):
                    yield f"{place}:{line}: {name} has {length} lines, the limit is {FUNCTION_LINES}"


@cache
def _tree(path: Path) -> ast.Module:
    """Raises SyntaxError if the file is not Python."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def _statements(path: Path) -> Iterator[tuple[ast.AST, bool]]:
    """All of a file but its expressions, in order, and whether it stands inside a function."""
    waiting: list[tuple[ast.AST, bool]] = [(_tree(path), False)]
    while waiting:
        node, inside = waiting.pop()
        yield node, inside
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
        waiting += [(child, inside) for child in reversed(children)]


def _long_functions(path: Path) -> Iterator[tuple[int, str, int]]:
    """(line, name, lines) of each function that is too long."""
    for node, _ in _statements(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES:
                yield node.lineno, node.name, lines


class House:
    """The Python modules under a folder and their imports of each other: at the top, in functions, and for types only."""

    def __init__(self, folder: Path) -> None:
        self.files = {_module_name(path.relative_to(folder)): path for path in sorted(folder.rglob("*.py"))}
        self.imports: dict[str, set[str]] = {}
        self.local_imports: list[str] = []  # "path:line" of each import inside a function
        for name, path in self.files.items():
            self.imports[name] = {module for node, _ in _statements(path) for module in self._imported(node)} - {name}
            self.local_imports += [
                f"{path.relative_to(folder)}:{node.lineno}"
                for node, inside in _statements(path)
                if inside and isinstance(node, ast.Import | ast.ImportFrom)
            ]

    def _imported(self, node: ast.AST) -> Iterator[str]:
        """The modules of this house that one statement imports."""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.files)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                if name in self.files or node.module in self.files:
                    yield name if name in self.files else node.module

    def importers(self) -> Counter[str]:
        """How many modules import each module."""
        return Counter(module for imported in self.imports.values() for module in imported)

    def circles(self) -> list[Circle]:
        """The strongly connected components of more than one module (Tarjan, 1972)."""
        return _components(self.imports)


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _components(graph: Mapping[str, set[str]]) -> list[Circle]:
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: list[Circle] = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for other in graph[node]:
            if other not in numbers:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == numbers[node]:
            start = stack.index(node)
            component, stack[start:] = stack[start:], []
            if len(component) > 1:
                circles.append(sorted(component))

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in numbers:
            visit(node)
    return circles


def figures(root: Path) -> dict[str, int]:
    """The structure of the Python modules of `src/` in numbers."""
    house = House(root / "src")
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in house.files.values() if path.name != "__init__.py"]
    inits = [len(path.read_text(encoding="utf-8").splitlines()) for path in house.files.values() if path.name == "__init__.py"]
    return {
        "files": len(house.files),
        "lines": sum(lines) + sum(inits),
        f"files of at most {SMALL_FILE_LINES} lines": sum(length <= SMALL_FILE_LINES for length in lines),
        "files with one importer": sum(count == 1 for count in house.importers().values()),
        "imports inside functions": len(house.local_imports),
        "import circles": len(house.circles()),
        "files in the largest circle": max(map(len, house.circles()), default=0),
    }


def main() -> int:
    """Check or describe a tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1], help="default: this repository")
    parser.add_argument("--figures", action="store_true", help="print the structure of src/ in numbers")
    options = parser.parse_args()
    gc.disable()  # the trees are needed to the end
    if options.figures:
        for name, number in figures(options.root).items():
            print(f"{number:8,}  {name}")
        return 0
    lines = faults(options.root)
    for line in lines:
        print(f"house rule: {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

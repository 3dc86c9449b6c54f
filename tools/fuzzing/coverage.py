"""Which branches of Warpsight's own code a case takes: probes that are put into its modules as they are imported.

A probe stands at the start of every branch: function, arm of an `if`, loop, handler, arm of a conditional expression. What is
counted is the step from one probe to the next, so that the same branches in another order are something new. Modules that Numba
compiles are left alone.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import zlib
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

_PROBE = "__fuzz_probe__"
_BY_NUMBA = re.compile(r"^(import numba|from numba|from warpsight\.base\.compiled import|@compiled|@jit|@inlined)", re.MULTILINE)


def prober() -> tuple[set[int], Callable[[int], None]]:
    """An empty set, and the function that adds to it the step from the probe before to this one."""
    steps: set[int] = set()
    add, before = steps.add, 0

    def probe(number: int) -> None:
        nonlocal before
        add(before ^ number)
        before = number >> 1

    return steps, probe


class _Inserter(ast.NodeTransformer):
    def __init__(self, module: str) -> None:
        self._module, self._count = module, 0

    def _call(self) -> ast.Call:
        self._count += 1
        number = zlib.crc32(f"{self._module}:{self._count}".encode())
        return ast.Call(ast.Name(_PROBE, ast.Load()), [ast.Constant(number)], [])

    def _branches(self, node: Any) -> ast.AST:
        self.generic_visit(node)
        node.body.insert(0, ast.Expr(self._call()))
        if isinstance(node, ast.If | ast.For | ast.While):
            node.orelse.insert(0, ast.Expr(self._call()))
        return node  # type: ignore[no-any-return]

    visit_FunctionDef = visit_If = visit_For = visit_While = visit_ExceptHandler = visit_match_case = _branches  # noqa: N815

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        self.generic_visit(node)
        node.body = ast.BoolOp(ast.Or(), [self._call(), node.body])
        node.orelse = ast.BoolOp(ast.Or(), [self._call(), node.orelse])
        return node


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        text = self.get_data(path).decode()
        tree = ast.parse(text, path)
        if not _BY_NUMBA.search(text):
            # Names of the module stay first: its docstring and its imports from __future__.
            for statement in tree.body:
                _Inserter(fullname).visit(statement)
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = tuple(f"{package}." for package in packages)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith(self._packages) else None
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = _Loader(fullname, spec.origin)
        return spec


def install(packages: Sequence[str]) -> set[int]:
    """Put probes into modules of `packages` imported from now on; gives the set into which they report, to be emptied by its
    user.
    """
    steps, probe = prober()
    setattr(builtins, _PROBE, probe)
    sys.meta_path.insert(0, _Finder(packages))
    return steps

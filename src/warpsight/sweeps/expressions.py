"""Expressions of a study file: `2 * noc.bandwidth if sm_count > 40 else 525*GB/s`. Parsed, checked, and never run as code.

Python's grammar is used for the text alone. What is not a number, a key, a word in quotes, an operator, a comparison, `and`, `or`,
`not`, `A if C else B` or one of `FUNCTIONS` is refused when it is parsed.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.units import BANDWIDTH, CYCLES, FREQUENCY, SIZE, TIME, UNITS
from warpsight.gpu.key import WORD
from warpsight.gpu.keys import is_section
from warpsight.sweeps import names as known
from warpsight.sweeps.expression_tree import (
    Arithmetic,
    Call,
    Choice,
    Comparison,
    Constant,
    Logic,
    Name,
    Negative,
    Node,
    Not,
    evaluate,
    names_in,
    sort_of,
)
from warpsight.sweeps.names import NUMBER, TRUTH

# function -> how many numbers it takes, 0: two or more
FUNCTIONS = {"min": 0, "max": 0, "abs": 1, "sqrt": 1, "log": 1, "log2": 1, "exp": 1, "ceil": 1, "floor": 1, "round": 1}
# every unit of a description, the decimal ones of a bandwidth by their first half: 525*GB/s
CONSTANTS: dict[str, float] = {
    **{unit.removesuffix("/s"): float(factor) for unit, factor in UNITS[BANDWIDTH].items()},
    **{unit: float(factor) for dimension in (FREQUENCY, SIZE, CYCLES, TIME) for unit, factor in UNITS[dimension].items()},
    "s": 1.0,
}
_TRUTHS = {"true": True, "false": False}
_LONGEST, _DEEPEST = 2_000, 100
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.And: "and", ast.Or: "or",
}
_REMEDY = f"use numbers, keys, words in quotes, + - * / // % **, comparisons, and, or, not, A if C else B, {', '.join(FUNCTIONS)}"
_UNIT_AFTER_NUMBER = re.compile(r"(?<![\w.])([\d.]+(?:[eE][+-]?\d+)?)\s*([KMGTk]i?(?:B|Hz)|Hz|B|cycles?|[num]s)\b")
_NUMBERED = re.compile(r"\blaunch\.arg\.(?=\d)")  # Python's grammar has no name that begins with a digit
_STAND_IN = "launch.arg.argument_"
_HYPHENATED = re.compile(r"\b[a-z]\w*(?:-[a-z]\w*)+(?=\.[a-z])")  # a model, as in mwp-cwp.issue_cycles, or a difference
_HYPHEN = "__hyphen__"
_SHOWN = {NUMBER: "a number", WORD: "a word", TRUTH: "true or false"}


@dataclass(frozen=True)
class Expression:
    """A checked expression. `sort` is what it comes out as (`names.NUMBER`, `WORD`, `TRUTH`), `names` the keys that it reads.

    `place` is where it was written and takes no part in comparing.
    """

    text: str
    root: Node
    place: str = field(default="", compare=False)

    @property
    def sort(self) -> str:
        """`NUMBER`, `WORD` or `TRUTH`."""
        return sort_of(self.root)

    @property
    def names(self) -> frozenset[str]:
        """The keys that it reads, in full: `noc.bandwidth`."""
        return frozenset(names_in(self.root))

    def evaluate(self, columns: Mapping[str, Any]) -> NDArray[Any]:
        """Its value on every design. `columns` maps keys to arrays [D] as `DesignTable` has, or to one value for all; base units.

        Gives [D] float64 (numbers), bool (conditions) or object (words), also where all that it reads is one value; a scalar array
        where no column is an array. Raises UsageError with the first design on which a division by zero, a value that is no number
        or an overflow occurs, and when a key is missing.
        """
        return evaluate(self.root, columns, self.text, self.place)


def parse_expression(text: str, place: str, also: Mapping[str, str] | None = None) -> Expression:
    """The expression of `text`. `also` names further things that may be read, as columns of results, with their sort.

    Raises UsageError at `place`: no expression, a part that is not allowed, an unknown name (with the nearest), numbers where
    conditions belong and the other way round, a word that its key cannot have, too long, too deep.
    """
    written = text.strip()
    parser = _TreeParser(written, place, also or {})
    return Expression(written, parser.read(parser.tree(), 0), place)


def _one_name(hyphenated: re.Match[str]) -> str:
    """A model's name as one name for Python's grammar; a difference stays one."""
    return hyphenated[0].replace("-", _HYPHEN) if is_section(hyphenated[0]) else hyphenated[0]


def _as_written(source: str) -> str:
    return source.replace(_STAND_IN, known.ARGUMENT_PREFIX).replace(_HYPHEN, "-")


def _cut(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."


class _TreeParser:
    """From Python's syntax tree to ours."""

    def __init__(self, text: str, place: str, also: Mapping[str, str]) -> None:
        self.text, self.place, self.also = text, place, also
        self.source = _HYPHENATED.sub(_one_name, _NUMBERED.sub(_STAND_IN, " ".join(text.splitlines())))

    def refused(self, what: str, remedy: str = _REMEDY) -> UsageError:
        return UsageError(what, place=self.place, remedy=remedy)

    def tree(self) -> ast.expr:
        """The syntax tree of the text."""
        if not self.text:
            raise self.refused("the expression is empty")
        if len(self.text) > _LONGEST:
            what = f"the expression has {len(self.text):,} characters"
            raise self.refused(what, f"use at most {_LONGEST:,}, and derived keys for its parts")
        if "#" in self.text:
            raise self.refused(f'"{_cut(self.text)}" has a #', "put comments on lines of their own")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.source, mode="eval").body
        except SyntaxError as error:
            unit = _UNIT_AFTER_NUMBER.search(self.text)
            remedy = f"write a product: {unit[1]}*{unit[2]}" if unit else _REMEDY
            raise self.refused(f'"{_cut(self.text)}" is not a valid expression: {error.msg}', remedy) from None
        except (ValueError, RecursionError, MemoryError) as error:
            reason = str(error).splitlines()[0] if str(error) else "it nests too deep"
            raise self.refused(f'"{_cut(self.text)}" is not a valid expression: {reason}') from None

    def part(self, node: ast.AST) -> str:
        """What `node` was written as."""
        return _cut(_as_written(ast.get_source_segment(self.source, node) or self.text))

    def read(self, node: ast.expr, depth: int) -> Node:
        """The checked part."""
        if depth > _DEEPEST:
            raise self.refused(f"the expression is more than {_DEEPEST} deep", "split it into derived keys")
        under = depth + 1
        match node:
            case ast.Constant(value=value):
                return self.constant(node, value)
            case ast.Name() | ast.Attribute():
                return self.name(node)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                number = self.of(NUMBER, operand, under)
                return Negative(number) if isinstance(sign, ast.USub) else number
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self.of(TRUTH, operand, under))
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
                return Arithmetic(_OPERATORS[type(operator)], self.of(NUMBER, left, under), self.of(NUMBER, right, under))
            case ast.BoolOp(op=operator, values=values):
                return Logic(_OPERATORS[type(operator)], tuple(self.of(TRUTH, value, under) for value in values))
            case ast.Compare():
                return self.comparison(node, under)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.choice(node, self.of(TRUTH, test, under), self.read(body, under), self.read(orelse, under))
            case ast.Call():
                return self.call(node, under)
            case _:
                raise self.refused(f'"{self.part(node)}" is not allowed in an expression')

    def of(self, sort: str, node: ast.expr, depth: int) -> Node:
        """A part that must be of `sort`."""
        part = self.read(node, depth)
        if sort_of(part) != sort:
            remedy = 'compare it: noc.bandwidth > 525*GB/s, sm.policy == "gto"' if sort == TRUTH else "write A if CONDITION else B"
            raise self.refused(f'"{self.part(node)}" is {_SHOWN[sort_of(part)]}, but {_SHOWN[sort]} is needed', remedy)
        return part

    def constant(self, node: ast.expr, value: object) -> Node:
        if isinstance(value, (bool, str)):
            return Constant(_as_written(value) if isinstance(value, str) else value)
        if isinstance(value, (int, float)):
            if (isinstance(value, int) and value.bit_length() > 1023) or not math.isfinite(value):
                raise self.refused(f'"{self.part(node)}" is too large a number', "use numbers below 1e308")
            return Constant(float(value))
        raise self.refused(f'"{self.part(node)}" is not allowed in an expression')

    def name(self, node: ast.expr) -> Node:
        """A key, a unit, or true or false."""
        parts: list[str] = []
        owner = node
        while isinstance(owner, ast.Attribute):
            parts.append(owner.attr)
            owner = owner.value
        if not isinstance(owner, ast.Name):
            raise self.refused(f'"{self.part(node)}" is not allowed in an expression')
        name = _as_written(".".join([owner.id, *reversed(parts)]))
        if name in self.also:
            return Name(name, self.also[name])
        if known.is_known(name):
            return Name(name, known.sort_of_key(known.study_key(name, self.place)))
        if name in CONSTANTS:
            return Constant(CONSTANTS[name])
        if name in _TRUTHS:
            return Constant(_TRUTHS[name])
        near = suggestion(name, [*self.also, *known.known_names(), *CONSTANTS])
        quoted = any(name in known.study_key(key, "").choices for key in known.known_names())
        remedy = f'write "{name}" in quotes' if quoted else "use a key of the GPU description, of the launch or method, or a unit"
        raise self.refused(f"{name[:80]} is not a known key{near}", remedy)

    def comparison(self, node: ast.Compare, depth: int) -> Node:
        """A chain; both sides of each link are of one sort, and words are only equal or not."""
        sides = [self.read(each, depth) for each in (node.left, *node.comparators)]
        operators = [_OPERATORS.get(type(each), "") for each in node.ops]
        if not all(operators):
            raise self.refused(f'"{self.part(node)}" is not allowed in an expression', "compare with < <= > >= == !=")
        for left, operator, right in zip(sides, operators, sides[1:], strict=False):
            sorts = sort_of(left), sort_of(right)
            if sorts[0] != sorts[1]:
                what = f'"{self.part(node)}" compares {_SHOWN[sorts[0]]} with {_SHOWN[sorts[1]]}'
                raise self.refused(what, 'compare numbers with numbers, and words with words in quotes: sm.policy == "gto"')
            if sorts[0] != NUMBER and operator not in ("==", "!="):
                raise self.refused(f'"{self.part(node)}" orders two words', "compare words with == or !=")
            self.check_word(left, right)
            self.check_word(right, left)
        return Comparison(sides[0], tuple(zip(operators, sides[1:], strict=True)))

    def check_word(self, key: Node, word: Node) -> None:
        """A word that the key never has would make the comparison one-sided for ever: it is a slip."""
        if not (isinstance(key, Name) and isinstance(word, Constant) and isinstance(word.value, str) and known.is_known(key.key)):
            return
        choices = known.study_key(key.key, self.place).choices
        if choices and word.value not in choices:
            near = suggestion(word.value, choices)
            raise self.refused(f'{key.key} is never "{word.value[:80]}"{near}', f"known: {', '.join(choices)}")

    def choice(self, node: ast.expr, condition: Node, yes: Node, no: Node) -> Node:
        if sort_of(yes) != sort_of(no):
            what = f'"{self.part(node)}" is {_SHOWN[sort_of(yes)]} or {_SHOWN[sort_of(no)]}'
            raise self.refused(what, "use the same kind on both sides")
        return Choice(condition, yes, no)

    def call(self, node: ast.Call, depth: int) -> Node:
        function = node.func.id if isinstance(node.func, ast.Name) else self.part(node.func)
        if function not in FUNCTIONS:
            what = f"{function} is not a known function{suggestion(function, FUNCTIONS)}"
            raise self.refused(what, f"known: {', '.join(FUNCTIONS)}")
        takes, count = FUNCTIONS[function], len(node.args)
        if node.keywords or (count != takes if takes else count < 2):
            arguments, example = ("one number", "a") if takes else ("two numbers or more", "a, b")
            raise self.refused(f'"{self.part(node)}": {function} takes {arguments}', f"write {function}({example})")
        return Call(function, tuple(self.of(NUMBER, each, depth) for each in node.args))

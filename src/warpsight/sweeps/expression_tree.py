"""An expression as a tree of plain frozen values, and its evaluation over all designs at once.

A part that a design does not take is not computed for it, so that it cannot fail there. The parser (expressions.py) checks that
the parts fit together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.base.errors import UsageError
from warpsight.base.units import format_quantity
from warpsight.gpu.key import WORD
from warpsight.gpu.keys import find_key
from warpsight.sweeps.names import ARGUMENT_PREFIX, LAUNCH, NUMBER, TEXTS, TRUTH, is_known, study_key


@dataclass(frozen=True)
class Constant:
    """A number, a word, or true or false."""

    value: float | str | bool


@dataclass(frozen=True)
class Name:
    """A key; `sort` is what it is: a number, a word, or true or false."""

    key: str
    sort: str


@dataclass(frozen=True)
class Negative:
    """Minus a number."""

    operand: Node


@dataclass(frozen=True)
class Arithmetic:
    """Two numbers and `+ - * / // % **`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Comparison:
    """A chain of comparisons: `first` with the next, that with the one after it, and so on; all must hold."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class Logic:
    """`and` or `or` of conditions, from the left: a later one counts only where the earlier ones leave it open."""

    operator: str
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Not:
    """The opposite of a condition."""

    operand: Node


@dataclass(frozen=True)
class Choice:
    """`yes` where `condition` holds, else `no`; each is computed only where it is taken."""

    condition: Node
    yes: Node
    no: Node


@dataclass(frozen=True)
class Call:
    """A function of numbers."""

    function: str
    arguments: tuple[Node, ...]


Node = Constant | Name | Negative | Arithmetic | Comparison | Logic | Not | Choice | Call


def sort_of(node: Node) -> str:
    """What `node` comes out as: `NUMBER`, `WORD` or `TRUTH`."""
    match node:
        case Constant(value):
            return TRUTH if isinstance(value, bool) else WORD if isinstance(value, str) else NUMBER
        case Name():
            return node.sort
        case Choice():
            return sort_of(node.yes)
        case Negative() | Arithmetic() | Call():
            return NUMBER
        case _:
            return TRUTH


def children(node: Node) -> tuple[Node, ...]:
    """The parts right under `node`."""
    match node:
        case Negative(operand) | Not(operand):
            return (operand,)
        case Arithmetic(_, left, right):
            return (left, right)
        case Comparison(first, rest):
            return (first, *(each for _, each in rest))
        case Logic(_, parts) | Call(_, parts):
            return parts
        case Choice(condition, yes, no):
            return (condition, yes, no)
        case _:
            return ()


def names_in(node: Node) -> Iterator[str]:
    """The keys that `node` reads."""
    if isinstance(node, Name):
        yield node.key
    for child in children(node):
        yield from names_in(child)


# -- Expressions over all designs at once.

Array = NDArray[Any]

_ARITHMETIC: dict[str, Callable[[Array, Array], Array]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.remainder, "**": np.power,
}
_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
}
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "abs": np.abs, "sqrt": np.sqrt, "log": np.log, "log2": np.log2, "exp": np.exp, "ceil": np.ceil, "floor": np.floor,
    "round": np.rint,  # halves to even, as Python's
}
_SCALAR_ARGUMENT = re.compile(r"(?:[iuf](?:8|16|32|64):)?([+-]?[0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,3})?)")
_SHOWN_VALUES = 4


def evaluate(root: Node, columns: Mapping[str, Any], text: str, place: str) -> Array:
    """`Expression.evaluate`."""
    lengths = {np.shape(value)[0] for value in columns.values() if np.ndim(value) == 1}
    if len(lengths) > 1:
        raise UsageError(f"the columns of a table have {len(lengths)} lengths", place=place, remedy="give columns of one table")
    designs = _Designs(columns, text, place, tuple(dict.fromkeys(names_in(root))))
    result = np.asarray(_value(root, designs))
    return np.array(np.broadcast_to(result, (lengths.pop(),))) if lengths and result.ndim == 0 else result


@dataclass(frozen=True)
class _Designs:
    """Those designs that a part is computed for: `rows` of the columns, or all (None)."""

    columns: Mapping[str, Any]
    text: str
    place: str
    names: tuple[str, ...]
    rows: NDArray[np.intp] | None = None

    def pick(self, chosen: NDArray[np.intp]) -> _Designs:
        """Some of these."""
        return replace(self, rows=chosen if self.rows is None else self.rows[chosen])

    def column(self, name: Name) -> Array:
        """The values of a key for these designs, or one value for all of them."""
        if name.key not in self.columns:
            what = f'"{self.text}" reads {name.key}, which these designs do not have'
            raise UsageError(what, place=self.place, remedy="make it an axis or a derived key, or read another")
        values = np.asarray(self.columns[name.key])
        if self.rows is not None and values.ndim:
            values = values[self.rows]
        if name.sort == NUMBER:
            numbers = _numbers(values, name.key, self).astype(np.float64, copy=False)
            self.check(~np.isfinite(numbers), f"{name.key} is not a number")
            return numbers
        if name.sort == TRUTH:
            return values if values.dtype == np.bool_ else np.asarray(values.astype(object) == "true", dtype=np.bool_)
        return values.astype(object)

    def check(self, broken: Array, problem: str) -> None:
        """Raises UsageError if the problem occurs, naming the first design where it does."""
        if not broken.any():
            return
        position = int(np.flatnonzero(broken)[0]) if broken.ndim else None
        if position is None and self.rows is not None:
            position = 0  # of a constant, but only some designs come to it
        if position is None:
            where = " on every design"
        else:
            design = position if self.rows is None else int(self.rows[position])
            values = [f"{name} = {self._shown(name, design)}" for name in self.names if name in self.columns]
            more = [*values[:_SHOWN_VALUES], "..."] if len(values) > _SHOWN_VALUES else values
            where = f" on design {design}" + (f" ({', '.join(more)})" if more else "")
        remedy = "exclude such values: A if CONDITION else B, or change the axis"
        raise UsageError(f'"{self.text}": {problem}{where}', place=self.place, remedy=remedy)

    def _shown(self, name: str, design: int) -> str:
        values = np.asarray(self.columns[name])
        value = values[design] if values.ndim else values[()]
        if isinstance(value, (str, bool, np.bool_)):
            return str(value)
        key = find_key(name)
        if key is not None and np.isfinite(value) and value >= 0 and float(value).is_integer():
            return format_quantity(int(value), key.kind)
        return f"{value:.6g}"


def _value(node: Node, designs: _Designs) -> Array:
    """The values of `node` for `designs`: one each, or a scalar where it is the same for all."""
    match node:
        case Constant(value):
            return np.asarray(value, dtype=object if isinstance(value, str) else None)
        case Name():
            return designs.column(node)
        case Negative(operand):
            return np.asarray(-_value(operand, designs))
        case Not(operand):
            return np.asarray(np.logical_not(_value(operand, designs)))
        case Arithmetic():
            return _arithmetic(node, designs)
        case Call(function, arguments):
            return _call(function, [_value(each, designs) for each in arguments], designs)
        case Comparison():
            return _comparison(node, designs)
        case Logic(operator, parts):
            return _logic(operator == "and", [partial(_value, each) for each in parts], designs)
        case Choice():
            return _choice(node, designs)


def _arithmetic(node: Arithmetic, designs: _Designs) -> Array:
    left, right = _value(node.left, designs), _value(node.right, designs)
    if node.operator in ("/", "//", "%"):
        designs.check(right == 0, "division by zero")
    if node.operator == "**":
        designs.check((left == 0) & (right < 0), "division by zero")
        designs.check((left < 0) & (right != np.floor(right)), "root of a negative number")
    with np.errstate(all="ignore"):
        result = np.asarray(_ARITHMETIC[node.operator](left, right))
    designs.check(~np.isfinite(result), f"{node.operator} gives too large a number")
    return result


def _call(function: str, arguments: list[Array], designs: _Designs) -> Array:
    if function in ("min", "max"):
        return np.asarray(reduce(np.minimum if function == "min" else np.maximum, arguments))
    if function == "sqrt":
        designs.check(arguments[0] < 0, "square root of a negative number")
    if function in ("log", "log2"):
        designs.check(arguments[0] <= 0, "logarithm of zero or less")
    with np.errstate(all="ignore"):
        result = np.asarray(_FUNCTIONS[function](*arguments))
    designs.check(~np.isfinite(result), f"{function} gives too large a number")
    return result


def _comparison(node: Comparison, designs: _Designs) -> Array:
    """Links from the left; as in Python, a later side is looked at only where the links before it hold."""
    sides = (node.first, *(each for _, each in node.rest))
    links = zip(sides, node.rest, strict=False)
    return _logic(True, [partial(_link, left, operator, right) for left, (operator, right) in links], designs)


def _link(left: Node, operator: str, right: Node, designs: _Designs) -> Array:
    return np.asarray(_COMPARE[operator](_value(left, designs), _value(right, designs)), dtype=np.bool_)


def _logic(every: bool, parts: list[Callable[[_Designs], Array]], designs: _Designs) -> Array:
    """`and` (`every`) or `or` of parts, each computed only for the designs that those before it leave open."""
    result = parts[0](designs)
    for part in parts[1:]:
        if result.ndim == 0:
            if bool(result) == every:
                result = part(designs)
            continue
        still = np.flatnonzero(result if every else ~result)
        if still.size == result.size:
            result = np.array(np.broadcast_to(part(designs), result.shape))
        elif still.size:
            result = result.copy()
            result[still] = part(designs.pick(still))
    return result


def _choice(node: Choice, designs: _Designs) -> Array:
    taken = _value(node.condition, designs)
    if taken.ndim == 0:
        return _value(node.yes if taken else node.no, designs)
    sides = np.flatnonzero(taken), np.flatnonzero(~taken)
    for chosen, side in zip(sides, (node.yes, node.no), strict=True):
        if chosen.size == taken.size:
            return _value(side, designs)
    values = [_value(side, designs.pick(chosen)) for chosen, side in zip(sides, (node.yes, node.no), strict=True)]
    result = np.empty(taken.shape, dtype=values[0].dtype)
    for chosen, value in zip(sides, values, strict=True):
        result[chosen] = value
    return result


def _numbers(values: Array, key: str, designs: _Designs) -> Array:
    """Numbers of a column. Launch dimensions are as many threads or blocks as they make, arguments the scalar that is written."""
    if values.dtype.kind not in "OU":
        return values
    if not is_known(key) or study_key(key, designs.place).kind not in TEXTS:
        raise UsageError(f"{key} contains words, but numbers are needed", place=designs.place, remedy="read another column")
    if values.ndim == 0:
        return np.asarray(_number(str(values[()]), key, designs))
    texts = values.tolist()
    number = {text: _number(text, key, designs) for text in set(texts)}
    return np.fromiter(map(number.__getitem__, texts), dtype=np.float64, count=len(texts))


def _number(text: str, key: str, designs: _Designs) -> float:
    if key in LAUNCH:
        return float(math.prod(map(int, text.split("x"))))
    match = _SCALAR_ARGUMENT.fullmatch(text.strip())
    if match is None:
        what = f'"{designs.text}" reads {key}, and "{text[:60]}" is not a number'
        called = f"argument {key.removeprefix(ARGUMENT_PREFIX)}" if key.startswith(ARGUMENT_PREFIX) else key
        raise UsageError(what, place=designs.place, remedy=f"give {called} plain numbers, as 1024 or i32:1024")
    return float(match[1])

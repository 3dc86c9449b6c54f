"""The parts of an expression: plain frozen values, compared and hashed by what they say. The parser checks that they fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warpsight.explore.sweep.names import NUMBER, TRUTH
from warpsight.gpu.keys import WORD


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
    """`first` compared with the next, and that with the one after it, as far as the chain goes; all must hold."""

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

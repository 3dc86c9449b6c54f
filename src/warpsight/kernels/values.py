"""Values as users write them: whole numbers as text (`1Mi`, `1<<20`, `ceil(n / block.x)`), and Python values checked before use."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import ceil, floor
from os import PathLike
from typing import Any

from warpsight.base.errors import UsageError, suggestion

_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|\d[\d_]*)(?:(Ki|Mi|Gi)B?)?(?!\w)|(<<|>>|\*\*|//|[-+*/(),]))")
_NAME = re.compile(r"\s*([A-Za-z_]\w*(?:\.\w+)*)")
# A name; not the x of 16x64 or 16 x 64, nor the suffix of 4Ki.
_ANY_NAME = re.compile(r"(?<![\w.])(?![xX](?:\d|\W|$))[A-Za-z_]")
_THOUSANDS = re.compile(r"\s*(\d+)\s*([kKmMgG])[bB]?\s*")  # of a thousand or of 1,024?
_SUFFIX = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_EXAMPLES = "write e.g. 1048576, 1<<20 or 1Mi"
_LARGEST = 1 << 64
_LEVELS = (("<<", ">>"), ("+", "-"), ("*", "//", "/"))
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<<": operator.lshift, ">>": operator.rshift, "**": operator.pow, "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": Fraction, "//": operator.floordiv,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil": ceil, "floor": floor, "min": min, "max": max, "cdiv": lambda whole, part: ceil(Fraction(whole) / part),
}  # fmt: skip
_TAKES = {"ceil": 1, "floor": 1, "cdiv": 2}  # how many numbers; the others two or more
_Number = int | Fraction


class _Parser:
    """Precedence as in Python: power, unary minus, product, sum, shift.

    With `names`, numbers that can be read by name, there are functions and fractions; without, every quotient must be whole.
    """

    def __init__(self, text: str, names: Mapping[str, int] | None) -> None:
        self.tokens: list[str | _Number] = []
        self.names = names
        self.index, position = 0, 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            named = _NAME.match(text, position) if names is not None and match is None else None
            if named is not None:
                self.tokens.append(named[1])
                position = named.end()
                continue
            if match is None:
                raise ValueError(f"unexpected {text[position:]!r}")
            number, suffix, sign = match.groups()
            base = 16 if number and number[:2].lower() == "0x" else 10
            self.tokens.append(sign or _within_64_bits(int(number, base) * _SUFFIX[suffix or ""]))
            position = match.end()

    def peek(self) -> str | _Number | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def level(self, depth: int) -> _Number:
        if depth == len(_LEVELS):
            return self.factor()
        value = self.level(depth + 1)
        while (sign := self.peek()) in _LEVELS[depth]:
            self.index += 1
            value = self.apply(str(sign), value, self.level(depth + 1))
        return value

    def factor(self) -> _Number:
        if self.peek() == "-":
            self.index += 1
            return -self.factor()
        base = self.atom()
        if self.peek() == "**":
            self.index += 1
            return self.apply("**", base, self.factor())
        return base

    def atom(self) -> _Number:
        token = self.peek()
        self.index += 1
        if token == "(":
            return self.until_closed()[0]
        if isinstance(token, str) and self.names is not None and _NAME.fullmatch(token):
            return self.named(token, self.names)
        if not isinstance(token, (int, Fraction)):
            raise ValueError(f"a number is missing before {token!r}" if token else "it ends too early")
        return token

    def named(self, name: str, names: Mapping[str, int]) -> _Number:
        """A number by its name, or a function of numbers."""
        if name in _FUNCTIONS and self.peek() == "(":
            self.index += 1
            values = self.until_closed(several=True)
            wanted = _TAKES.get(name)
            if (len(values) != wanted) if wanted else len(values) < 2:
                raise ValueError(f"{name} takes {wanted or 'two or more'} number(s), not {len(values)}")
            return _within_64_bits(_FUNCTIONS[name](*values))
        if name not in names:
            raise ValueError(f"{name} is not known{suggestion(name, [*names, *_FUNCTIONS])}")
        return names[name]

    def until_closed(self, *, several: bool = False) -> list[_Number]:
        """What stands before the closing parenthesis; with `several` numbers between commas."""
        values = [self.level(0)]
        while several and self.peek() == ",":
            self.index += 1
            values.append(self.level(0))
        if self.peek() != ")":
            raise ValueError("a parenthesis is not closed")
        self.index += 1
        return values

    def apply(self, sign: str, left: _Number, right: _Number) -> _Number:
        if sign in ("<<", ">>", "**") and not (isinstance(left, int) and isinstance(right, int) and 0 <= right <= 64):
            raise ValueError(f"{sign} {right} is out of range")
        if sign in ("/", "//") and (right == 0 or (self.names is None and left % right)):
            raise ValueError(f"{left} {sign} {right} is not a whole number")
        return _within_64_bits(_OPERATORS[sign](left, right))


def _within_64_bits(value: _Number) -> _Number:
    if not -_LARGEST <= value <= _LARGEST:
        raise ValueError("it does not fit in 64 bits")
    return int(value) if isinstance(value, int) or value.denominator == 1 else value


def has_names(text: str) -> bool:
    """Whether `text` reads numbers by name, as `ceil(n / block.x)` does; 16x64 and 4Ki have no names."""
    return _ANY_NAME.search(text) is not None


def parse_integer(text: str, place: str, names: Mapping[str, int] | None = None) -> int:
    """The whole number that `text` means, sign allowed. Raises UsageError at `place`.

    `names` are numbers that it may read by name; an expression then has fractions, `ceil`, `floor`, `min`, `max` and `cdiv`.
    """
    read = names if names is not None and has_names(text) else None
    try:
        parser = _Parser(text, read)
        value = parser.level(0)
        if parser.peek() is not None:
            raise ValueError(f"unexpected {parser.peek()!r}")
        if not isinstance(value, int):
            raise ValueError(f"it is {value}, and ceil(...) or floor(...) rounds it")
    except (ValueError, RecursionError, ZeroDivisionError) as error:
        known = f"write e.g. ceil(n / block.x); known here: {', '.join(read)}" if read else _EXAMPLES
        if thousands := _THOUSANDS.fullmatch(text):
            number, letter = int(thousands[1]), thousands[2].upper()
            power = "KMG".index(letter) + 1
            known = f"write {number}{letter}i, which is {number << 10 * power:,}, or {number * 1000**power}"
        raise UsageError(f"{text!r} is not a whole number: {error}", place=place, remedy=known) from error
    return value


def parse_size(text: str, place: str) -> int:
    """A whole number above zero. Raises UsageError at `place`."""
    value = parse_integer(text, place)
    if value <= 0:
        raise UsageError(f"{text.strip()} is not above zero", place=place, remedy=_EXAMPLES)
    return value


# -- The kinds of Python values that a launch takes.


def shown(value: object) -> str:
    """`value` as an error shows it: on one line of at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _is_integer(value: object) -> bool:
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(value, bool)


def whole_number(value: object, place: str, remedy: str) -> int:
    """`value`, a Python or NumPy integer (bool is none). Raises UsageError at `place`."""
    if not _is_integer(value):
        raise UsageError(f"{shown(value)} is not a whole number", place=place, remedy=remedy)
    return operator.index(value)  # type: ignore[arg-type]


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, (str, PathLike)) for each in value)


def _is_text_or_integer(value: object) -> bool:
    return isinstance(value, str) or _is_integer(value)


_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    **dict.fromkeys(
        ("registers", "seed", "max_instructions", "threads", "stack_bytes", "maxrregcount", "opt_level"),
        (_is_integer, "a whole number"),
    ),
    **dict.fromkeys(("kernel", "name", "path", "std"), (lambda value: isinstance(value, str), "a text")),
    **dict.fromkeys(("defines", "include_dirs"), (_is_list_of_texts, "a list of texts")),
    **dict.fromkeys(("heap_bytes", "sample"), (_is_text_or_integer, "a whole number or a text")),
    "arch": (_is_text_or_integer, "an architecture such as sm_80"),
    "source": (lambda value: isinstance(value, (str, PathLike)), "a path or a text"),
    "args": (lambda value: isinstance(value, (list, tuple)), "a list of arguments"),
    "check": (lambda value: isinstance(value, bool), "True or False"),
}


def check_kinds(values: Mapping[str, Any], places: Mapping[str, str] | None = None) -> None:
    """Raise UsageError for the first of `values`, by name, that is not of its kind. None means not given.

    `places` says where a value stands; the name itself is the place where it is not listed.
    """
    for name, value in values.items():
        is_kind, kind = _KINDS.get(name, (None, ""))
        if value is not None and is_kind is not None and not is_kind(value):
            place = (places or {}).get(name, name)
            raise UsageError(f"{shown(value)} is not {kind}", place=place, remedy=f"give {kind}, or leave it out")

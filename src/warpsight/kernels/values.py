"""Values as users write them: whole numbers as text (`1Mi`, `1<<20`), and Python values checked before use."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from warpsight.base.errors import UsageError

_TOKEN = re.compile(r"\s*(?:(0[xX][0-9a-fA-F]+|\d[\d_]*)(Ki|Mi|Gi)?(?!\w)|(<<|>>|\*\*|//|[-+*/()]))")
_SUFFIX = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
_EXAMPLES = "write e.g. 1048576, 1<<20 or 1Mi"
_LARGEST = 1 << 64
_LEVELS = (("<<", ">>"), ("+", "-"), ("*", "//", "/"))


class _Parser:
    """Precedence as in Python: power, unary minus, product, sum, shift."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str | int] = []
        self.at, position = 0, 0
        text = text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(f"unexpected {text[position:]!r}")
            number, suffix, operator = found.groups()
            base = 16 if number and number[:2].lower() == "0x" else 10
            self.tokens.append(operator if operator else _within_64_bits(int(number, base) * _SUFFIX[suffix or ""]))
            position = found.end()

    def peek(self) -> str | int | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def level(self, depth: int) -> int:
        if depth == len(_LEVELS):
            return self.factor()
        value = self.level(depth + 1)
        while (operator := self.peek()) in _LEVELS[depth]:
            self.at += 1
            value = _apply(str(operator), value, self.level(depth + 1))
        return value

    def factor(self) -> int:
        if self.peek() == "-":
            self.at += 1
            return -self.factor()
        base = self.atom()
        if self.peek() == "**":
            self.at += 1
            return _apply("**", base, self.factor())
        return base

    def atom(self) -> int:
        token = self.peek()
        self.at += 1
        if token == "(":
            value = self.level(0)
            if self.peek() != ")":
                raise ValueError("a parenthesis is not closed")
            self.at += 1
            return value
        if not isinstance(token, int):
            raise ValueError(f"a number is missing before {token!r}" if token else "it ends too early")
        return token


def _apply(operator: str, left: int, right: int) -> int:
    if operator in ("<<", ">>", "**") and not 0 <= right <= 64:
        raise ValueError(f"{operator} {right} is out of range")
    if operator in ("/", "//") and (right == 0 or left % right):
        raise ValueError(f"{left} {operator} {right} is not a whole number")
    return _within_64_bits({
        "<<": lambda: left << right,
        ">>": lambda: left >> right,
        "**": lambda: int(left**right),
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "/": lambda: left // right,
        "//": lambda: left // right,
    }[operator]())


def _within_64_bits(value: int) -> int:
    if abs(value) > _LARGEST:
        raise ValueError("it does not fit in 64 bits")
    return value


def parse_integer(text: str, place: str) -> int:
    """The whole number that `text` means, sign allowed. Raises UsageError at `place`."""
    try:
        parser = _Parser(text)
        value = parser.level(0)
        if parser.peek() is not None:
            raise ValueError(f"unexpected {parser.peek()!r}")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{text!r} is not a whole number: {error}", place=place, remedy=_EXAMPLES) from error
    return value


def parse_size(text: str, place: str) -> int:
    """A whole number above zero. Raises UsageError at `place`."""
    value = parse_integer(text, place)
    if value <= 0:
        raise UsageError(f"{text.strip()} is not above zero", place=place, remedy=_EXAMPLES)
    return value


# -- Python values that a launch is given, checked for what they are before any of them is used.

_SHOWN = 60


def shown(value: object) -> str:
    """`value` as an error shows it: on one line, and cut where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def whole_number(value: object, place: str, remedy: str) -> int:
    """`value`, a Python or NumPy integer (bool is none). Raises UsageError at `place`."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{shown(value)} is not a whole number", place=place, remedy=remedy) from None


def _is_integer(value: object) -> bool:
    try:
        operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return False
    return not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple))


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, (str, PathLike)) for each in value)


_Test = tuple[Callable[[object], bool], str]
def _is_text_or_integer(value: object) -> bool:
    return isinstance(value, str) or _is_integer(value)


_INTEGER: _Test = (_is_integer, "a whole number")
_TEXT: _Test = (lambda value: isinstance(value, str), "a text")
_KINDS: dict[str, _Test] = {
    **dict.fromkeys(("registers", "seed", "max_instructions", "threads", "stack_bytes"), _INTEGER),
    **dict.fromkeys(("kernel", "name", "path"), _TEXT),
    **dict.fromkeys(("defines", "include_dirs"), (_is_list_of_texts, "a list of texts")),
    **dict.fromkeys(("heap_bytes", "sample"), (_is_text_or_integer, "a whole number or a text")),
    "arch": (_is_text_or_integer, "an architecture such as sm_80"),
    "source": (lambda value: isinstance(value, (str, PathLike)), "a path or a text"),
    "args": (_is_list, "a list of arguments"),
    "check": (lambda value: isinstance(value, bool), "True or False"),
}


def check_kinds(values: Mapping[str, Any], places: Mapping[str, str] | None = None) -> None:
    """Raise UsageError for the first of `values`, by name, that is not of its kind. None means not given.

    `places` says where a value stands; the name itself is the place where it is not listed.
    """
    for name, value in values.items():
        test, wanted = _KINDS.get(name, (None, ""))
        if value is not None and test is not None and not test(value):
            place = (places or {}).get(name, name)
            raise UsageError(f"{shown(value)} is not {wanted}", place=place, remedy=f"give {wanted}, or leave it out")

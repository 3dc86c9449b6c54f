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
_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "<<": operator.lshift, ">>": operator.rshift, "**": operator.pow, "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": operator.floordiv, "//": operator.floordiv,
}  # fmt: skip


class _Parser:
    """Precedence as in Python: power, unary minus, product, sum, shift."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str | int] = []
        self.index, position = 0, 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"unexpected {text[position:]!r}")
            number, suffix, sign = match.groups()
            base = 16 if number and number[:2].lower() == "0x" else 10
            self.tokens.append(sign or _within_64_bits(int(number, base) * _SUFFIX[suffix or ""]))
            position = match.end()

    def peek(self) -> str | int | None:
        return self.tokens[self.index] if self.index < len(self.tokens) else None

    def level(self, depth: int) -> int:
        if depth == len(_LEVELS):
            return self.factor()
        value = self.level(depth + 1)
        while (sign := self.peek()) in _LEVELS[depth]:
            self.index += 1
            value = _apply(str(sign), value, self.level(depth + 1))
        return value

    def factor(self) -> int:
        if self.peek() == "-":
            self.index += 1
            return -self.factor()
        base = self.atom()
        if self.peek() == "**":
            self.index += 1
            return _apply("**", base, self.factor())
        return base

    def atom(self) -> int:
        token = self.peek()
        self.index += 1
        if token == "(":
            value = self.level(0)
            if self.peek() != ")":
                raise ValueError("a parenthesis is not closed")
            self.index += 1
            return value
        if not isinstance(token, int):
            raise ValueError(f"a number is missing before {token!r}" if token else "it ends too early")
        return token


def _apply(sign: str, left: int, right: int) -> int:
    if sign in ("<<", ">>", "**") and not 0 <= right <= 64:
        raise ValueError(f"{sign} {right} is out of range")
    if sign in ("/", "//") and (right == 0 or left % right):
        raise ValueError(f"{left} {sign} {right} is not a whole number")
    return _within_64_bits(int(_OPERATORS[sign](left, right)))


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
    **dict.fromkeys(("kernel", "name", "path"), (lambda value: isinstance(value, str), "a text")),
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

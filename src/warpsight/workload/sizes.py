"""Whole numbers as people write sizes: `1048576`, `1_000`, `0x100`, `1<<20`, `2**20`, `1Mi`. Never evaluated as code."""

from __future__ import annotations

import re

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
        raise ValueError("it is beyond 64 bits")
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

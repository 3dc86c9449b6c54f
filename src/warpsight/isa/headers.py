"""Headers of kernels and device functions: name, parameters and performance directives."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from warpsight.base.errors import FormatError
from warpsight.isa.declarations import read_variables
from warpsight.isa.lexer import CUT, IDENTIFIER, Source, split_top
from warpsight.isa.program import Prototype, Variable

_FIX = "correct this line, or compile the kernel again"
_KIND = re.compile(r"\s*\.(entry|func)\b\s*")
_NAME = re.compile(rf"\s*({IDENTIFIER})\s*")
_LIST = re.compile(r"\s*\(([^(){};]*)\)\s*")
_PARAMETER = re.compile(r"\.(param|reg)\b(.*)", re.DOTALL)
_ATTRIBUTE = re.compile(r"\s*\.attribute\s*\((?:[^()]|\([^()]*\))*\)\s*")
_NUMBERED = re.compile(r"\s*\.(maxntid|reqntid|minnctapersm|maxnctapersm|maxnreg|maxclusterrank|reqnctapercluster"
                       r"|abi_preserve(?:_control)?)\s+(\d{1,9})(?:\s*,\s*(\d{1,9}))?(?:\s*,\s*(\d{1,9}))?")
_FLAG = re.compile(r'\s*(?:\.(?:noreturn|explicitcluster|blocksareclusters|unique)\b|'
                   r'\.pragma\s+"[^"\n]*"(?:\s*,\s*"[^"\n]*")*\s*;|\.loc[^\n]*)')
_PROTOTYPE = re.compile(
    r"\s*(?:\((?P<returns>[^(){}]*)\))?\s*[A-Za-z_$%][\w$]*\s*(?:\((?P<parameters>[^(){}]*)\))?"
    r"\s*(?:\.noreturn\b|\.abi_preserve(?:_control)?\s+\d+|\s)*"
)
_END = re.compile(r"\s*([{;])")


@dataclass(frozen=True)
class Header:
    """A function's head. `end` is the position of its `{`, or after the `;` of a declaration without body."""

    name: str
    is_entry: bool
    parameters: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    max_threads: tuple[int, int, int] | None
    required_threads: tuple[int, int, int] | None
    has_body: bool
    end: int


def read_header(source: Source, begin: int) -> Header:
    """Read from `.entry` or `.func` at `begin`. Raises FormatError where it is not a header, or is cut."""
    text = source.text

    def fail(what: str) -> FormatError:
        return source.error(begin, what, _FIX)

    kind = _KIND.match(text, begin)
    if kind is None:
        raise fail("a function header is not understood")
    position = kind.end()
    returns: tuple[Variable, ...] = ()
    position = _after_attributes(text, position)
    listed = _LIST.match(text, position)
    if listed is not None:
        returns, position = _parameters(source, listed), listed.end()
    name = _NAME.match(text, position)
    if name is None:
        raise source.error(source.skip(begin), "a function has no name", CUT)
    position = name.end()
    parameters: tuple[Variable, ...] = ()
    if position < len(text) and text[position] == "(":
        listed = _LIST.match(text, position)
        if listed is None:
            raise source.error(source.skip(begin), f'the parameters of "{name[1]}" are not a closed list', CUT)
        parameters, position = _parameters(source, listed), listed.end()
    threads, position = _directives(text, position)
    end = _END.match(text, position)
    if end is None:
        what = f'"{source.excerpt(source.skip(position))}" is not understood in the header of "{name[1]}"'
        if source.skip(position) >= len(text):
            what = f'the header of "{name[1]}" has no body and no semicolon'
        raise source.error(min(source.skip(position), len(text) - 1), what, CUT)
    has_body = end[1] == "{"
    return Header(
        name[1], kind[1] == "entry", parameters, returns, threads.get("maxntid"), threads.get("reqntid"),
        has_body, end.start(1) if has_body else end.end(),
    )


def _after_attributes(text: str, position: int) -> int:
    while (match := _ATTRIBUTE.match(text, position) or _FLAG.match(text, position)) is not None:
        position = match.end()
    return position


def _directives(text: str, position: int) -> tuple[dict[str, tuple[int, int, int]], int]:
    threads: dict[str, tuple[int, int, int]] = {}
    while True:
        position = _after_attributes(text, position)
        match = _NUMBERED.match(text, position)
        if match is None:
            return threads, position
        threads[match[1]] = (int(match[2]), int(match[3] or 1), int(match[4] or 1))
        position = match.end()


def read_prototype(text: str, fail: Callable[[str], FormatError]) -> Prototype:
    """What follows `.callprototype`: `(results) _ (parameters)`. Raises FormatError, made by `fail`, for anything else."""
    match = _PROTOTYPE.fullmatch(text)
    if match is None:
        raise fail("a .callprototype is not understood")
    return Prototype(_listed(match["returns"] or "", fail), _listed(match["parameters"] or "", fail))


def _parameters(source: Source, listed: re.Match[str]) -> tuple[Variable, ...]:
    begin = listed.start(1)
    return _listed(listed[1], lambda what: source.error(source.skip(begin), what, _FIX))


def _listed(text: str, fail: Callable[[str], FormatError]) -> tuple[Variable, ...]:
    inner = text.strip()
    if not inner:
        return ()
    found: list[Variable] = []
    for piece in split_top(inner, fail):
        match = _PARAMETER.fullmatch(piece)
        if match is None:
            raise fail("a parameter is not understood")
        found.extend(read_variables(match[2], match[1], False, fail))
    return tuple(found)

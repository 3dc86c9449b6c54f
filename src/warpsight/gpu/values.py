"""From a text in a description to a checked value with its source, and from a `GpuSpec` back to such values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from warpsight.base.errors import SpecError, suggestion
from warpsight.base.units import format_quantity, parse_quantity
from warpsight.gpu.document import Document, Text
from warpsight.gpu.keys import FLAG, KEYS, ORDER, SECTIONS, WORD, Key
from warpsight.gpu.problems import Problems
from warpsight.gpu.spec import GpuSpec

Content = int | float | str | bool
GIVEN_IN_PYTHON = "given in Python"
_FLAGS = {"true": True, "false": False}


@dataclass(frozen=True)
class Value:
    """A checked value in base units. `source` is empty for a word that names none."""

    content: Content
    place: str
    source: str


def parse_value(key: Key, text: Text) -> Content:
    """What `text` means for `key`. Raises SpecError: no such quantity, word or flag, or out of the key's bounds."""
    if key.kind == FLAG:
        if text.text.lower() not in _FLAGS:
            raise SpecError(f'{key.name} is not true or false: "{text.text}"', place=text.place, remedy='write "true" or "false"')
        return _FLAGS[text.text.lower()]
    if key.kind == WORD:
        if text.text in key.choices:
            return text.text
        what = f'{key.name}: "{text.text}" is not known{suggestion(text.text, key.choices)}'
        raise SpecError(what, place=text.place, remedy=f"known: {', '.join(key.choices)}")
    number = parse_quantity(text.text, key.kind, key=key.name, place=text.place)
    check_bounds(key, number, text.place)
    return number


def check_bounds(key: Key, number: float, place: str) -> None:
    """Raises SpecError when `number` is outside what the key can mean."""
    if not key.least <= number <= key.most:
        bound, word = (key.least, "at least") if number < key.least else (key.most, "at most")
        shown = "negative" if number < 0 else format_quantity(number, key.kind)
        what = f"{key.name} is {shown}, and must be {word} {format_quantity(bound, key.kind)}"
        raise SpecError(what, place=place, remedy="check the unit and the number")


def read_values(document: Document, problems: Problems) -> dict[str, Value | None]:
    """The values of one file with the sources that this file gives them; None for a key whose text was refused."""
    _check_patterns(document, problems)
    values: dict[str, Value | None] = {}
    for name, text in document.settings.items():
        source = _source(name, document.sources)
        if not source and KEYS[name].numeric:
            remedy = f'under `sources:` add `{name}: "..."`: a paper, a data sheet, a measurement, or the word "estimated"'
            problems.add(f"{name} has no source, and every number must say where it comes from", place=text.place, remedy=remedy)
        try:
            values[name] = Value(parse_value(KEYS[name], text), text.place, source)
        except SpecError as error:
            problems.append(error)
            values[name] = None
    return values


def _check_patterns(document: Document, problems: Problems) -> None:
    """A source for a key that does not exist is a misspelt key."""
    for pattern, text in document.sources.items():
        if not any(fnmatchcase(name, pattern) for name in KEYS):
            near = suggestion(pattern, [*KEYS, *(f"{section}.*" for section in SECTIONS)])
            problems.add(f"sources: {pattern} matches no key{near}", place=text.place, remedy='write a key, or "l1.*"')


def _source(name: str, sources: Mapping[str, Text]) -> str:
    """The source that the most specific pattern gives: the one with the most characters that are not wildcards."""
    fitting = [pattern for pattern in sources if fnmatchcase(name, pattern)]
    best = max(fitting, key=lambda pattern: len(pattern) - pattern.count("*") - pattern.count("?"), default=None)
    return " ".join(sources[best].text.split()) if best is not None else ""


def read_spec(spec: GpuSpec) -> dict[str, Value | None]:
    """The values of a spec. What was a default is left out, so that it follows again what it follows."""
    place = f"GpuSpec {spec.name}"
    values: dict[str, Value | None] = {}
    flat = flatten(spec)
    for name, content in flat.items():
        key, source = KEYS[name], spec.sources.get(name, "")
        if name in ORDER:
            # it was held before something else changed, unless it is still what it follows, or was never said
            if not source or (source == key.reason and content == flat[ORDER[name]]):
                continue
        elif source and source == key.reason:
            continue
        if key.kind == WORD:
            parse_value(key, Text(str(content), place))
        elif key.numeric:
            check_bounds(key, float(content), place)
        values[name] = Value(content, place, source or (GIVEN_IN_PYTHON if key.numeric else ""))
    return values


def flatten(spec: GpuSpec) -> dict[str, Content]:
    """Every value of a spec by key, in the order of the table. Op classes that the spec lacks are absent."""
    values: dict[str, Content] = {}
    for name, key in KEYS.items():
        at: Any = spec
        for part in key.path.partition("[")[0].split("."):
            at = getattr(at, part)
        if key.path.endswith("]"):
            op = name.partition(".")[2]
            if op not in at:
                continue
            at = at[op]
        values[name] = at
    return values


def value_text(name: str, content: Content) -> str:
    """A value as a file writes it."""
    key = KEYS[name]
    if isinstance(content, bool):
        return "true" if content else "false"
    return content if isinstance(content, str) else format_quantity(content, key.kind)

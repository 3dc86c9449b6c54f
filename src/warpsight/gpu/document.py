"""A GPU description as written: one YAML file with the line of each key, checked values, and whether the sizes fit together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warpsight.base.errors import SpecError, suggestion
from warpsight.base.units import SIZE, format_quantity, parse_quantity, significant
from warpsight.base.yaml_nodes import AS_LINES, Composed, compose
from warpsight.gpu.key import FLAG, WORD, Key
from warpsight.gpu.keys import TEXT_KEYS, Problems, every_parameter, find_key, is_section, key_of, keys_within
from warpsight.gpu.occupancy import CARVE_OUTS
from warpsight.gpu.spec import KEYS, KINDS_OF_PRODUCTS, SECTIONS, Content, GpuSpec, content_text

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

SCHEMA = "1"
_START = 'start with "like: mdm-pascal", "name: ..." and the keys that differ'
_FILE = Composed("GPU description", "the YAML file of a GPU", _START, SpecError)


@dataclass(frozen=True)
class Text:
    """A value as written, and where: `file.yaml:7`."""

    text: str
    place: str


@dataclass
class Document:
    """What one file says. `settings` by key of the table, `sources` by key pattern, `texts` the rest (`name`, `like`, ...)."""

    place: str
    settings: dict[str, Text] = field(default_factory=dict)
    sources: dict[str, Text] = field(default_factory=dict)
    texts: dict[str, Text] = field(default_factory=dict)


def read_document(path: Path, shown: str, problems: Problems) -> Document:
    """Reads `path`, called `shown` in messages, and records in `problems` what is wrong with its keys and form.

    Raises SpecError when it cannot be read as a mapping at all: missing, not text, not YAML, empty.
    """
    document = Document(shown)
    _NodeReader(document, problems).read(compose(path, shown, _FILE))
    schema = document.texts.get("schema", Text(SCHEMA, shown))
    if schema.text != SCHEMA:
        problems.add(f'schema "{schema.text}" is not known', place=schema.place, remedy=f"this version reads schema {SCHEMA}")
    return document


class _NodeReader:
    """Walks the nodes of one file."""

    def __init__(self, document: Document, problems: Problems) -> None:
        self.document, self.problems = document, problems
        self.seen: set[str] = set()

    def read(self, root: Any) -> None:
        """The top level."""
        for name, node, place in self.entries(root, ""):
            if name == "sources":
                self.read_sources(node, place)
            elif name in TEXT_KEYS:
                self.keep(self.document.texts, name, node, place)
            elif find_key(name) is not None:
                self.keep(self.document.settings, name, node, place)
            elif is_section(name):
                self.read_section(name, node, place)
            else:
                self.problems.unknown_key(name, place)

    def entries(self, node: Any, prefix: str) -> Iterator[tuple[str, Node, str]]:
        """Full key, value node and place of each entry of a mapping; a key met twice is recorded and dropped."""
        for key, value in node.value:
            place = f"{self.document.place}:{key.start_mark.line + 1}"
            if key.id != "scalar":
                self.problems.add("a key is not a word", place=place, remedy=AS_LINES)
                continue
            name = f"{prefix}{key.value}"
            if name in self.seen:
                shown = name.removeprefix("sources:")
                self.problems.add(f"{shown} is given twice; which one is meant?", place=place, remedy="remove one of the two")
                continue
            self.seen.add(name)
            yield name, value, place

    def read_section(self, section: str, node: Any, place: str) -> None:
        """The keys of a section such as `l1`."""
        if node.id != "mapping":
            example = keys_within(section)[0]
            self.problems.add(f"{section} is a section, not a value", place=place, remedy=f"write `{section}: {{{example}: ...}}`")
            return
        for name, value, line in self.entries(node, f"{section}."):
            if find_key(name) is not None:
                self.keep(self.document.settings, name, value, line)
            else:
                self.problems.unknown_key(name, line)

    def read_sources(self, node: Any, place: str) -> None:
        """`sources`: a mapping of key pattern to text; one text alone stands for every key."""
        if node.id == "scalar":
            self.keep(self.document.sources, "*", node, place)
        elif node.id == "mapping":
            for name, value, line in self.entries(node, "sources:"):
                self.keep(self.document.sources, name.removeprefix("sources:"), value, line)
        else:
            self.problems.add("sources is a list", place=place, remedy='write `sources: {"l1.*": "data sheet", ...}`')

    def keep(self, into: dict[str, Text], name: str, node: Any, place: str) -> None:
        """Keeps a scalar."""
        if node.id != "scalar":
            self.problems.add(f"{name} has more than one value", place=place, remedy="write one value")
        elif node.tag.endswith(":null") or not node.value.strip():
            self.problems.add(f"{name} has no value", place=place, remedy="write one, or remove the line")
        else:
            into[name] = Text(node.value.strip(), place)


# -- From a text in a description to a checked value with its source, and from a `GpuSpec` back to such values.

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
        message = f'{key.name}: "{text.text}" is not known{suggestion(text.text, key.choices)}'
        raise SpecError(message, place=text.place, remedy=f"known: {', '.join(key.choices)}")
    number = parse_quantity(text.text, key.kind, key=key.name, place=text.place)
    check_bounds(key, number, text.place)
    return number


def check_bounds(key: Key, number: float, place: str) -> None:
    """Raises SpecError when `number` is outside what the key can mean."""
    if not key.least <= number <= key.most:
        bound, word = (key.least, "at least") if number < key.least else (key.most, "at most")
        shown = "negative" if number < 0 else format_quantity(number, key.kind)
        message = f"{key.name} is {shown}, and must be {word} {format_quantity(bound, key.kind)}"
        raise SpecError(message, place=place, remedy="check the unit and the number")


def read_values(document: Document, problems: Problems) -> dict[str, Value | None]:
    """The values of one file with the sources that this file gives them; None for a key whose text was refused."""
    wild = [pattern for pattern in document.sources if not _WILDCARDS.isdisjoint(pattern)]
    for pattern, text in document.sources.items():  # a source for a key that does not exist is a misspelt key
        names = (*KEYS, *document.settings)
        if not any(fnmatchcase(name, pattern) for name in names) if pattern in wild else pattern not in names:
            near = suggestion(pattern, [*KEYS, *every_parameter(), *(f"{section}.*" for section in SECTIONS)])
            problems.add(f"sources: {pattern} matches no key{near}", place=text.place, remedy='write a key, or "l1.*"')
    values: dict[str, Value | None] = {}
    for name, text in document.settings.items():
        source = _source(name, document.sources, wild)
        key = key_of(name)
        if not source and key.numeric:
            remedy = f'under `sources:` add `{name}: "..."`: a paper, a data sheet, a measurement, or the word "estimated"'
            problems.add(f"{name} has no source, and every number must say where it comes from", place=text.place, remedy=remedy)
        values[name] = checked(key, text, source, problems)
    return values


def checked(key: Key, text: Text, source: str, problems: Problems) -> Value | None:
    """The value of `text`, or None when it was refused, which is recorded in `problems`."""
    try:
        return Value(parse_value(key, text), text.place, source)
    except SpecError as error:
        problems.append(error)
        return None


_WILDCARDS = frozenset("*?[")


def _source(name: str, sources: Mapping[str, Text], wild: Sequence[str]) -> str:
    """The source that the most specific pattern gives: the one with the most characters that are not wildcards. Those with
    wildcards are `wild`.
    """
    fitting = [*([name] if name in sources else []), *(pattern for pattern in wild if fnmatchcase(name, pattern))]
    best = max(fitting, key=lambda pattern: len(pattern) - pattern.count("*") - pattern.count("?"), default="")
    return " ".join(sources[best].text.split()) if best else ""


def read_spec(spec: GpuSpec) -> dict[str, Value | None]:
    """The values of a spec. What was a default is left out, so that it follows again what it follows."""
    place = f"GpuSpec {spec.name}"
    values: dict[str, Value | None] = {}
    for name, content in spec.by_key.items():
        key, source = key_of(name), spec.sources.get(name, "")
        if source and source == key.reason:
            continue
        if key.kind == WORD:
            parse_value(key, Text(str(content), place))
        elif key.numeric:
            check_bounds(key, float(content), place)
        values[name] = Value(content, place, source or (GIVEN_IN_PYTHON if key.numeric else ""))
    return values


@lru_cache(1 << 14, typed=True)  # asked of all keys for each design
def value_text(name: str, content: Content) -> str:
    """A value of the key called `name` as a file writes it."""
    return content_text(key_of(name).kind, content)


# -- Whether the numbers of a GPU fit together. Nothing is rounded to make them fit.

_POWERS_OF_TWO = ("l1.line", "l1.sector", "l2.line", "l2.sector", "l2.slice_interleave", "l1.tag_lookups")
_MOST_WAYS = 64


def check_geometry(values: dict[str, Value], problems: Problems) -> None:
    """Records what does not fit: tensor cores, powers of two, sectors, lines, slices, whole sets, shared memory, power."""
    before = len(problems)
    # tensor cores have both a latency and an initiation interval for a kind of multiply, or neither
    for kind in KINDS_OF_PRODUCTS:
        for name, other in ((f"latency.{kind}", f"initiation.{kind}"), (f"initiation.{kind}", f"latency.{kind}")):
            if name in values and other not in values:
                problems.add(f"{name} is given but {other} is not", place=values[name].place, remedy=f"give {other} too")
    for name in _POWERS_OF_TWO:
        number = _number(values, name)
        if number & (number - 1):
            below = 1 << (number.bit_length() - 1)
            given, low, high = (format_quantity(each, KEYS[name].kind) for each in (number, below, 2 * below))
            problems.add(f"{name} is {given}, not a power of two", place=values[name].place, remedy=f"nearest: {low}, {high}")
    if len(problems) > before:
        return
    for level in ("l1", "l2"):
        _check_larger(values, f"{level}.line", f"{level}.sector", "a line holds whole sectors", problems)
        _check_sets(values, level, problems)
    _check_larger(values, "l2.slice_interleave", "l2.line", "a line lies in one slice", problems)
    _check_larger(values, "sm.shared_memory", "sm.max_shared_memory_per_block", "a block lies in one SM", problems)
    if values["power.limit"].content and not values["power.clock"].content:
        problems.add("power.limit is given, but what the GPU's events take is not known", place=values["power.limit"].place,
                     remedy="give power.clock and the energies of the section power, or leave the limit out")
    if values["power.floor"].content and _number(values, "power.floor") >= _number(values, "power.clock"):
        problems.add("power.floor is not below power.clock", place=values["power.floor"].place,
                     remedy="give the clock below which the voltage does not fall, and at power.clock the highest")
    if values["l1.carve_out"].content and values["compute_capability"].content not in CARVE_OUTS:
        problems.add("l1.carve_out is true, but CUDA's steps are known from compute capability 7.0 on",
                     place=values["l1.carve_out"].place, remedy="state compute_capability, or write l1.carve_out: false")


def _number(values: dict[str, Value], name: str) -> int:
    return int(values[name].content)


def _size(number: int) -> str:
    return format_quantity(number, SIZE)


def _check_larger(values: dict[str, Value], large: str, small: str, why: str, problems: Problems) -> None:
    """`large` must be at least `small`."""
    top, bottom = _number(values, large), _number(values, small)
    if bottom > top:
        problems.add(f"{small} is {_size(bottom)}, more than {large} ({_size(top)}), but {why}", place=values[small].place,
                     remedy=f"write at most {_size(top)}, or raise {large}")


def _check_sets(values: dict[str, Value], level: str, problems: Problems) -> None:
    """The size must be line x ways x slices x a whole number of sets."""
    size, line, ways = (_number(values, f"{level}.{part}") for part in ("size", "line", "ways"))
    slices = _number(values, "l2.slices") if level == "l2" else 1
    one_set = line * ways * slices
    if size % one_set == 0:
        sets = size // one_set
        index = values[f"{level}.index"].content
        if index in ("xor", "fermi") and sets & (sets - 1):
            problems.add(f"{level}.index is {index}, which needs a power of two of sets, not {sets:,}",
                         place=values[f"{level}.index"].place, remedy=f"write {level}.index: modulo, or change {level}.size")
        return
    lower = size // one_set * one_set
    sizes = " or ".join(_size(fit) for fit in (lower, lower + one_set) if fit)
    fitting = [w for w in range(1, _MOST_WAYS + 1) if size % (line * w * slices) == 0]
    nearest = sorted(sorted(fitting, key=lambda w: abs(w - ways))[:2])
    by_ways = f"; or {level}.ways {' or '.join(map(str, nearest))}" if nearest else ""
    product = f"{_size(line)} lines x {ways} ways" + (f" x {slices} slices" if level == "l2" else "")
    message = f"{level}.size is {_size(size)}, which makes {significant(size / one_set, 6)} sets, not a whole number ({product})"
    problems.add(message, place=values[f"{level}.size"].place, remedy=f"{level}.size {sizes}{by_ways}")


def check_sizes(values: Mapping[str, Value]) -> None:
    """Checks `values`, with defaults for keys that are not given. Raises SpecError, at the number's place, for the first misfit."""
    filled = dict(values)
    for name, key in KEYS.items():
        if name not in filled and key.default and not key.default.startswith("="):
            filled[name] = Value(parse_value(key, Text(key.default, "")), "", "")
    problems = Problems()
    check_geometry(filled, problems)
    problems.raise_first()

"""The values of an axis from their text: `sm_count=15:80:5`, `noc.bandwidth=525GB/s,1050GB/s`, `l1.size=16KiB:64KiB:*2`,
`sm.policy=lrr,gto`, `core_clock=1GHz..2GHz`, `launch.block=128,256`.

Numbers are the same as in an override: exact up to one last rounding of a frequency or bandwidth.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction

from warpsight.base.errors import UsageError
from warpsight.base.units import COUNT, exact_quantity, format_quantity
from warpsight.gpu.document import Text, check_bounds, parse_value
from warpsight.gpu.key import FLAG, WORD, Key
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import Content
from warpsight.kernels.launch_check import MAX_BLOCK, MAX_GRID, parse_dim3
from warpsight.kernels.values import has_names, parse_integer, parse_size
from warpsight.sweeps.names import ARGUMENT, DIMENSIONS, GPU, LAUNCH, TEXTS, WHOLE, study_key
from warpsight.sweeps.study import Axis

MOST_VALUES = 2**20
_MOST_FACTORS = 1024
_BARE = re.compile(r"[\d._]+(?:[eE][+-]?\d+)?", re.ASCII)
_WITH_UNIT = re.compile(r"\*?\s*[\d._]+(?:[eE][+-]?\d+)?\s*([A-Za-z][A-Za-z/]*)", re.ASCII)
_WHOLE_RANGE = re.compile(r"\d[^:\[\]()]*:[^:\[\]()]+:[^:\[\]()]+")
_LISTS = "write values with commas between them, or FIRST:LAST:STEP, FIRST:LAST:*FACTOR, FIRST..LAST"


def parse_axis(text: str, place: str) -> Axis:
    """The axis of `key=values`. Raises UsageError or SpecError at `place`, as `axis_of_text` and `axis_of_list` do."""
    key, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not key:
        remedy = "write for example sm_count=15:80:5 or noc.bandwidth=525GB/s,1050GB/s"
        raise UsageError(f'"{text[:80]}" is not key=values', place=place, remedy=remedy)
    return axis_of_text(key, values, place)


def axis_of_text(name: str, text: str, place: str) -> Axis:
    """The axis of a key and its values in one text: a list, a range of steps or of factors, or a continuous range.

    A range has both its ends; its last value must be one that the steps come to. A unit that only the last part has holds for those
    before it: `500:1500:100 GB/s`. Raises UsageError for an unknown key (with the nearest), no values, a value given twice, a range
    that does not come to its last value, more than `MOST_VALUES`; SpecError for values that the key cannot have.
    """
    key = study_key(name, place)
    ranges = key.kind not in (WORD, FLAG) and (key.kind != ARGUMENT or _WHOLE_RANGE.fullmatch(text))
    if ranges and ".." in text:
        return _continuous(key, text, place)
    if ranges and ":" in text:
        return _axis(key, _range(key, text, place), place)
    return axis_of_list(name, [(value, place) for value in _split(text)], place)


def axis_of_list(name: str, texts: Sequence[tuple[str, str]], place: str) -> Axis:
    """The axis of a key and single values, each with its place. Errors as for `axis_of_text`."""
    key = study_key(name, place)
    values = []
    for text, where in texts:
        if not text.strip():
            raise UsageError(f"{name} has an empty value among its values", place=where, remedy=_LISTS)
        values.append(_single(key, text.strip(), where))
    return _axis(key, values, place)


def check_value(name: str, value: Content, place: str) -> None:
    """Refuses a value, in base units, that the key cannot have: wrong kind, out of bounds. Raises UsageError or SpecError."""
    key = study_key(name, place)
    if key.kind in (WORD, FLAG, *TEXTS):
        text = ("true" if value else "false") if isinstance(value, bool) else value
        if not isinstance(text, str) or _single(key, text, place) != value:
            raise UsageError(f"{name} cannot be {value!r}", place=place, remedy=f"{key.meaning}")
        return
    fits = isinstance(value, int) if key.kind in WHOLE else isinstance(value, (int, float))
    if not fits or isinstance(value, (bool, str)) or not math.isfinite(value):
        raise UsageError(f"{name} cannot be {value!r}", place=place, remedy=f"{key.meaning}")
    check_bounds(key, float(value), place)


def _axis(key: Key, values: Sequence[Content], place: str) -> Axis:
    if not values:
        raise UsageError(f"{key.name} has no values", place=place, remedy=_LISTS)
    if len(values) > MOST_VALUES:
        raise UsageError(f"{key.name} has {len(values):,} values", place=place, remedy=f"give at most {MOST_VALUES:,}")
    if len(set(values)) < len(values):
        seen: set[Content] = set()
        twice = next(value for value in values if value in seen or seen.add(value))  # type: ignore[func-returns-value]
        raise UsageError(f"{key.name} has the value {twice} twice", place=place, remedy="remove one of the two")
    return Axis(key.name, tuple(values))


def _split(text: str) -> list[str]:
    """The values between commas; a comma within brackets belongs to its value."""
    values, depth, start = [], 0, 0
    for index, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth <= 0:
            values.append(text[start:index])
            start = index + 1
    return [] if not text.strip() else [*values, text[start:]]


def _single(key: Key, text: str, place: str) -> Content:
    if key.kind == ARGUMENT:
        return text
    if key.name == GPU:
        load_gpu(text)
        return text
    if key.kind == DIMENSIONS:
        return _dimensions(key, text, place)
    if key.name in LAUNCH:
        return int(_exact(key, text, place))
    return parse_value(key, Text(text, place))


def _dimensions(key: Key, text: str, place: str) -> str:
    """Grid or block as `32x8`: always the same text for the same dimensions."""
    if has_names(text):
        what = f'{key.name}: "{text}" is an expression, and an axis has values, as 128,256 or 16x16,32x8'
        raise UsageError(what, place=place, remedy="write it into a launch file, as `block: [TILE, ROWS]`, and vary TILE")
    sizes = parse_dim3(text, place)
    limits = MAX_BLOCK if key.name == "launch.block" else MAX_GRID
    threads = math.prod(sizes)
    if not all(1 <= size <= most for size, most in zip(sizes, limits, strict=True)):
        shown = "x".join(map(str, limits))
        raise UsageError(f'{key.name}: "{text}" exceeds the launch limits of CUDA', place=place, remedy=f"give 1 to {shown}")
    if key.name == "launch.block" and threads > key.most:
        what = f'{key.name}: "{text}" has {threads:,} threads, above CUDA\'s limit of {key.most:,.0f}'
        raise UsageError(what, place=place, remedy=f"use at most {key.most:,.0f} threads a block")
    return "x".join(map(str, sizes[: max((axis + 1 for axis in range(3) if sizes[axis] > 1), default=1)]))


def _exact(key: Key, text: str, place: str) -> Fraction:
    """The exact number of a text, in base units, within the key's bounds."""
    if key.name in LAUNCH or key.kind == ARGUMENT:
        value = parse_integer(text, place)
        if not key.least <= value <= key.most:
            what = f'{key.name} is "{text.strip()}", and must be {key.least:,.0f} to {key.most:,.0f}'
            raise UsageError(what, place=place, remedy="check the number")
        return Fraction(value)
    exact = exact_quantity(text, key.kind, key=key.name, place=place)
    check_bounds(key, float(exact), place)
    return exact


def _with_units(parts: list[str]) -> list[str]:
    """Parts of a range; those without a unit take that of the next part that has one."""
    unit, completed = "", []
    for part in reversed(parts):
        if match := _WITH_UNIT.fullmatch(part):
            unit = match[1]
        completed.append(f"{part} {unit}" if unit and _BARE.fullmatch(part) else part)
    return completed[::-1]


def _range(key: Key, text: str, place: str) -> list[Content]:
    """FIRST:LAST:STEP or FIRST:LAST:*FACTOR, both ends included."""
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 3 or not all(parts):
        remedy = f"write {key.name}=FIRST:LAST:STEP, or FIRST:LAST:*FACTOR"
        raise UsageError(f'{key.name}: "{text[:80]}" is not a range', place=place, remedy=remedy)
    plain = key.name in LAUNCH or key.kind == ARGUMENT
    first_text, last_text, step_text = parts if plain else _with_units(parts)
    first, last = _exact(key, first_text, place), _exact(key, last_text, place)
    if first > last:
        what = f'{key.name}: "{text}": the first value is above the last'
        raise UsageError(what, place=place, remedy="write the smaller value first")
    if step_text.startswith("*"):
        values = _factors(key, first, last, parts, place)
    else:
        step_key = f"{key.name}, step"
        step = Fraction(parse_size(step_text, place)) if plain else exact_quantity(step_text, key.kind, key=step_key, place=place)
        values = _steps(key, first, last, step, text, place)
    return [str(value) for value in values] if key.kind in TEXTS else list(values)


def _steps(key: Key, first: Fraction, last: Fraction, step: Fraction, text: str, place: str) -> Sequence[int | float]:
    if step <= 0:
        raise UsageError(f'{key.name}: "{text}" has a step of 0', place=place, remedy="give a step above 0")
    count, rest = divmod(last - first, step)
    if count >= MOST_VALUES:
        raise UsageError(f'{key.name}: "{text}" has {count + 1:,} values', place=place, remedy=f"give at most {MOST_VALUES:,}")
    if rest:
        below, above = (_shown(key, first + (count + more) * step) for more in (0, 1))
        what = f'{key.name}: "{text}" does not reach its last value: it gives {below} and then {above}'
        raise UsageError(what, place=place, remedy=f"write {below} or {above} as the last value, or another step")
    # in whole parts of a unit, whose quotient Python rounds once
    parts = math.lcm(first.denominator, step.denominator)
    whole = range(int(first * parts), int(last * parts) + 1, int(step * parts))
    return whole if key.kind in (*WHOLE, *TEXTS) else [value / parts for value in whole]


def _factors(key: Key, first: Fraction, last: Fraction, parts: list[str], place: str) -> Sequence[int | float]:
    written = parts[2].removeprefix("*").strip()
    own_unit = _WITH_UNIT.fullmatch(parts[2])
    if own_unit and not _BARE.fullmatch(parts[1]):
        what = f'{key.name}: the factor "{written}" has a unit, and so does the value that it multiplies'
        raise UsageError(what, place=place, remedy="write the factor as a plain number: *2")
    number = written.removesuffix(own_unit[1]).strip() if own_unit else written
    factor = Fraction(number) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", number, re.ASCII) else Fraction(0)
    if factor <= 1 or first == 0:
        what = f'{key.name}: "{":".join(parts)}" never grows'
        raise UsageError(what, place=place, remedy="give a factor above 1, as *2 or *1.5, and a first value above 0")
    values = [first]
    while values[-1] < last and len(values) < _MOST_FACTORS:
        values.append(values[-1] * factor)
    if values[-1] != last:
        shown = " and then ".join(_shown(key, value) for value in values[-2:])
        what = f'{key.name}: "{":".join(parts)}" does not reach its last value: it gives {shown}'
        raise UsageError(what, place=place, remedy="write one of these as the last value, or another factor")
    if key.kind not in WHOLE and key.kind not in TEXTS:
        return [float(value) for value in values]
    broken = next((value for value in values if value.denominator != 1), None)
    if broken is not None:
        what = f'{key.name}: "{":".join(parts)}" gives {float(broken):g}, but the key takes whole numbers'
        raise UsageError(what, place=place, remedy="use a whole factor, or list the values")
    return [int(value) for value in values]


def _shown(key: Key, value: Fraction) -> str:
    if key.kind in TEXTS or key.kind == COUNT:
        return f"{float(value):g}" if value.denominator != 1 else str(int(value))
    return format_quantity(int(value) if key.kind in WHOLE else float(value), key.kind)


def _continuous(key: Key, text: str, place: str) -> Axis:
    """FIRST..LAST: everything between, both ends included for whole numbers."""
    parts = [part.strip() for part in text.split("..", 1)]
    if key.kind in TEXTS:
        raise UsageError(f"{key.name} has no continuous range", place=place, remedy="list the values, or give FIRST:LAST:STEP")
    if not all(parts):
        raise UsageError(f'{key.name}: "{text[:80]}" is not a range', place=place, remedy=f"write {key.name}=FIRST..LAST")
    first, last = (_exact(key, part, place) for part in (parts if key.name in LAUNCH else _with_units(parts)))
    if first >= last:
        raise UsageError(f'{key.name}: "{text}" is not a range: its first value is not below its last', place=place,
                         remedy="write the smaller value first")
    return Axis(key.name, (int(first), int(last)) if key.kind in WHOLE else (float(first), float(last)), continuous=True)

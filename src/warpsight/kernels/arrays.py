"""Arrays as kernel arguments: the memory available for them, and the rules that fill them.

Rules such as `uniform(-1,1)`, `randint(0,n)` and `offsets(0,17)` start from a seed, so that a run can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import UsageError, suggestion
from warpsight.base.room import room_for
from warpsight.kernels.values import parse_integer


def memory_shortage(size: int) -> str:
    """The shortage, for a message, if `size` more bytes are not free without swapping; "" if they are, or if that is not known."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            available = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return ""
    free = int(available[1]) << 10 if available else size
    return f"more than the {free >> 20:,} MiB of free memory" if size > free else ""


_IN_MEMORY = 8 << 20  # bytes of an array
Numbers = tuple[float, ...]
Array = npt.NDArray[Any]
_Maker = Callable[[Numbers, int, np.dtype[Any], np.random.Generator], Array]


@dataclass(frozen=True)
class _Rule:
    """How a rule is written, how many numbers it takes (least, most), and what makes its `count` elements."""

    usage: str
    least: int
    most: int
    make: _Maker


def _samples(name: str, numbers: Numbers, count: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Samples of distribution `name`: uniform (low, high) or normal (mean, deviation)."""
    if dtype.kind != "f":
        raise ValueError(f"{name} makes floating-point numbers; for integers use randint(low,high)")
    low, high = numbers or (0.0, 1.0)
    if name == "uniform" and not low <= high:
        raise ValueError(f"uniform({low:g},{high:g}) has a lower bound above its upper bound")
    samples: Array = getattr(rng, name)(low, high, count)
    return samples


def _randint(numbers: Numbers, count: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    low, high = _whole(numbers) if len(numbers) == 2 else (0, *_whole(numbers))
    if low >= high:
        raise ValueError(f"randint({low},{high}) has no number: the upper bound is not included")
    if dtype.kind != "f":
        _fits(low, high - 1, dtype)
    return rng.integers(low, high, count, dtype=np.uint64 if high > 1 << 63 else np.int64)


def _arange(numbers: Numbers, count: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    start = numbers[0] if numbers else 0
    step = numbers[1] if len(numbers) > 1 else 1
    if dtype.kind != "f":
        first, each = _whole((start, step))
        last = first + each * (count - 1)
        _fits(min(first, last), max(first, last), dtype)
        return first + each * np.arange(count, dtype=np.uint64 if dtype == np.uint64 else np.int64)
    return start + step * np.arange(count, dtype=np.float64)


def _permutation(numbers: Numbers, count: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    if dtype.kind != "f":
        _fits(0, count - 1, dtype)
    return rng.permutation(count)


def _offsets(numbers: Numbers, count: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    low, high = _whole(numbers)
    if not 0 <= low < high:
        raise ValueError(f"offsets({low},{high}) needs 0 <= low < high: rows have low to high-1 elements")
    total = np.concatenate(([0], np.cumsum(rng.integers(low, high, count - 1))))
    if dtype.kind != "f":
        _fits(0, int(total[-1]), dtype)
    return total


def _full(numbers: Numbers, count: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    if dtype.kind != "f":
        (value,) = _whole(numbers)
        _fits(value, value, dtype)
        return np.full(count, value, dtype)
    return np.full(count, numbers[0])


RULES: dict[str, _Rule] = {
    "zeros": _Rule("zeros", 0, 0, lambda numbers, count, dtype, rng: np.zeros(count, dtype)),
    "ones": _Rule("ones", 0, 0, lambda numbers, count, dtype, rng: np.ones(count, dtype)),
    "full": _Rule("full(value)", 1, 1, _full),
    "constant": _Rule("constant(value)", 1, 1, _full),
    "arange": _Rule("arange, arange(start), arange(start,step)", 0, 2, _arange),
    "uniform": _Rule("uniform, uniform(low,high)", 0, 2, partial(_samples, "uniform")),
    "normal": _Rule("normal, normal(mean,deviation)", 0, 2, partial(_samples, "normal")),
    "randint": _Rule("randint(high), randint(low,high)", 1, 2, _randint),
    "permutation": _Rule("permutation", 0, 0, _permutation),
    "offsets": _Rule("offsets(low,high)", 2, 2, _offsets),
}


def _whole(numbers: Numbers) -> tuple[int, ...]:
    if any(number != int(number) for number in numbers):
        raise ValueError(f"{', '.join(f'{number:g}' for number in numbers)} must be whole numbers here")
    return tuple(int(number) for number in numbers)


def _fits(low: int, high: int, dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    if low < limits.min or high > limits.max:
        raise ValueError(f"values from {low} to {high} do not fit in {dtype.name} ({limits.min} to {limits.max})")


def _number(text: str, place: str) -> float:
    try:
        return parse_integer(text, place)
    except UsageError:
        try:
            return float(text)
        except ValueError:
            raise UsageError(f"{text!r} is not a number", place=place, remedy="write e.g. 0.5, 1e-3, 1<<20") from None


def _kept(values: Array, dtype: np.dtype[Any]) -> Array:
    """The values as `dtype`, in a file if they are many: device memory has them, too, and their own copy is seldom read then."""
    made = np.ascontiguousarray(values.astype(dtype, copy=False))
    if made.nbytes <= _IN_MEMORY or not made.view(np.uint8).any():  # new zeros take no memory
        return made
    try:
        kept = room_for(len(made), dtype, _IN_MEMORY)
    except UsageError:  # no room on the disk
        return made
    kept[:] = made
    return kept


def make_array(rule: str, shape: tuple[int, ...], dtype: np.dtype[Any], seed: tuple[int, int], place: str) -> Array:
    """The array of `shape` and `dtype` that `rule` (`uniform(-1,1,seed=7)`) describes.

    `seed` is the launch's seed and the argument's position; a rule's own `seed=` replaces both. `randint` leaves out its upper
    bound; `offsets(low,high)` starts at 0 and grows by low to high-1 a step, as the row pointers of a sparse matrix do.
    Raises UsageError at `place`.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\((.*)\))?\s*", rule, re.DOTALL)
    name = match[1] if match else rule
    known = RULES.get(name)
    if match is None or known is None:
        what = f'"{rule}" is not a rule for an array{suggestion(name, RULES)}'
        raise UsageError(what, place=place, remedy=f"the rules are: {'; '.join(each.usage for each in RULES.values())}")
    numbers: list[float] = []
    entropy: int | tuple[int, int] = seed
    parameters = match[2] or ""
    for part in parameters.split(",") if parameters.strip() else ():
        key, equals, value = part.partition("=")
        if equals and key.strip() != "seed":
            raise UsageError(f'"{key.strip()}" is not an option of {name}', place=place, remedy="only seed=NUMBER is")
        if equals:
            entropy = abs(parse_integer(value, place))
        else:
            numbers.append(_number(part, place))
    if not known.least <= len(numbers) <= known.most or (name in ("uniform", "normal") and len(numbers) == 1):
        raise UsageError(f"{name} does not take {len(numbers)} numbers", place=place, remedy=f"write {known.usage}")
    count = int(np.prod(shape, dtype=object))
    try:
        values = known.make(tuple(numbers), count, dtype, np.random.default_rng(entropy))
        return _kept(values, dtype).reshape(shape)
    except MemoryError:
        what = f"{count:,} elements of {dtype.name} do not fit in memory"
        raise UsageError(what, place=place, remedy="use a smaller array") from None
    except (ValueError, OverflowError) as error:
        raise UsageError(str(error), place=place, remedy=f"write {known.usage}") from error

"""Designs drawn from axes: every combination, a random sample, or a Latin hypercube. All in arrays, never design by design."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warpsight.explore.sweep.names import NUMBER, WHOLE, in_column, study_key
from warpsight.explore.sweep.study import GRID, LATIN_HYPERCUBE, Axis, Sampling

MOST_DESIGNS = 10**8
_LARGEST_CODE = 2**62
_ROUNDS = 40

Codes = NDArray[np.int64]


def draw(axes: Sequence[Axis], sampling: Sampling) -> tuple[int, dict[str, NDArray[Any]]]:
    """How many designs, and the column [D] of each axis: float64 in base units, or texts as objects (flags `true`, `false`).

    A grid has every combination, the last axis varies fastest. A random sample takes each value of an axis with the same
    probability, and any number of a continuous range. A Latin hypercube cuts each continuous range into as many strata as there are
    designs and takes one number of each; the values of a discrete axis come equally often, give or take one. Whole-numbered keys
    have whole numbers, also in continuous ranges.

    No two designs are the same. In a Latin hypercube of discrete axes alone, designs that came twice trade values with others,
    which keeps every axis's count; what is left after that is drawn anew from the combinations not yet taken, and counts may then
    differ by a few. The axes must have as many combinations as designs are asked for; `check_study` refuses a study where they have
    fewer, since a grid has them all.
    """
    if sampling.kind == GRID:
        return _grid(axes)
    generator = np.random.default_rng(sampling.seed)
    latin = sampling.kind == LATIN_HYPERCUBE
    floats = [axis for axis in axes if _is_float_range(axis)]
    discrete = [axis for axis in axes if not _is_float_range(axis)]
    sizes = [_size(axis) for axis in discrete]
    codes = dict(zip((axis.key for axis in discrete), _codes(sizes, sampling.designs, latin, not floats, generator), strict=True))
    columns = {}
    for axis in axes:
        if axis.key in codes:
            columns[axis.key] = _of_codes(axis, codes[axis.key])
        else:
            columns[axis.key] = _float_range(axis, sampling.designs, latin, generator)
    return sampling.designs, columns


def combinations(axes: Sequence[Axis]) -> int | None:
    """How many designs the axes have in all, None where a frequency or bandwidth is continuous."""
    return None if any(_is_float_range(axis) for axis in axes) else math.prod(_size(axis) for axis in axes)


def value_array(axis: Axis) -> NDArray[Any]:
    """The values of an axis as a column has them."""
    if in_column(study_key(axis.key, axis.key)) == NUMBER:
        return np.array(axis.values, dtype=np.float64)
    texts = [("true" if value else "false") if isinstance(value, bool) else str(value) for value in axis.values]
    return np.array(texts, dtype=object)


def _grid(axes: Sequence[Axis]) -> tuple[int, dict[str, NDArray[Any]]]:
    count = inner = math.prod(len(axis.values) for axis in axes)
    columns = {}
    for axis in axes:
        inner //= len(axis.values)
        columns[axis.key] = np.tile(np.repeat(value_array(axis), inner), count // (inner * len(axis.values)))
    return count, columns


def _is_float_range(axis: Axis) -> bool:
    return axis.continuous and study_key(axis.key, axis.key).kind not in WHOLE


def _size(axis: Axis) -> int:
    """How many values an axis has, all whole numbers of a range counted."""
    return int(axis.values[1]) - int(axis.values[0]) + 1 if axis.continuous else len(axis.values)


def _of_codes(axis: Axis, codes: Codes) -> NDArray[Any]:
    return codes.astype(np.float64) + float(axis.values[0]) if axis.continuous else value_array(axis)[codes]


def _float_range(axis: Axis, designs: int, latin: bool, generator: np.random.Generator) -> NDArray[np.float64]:
    least, most = float(axis.values[0]), float(axis.values[1])
    share = generator.random(designs)
    if latin:
        share += generator.permutation(designs)
        share /= designs
    return np.clip(least + share * (most - least), least, most)


def _codes(sizes: Sequence[int], designs: int, latin: bool, apart: bool, generator: np.random.Generator) -> list[Codes]:
    """For each axis of so many values, which of them each design has. `apart`: no two designs alike."""
    if not apart:
        return [_one_axis(size, designs, latin, generator) for size in sizes]
    total = math.prod(sizes)
    if designs == total or (not latin and designs > total // 2):
        # most combinations: the first of all of them, shuffled
        return _digits(generator.permutation(total)[:designs], sizes)
    codes = [_one_axis(size, designs, latin, generator) for size in sizes]
    if latin:
        _trade(codes, sizes, generator)
    return _replace_duplicates(codes, sizes, generator)


def _one_axis(size: int, designs: int, latin: bool, generator: np.random.Generator) -> Codes:
    if not latin:
        return generator.integers(size, size=designs, dtype=np.int64)
    if designs < size:
        # one value of each of as many strata of whole values
        at = np.arange(designs + 1)
        edges = at * size // designs if designs * size < _LARGEST_CODE else np.floor(at * (size / designs)).astype(np.int64)
        edges[-1] = size
        codes = generator.integers(edges[:-1], edges[1:], dtype=np.int64)
    else:
        extra = generator.choice(size, designs % size, replace=False)
        codes = np.concatenate([np.tile(np.arange(size, dtype=np.int64), designs // size), extra.astype(np.int64)])
    return generator.permutation(codes)


def _digits(chosen: Codes, sizes: Sequence[int]) -> list[Codes]:
    """Combinations, counted with the last axis fastest, as a code for each axis."""
    codes = []
    for size in reversed(sizes):
        codes.append(chosen % size)
        chosen = chosen // size
    return codes[::-1]


def _labels(codes: Sequence[Codes], sizes: Sequence[int]) -> Codes:
    """A number for each design, equal where all codes are."""
    label, room = codes[0], sizes[0]
    for column, size in zip(codes[1:], sizes[1:], strict=True):
        if room * size > _LARGEST_CODE:
            known, label = np.unique(label, return_inverse=True)
            room = known.size
        label, room = label * size + column, room * size
    return label


def _repeats(codes: Sequence[Codes], sizes: Sequence[int]) -> NDArray[np.intp]:
    """Designs that are as an earlier one."""
    labels = _labels(codes, sizes)
    designs = labels.size
    if int(labels.max()) < _LARGEST_CODE // designs:
        # one sort of numbers that hold both, many times as fast as sorting positions
        both = np.sort(labels * designs + np.arange(designs))
        ordered, order = np.divmod(both, designs)
    else:
        order = np.argsort(labels, kind="stable")
        ordered = labels[order]
    return np.sort(order[1:][ordered[1:] == ordered[:-1]])


def _trade(codes: list[Codes], sizes: Sequence[int], generator: np.random.Generator) -> None:
    """Designs that come twice trade their value of one axis with another design's, in place."""
    for _, axis in zip(range(_ROUNDS), _turns(len(sizes)), strict=False):
        repeats = _repeats(codes, sizes)
        if not repeats.size:
            return
        column = codes[axis]
        others = generator.integers(column.size, size=repeats.size)
        for one, other in zip(repeats.tolist(), others.tolist(), strict=True):
            column[one], column[other] = column[other], column[one]


def _turns(count: int) -> Iterator[int]:
    while True:
        yield from range(count)


def _replace_duplicates(codes: list[Codes], sizes: Sequence[int], generator: np.random.Generator) -> list[Codes]:
    """Draws designs that come twice anew until none does. At least one combination is free for each."""
    for _ in range(_ROUNDS):
        repeats = _repeats(codes, sizes)
        if not repeats.size:
            return codes
        for column, size in zip(codes, sizes, strict=True):
            column[repeats] = generator.integers(size, size=repeats.size)
    # the axes are nearly full, so that their combinations can be counted through
    free = np.setdiff1d(np.arange(math.prod(sizes)), _labels(codes, sizes))
    repeats = _repeats(codes, sizes)
    drawn = generator.choice(free, repeats.size, replace=False)
    for column, digits in zip(codes, _digits(drawn, sizes), strict=True):
        column[repeats] = digits
    return codes

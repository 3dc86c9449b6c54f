"""Whether the numbers of a GPU fit together. Nothing is rounded to make them fit."""

from __future__ import annotations

from warpsight.base.format import significant
from warpsight.base.units import SIZE, format_quantity
from warpsight.gpu.problems import Problems
from warpsight.gpu.values import Value

_POWERS_OF_TWO = ("l1.line", "l1.sector", "l2.line", "l2.sector", "l2.slice_interleave")
_MOST_WAYS = 64


def check_geometry(values: dict[str, Value], problems: Problems) -> None:
    """Records what does not fit: powers of two, sectors in lines, lines in slices, whole sets, shared memory of a block."""
    before = len(problems)
    _check_tensor(values, problems)
    for name in _POWERS_OF_TWO:
        number = _number(values, name)
        if number & (number - 1):
            low = 1 << (number.bit_length() - 1)
            problems.add(f"{name} is {_size(number)}, not a power of two", place=values[name].place,
                         remedy=f"nearest: {_size(low)}, {_size(2 * low)}")
    if len(problems) > before:
        return
    for level in ("l1", "l2"):
        _check_larger(values, f"{level}.line", f"{level}.sector", "a line holds whole sectors", problems)
        _check_sets(values, level, problems)
    _check_larger(values, "l2.slice_interleave", "l2.line", "a line lies in one slice", problems)
    _check_larger(values, "sm.shared_memory", "sm.max_shared_memory_per_block", "a block lies in one SM", problems)


def _check_tensor(values: dict[str, Value], problems: Problems) -> None:
    """Tensor cores have both a latency and an initiation interval, or neither."""
    pair = ("latency.tensor", "initiation.tensor")
    given = [name for name in pair if name in values]
    if len(given) == 1:
        missing = next(name for name in pair if name not in values)
        problems.add(f"{given[0]} is given but {missing} is not", place=values[given[0]].place, remedy=f"give {missing} too")


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
    what = f"{level}.size is {_size(size)}, which makes {significant(size / one_set, 6)} sets, not a whole number ({product})"
    problems.add(what, place=values[f"{level}.size"].place, remedy=f"{level}.size {sizes}{by_ways}")

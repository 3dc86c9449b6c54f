"""Designs by what they share: those that differ in the models' own numbers alone have one interval profile."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.explore.request import Method
from warpsight.gpu.keys import KEYS
from warpsight.gpu.values import value_text

LAUNCH, METHOD = "launch.", "method."
Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Group:
    """Designs with the same interval profile of each kernel.

    `overrides` are their GPU keys as `--set` takes them, those of the models alone left out; `launch` and `method` the values of
    such axes, by name without prefix. `designs` int64 [D] are their places in the table, in order.
    """

    overrides: tuple[str, ...]
    launch: tuple[tuple[str, str], ...]
    method: tuple[tuple[str, str], ...]
    designs: Longs

    def method_over(self, method: Method) -> Method:
        """`method` with what the axes say."""
        return replace(method, **dict(self.method))


def groups_of(columns: Mapping[str, npt.NDArray[Any]], designs: Longs, own: Collection[str]) -> list[Group]:
    """The groups of `designs` (places in the columns), in the order of their first design.

    `columns` by key: float64 in base units for numbers, text for words. `own` are the keys in which designs of a group may differ.
    """
    shared = [key for key in columns if key not in own]
    code = np.zeros(len(designs), dtype=np.int64)
    for key in shared:
        values, number = np.unique(columns[key][designs], return_inverse=True)
        code = np.unique(code * len(values) + number.reshape(-1), return_inverse=True)[1].reshape(-1)
    _, first, number = np.unique(code, return_index=True, return_inverse=True)
    sorted_by_group = np.argsort(number.reshape(-1), kind="stable")
    bounds = np.cumsum(np.bincount(number.reshape(-1), minlength=len(first)))[:-1]
    members = np.split(designs[sorted_by_group], bounds) if len(first) else []
    return [_group(columns, shared, members[place]) for place in np.argsort(first, kind="stable")]


def _group(columns: Mapping[str, npt.NDArray[Any]], shared: Sequence[str], members: Longs) -> Group:
    row = {key: columns[key][members[0]] for key in shared}
    overrides = tuple(f"{key}={key_text(key, value)}" for key, value in row.items() if key in KEYS)
    launch = tuple((key.removeprefix(LAUNCH), str(value)) for key, value in row.items() if key.startswith(LAUNCH))
    method = tuple((key.removeprefix(METHOD), str(value)) for key, value in row.items() if key.startswith(METHOD))
    return Group(overrides, launch, method, members)


def key_text(key: str, value: Any) -> str:
    """A value of the table as `--set` takes it, without loss."""
    if not KEYS[key].numeric:
        return str(value)
    number = float(value)
    return value_text(key, int(number) if number.is_integer() else number)

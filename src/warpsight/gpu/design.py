"""The GPU's numbers in a model's equations, for many design points at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from warpsight.base.errors import SpecError, suggestion
from warpsight.gpu.document import Text, parse_value
from warpsight.gpu.key import Key
from warpsight.gpu.spec import KEYS, Content, GpuSpec, value_of

Floats = npt.NDArray[np.float64]
Column = npt.NDArray[Any]

_NUMBERS = {key.attribute: key for key in KEYS.values() if key.numeric}
"""What a design has an attribute for: every number of the table, named by its place in `GpuSpec`."""


class Design:
    """D design points. Each number of a description is an attribute, a float64 array [D] in base units, named by its place in
    `GpuSpec` with `_` for `.`: `design.sm_count`, `design.l1_latency_cycles`, `design.noc_bandwidth_bytes_per_s`.

    An array is computed at its first use. Keys that act before the models (cache geometry, op latencies, residency) are part of
    the interval profile, and have one value for all points of an evaluation.
    """

    def __init__(self, count: int, column: Callable[[Key], Column]) -> None:
        self._count, self._column = count, column
        self._columns: dict[str, Column] = {}

    @classmethod
    def of(cls, gpus: GpuSpec | Sequence[GpuSpec]) -> Design:
        """The design points of `gpus`, in order. Raises SpecError for a scheduling policy that GPUMech's equations do not cover."""
        points = [gpus] if isinstance(gpus, GpuSpec) else list(gpus)
        for gpu in points:
            if gpu.sm.policy not in ("gto", "lrr"):
                message = f'no multithreading equations are known for the warp scheduler "{gpu.sm.policy}" of {gpu.name}'
                raise SpecError(message, place="sm.policy", remedy="use lrr or gto, or a model of your own")
        return cls(len(points), lambda key: np.array([_value(gpu, key) for gpu in points], np.float64 if key.numeric else None))

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Floats:
        if name not in _NUMBERS:
            raise AttributeError(f"a design has no number called {name}{suggestion(name, _NUMBERS)}")
        column = self.parameter(_NUMBERS[name])
        setattr(self, name, column)  # the next access does not come here
        return column

    def parameter(self, key: Key) -> Floats:
        """The numbers of a key of the table or of a model's parameter, float64 [D]; its default where it is not stated."""
        if key.name not in self._columns:
            self._columns[key.name] = self._column(key)
        return self._columns[key.name]

    @cached_property
    def greedy(self) -> npt.NDArray[np.bool_]:
        """True for greedy-then-oldest scheduling, False for loose round-robin, [D]."""
        return np.asarray(self.parameter(KEYS["sm.policy"]) == "gto")

    @cached_property
    def noc_queue(self) -> Floats:
        """Requests of an SM that the network's queue holds, infinity where it has no bound, [D]."""
        queue = self.parameter(KEYS["noc.queue"])
        return np.where(queue == 0, np.inf, queue)

    def varied(self, changes: Mapping[str, Any] | None = None, **attributes: Any) -> Design:
        """With some numbers replaced by arrays, `changes` by key, `attributes` by attribute; all are broadcast to one length."""
        named = {_NUMBERS[name].name: values for name, values in attributes.items()} | dict(changes or {})
        changed = {name: np.atleast_1d(np.asarray(values, dtype=np.float64)) for name, values in named.items()}
        (count,) = np.broadcast_shapes((self._count,), *(values.shape for values in changed.values()))

        def column(key: Key) -> Column:
            values = changed[key.name] if key.name in changed else self.parameter(key)
            return values if len(values) == count else np.full(count, values[0])

        return Design(count, column)

    def pick(self, rows: npt.NDArray[np.generic] | slice) -> Design:
        """The design points that `rows` (indices, a mask or a slice) names."""
        if isinstance(rows, slice) and rows.indices(self._count) == (0, self._count, 1):
            return self  # all of them
        count = len(np.arange(self._count)[rows])
        return Design(count, lambda key: self.parameter(key)[rows])


def _value(gpu: GpuSpec, key: Key) -> Content:
    """The value of `key` on `gpu`; of a parameter that it does not state, the default."""
    value = value_of(gpu, key)
    if value is None and not key.default:
        raise SpecError(f"{gpu.name} gives no {key.name}", place=key.name, remedy=f"add it to the GPU description: {key.meaning}")
    return parse_value(key, Text(key.default or "", key.name)) if value is None else value

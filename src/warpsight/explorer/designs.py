"""GPUs side by side: the model asked again about an answered kernel, for other GPUs and other values of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from warpsight.analysis.what_if import SLIDERS
from warpsight.base.errors import UsageError, WarpsightError
from warpsight.explorer.faults import error_document
from warpsight.explorer.question import checked_overrides, known_gpu
from warpsight.gpu.catalog import catalog_names, product_name
from warpsight.gpu.document import value_text
from warpsight.gpu.key import FLAG, MODEL, PROGRAM, SIMULATOR, WORD, Key
from warpsight.gpu.keys import key_of
from warpsight.gpu.loader import load_gpu
from warpsight.gpu.spec import Content, GpuSpec
from warpsight.models.base import STACK_PREFIX, model_names
from warpsight.pipeline.autotune import copied
from warpsight.pipeline.evaluate import MemoryStore, StageStore, predict_trace
from warpsight.pipeline.request import KernelRequest
from warpsight.pipeline.rows import number_columns
from warpsight.pipeline.tracing import obtain_trace
from warpsight.reports.html.parts import paints
from warpsight.sweeps.names import WHOLE
from warpsight.traces.schema import KernelTrace

MOST = 24
"""Designs that are asked about at once."""
SHOWN = ("gpu", "model", "cycles", "seconds", "cpi", "cpi_stack", "bound_by", "occupancy", "occupancy_limiter")
"""The parts of a prediction that are drawn."""
_FACTORS = (1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 1, 9 / 8, 5 / 4, 3 / 2, 2, 3, 4, 8)  # of a key's own value, on a slider


@lru_cache(512)
def gpu_of(name: str, overrides: tuple[str, ...] = ()) -> GpuSpec:
    """`load_gpu`, which reads a file in a tenth of a second: a process that is forked finds those that were loaded before."""
    return load_gpu(gpu_of(name), overrides) if overrides else load_gpu(name)


@dataclass(frozen=True)
class Bench:
    """An answered kernel, kept to be predicted elsewhere: its launch, and what was made of it for each machine code.

    `own` is a GPU that is meant by its name, whatever the catalogue has under that name.
    """

    request: KernelRequest
    model: str
    own: GpuSpec | None = None
    _traces: dict[str, tuple[KernelTrace, StageStore]] = field(default_factory=dict)

    def keep(self, gpu: GpuSpec, trace: KernelTrace, store: StageStore) -> None:
        """What GPUs of the same machine code as `gpu` need not make again."""
        self._traces[gpu.compute_capability] = trace, store

    def answers(self, wanted: Any) -> list[dict[str, Any]]:
        """For each of `wanted`, {"gpu": NAME, "overrides": ["key=value", ...]}, the prediction, or its `error`.

        A change of keys that the model alone reads takes milliseconds; the caches are simulated again for one that they read, and
        the kernel is run again for other machine code, on copies of its arrays.
        """
        return [self._answer(each) for each in wanted]

    def gpu(self, name: str, overrides: Sequence[str]) -> GpuSpec:
        """The GPU of a name, with `overrides`. Raises as `load_gpu`."""
        return load_gpu(self.own, overrides) if self.own and name == self.own.name else gpu_of(name, tuple(overrides))

    def _answer(self, wanted: Any) -> dict[str, Any]:
        try:
            gpu = self.gpu(wanted["gpu"], wanted["overrides"])
            if gpu.compute_capability not in self._traces:
                request = replace(self.request, args=copied(self.request.args))
                self.keep(gpu, obtain_trace(request, gpu=gpu), MemoryStore())
            trace, store = self._traces[gpu.compute_capability]
            (prediction,) = predict_trace(trace, gpu, [self.model], store=store)
        except WarpsightError as error:
            return {"error": error_document(error)}
        document = prediction.to_json()
        return {name: document[name] for name in SHOWN}


def checked_designs(document: Any) -> list[dict[str, Any]]:
    """The designs that JSON from a browser asks about. Raises UsageError for anything else."""
    wanted = document.get("designs") if isinstance(document, dict) else None
    if not isinstance(wanted, list) or not 0 < len(wanted) <= MOST:
        raise UsageError(f"is not a list of 1 to {MOST} designs", place="designs", remedy="send some GPUs with their overrides")
    return [_checked_design(each) for each in wanted]


def _checked_design(design: Any) -> dict[str, Any]:
    if not isinstance(design, dict) or set(design) != {"gpu", "overrides"}:
        raise UsageError("is not a design", place="designs", remedy='send {"gpu": NAME, "overrides": ["key=value"]}')
    return {"gpu": known_gpu(design["gpu"]), "overrides": list(checked_overrides(design["overrides"]))}


# -- What a GPU is chosen from, and the keys that a slider can change.

def choices() -> dict[str, Any]:
    """The GPUs to be put side by side, the keys that have sliders at first, and the components' colours as in reports."""
    columns = number_columns(model_names())
    components = [name.removeprefix(STACK_PREFIX) for name in columns if name.startswith(STACK_PREFIX)]
    gpus = [{"name": name, "title": product_name(name)} for name in catalog_names()]
    return {"gpus": gpus, "sliders": [key for key, _, _ in SLIDERS], "paints": paints(components)}


def key_rows(gpu: GpuSpec) -> list[dict[str, Any]]:
    """The keys of `gpu` that a prediction reads: `key`, what it means, its value as text, and whether the model alone reads it."""
    return [
        {"key": name, "meaning": key_of(name).meaning, "value": value_text(name, value), "live": key_of(name).step == MODEL}
        for name, value in gpu.by_key.items() if key_of(name).step not in (SIMULATOR, PROGRAM)
    ]  # fmt: skip


def key_settings(gpu: GpuSpec, name: str) -> dict[str, Any]:
    """The values of a slider for a key: `settings`, ascending texts that the GPU can have, and which is the GPU's `own`.

    Raises UsageError for a key that `gpu` does not have.
    """
    values = gpu.by_key
    if name not in values:
        raise UsageError(f"{gpu.name} has no such key", place=name, remedy="choose one of the list")
    own = values[name]
    possible = [value for value in _around(key_of(name), own) if value == own or _fits(gpu, f"{name}={value_text(name, value)}")]
    return {"key": name, "settings": [value_text(name, value) for value in possible], "own": possible.index(own)}


def _around(key: Key, own: Content) -> list[Any]:
    """Values of a key around a GPU's own, ascending; of a word all choices. None of them need be one that the GPU can have."""
    if key.kind == WORD:
        return list(key.choices) or [own]
    if key.kind == FLAG:
        return [False, True]
    values = [float(own) * factor for factor in _FACTORS]
    return sorted({int(own), *map(round, values)}) if key.kind in WHOLE else sorted({float(own), *values})


def _fits(gpu: GpuSpec, override: str) -> bool:
    try:
        load_gpu(gpu, (override,))
    except WarpsightError:
        return False
    return True

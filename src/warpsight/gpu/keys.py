"""The keys that a description may contain: those of the table in `spec.py`, and the parameters that models declare.

A model declares parameters of its own as `Key`s named `MODEL.NAME` in its attribute `parameters`; the registry of models, plug-ins
included, is asked for them when a name is none of the table's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from warpsight.base.errors import SpecError, WarpsightError, suggestion
from warpsight.base.registry import Registry, registry
from warpsight.gpu.key import Key
from warpsight.gpu.spec import KEYS, SECTIONS

TEXT_KEYS = ("schema", "name", "description", "like", "sources")

_MODELS: Registry[Any] = registry("model", "warpsight.models", "warpsight.models")


def parameters_of(model: str) -> dict[str, Key]:
    """The parameters that `model` declares, by full name; none without such a model. Raises UsageError as the registry does."""
    if not model or model in SECTIONS or model not in _MODELS:
        return {}
    declared: tuple[Key, ...] = getattr(_MODELS.get(model), "parameters", ())
    return {key.name: key for key in declared}


def find_key(name: str) -> Key | None:
    """The key of the table, or the parameter of a model, that is called `name`."""
    return KEYS[name] if name in KEYS else parameters_of(name.rpartition(".")[0]).get(name)


def key_of(name: str) -> Key:
    """As `find_key`, for a name that is known to be one."""
    key = find_key(name)
    assert key is not None, name
    return key


def is_section(name: str) -> bool:
    """Whether keys begin with `name.`: a part of the GPU, or a model with parameters."""
    return name in SECTIONS or bool(parameters_of(name))


def keys_within(section: str) -> list[str]:
    """The last parts of the names of the keys in `section`."""
    prefix = f"{section}."
    return [name.removeprefix(prefix) for name in (*KEYS, *parameters_of(section)) if section and name.startswith(prefix)]


def every_parameter() -> list[str]:
    """The names of all models' parameters; models that cannot be loaded have none."""
    parameters: list[str] = []
    for model in _MODELS.names():
        with suppress(WarpsightError):
            parameters += parameters_of(model)
    return parameters


class Problems(list[SpecError]):
    """The errors in a description, in the order in which a reader wants them: a load reports the first, a check all of them."""

    def add(self, what: str, *, place: str, remedy: str = "") -> None:
        """Records one error."""
        self.append(SpecError(what, place=place, remedy=remedy))

    def raise_first(self) -> None:
        """Raises the first error, if there is one."""
        if self:
            raise self[0]

    def unknown_key(self, name: str, place: str, *, dotted: bool = False) -> None:
        """Records a key that is not known, with the nearest one. `dotted`: suggest it with its section."""
        section, _, last = name.rpartition(".")
        within = keys_within(section)
        hint = suggestion(last, within)
        if hint and dotted:
            hint = hint.replace('"', f'"{section}.', 1)
        near = hint or suggestion(name, (*KEYS, *SECTIONS, *every_parameter(), *(() if dotted else TEXT_KEYS)))
        listed = ", ".join(within or (*(key for key in KEYS if "." not in key), *SECTIONS))
        self.add(f"{name} is not a known key{near}", place=place, remedy=f"known here: {listed}")

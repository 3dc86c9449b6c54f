"""The models by name: ours and those of installed plug-ins, through one door (entry-point group `warpsight.models`)."""

from __future__ import annotations

from warpsight.base.errors import UsageError
from warpsight.base.registry import Registry
from warpsight.models.base import Divisible, Model

MODELS: Registry[Model] = Registry("model", "warpsight.models")


def get_model(name: str) -> Model:
    """The model called `name`; `NAME~PART~PART` is that model without some of its parts.

    Raises UsageError, with the names that are known, when there is none, or when the model's parts cannot be left out.
    """
    plain, *parts = name.split("~")
    model = MODELS.get(plain)
    if not parts:
        return model
    if not isinstance(model, Divisible):
        raise UsageError(f'the model "{plain}" has no parts that can be left out', remedy=f"use {plain}")
    return model.without(parts)


def model_names() -> list[str]:
    """The names of all models, sorted."""
    return MODELS.names()

"""The models by name: ours and those of installed plug-ins, through one door (entry-point group `warpsight.models`)."""

from __future__ import annotations

from warpsight.base.registry import Registry
from warpsight.models.base import Model

MODELS: Registry[Model] = Registry("model", "warpsight.models")


def get_model(name: str) -> Model:
    """The model called `name`. Raises UsageError, with the names that are known, when there is none."""
    return MODELS.get(name)


def model_names() -> list[str]:
    """The names of all models, sorted."""
    return MODELS.names()

"""The performance models as documents."""

from __future__ import annotations

import inspect
from typing import Any

from warpsight.models.registry import get_model, model_names
from warpsight.result.prediction import COMPONENTS


def list_models() -> list[dict[str, Any]]:
    """Every model by name. Raises `UsageError` if a plug-in cannot be loaded."""
    return [describe_model(name) for name in model_names()]


def own_models() -> list[dict[str, Any]]:
    """The models that come with Warpsight, by name."""
    return [describe_model(name) for name in model_names() if type(get_model(name)).__module__.startswith("warpsight.models.")]


def describe_model(name: str) -> dict[str, Any]:
    """What a reader must know of a model: title, source, equations, needs, assumptions, where it fails, its stack, the citation.

    `stack` names the components of the CPI stack that it fills, `by_component` by which equation each comes about.
    Raises `UsageError` for an unknown name.
    """
    model = get_model(name)
    described = inspect.cleandoc(type(model).__doc__ or "")
    return {
        "name": name,
        "title": model.title,
        "source": model.source,
        "description": " ".join(described.split()),
        "equations": list(model.about.equations),
        "needs": sorted(model.needs),
        "assumptions": list(model.about.assumptions),
        "fails": list(model.about.fails),
        "stack": list(model.about.stack or COMPONENTS),
        "by_component": dict(model.about.by_component),
        "citation": model.about.citation,
    }

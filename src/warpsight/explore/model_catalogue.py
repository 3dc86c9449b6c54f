"""The performance models as documents."""

from __future__ import annotations

import inspect
from typing import Any

from warpsight.models.registry import get_model, model_names


def list_models() -> list[dict[str, Any]]:
    """Every model by name. Raises `UsageError` if a plug-in cannot be loaded."""
    return [describe_model(name) for name in model_names()]


def describe_model(name: str) -> dict[str, Any]:
    """Name, title, source of the equations, needs, and what the model says of itself. Raises `UsageError` for an unknown name."""
    model = get_model(name)
    described = inspect.cleandoc(type(model).__doc__ or "")
    return {
        "name": name,
        "title": model.title,
        "source": model.source,
        "needs": sorted(model.needs),
        "description": " ".join(described.split()),
    }

"""Which assumptions of a model a kernel strains, with the figure. The registry is `strain.CHECKS`; `strains_of_*` fill it.

A model names the checks that its own assumptions ask for (`About.strained_by`); those that every prediction rests on are always
made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# they register their checks when they are imported, in the order in which a reader sees them
from warpsight.explore.dossier import strains_of_caches, strains_of_resources, strains_of_warps
from warpsight.explore.dossier.strain import CHECKS, Check, Strained

if TYPE_CHECKING:
    from warpsight.explore.pipeline import ProfiledTrace
    from warpsight.gpu.spec import GpuSpec
    from warpsight.result.prediction import Prediction

REGISTERED = (strains_of_warps, strains_of_resources, strains_of_caches)


def checks_of(model: str) -> list[Check]:
    """The checks of a model: its own in the order in which it names them, then those of all. Raises UsageError for no model."""
    from warpsight.models.registry import get_model

    own = [CHECKS.get(key) for key in get_model(model).about.strained_by]
    return own + [CHECKS.get(key) for key in CHECKS.names() if CHECKS.get(key).always and CHECKS.get(key) not in own]


def assumptions(
    profiled: ProfiledTrace, gpu: GpuSpec, prediction: Prediction, speed: list[dict[str, Any]], alone: list[dict[str, Any]],
    what_if: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What of the model's assumptions the kernel strains: `checks`, strained ones first, and how many there were.

    `speed` and `alone` are the dossier's parts of that name, `what_if` its grid.
    """
    case = Strained(profiled, gpu, prediction, {row["name"]: row for row in speed}, {row["name"]: row for row in alone}, what_if)
    found, untouched = [], []
    for each in checks_of(prediction.model):
        figure = each.find(case)
        if figure is None:
            untouched.append({"key": each.key, "assumption": each.assumption})
        else:
            found.append(each.document(figure))
    found.sort(key=lambda document: not document["strained"])
    return {"model": prediction.model, "checks": found, "untouched": untouched}

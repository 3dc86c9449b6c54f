"""Which values of a design each step of a prediction sees: what designs share, and what is made again when a key changes.

The caches see the design's geometry, and the accesses in an order that is made with a timing. By default this is the timing of the
design's reference GPU, so that designs which differ in bandwidths and latencies share one cache simulation
(docs/adr/0019-order-of-accesses-is-a-method.md).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from warpsight.gpu.document import value_text
from warpsight.gpu.key import CACHES, MODEL, PROFILE, RESIDENCY
from warpsight.gpu.keys import find_key, key_of
from warpsight.gpu.spec import KEYS, Content, GpuSpec, changed, value_of

BY_REFERENCE, BY_OWN = "reference", "own"
ORDERS = (BY_REFERENCE, BY_OWN)
"""Whose timing orders accesses: the reference GPU's, or the design's own."""


def timing_of(gpu: GpuSpec) -> dict[str, Content]:
    """The values of a GPU's own timing by key: those that order accesses."""
    return {name: value for name, key in KEYS.items() if key.orders and (value := value_of(gpu, key)) is not None}


def order_timing(gpu: GpuSpec, order: str = BY_REFERENCE) -> Mapping[str, Content]:
    """The timing that orders the accesses of `gpu`, by key, in base units; `order` out of `ORDERS`."""
    return gpu.reference.timing if order == BY_REFERENCE and gpu.reference is not None else timing_of(gpu)


def ordered(gpu: GpuSpec, order: str = BY_REFERENCE) -> GpuSpec:
    """`gpu` with the timing by which its accesses are ordered: what caches are simulated with. Its geometry stays its own."""
    return changed(gpu, order_timing(gpu, order))


def cache_view(gpu: GpuSpec, order: str = BY_REFERENCE) -> dict[str, str]:
    """The values that decide what the caches make of a trace, besides the blocks that are resident, as a file writes them."""
    timing = order_timing(gpu, order).items()
    return _view(gpu, CACHES) | {f"order {name}": value_text(name, value) for name, value in timing}


def profile_view(gpu: GpuSpec, order: str = BY_REFERENCE) -> dict[str, str]:
    """The values that decide the interval profile."""
    return cache_view(gpu, order) | _view(gpu, RESIDENCY, PROFILE)


def _view(gpu: GpuSpec, *steps: str) -> dict[str, str]:
    return {name: value_text(name, value) for name, value in gpu.by_key.items() if key_of(name).step in steps}


def model_only(names: Iterable[str], order: str = BY_REFERENCE) -> frozenset[str]:
    """Those of the keys `names` in which designs with one interval profile may differ.

    Where accesses are ordered by the designs' own timing, which an axis `method.order` may ask for, the caches see that timing.
    """
    keys = {name: find_key(name) for name in names}
    own = order != BY_REFERENCE or "method.order" in keys
    return frozenset(
        name for name, key in keys.items() if key is not None and key.step == MODEL and key.numeric and not (key.orders and own)
    )


def view_hash(view: dict[str, Any]) -> str:
    """SHA-256 (64 hexadecimal digits) of such values."""
    return hashlib.sha256(json.dumps(view, sort_keys=True).encode()).hexdigest()

"""The rules by name: ours, and those of installed plug-ins (entry-point group `warpsight.advice`)."""

from __future__ import annotations

import importlib

from warpsight.advice.base import Rule
from warpsight.base.registry import Registry

RULES: Registry[Rule] = Registry("rule", "warpsight.advice")

OURS = ("coalescing", "l1_hits", "bank_conflicts", "atomics", "occupancy", "balance", "divergence", "doubled")


def all_rules() -> list[Rule]:
    """Every rule, ours first and in the order above."""
    for name in OURS:
        importlib.import_module(f"warpsight.advice.rules.{name}")
    return [RULES.get(name) for name in [*OURS, *(name for name in RULES.names() if name not in OURS)]]

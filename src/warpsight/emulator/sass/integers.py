"""Integer arithmetic, comparison, logic and moves of machine code."""

from __future__ import annotations

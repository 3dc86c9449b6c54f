"""Traces written out by hand are those of the tests of caches, kernels to run those of the tests of explanations."""

from __future__ import annotations

import sys
from pathlib import Path

for folder in ("caches", "pipeline"):
    sys.path.append(str(Path(__file__).parents[1] / folder))

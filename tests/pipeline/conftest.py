"""Small programs written out by hand are those of the tests of profiles."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "intervals"))

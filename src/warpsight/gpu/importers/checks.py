"""Whether the sizes of a made description fit together."""

from __future__ import annotations

from collections.abc import Mapping

from warpsight.gpu.document import Text
from warpsight.gpu.geometry import check_geometry
from warpsight.gpu.keys import KEYS
from warpsight.gpu.problems import Problems
from warpsight.gpu.values import Value, parse_value


def check_sizes(values: Mapping[str, Value]) -> None:
    """Checks `values`, with defaults for keys that are not given. Raises SpecError, at the number's place, for the first misfit."""
    filled = dict(values)
    for name, key in KEYS.items():
        if name not in filled and key.default and not key.default.startswith("="):
            filled[name] = Value(parse_value(key, Text(key.default, "")), "", "")
    problems = Problems()
    check_geometry(filled, problems)
    problems.raise_first()

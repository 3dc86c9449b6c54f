"""How large the what-if grid of a dossier is."""

from __future__ import annotations

from warpsight.base.errors import UsageError, suggestion

QUICK, FULL, NONE = "quick", "full", "none"
MODES = (QUICK, FULL, NONE)
"""`quick`: as many geometries as take about 20 s, at most 16; `full`: every combination of SMs and cache sizes, at most 512;
`none`: no grid."""


def known_mode(mode: str) -> None:
    """Raises UsageError for a mode that there is not."""
    if mode not in MODES:
        what = f'"{mode}" is no size of the what-if grid{suggestion(mode, MODES)}'
        raise UsageError(what, place="--what-if", remedy=f"known: {', '.join(MODES)}")

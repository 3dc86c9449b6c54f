"""A calibration as terminal text: the fitted numbers, then every timing with its residual."""

from __future__ import annotations

from typing import Any

from warpsight.base.format import significant, thousands


def calibration_text(document: dict[str, Any]) -> str:
    """The parameters, the errors and the notes."""
    lines = [f"{document['tool']}   {document['timings']}   {document['gpu']}   model mwp-cwp", ""]
    lines.append(f" {'parameter':<22}{'fit':>10}{'cycles':>9}  key")
    for row in document["parameters"]:
        fit = significant(row["value"], 4) if row["fitted"] else "not fitted"
        lines.append(f" {row['name']:<22}{fit:>10}{row['cycles']:>9,}  {row['key']}")
    lines += ["", f" {'timing':<24}{'measured':>14}{'predicted':>14}{'error':>10}"]
    for row in document["residuals"]:
        error = f"{100 * row['relative_error']:+.2f} %"
        lines.append(f" {row['name']:<24}{thousands(row['cycles']):>14}{thousands(row['predicted']):>14}{error:>10}")
    lines += ["", f"  mean absolute error {100 * document['mean_absolute_error']:.2f} %, of the whole cycles"]
    return "\n".join([*lines, *(f" note: {note}" for note in document["notes"])])

"""Signed errors of every model on every reference row, and the effect of each part of Warpsight's own model, as Markdown tables.

    python validation/models.py            # prints the tables
    python validation/models.py --write    # also rewrites them in validation/models.md
"""

from __future__ import annotations

import argparse
from pathlib import Path

from accuracy import Outcome, outcomes
from marked_page import put
from warpsight.models.warpsight import WARPSIGHT_PARTS
from warpsight.pipeline.installation import own_models
from warpsight.result.prediction import mean_absolute_percentage_error, relative_error

PAGE = Path(__file__).resolve().with_suffix(".md")
COMMAND = "python validation/models.py --write"
OWN = "warpsight"
LARGE = 0.35


def model_names() -> list[str]:
    """The models in the table: ours, the one that is to be beaten, then the others by name."""
    names = [str(document["name"]) for document in own_models()]
    return [OWN, "bottleneck", *(name for name in names if name not in (OWN, "bottleneck"))]


def tables() -> dict[str, str]:
    """Both tables by name."""
    names = model_names()
    parts = [f"{OWN}~{part}" for part in WARPSIGHT_PARTS]
    found = outcomes([*names, *parts])
    return {"errors": _errors(found, names), "parts": _parts(found)}


def _errors(found: list[Outcome], names: list[str]) -> str:
    lines = [
        f"| class | GPU | kernel | reference cycles | {' | '.join(f'`{name}`' for name in names)} |",
        "|---|---|---|---:|" + "---:|" * len(names),
    ]
    groups = {name: [o for o in found if _class(o) == name] for name in ("divergent", "not divergent")}
    for group, rows in groups.items():
        for o in sorted(rows, key=lambda o: (o.row.gpu != "mdm-pascal", o.row.name)):
            cells = " | ".join(f"{100 * o.error(name):+.0f} %" for name in names)
            lines.append(f"| {group} | {o.row.gpu} | {o.row.name} | {o.row.numbers['cycles']:,.0f} | {cells} |")
    rows_of = {**groups, "mdm-pascal": [o for o in found if o.row.gpu == "mdm-pascal"]}
    rows_of |= {"gpumech": [o for o in found if o.row.gpu == "gpumech"], "all": found}
    for title, rows in rows_of.items():
        cells = " | ".join(f"**{_mape(rows, name):.1f} %**" for name in names)
        lines.append(f"| | | **MAPE, {title}** ({len(rows)}) | | {cells} |")
    large = " | ".join(str(sum(abs(o.error(name)) > LARGE for o in found)) for name in names)
    lines.append(f"| | | rows off by more than {100 * LARGE:.0f} % | | {large} |")
    return "\n".join(lines)


def _parts(found: list[Outcome]) -> str:
    whole = _mape(found, OWN)
    lines = [
        "| part left out | MAPE without | worth | rows that it changes most (with it, without) | what it is |",
        "|---|---:|---:|---|---|",
    ]
    for part, what in WARPSIGHT_PARTS.items():
        name = f"{OWN}~{part}"
        moved = sorted(found, key=lambda o: -abs(relative_error(o.predictions[name].cycles, o.predictions[OWN].cycles)))[:3]
        changed = [o for o in moved if abs(relative_error(o.predictions[name].cycles, o.predictions[OWN].cycles)) > 0.005]
        shown = ", ".join(f"{o.row.name} {o.row.gpu} ({100 * o.error(OWN):+.0f}, {100 * o.error(name):+.0f} %)" for o in changed)
        without = _mape(found, name)
        lines.append(f"| `{part}` | {without:.2f} % | {without - whole:+.2f} | {shown or 'none'} | {what} |")
    lines.append(f"| none | {whole:.2f} % | | | |")
    return "\n".join(lines)


def _class(outcome: Outcome) -> str:
    return "divergent" if outcome.predictions[OWN].memory_class == "memory-divergent" else "not divergent"


def _mape(rows: list[Outcome], name: str) -> float:
    return mean_absolute_percentage_error([o.error(name) for o in rows])


def main() -> None:
    """Print the tables; with --write also keep them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"rewrite the tables in {PAGE.name}")
    write = parser.parse_args().write
    found = tables()
    print("\n\n".join(found.values()))
    if write:
        put(PAGE, COMMAND, found)


if __name__ == "__main__":
    main()

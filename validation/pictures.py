"""Draws the tables of the validation pages, from the rows that stand in them.

    python validation/pictures.py [--check]     # all of them; --check only says which are out of date (exit code 1)

A script that writes the tables of a page draws its picture, too (`marked_page.put`).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from warpsight.reports.drawing.charts import LOG, Axis, Bars, Chart, Dot, Scatter, Series
from warpsight.reports.drawing.svg import svg

HERE = Path(__file__).resolve().parent
IMAGES = HERE.parent / "docs" / "images"

Row = Mapping[str, str]


def rows(text: str, name: str) -> Iterator[Row]:
    """The rows of the generated table `name` in the page `text`, by column; of columns of the same name the first counts."""
    found = re.search(rf"^<!-- {re.escape(name)}: .*? -->\n(.*?)^<!-- end {re.escape(name)} -->$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise ValueError(f"there is no generated table {name!r}")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in found[1].splitlines() if line.startswith("|")]
    header, *rest = lines or [[]]
    for cells in rest[1:]:
        yield dict(reversed(list(zip(header, cells, strict=True))))


def _number(cell: str) -> float | None:
    """The number that a cell begins with, without separators; None for a cell without one."""
    found = re.match(r"[-+]?[\d,]+(\.\d+)?", cell)
    return float(found[0].replace(",", "")) if found else None


@dataclass(frozen=True)
class _Part:
    """A table of which each row is a point: the columns of both coordinates, of the point's name, and the name of its series."""

    table: str
    known: str
    predicted: str
    named: tuple[str, ...]
    series: Callable[[Row], str]

    def dots(self, text: str) -> Iterator[tuple[str, Dot]]:
        """The points of the page `text`, each with its series; rows without one of the numbers are left out."""
        for row in rows(text, self.table):
            x, y = _number(row[self.known]), _number(row[self.predicted])
            if x and y:
                yield self.series(row), Dot(x, y, ", ".join(row[column] for column in self.named).replace("`", ""))


def _against(text: str, title: str, known: str, unit: str, parts: Iterable[_Part]) -> Scatter:
    """Predicted values over `known` ones, both in `unit`."""
    series: dict[str, list[Dot]] = defaultdict(list)
    for part in parts:
        for name, dot in part.dots(text):
            series[name].append(dot)
    return Scatter(title, Axis(known, unit, LOG), Axis("predicted", unit, LOG), sorted(series.items()), diagonal=True)


def _tensor(text: str) -> Chart:
    ours, size = "`warpsight`", ("kernel", "M = N = K")
    parts = (
        _Part("ladder", "TFLOPS", ours, size, lambda row: f"{row['GPU'].split(' Max')[0]}: a repository"),
        _Part("tuned", "published", ours, size, lambda row: f"{row['GPU']}: tuned kernels"),
        _Part("tutorials", "TFLOPS", ours, ("GPU", "tutorial, problem"), lambda row: f"{row['GPU'].split(' at ')[0]}: Triton"),
    )
    return _against(text, "Products on tensor cores: published and predicted rates", "published", "TFLOPS", parts)


def _accuracy(text: str) -> Chart:
    parts = [
        _Part("accuracy", "reference cycles", "GPUMech", ("kernel", "GPU"), lambda _: "GPUMech"),
        _Part("accuracy", "reference cycles", "MDM", ("kernel", "GPU"), lambda _: "MDM"),
    ]
    return _against(text, "Cycles of the papers' models and of a detailed simulator", "detailed simulator", "cycles", parts)


def _configurations(text: str) -> Chart:
    """How many problems of each kernel lose how much with the block that is predicted to be the best."""
    classes = ("the measured best", "up to 2 % longer", "more than 2 % longer")
    counts: dict[tuple[str, str], list[int]] = {}
    for row in rows(text, "problems"):
        longer, same = _number(row["longer"]) or 0.0, row["predicted best"] == row["measured best"]
        counts.setdefault((row["GPU"], row["kernel"]), [0, 0, 0])[0 if same else 1 if longer <= 2 else 2] += 1
    gpus = [gpu for gpu, _ in counts]
    return Bars(
        "The block predicted to be the best, by problem", Axis("problems"), [kernel for _, kernel in counts],
        [Series(name, [float(each[k]) for each in counts.values()]) for k, name in enumerate(classes)], stacked=True,
        spans=[(gpu, gpus.count(gpu)) for gpu in dict.fromkeys(gpus)],
    )  # fmt: skip


def _launch_samples(text: str) -> Chart:
    table = list(rows(text, "table"))
    columns = {"CPU s, none": "the program alone", "CPU s, all": "every launch predicted", "CPU s, samples": "samples predicted"}
    return Bars(
        "What predicting samples of launches saves", Axis("CPU time", "s"), [row["program"] for row in table],
        [Series(name, [_number(row[column]) for row in table]) for column, name in columns.items()],
    )  # fmt: skip


PICTURES: dict[str, Callable[[str], Chart]] = {
    "hardware/tensor": _tensor, "hardware/configurations": _configurations, "accuracy": _accuracy,
    "launch_samples": _launch_samples,
}  # fmt: skip
"""By page, relative to this folder and without its `.md`: what is drawn of it."""


def target(name: str) -> Path:
    """Where the picture of a page of PICTURES lies."""
    return IMAGES / f"{name.rpartition('/')[2].replace('_', '-')}.svg"


def picture(name: str) -> str:
    """The picture of a page of PICTURES as SVG; the same page always gives the same text."""
    return svg(PICTURES[name]((HERE / f"{name}.md").read_text("utf-8")))


def draw(page: Path) -> None:
    """Draw `page` again if it has a picture."""
    name = str(page.resolve().relative_to(HERE).with_suffix("")) if HERE in page.resolve().parents else ""
    if name in PICTURES:
        target(name).write_text(picture(name), "utf-8")


def main() -> int:
    """Draw all, or say which are out of date."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, say which pictures are out of date")
    check = parser.parse_args().check
    stale = [name for name in PICTURES if not target(name).exists() or target(name).read_text("utf-8") != picture(name)]
    for name in stale:
        if not check:
            target(name).write_text(picture(name), "utf-8")
        print(f"{target(name).relative_to(HERE.parent)}: {'out of date' if check else 'drawn'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())

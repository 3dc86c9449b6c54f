"""Predicts kernels of two public benchmark suites as PTX and as machine code, and compares with the times that others published.

    python validation/published_times.py --sources FOLDER --tables FOLDER [--write]     # prints the tables, writes the page

`published_launches.py` says which checkouts the FOLDER of `--sources` holds and which tables that of `--tables`. Predictions are
kept in the file of `--keep` and not made again: an interrupted run goes on where it was. After a change of a model or of the
emulator, begin with a new file.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from marked_page import put  # noqa: E402  found by the line above
from published_launches import FOLDERS, GPUS, Launch, Row, rows, source_of  # noqa: E402
from warpsight.gpu.loader import load_gpu  # noqa: E402
from warpsight.gpu.spec import GpuSpec  # noqa: E402
from warpsight.models.warpsight import WARPSIGHT_PARTS  # noqa: E402
from warpsight.pipeline.predict import LaunchesInOrder  # noqa: E402
from warpsight.pipeline.request import AUTO, CARRIED, COLD, KernelRequest, Method  # noqa: E402
from warpsight.pipeline.sampling import trace_to_predict  # noqa: E402
from warpsight.pipeline.simulation import simulate_trace  # noqa: E402
from warpsight.pipeline.tracing import obtain_trace  # noqa: E402
from warpsight.reports.drawing.charts import LOG, Axis, Dot, Scatter  # noqa: E402
from warpsight.reports.drawing.svg import svg  # noqa: E402
from warpsight.result.prediction import STRUCT_PARTS, relative_error  # noqa: E402
from warpsight.traces.schema import KernelTrace  # noqa: E402

PAGE = HERE / "hardware" / "published-times.md"
PICTURE = HERE.parent / "docs" / "images" / "published-times.svg"
COMMAND = "python validation/published_times.py --sources FOLDER --tables FOLDER --write"
LEVELS, MODELS, SIMULATOR = ("ptx", "sass"), ("warpsight", "mdm", "bottleneck"), "simulator"
WITHOUT = [f"{MODELS[0]}~{part}" for part in WARPSIGHT_PARTS]  # machine code alone
SIMULATED, MOST = 1_500_000, 1 << 40  # warp instructions of a launch that is simulated too; warps times iterations of a row
PARTS = ("development", "held out")  # even lines of a table, which errors may be looked for in, and odd ones
MOST_THREADS, FAR_APART = 1024, 4096  # of a block; columns of a matrix
TYPES = {"f4": "f32", "u4": "u32", "i4": "i32", "u1": "u8"}  # of NumPy, and of arguments


def traced(folder: Path, row: Row, launch: Launch, level: str, gpu: GpuSpec) -> KernelTrace:
    """The trace of a launch on zeros, as `warpsight predict` makes it: a long one from sampled waves (ADR 0037).

    One of several launches runs whole, since the next one finds the L2 as it leaves it.
    """
    args = tuple(f"{TYPES[a[0]]}[{a[1]}]:zeros" if isinstance(a, tuple) else a for a in launch.arguments)
    request = KernelRequest(source_of(folder, launch), launch.kernel, grid=launch.grid, block=launch.block, args=args,
                            shared=launch.shared, level=level)  # fmt: skip
    if len(row.launches) > 1:
        return obtain_trace(request, gpu=gpu)
    return trace_to_predict(request, gpu, MODELS[0], Method(caches_before=row.caches_before))


def predicted(folder: Path, row: Row, level: str) -> dict[str, Any]:
    """Microseconds by model, warp instructions, and the CPI stack of the first launch; or why there is none.

    Where the first launch finds a cold L2, the others find what those before them have left. `sampling` is that of the provenance.
    """
    gpu, out = row.described, dict[str, Any](us={}, instructions=0, refused={})
    before = AUTO if row.caches_before == COLD and len(row.launches) > 1 else row.caches_before
    in_order = LaunchesInOrder(gpu, Method(caches_before=before))
    try:
        for launch in row.launches:
            trace = traced(folder, row, launch, level, gpu)
            out["instructions"] += trace.header.warp_instructions
            predict = in_order.launch(trace)
            for answer in map(predict, MODELS if level == "ptx" else (*MODELS, *WITHOUT)):
                out.setdefault("stack", {k: round(v, 3) for k, v in answer.cpi_stack.items() if v > 0.005})
                out.setdefault("sampling", answer.provenance.get("sampling"))
                out["us"].setdefault(answer.model, []).append(1e6 * answer.seconds)
        out["us"] = {model: _shown(row, gpu, times) for model, times in out["us"].items()}
    except Exception as error:  # a crash is a result here
        out["us"], out["refused"] = {}, {"what": f"{type(error).__name__}: {error}"[:300]}
    return out


def simulated(folder: Path, row: Row, level: str) -> dict[str, Any]:
    """Microseconds by the simulator; none where a launch is longer than `SIMULATED`."""
    gpu, left, times = row.described, None, list[float]()
    for launch in row.launches:
        trace = traced(folder, row, launch, level, gpu)
        if trace.header.warp_instructions > SIMULATED:
            return {"us": {}}
        result = simulate_trace(trace, gpu, caches_before=row.caches_before if left is None else CARRIED, l2_before=left)
        left = result.simulation.l2_left if row.caches_before == COLD else None
        times.append(1e6 * result.prediction.seconds)
    return {"us": {SIMULATOR: _shown(row, gpu, times)}}


def _shown(row: Row, gpu: GpuSpec, times: list[float]) -> float:
    """What the benchmark shows of a row: between two events a short kernel shows the rate at which the host issues launches."""
    return max(1e-3 * gpu.dispatch.launch_interval_ns if row.table == "events.csv" else 0.0, sum(times))


def cause(row: Row, us: float, stack: Mapping[str, float]) -> str:
    """What the models leave out that fits the launch, the CPI stack, and the sign of the error: a guess by rule."""
    first = row.launches[0]
    bytes_ = max(sum(np.dtype(a[0]).itemsize * a[1] for a in one.arguments if isinstance(a, tuple)) for one in row.launches)
    if row.table == "events.csv" and row.measured <= 1.3 * GPUS[row.gpu][2]:
        return "rate at which the host issues launches"
    if "atomic" in row.kernel or "istogram" in row.kernel:
        return "atomics to one address"
    if us > row.measured and np.prod(first.block) >= MOST_THREADS:
        return "warps of a block of 1,024 threads overlap, which are in step in the model"
    if us < row.measured and row.family == "mat_vec_mul" and first.inner >= FAR_APART:
        return "lanes load from rows that are 16 KiB apart or more: DRAM opens a row for each"
    if us < row.measured and bytes_ <= 1.4 * load_gpu(GPUS[row.gpu][0]).l2.size_bytes:
        return "data that fit or almost fit in the L2, of which not all may be used; barriers"
    if sum(stack.get(each, 0) for each in ("base", "com_data", "com_struct", *STRUCT_PARTS)) > 0.7 * sum(stack.values()):
        return "not memory: what the pipes execute in a cycle"
    return "not known"


def tau(measured: list[float], found: list[float]) -> float:
    """Kendall's tau: of all pairs, the share in the same order less that in the other."""
    pairs = itertools.combinations(zip(measured, found, strict=True), 2)
    return statistics.mean(float(np.sign((a[0] - b[0]) * (a[1] - b[1]))) for a, b in pairs)


class Kept:
    """Predictions by row and level, in a file to which each one is added as it is made."""

    def __init__(self, file: Path) -> None:
        self._file, self._known = file, dict[tuple[str, int, str], dict[str, Any]]()
        for line in file.read_text().splitlines() if file.exists() else []:
            self._enter(json.loads(line))

    def _enter(self, found: dict[str, Any]) -> None:
        known = self._known.setdefault((found["table"], found["line"], found["level"]), {"us": {}, "refused": {}, "sampling": None})
        known |= {**found, "us": {**known["us"], **found["us"]}}

    def add(self, row: Row, level: str, found: Mapping[str, Any]) -> None:
        """What was found of a row joins what is known of it."""
        self._enter(entry := {"table": row.table, "line": row.line, "level": level, **found})
        with self._file.open("a") as file:
            print(json.dumps(entry), file=file)

    def of(self, row: Row, level: str = LEVELS[1]) -> dict[str, Any]:
        """What `predicted` and `simulated` gave; no times where they were not called or refused."""
        return self._known.get((row.table, row.line, level), {"us": {}, "refused": {}, "sampling": None})


def pages(kept: Kept, every: list[Row]) -> dict[str, str]:
    """The tables of the page by name; those of PTX only where PTX was predicted."""
    done = {level: [r for r in every if MODELS[0] in kept.of(r, level)["us"]] for level in LEVELS}
    whole = {level: [r for r in some if not kept.of(r, level)["sampling"]] for level, some in done.items()}
    (ptx, sass), machine_code = LEVELS, done[LEVELS[1]]
    long = [r for r in machine_code if r not in whole[sass]]
    named = {
        "summary": _summary(kept, whole[sass], long),
        "errors": _errors(kept, whole[sass], sass),
        "long": _errors(kept, long, sass),
        "without": _without(kept, whole[sass]),
        "ranks": _ranks(kept, machine_code, sass),
        "misses": _misses(kept, machine_code),
        "rows": _lines(kept, every, long),
    }
    return {name: "\n".join(text) for name, text in named.items()} | (
        {"errors of PTX": "\n".join(_errors(kept, whole[ptx], ptx))} if whole[ptx] else {}
    )


def _summary(kept: Kept, whole: list[Row], long: list[Row]) -> list[str]:
    """Mean and median error of the held-out rows of all tables."""
    lines = []
    for name, some in (("Launches that run whole", whole), ("Long launches, from sampled waves", long)):
        held_out = [r for r in some if r.line % 2]
        errors = [100 * abs(relative_error(kept.of(r)["us"][MODELS[0]], r.measured)) for r in held_out] or [0.0]
        text = f"mean error {statistics.mean(errors):.1f} %, median {statistics.median(errors):.1f} %"
        lines.append(f"- {name}: {len(held_out)} held-out rows, {text}.")
    return lines


def _columns(kept: Kept, some: list[Row], level: str) -> tuple[list[str], str, str]:
    """The models that rows have times of, and head and rule of their columns."""
    models = [m for m in (*MODELS, SIMULATOR) if any(m in kept.of(r, level)["us"] for r in some)]
    return models, " | ".join(f"`{model}`" for model in models), "---:|" * len(models)


def _errors(kept: Kept, some: list[Row], level: str) -> list[str]:
    """The mean error by table, part and family; of rows from sampled waves also the mean half-width of the interval."""
    models, head, rule = _columns(kept, some, level)
    sampled = {r: found["half_width"] for r in some if (found := kept.of(r, level)["sampling"])}
    last = " interval |" if sampled else f" {SIMULATOR}: number |" if SIMULATOR in models else ""
    lines = [f"| table | rows | family | number | {head} |{last}", f"|---|---|---|---:|{rule}{'---:|' if last else ''}"]
    for table, (odd, part) in itertools.product(FOLDERS, enumerate(PARTS)):
        chosen = [r for r in some if (r.table, r.line % 2) == (table, odd)]
        for family in [*sorted({r.family for r in chosen}), "all", "all: median"] if chosen else []:
            these = [r for r in chosen if family.startswith("all") or family == r.family]
            errors = {
                model: [100 * abs(relative_error(us[model], r.measured)) for r in these
                        if model in (us := kept.of(r, level)["us"])] for model in models
            }  # fmt: skip
            mean = statistics.median if "median" in family else statistics.mean
            cells = " | ".join(f"{mean(column):.0f} %" if column else "" for column in errors.values())
            end = f" {100 * statistics.mean(sampled[r] for r in these):.1f} % |" if sampled else ""
            end = f" {len(errors[SIMULATOR])} |" if last and not end else end
            lines.append(f"| {table} | {part} | {family} | {len(these)} | {cells} |{end}")
    return lines


def _ranks(kept: Kept, some: list[Row], level: str) -> list[str]:
    """Kendall's tau of the kernels of a family at the largest size that most of them have."""
    models, head, rule = _columns(kept, some, level)
    lines = [f"| family | GPU | size | kernels | {head} |", f"|---|---|---|---:|{rule}"]
    for gpu, family in itertools.product(GPUS, ("reduction", "mat_mat_mul", "histogram", "convolution 1d", "convolution 2d")):
        sizes: dict[str, dict[str, Row]] = defaultdict(dict)
        for r in (r for r in some if (r.table, r.gpu, r.family) == ("nvbench.csv", gpu, family)):
            sizes[r.size][r.kernel] = r
        these = list(max(sizes.values(), key=lambda s: (len(s), sum(r.measured for r in s.values())), default={}).values())
        if len(these) > 1:
            found = [[kept.of(r, level)["us"].get(model) for r in these] for model in models]
            cells = " | ".join("" if None in column else f"{tau([r.measured for r in these], column):+.2f}" for column in found)
            lines.append(f"| {family} | {gpu} | {these[0].size} | {len(these)} | {cells} |")
    return lines


def _misses(kept: Kept, some: list[Row]) -> list[str]:
    """Rows with over 30 % error at level `sass`."""
    titles = ("line", "GPU", "kernel", "size", "waves", "measured", "predicted", "error", "cause")
    lines = [f"| {' | '.join(titles)} |", "|---|---|---|---|" + "---:|" * 4 + "---|"]
    for r in some:
        known = kept.of(r)
        us, sampling = known["us"][MODELS[0]], known["sampling"]
        if abs(error := relative_error(us, r.measured)) > 0.3:
            waves = f"{sampling['waves']} of {sampling['of_waves']:,.0f}" if sampling else "all"
            cells = f"{r.measured:,.1f} | {us:,.1f} | {100 * error:+.0f} % | {cause(r, us, known['stack'])}"
            lines.append(f"| {r.table}, {r.line} | {r.gpu} | {r.kernel} | {r.size} | {waves} | {cells} |")
    return lines


def _lines(kept: Kept, every: list[Row], long: list[Row]) -> list[str]:
    """Which rows are in which table."""
    titles = [*PARTS, *(f"sampled, {part}" for part in PARTS), "refused", "not run"]
    lines = [f"| table | family | {' | '.join(titles)} |", "|---|---|" + "---|" * len(titles)]
    for table, family in sorted({(r.table, r.family) for r in every}):
        sets: list[list[str]] = [[] for _ in titles]
        for r in (r for r in every if (r.table, r.family) == (table, family)):
            known = kept.of(r)
            place = r.line % 2 + 2 * (r in long) if known["us"] else 4 if known["refused"] else 5
            sets[place].append(str(r.line))
        lines.append(f"| {table} | {family} | {' | '.join(map(', '.join, sets))} |")
    return lines


def _without(kept: Kept, chosen: list[Row]) -> list[str]:
    """The mean error of the model with each of its parts left out, machine code."""
    columns = list(itertools.product(FOLDERS, enumerate(PARTS)))
    lines = [f"| without | {' | '.join(f'{table}, {part}' for table, (_, part) in columns)} |", "|---|" + "---:|" * len(columns)]
    for model in (MODELS[0], *WITHOUT):
        cells = []
        for table, (odd, _) in columns:
            some = [r for r in chosen if (r.table, r.line % 2) == (table, odd)]
            times = [(kept.of(r)["us"].get(model), r.measured) for r in some]
            errors = [100 * abs(relative_error(us, measured)) for us, measured in times if us is not None]
            cells.append(f"{statistics.mean(errors):.1f} %" if errors else "")
        lines.append(f"| {model.partition('~')[2] or '(the whole model)'} | {' | '.join(cells)} |")
    return lines


def picture(kept: Kept, every: list[Row]) -> str:
    """Predicted over measured times of all rows, machine code, as SVG: a point a row, a colour a GPU."""
    times: dict[str, list[Dot]] = defaultdict(list)
    for r in every:
        us = kept.of(r)["us"].get(MODELS[0])
        if us is not None:
            times[r.gpu].append(Dot(r.measured, us, f"{r.kernel}, {r.size}: {us:,.1f} us for {r.measured:,.1f}"))
    axes = Axis("measured", "us", LOG), Axis("predicted", "us", LOG)
    return svg(Scatter("Predicted and measured times of kernels on real GPUs", *axes, sorted(times.items()), diagonal=True))


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sources", type=Path, required=True, help="folder with the checkouts")
    parser.add_argument("--tables", type=Path, required=True, help="folder with nvbench.csv, events.csv and h100.csv")
    parser.add_argument("--keep", type=Path, default=Path(os.devnull), help="file of predictions, which are not repeated")
    parser.add_argument("--only", default="", help="predict kernels whose name contains this; others are reported if kept")
    parser.add_argument("--table", choices=FOLDERS, help="predict rows of this table; others are reported if kept")
    parser.add_argument("--level", choices=LEVELS, action="append", help="predict at this level; others are reported if kept")
    parser.add_argument("--simulate", action="store_true", help="also simulate launches that are short enough")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help="predict rows of up to N warps times iterations")
    parser.add_argument("--write", action="store_true", help=f"write the tables into {PAGE.name}")
    options = parser.parse_args()
    kept, found = Kept(options.keep), dict[tuple[Any, ...], dict[str, Any]]()
    every = list(rows(options.tables))
    some = [r for r in every if options.only in r.kernel and options.table in (None, r.table) and r.work <= options.most]
    steps = [(MODELS[0], predicted), *([(SIMULATOR, simulated)] if options.simulate else [])]
    for (name, step), level in itertools.product(steps, options.level or LEVELS[::-1]):
        for r in sorted(some, key=lambda r: (r.work, r.launches[0].kernel, r.gpu)):
            known = kept.of(r, level)
            too_long = name == SIMULATOR and known["instructions"] > SIMULATED * len(r.launches)
            if name in known["us"] or known["refused"] or too_long:
                continue
            launched = (name, level, r.table, r.gpu, r.launches, r.caches_before)  # some launches are in a table twice
            if launched not in found:
                found[launched] = step(options.sources / FOLDERS[r.table], r, level)
            kept.add(r, level, found[launched])
    print(*(tables := pages(kept, every)).values(), sep="\n\n")
    if options.write:
        put(PAGE, COMMAND, tables)
        PICTURE.write_text(picture(kept, every))


if __name__ == "__main__":
    main()

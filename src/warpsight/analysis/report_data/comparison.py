"""The report data of two results side by side: before and after a code change, or one kernel on two GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from warpsight.analysis.explanation import place_of_row
from warpsight.analysis.report_data.kernel import COMPARISON_REPORT, report_head
from warpsight.base.errors import UsageError
from warpsight.result.prediction import components_of

# The values of a prediction that are compared, besides its stack.
_FIGURES = ("cycles", "seconds", "warp_instructions", "ipc_sm_warp", "cpi", "dpki", "occupancy")
_SAME_CLOCK = 1e-6  # relative; the rest is rounding
_WORDS = ("bound_by", "class", "occupancy_limiter")


def comparison_report_data(before: dict[str, Any], after: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The document of two kernels' report data, called `names`.

    Its keys: `schema`, `kind`, `tool`, `title`, `model`, `names`, `sides` (the two documents), `unit`, `figures` (rows {name,
    before, after, ratio}: after over before), `words`, `components` (what each component takes on either side, largest difference
    first), `lines` (source lines that are on both sides or on one, by the difference; None without code on both), `gpu` (keys of
    the GPU descriptions that differ) and `launch` (parts of the launch that differ).

    Components and lines are in `unit`: cycles, or microseconds (`us`) where the two have different clocks, so that cycles cannot
    be compared. Raises UsageError if the two have no model in common.
    """
    model = _common_model(before, after)
    first, second = _prediction(before, model), _prediction(after, model)
    unit, scales = _unit(first, second)
    return {
        **report_head(COMPARISON_REPORT, f"{names[0]} and {names[1]}"),
        "model": model,
        "names": list(names),
        "sides": [before, after],
        "unit": unit,
        "figures": [_row(key, first[key], second[key]) for key in _FIGURES],
        "words": [{"name": key, "before": first[key], "after": second[key]} for key in _WORDS],
        "components": _components(first, second, scales),
        "lines": _lines(before, after, model, scales),
        "gpu": _differing(_of_gpu(before), _of_gpu(after)),
        "launch": _differing(_of_launch(before), _of_launch(after)),
    }


def names_of_sides(sides: Sequence[dict[str, Any]], others: Sequence[str]) -> Sequence[str]:
    """The names of two sides: their kernels, else their GPUs, else `others`, if they differ; else before and after."""
    kernels, gpus = ([side["predictions"][0][key] for side in sides] for key in ("kernel", "gpu"))
    return next((each for each in (kernels, gpus, others) if each[0] != each[1]), ["before", "after"])


def _common_model(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The model of the first document, if the other has it too; else the first that both have."""
    theirs = {each["model"] for each in after["predictions"]}
    ours = [before["model"], *(each["model"] for each in before["predictions"])]
    for model in ours:
        if model in theirs:
            return str(model)
    what = f"the two results have no model in common: {', '.join(dict.fromkeys(ours))} and {', '.join(sorted(theirs))}"
    raise UsageError(what, place="report", remedy="create both with the same `model`")


def _prediction(report_data: dict[str, Any], model: str) -> dict[str, Any]:
    return next(each for each in report_data["predictions"] if each["model"] == model)


def _unit(first: dict[str, Any], second: dict[str, Any]) -> tuple[str, tuple[float, float]]:
    """What the two are compared in, and what a cycle of each is in it."""
    if not all(each["cycles"] > 0 and (each["seconds"] or 0) > 0 for each in (first, second)):
        return "cycles", (1.0, 1.0)
    one, two = (1e6 * each["seconds"] / each["cycles"] for each in (first, second))
    return ("us", (one, two)) if abs(one / two - 1) > _SAME_CLOCK else ("cycles", (1.0, 1.0))


def _row(name: str, before: float | None, after: float | None) -> dict[str, Any]:
    known = before is not None and after is not None and before > 0
    return {"name": name, "before": before, "after": after, "ratio": after / before if known else None}  # type: ignore[operator]


def _components(first: dict[str, Any], second: dict[str, Any], scales: tuple[float, float]) -> list[dict[str, Any]]:
    """Cycles or time by component: CPI alone would hide a change of the instruction count."""
    names = dict.fromkeys([*first["cpi_stack"], *second["cpi_stack"]])
    meanings = {name: each.meaning for document in (second, first) for name, each in components_of(document).items()}
    one, two = scales
    rows = [{**_row(name, one * _cycles_of(first, name), two * _cycles_of(second, name)), "meaning": meanings[name]}
            for name in names]
    present = [{**row, "difference": row["after"] - row["before"]} for row in rows if row["before"] or row["after"]]
    return sorted(present, key=lambda row: -abs(row["difference"]))


def _cycles_of(prediction: dict[str, Any], component: str) -> float:
    cpi = prediction["cpi"]
    return float(prediction["cpi_stack"].get(component, 0.0) * prediction["cycles"] / cpi) if cpi else 0.0


def _lines(
    before: dict[str, Any], after: dict[str, Any], model: str, scales: tuple[float, float]
) -> list[dict[str, Any]] | None:
    """Lines by the difference of what they take, the largest first. Lines of the two sources are matched by their text."""
    sides = [_view(before, model), _view(after, model)]
    if sides[0] is None or sides[1] is None:
        return None
    one, two = _texts(sides[0], scales[0]), _texts(sides[1], scales[1])
    matcher = SequenceMatcher(None, [row["text"] for row in one], [row["text"] for row in two], autojunk=False)
    pairs: list[tuple[int | None, int | None]] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            pairs += zip(range(i1, i2), range(j1, j2), strict=True)
        else:
            pairs += [(i, None) for i in range(i1, i2)] + [(None, j) for j in range(j1, j2)]
    nothing: dict[str, Any] = {"text": "", "place": "", "value": 0.0}
    rows = [(one[i] if i is not None else nothing, two[j] if j is not None else nothing) for i, j in pairs]
    lines = [{"before": old, "after": new, "difference": new["value"] - old["value"]} for old, new in rows]
    counted = (row for row in lines if row["before"]["value"] or row["after"]["value"])
    return sorted(counted, key=lambda row: -abs(row["difference"]))


def _view(report_data: dict[str, Any], model: str) -> dict[str, Any] | None:
    """The rows by source line, or by PTX line or instruction if there are none; None if they are of another model."""
    code = report_data.get("code") or {}
    view: dict[str, Any] | None = code.get("source") or code.get("line") or code.get("sass")
    return view if view is not None and view["model"] == model else None


def _texts(view: dict[str, Any], of_cycle: float) -> list[dict[str, Any]]:
    """The text without indentation, the place and the value of each row: its cycles, each of which is `of_cycle`."""
    scale = of_cycle * view["cycles"] / view["cpi"]
    texts = []
    for row in view["rows"]:
        source = view["sources"].get(row["file"], {}).get(str(row["line"]), "") if row["file"] else row["text"]
        place = place_of_row(row)
        texts.append({"text": source.strip(), "place": place, "value": row["cpi"] * scale})
    return texts


def _of_gpu(report_data: dict[str, Any]) -> dict[str, Any]:
    """The keys of the GPU's description, dotted, without its name and sources."""
    keys: dict[str, Any] = {}
    for name, content in (report_data["predictions"][0]["provenance"].get("gpu") or {}).items():
        if isinstance(content, dict):
            keys |= {f"{name}.{key}": value for key, value in content.items() if name != "sources"}
        elif name not in ("schema", "description"):
            keys[name] = content
    return keys


def _of_launch(report_data: dict[str, Any]) -> dict[str, Any]:
    return {key: str(value) for key, value in (report_data["predictions"][0]["provenance"].get("launch") or {}).items()}


def _differing(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    keys = dict.fromkeys([*before, *after])
    return [{"name": key, "before": before.get(key), "after": after.get(key)} for key in keys if before.get(key) != after.get(key)]
